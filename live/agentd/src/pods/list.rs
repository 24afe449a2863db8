//! The pods of a node, as the API server of Kubernetes lists them.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::kubernetes::is_pod;
use serde::Deserialize;
use wire::kubernetes::plain;

use super::groups::plain_uid;

/// More than a node has (kubelet's `maxPods` is 110 unless somebody raises it).
const MOST: usize = 1_000;

/// What pods are called, `namespace/name`, by their uid without dashes.
pub type ByUid = HashMap<String, Arc<str>>;

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    /// The uid that the kubelet knows a pod by that it has from a file. The API server gives its mirror another one.
    #[serde(rename = "kubernetes.io/config.hash")]
    hash: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

/// The pods of `node` in what the API server answers.
///
/// # Errors
/// It is something else, names what no pod is called, or more than a node has: why.
pub fn read(body: &[u8], node: &str) -> Result<ByUid, String> {
    let list: List = serde_json::from_slice(body).map_err(|error| {
        format!("the API server's answer is no list of pods: {}", plain(&error.to_string()))
    })?;
    if list.items.len() > MOST {
        let many = list.items.len();
        return Err(format!(
            "the API server lists {many} pods, and a node has no more than {MOST}"
        ));
    }
    let (mut known, mut hashes) = (ByUid::new(), Vec::new());
    // A proxy may not know the selector.
    let here = |item: &Item| item.spec.node_name.as_deref() == Some(node);
    for Item { metadata, .. } in list.items.into_iter().filter(here) {
        let Metadata { namespace, name, uid, annotations } = metadata;
        let called = format!("{namespace}/{name}");
        if !is_pod(&called) {
            let called = plain(&called);
            return Err(format!("the API server names a pod \"{called}\", which is no name"));
        }
        let Some(short) = plain_uid(&uid) else {
            let uid = plain(&uid);
            return Err(format!("the API server gives {called} the uid \"{uid}\", which is none"));
        };
        let called: Arc<str> = called.into();
        known.insert(short, Arc::clone(&called));
        let hash = annotations.and_then(|annotations| annotations.hash);
        hashes.extend(hash.and_then(|hash| plain_uid(&hash)).map(|hash| (hash, called)));
    }
    // Whoever makes a pod writes its annotations: none takes another's uid.
    for (hash, called) in hashes {
        known.entry(hash).or_insert(called);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test may panic

    use serde_json::{Value, json};

    use super::*;

    fn pod(namespace: &str, name: &str, uid: &str) -> Value {
        let metadata =
            json!({ "namespace": namespace, "name": name, "uid": uid, "labels": { "a": "b" } });
        json!({ "metadata": metadata, "spec": { "nodeName": "n1", "containers": [] }, "status": {} })
    }

    fn read_all(items: &[Value]) -> Result<ByUid, String> {
        read(json!({ "kind": "PodList", "items": items }).to_string().as_bytes(), "n1")
    }

    #[test]
    fn pods_are_known_by_their_uid_and_those_of_files_by_their_hash() {
        let uid = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";
        let mut of_file = pod("kube-system", "etcd-n1", "0f8fad5b-d9cb-469f-a165-70867728950e");
        let hash = "9a1f3b2c4d5e6f708192a3b4c5d6e7f8";
        of_file["metadata"]["annotations"] =
            json!({ "kubernetes.io/config.hash": hash, "other": "x" });
        let mut elsewhere = pod("default", "b", "7c9e6679-7425-40de-944b-e07fc1f90ae7");
        elsewhere["spec"]["nodeName"] = json!("n2");
        let known = read_all(&[pod("default", "a", uid), of_file, elsewhere]).unwrap();
        assert_eq!(known.len(), 3, "{known:?}");
        assert_eq!(&*known["1b4e28ba2fa111d2883f0016d3cca427"], "default/a");
        assert_eq!(&*known[hash], "kube-system/etcd-n1");
        assert!(read_all(&[]).unwrap().is_empty());
    }

    #[test]
    fn no_pod_takes_the_uid_of_another() {
        let mut thief = pod("default", "a", "1b4e28ba");
        for (hash, theirs) in [("0f8fad5b", "default/b"), ("0f8fad5b/..", "default/b")] {
            thief["metadata"]["annotations"] = json!({ "kubernetes.io/config.hash": hash });
            let known = read_all(&[thief.clone(), pod("default", "b", "0f8f-ad5b")]).unwrap();
            assert_eq!((known.len(), &*known["0f8fad5b"]), (2, theirs));
        }
    }

    #[test]
    fn what_is_no_list_of_pods_is_an_error_of_one_line() {
        let long = "a".repeat(254);
        let many = vec![pod("default", "a", "1"); MOST + 1];
        for (said, why) in [
            (read(b"<html>", "n1"), "no list of pods"),
            (read(b"{\"kind\":\"Status\",\"message\":\"no\"}", "n1"), "no list of pods"),
            (read(b"{\"items\":[{}]}", "n1"), "no list of pods"),
            (read(b"{\"items\":\"\\u001b[2J\\n\"}", "n1"), "no list of pods"),
            (read_all(&[pod("default", "a\nb", "1")]), "which is no name"),
            (read_all(&[pod("default", "\u{1b}[2J", "1")]), "which is no name"),
            (read_all(&[pod("default", &long, "1")]), "which is no name"),
            (read_all(&[pod(&long, "a", "1")]), "which is no name"),
            (read_all(&[pod("default", "a", "../..")]), "which is none"),
            (read_all(&[pod("default", "a", "")]), "which is none"),
            (read_all(&many), "lists 1001 pods"),
        ] {
            let said = said.unwrap_err();
            assert!(said.contains(why) && !said.contains(char::is_control), "{said:?}");
            assert!(said.len() < 1_000, "{said}");
        }
        assert_eq!(read_all(&many[..MOST]).unwrap().len(), 1);
    }
}
