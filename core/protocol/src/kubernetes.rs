//! How Kubernetes calls things (RFC 1123).

/// The longest name of a pod, in octets: its namespace, a stroke, and its own.
pub const MOST_POD: usize = 63 + 1 + 253;

/// Whether Kubernetes calls objects so: a DNS subdomain.
pub fn is_object(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Whether it names a pod, as `namespace/name`.
pub fn is_pod(text: &str) -> bool {
    text.split_once('/').is_some_and(|(namespace, name)| {
        namespace.len() <= 63 && is_label(namespace) && is_object(name)
    })
}

/// Whether it can stand between two dots of a name.
fn is_label(label: &str) -> bool {
    let is_known = |octet: u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-');
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(is_known)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use super::*;

    #[test]
    fn pods_have_a_namespace_and_a_name() {
        let long = |octets: usize| String::from("a").repeat(octets);
        let longest = format!("{}/{}", long(63), long(253));
        assert_eq!(longest.len(), MOST_POD);
        for good in ["a/b", "kube-system/etcd-node-1.example.net", &*longest] {
            assert!(is_pod(good), "{good}");
        }
        let (space, name) = (format!("{}/a", long(64)), format!("a/{}", long(254)));
        let wrong = [
            "",
            "a",
            "/a",
            "a/",
            "a/b/c",
            "a.b/c",
            "A/b",
            "a/b\n",
            "a/\u{1b}[2J",
            "a/-b",
            "a/b..c",
            "a/ä",
        ];
        for wrong in wrong.into_iter().chain([&*space, &*name]) {
            assert!(!is_pod(wrong), "{wrong:?}");
        }
    }
}
