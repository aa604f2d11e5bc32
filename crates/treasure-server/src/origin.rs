//! Keeps pages of other sites from using a server that asks for no key.
//!
//! A browser lets any page send a request to this machine, and a name that is rebound to 127.0.0.1
//! lets it read the answer. Both show in the request: a foreign `Origin`, or a foreign `Host`.

use axum::http::{HeaderMap, StatusCode, header};

use crate::refusal::{Refusal, Result};

/// Refuses a request that a page of another site sent. `names` are hosts that are the server's own;
/// `cors` are origins whose pages may ask.
pub(crate) fn check(headers: &HeaderMap, own: &str, cors: &[String]) -> Result<()> {
    let text =
        |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let host = text(header::HOST).unwrap_or_default();
    let refuse = |what: &str, got: &str| {
        let message = format!("{what}: expected this server's own address, got {got:?}");
        Err(Refusal::new(StatusCode::FORBIDDEN, message).with_hint(
            "open the page by its address (127.0.0.1 or localhost), allow the origin (cors), or ask for keys",
        ))
    };
    if !host.is_empty()
        && !is_own(name_of(host), own)
        && !cors.iter().any(|it| origin_host(it) == Some(host))
    {
        return refuse("host", host);
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) if cors.iter().any(|allowed| allowed == "*" || allowed == origin) => Ok(()),
        Some(origin) if origin_host(origin) == Some(host) => Ok(()),
        Some(origin) => refuse("origin", origin),
    }
}

fn origin_host(origin: &str) -> Option<&str> {
    origin.split_once("://").map(|(_, host)| host)
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or(rest),
        None => host.split(':').next().unwrap_or(host),
    }
}

/// Addresses cannot be rebound; of names only these are ours.
fn is_own(name: &str, own: &str) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name == own
        || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        check(&headers, "127.0.0.1", &["https://friend.org".to_owned()]).is_ok()
    }

    #[test]
    fn pages_of_other_sites_are_kept_out() {
        assert!(passes("127.0.0.1:8080", None));
        assert!(passes("localhost:8080", Some("http://localhost:8080")));
        assert!(passes("[::1]:8080", Some("http://[::1]:8080")));
        assert!(passes("127.0.0.1:8080", Some("https://friend.org")));
        assert!(!passes("127.0.0.1:8080", Some("https://evil.org")));
        assert!(!passes("127.0.0.1:8080", Some("http://127.0.0.1:9090")));
        assert!(!passes("127.0.0.1:8080", Some("null")));
        assert!(!passes("evil.org:8080", Some("http://evil.org:8080")));
        assert!(!passes("evil.org", None));
    }
}
