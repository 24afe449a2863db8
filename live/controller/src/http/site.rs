//! What another site has a browser ask, behind the back of who sits before it: with the certificate that the browser has,
//! or, where there is no TLS, as anybody on this machine.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};

use super::answers::Wrong;

/// Why a request is refused that another site has a browser send. A link that the user follows is the user's own.
/// `by_address`: it comes from this machine, and nobody proves who they are, nor may strangers come; then a name of the
/// network's that leads here is another site as well.
pub fn foreign(method: &Method, headers: &HeaderMap, by_address: bool) -> Option<Wrong> {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    let refuse = |field, reason| Some(Wrong::new(StatusCode::FORBIDDEN, field, reason));
    let other = "is another site's; browsers may ask nothing here for it";
    // `none` is what the user typed.
    let is_own_site = matches!(
        headers.get(SITE).map(HeaderValue::as_bytes),
        None | Some(b"same-origin" | b"none")
    );
    let is_link = matches!(*method, Method::GET | Method::HEAD)
        && headers.get(MODE).is_some_and(|mode| mode == "navigate");
    if !is_own_site && !is_link {
        return refuse("Sec-Fetch-Site", other);
    }
    let host = headers.get(HOST).map(HeaderValue::as_bytes);
    let is_own = |origin: &HeaderValue| {
        let scheme = origin.as_bytes().windows(3).position(|octets| octets == b"://");
        let of = scheme.map(|at| &origin.as_bytes()[at + 3..]);
        of.zip(host).is_some_and(|(of, host)| of.eq_ignore_ascii_case(host))
    };
    if !headers.get(ORIGIN).is_none_or(is_own) {
        return refuse("Origin", other);
    }
    if by_address && host.is_some_and(is_of_the_network) {
        return refuse(
            "Host",
            "is a name that others may give to this machine; write 127.0.0.1 or localhost, have a proxy write it, or \
             write insecure = true in the controller's configuration, with which any name will do",
        );
    }
    None
}

/// Whether a host is named so that whoever has the domain says where it leads: neither an address nor a single word, nor
/// of `localhost`, which is nobody's.
fn is_of_the_network(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return true };
    let is_address = host.parse::<SocketAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let name = host.split(':').next().unwrap_or(host).to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let is_localhost = name == "localhost.localdomain" || name.ends_with(".localhost");
    name.contains('.') && !is_address && !is_localhost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field for which a request with these headers is refused.
    fn refused(headers: &[(&'static str, &'static str)], by_address: bool) -> Option<String> {
        refused_by(&Method::POST, headers, by_address)
    }

    fn refused_by(
        method: &Method,
        headers: &[(&'static str, &'static str)],
        by_address: bool,
    ) -> Option<String> {
        let named =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        foreign(method, &headers.iter().map(named).collect(), by_address)
            .map(|wrong| wrong.problem.field)
    }

    #[test]
    fn what_another_site_has_a_browser_ask_is_told_from_all_else() {
        let host = ("host", "127.0.0.1:7443");
        for good in [
            &[host][..],
            &[],
            &[host, ("sec-fetch-site", "none")],
            &[host, ("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:7443")],
            &[("host", "Ctl:7443"), ("origin", "https://ctl:7443")],
            &[("host", "localhost")],
            &[("host", "[::1]:7443")],
            &[("host", "[::ffff:127.0.0.1]")],
            &[("host", "192.0.2.1:7443")],
            &[("host", "localhost.:7443")],
            &[("host", "ctl.LOCALHOST:7443")],
            &[("host", "localhost.localdomain")],
        ] {
            assert_eq!(refused(good, true), None, "{good:?}");
        }
        for (bad, field) in [
            (&[host, ("sec-fetch-site", "cross-site")][..], "Sec-Fetch-Site"),
            (&[host, ("sec-fetch-site", "same-site")][..], "Sec-Fetch-Site"),
            (&[host, ("sec-fetch-site", "")][..], "Sec-Fetch-Site"),
            (&[host, ("origin", "https://evil.example")][..], "Origin"),
            (&[host, ("origin", "http://127.0.0.1:8080")][..], "Origin"),
            (&[host, ("origin", "null")][..], "Origin"),
            (&[("origin", "http://127.0.0.1:7443")][..], "Origin"),
        ] {
            for by_address in [true, false] {
                assert_eq!(refused(bad, by_address).as_deref(), Some(field), "{bad:?}");
            }
        }
        // A name of its own, which it has lead here.
        let rebound = [("host", "evil.example:7443"), ("origin", "http://evil.example:7443")];
        assert_eq!(refused(&rebound, true).as_deref(), Some("Host"));
        for name in ["evil.example.", "localhost.evil.example", "evillocalhost.example:1"] {
            assert_eq!(refused(&[("host", name)], true).as_deref(), Some("Host"), "{name}");
        }
        assert_eq!(refused(&rebound, false), None, "a controller has a name, too");
    }

    #[test]
    fn a_link_of_another_site_may_be_followed_and_its_forms_and_scripts_may_not() {
        let link = [("host", "127.0.0.1:7443"), ("sec-fetch-site", "cross-site")];
        let with_mode = |mode| [link[0], link[1], ("sec-fetch-mode", mode)];
        for method in [Method::GET, Method::HEAD] {
            assert_eq!(refused_by(&method, &with_mode("navigate"), true), None);
            for headers in [&link[..], &with_mode("cors"), &with_mode("no-cors")] {
                let field = refused_by(&method, headers, true);
                assert_eq!(field.as_deref(), Some("Sec-Fetch-Site"), "{headers:?}");
            }
        }
        let form = refused_by(&Method::POST, &with_mode("navigate"), true);
        assert_eq!(form.as_deref(), Some("Sec-Fetch-Site"));
    }
}
