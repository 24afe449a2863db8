//! What another site has a browser ask, behind the back of who sits before it: with the certificate that the browser has,
//! or, where there is no TLS, as anybody on this machine.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use axum::http::{HeaderMap, StatusCode};

use super::answers::Wrong;

/// Why a request is refused that another site has a browser send. `is_by_loopback`: it comes from this machine, and
/// nobody proves who they are; then a name of the network's that leads here is another site as well.
pub fn foreign(headers: &HeaderMap, is_by_loopback: bool) -> Option<Wrong> {
    const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
    let refuse = |field, reason| Some(Wrong::new(StatusCode::FORBIDDEN, field, reason));
    let other = "is another site's; browsers may ask nothing here for it";
    // `none` is what the user typed.
    if !matches!(
        headers.get(SITE).map(HeaderValue::as_bytes),
        None | Some(b"same-origin" | b"none")
    ) {
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
    if is_by_loopback && host.is_some_and(is_of_the_network) {
        return refuse(
            "Host",
            "is a name that others may give to this machine; write 127.0.0.1 or localhost",
        );
    }
    None
}

/// Whether a host is named so that whoever has the domain says where it leads: neither an address nor a single word.
fn is_of_the_network(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return true };
    let is_address = host.parse::<SocketAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    host.contains('.') && !is_address
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field for which a request with these headers is refused.
    fn refused(headers: &[(&'static str, &'static str)], is_by_loopback: bool) -> Option<String> {
        let named =
            |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        foreign(&headers.iter().map(named).collect(), is_by_loopback)
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
            for is_by_loopback in [true, false] {
                assert_eq!(refused(bad, is_by_loopback).as_deref(), Some(field), "{bad:?}");
            }
        }
        // A name of its own, which it has lead here.
        let rebound = [("host", "evil.example:7443"), ("origin", "http://evil.example:7443")];
        assert_eq!(refused(&rebound, true).as_deref(), Some("Host"));
        assert_eq!(refused(&rebound, false), None, "a controller has a name, too");
    }
}
