//! Access control for web pages that open a WebSocket (RFC 6455, 10.2; RFC 6454), and for host
//! names of requests without TLS.
//!
//! A browser lets every page open a WebSocket to any host, including the loopback ports of this
//! machine, and names the page in `Origin`. Pages of the platform, of its spaces' route hosts and
//! of the operator's list may connect. A page whose own name resolves to this machine (DNS
//! rebinding) has the same origin as its target. The check of `Host` on connections without TLS
//! refuses it; an IP address cannot be rebound and is accepted. Programs send no `Origin` and need
//! none.

use std::collections::HashSet;
use std::net::IpAddr;

use arc_swap::ArcSwap;
use enmasse_router::table::Table;
use serde::Deserialize;
use tungstenite::http::header::{HOST, ORIGIN};
use tungstenite::http::{HeaderMap, Uri};

/// Names of this machine for itself.
const LOCAL_HOSTS: [&str; 2] = ["localhost", "ip6-localhost"];

/// Access that the operator and the platform allow beyond the Plan.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct WebRules {
    /// origins of pages that may connect, as browsers write them (`https://console.example.com`);
    /// `*`: all
    pub origins: Vec<String>,
    /// host names that are allowed in requests without TLS
    pub hosts: Vec<String>,
}

#[derive(Debug, Default)]
struct Rules {
    any_origin: bool,
    /// in lower case, as the hosts are
    origins: HashSet<String>,
    hosts: HashSet<String>,
}

/// The rules in force, for handshakes on any thread.
#[derive(Debug)]
pub(crate) struct WebAccess {
    rules: ArcSwap<Rules>,
    /// route hosts of the Plan in force, in lower case
    route_hosts: ArcSwap<HashSet<String>>,
}

impl WebAccess {
    pub(crate) fn new() -> Self {
        let access = Self { rules: ArcSwap::default(), route_hosts: ArcSwap::default() };
        access.allow(&WebRules::default());
        access
    }

    /// Applies these rules from the next handshake on.
    pub(crate) fn allow(&self, rules: &WebRules) {
        let origins: HashSet<String> = rules.origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        let listed = origins.iter().filter_map(|origin| authority(origin)).map(|place| host(&place).to_owned());
        let own = LOCAL_HOSTS.iter().map(|&name| name.to_owned());
        let hosts = rules.hosts.iter().map(|name| name.to_ascii_lowercase()).chain(own).chain(listed).collect();
        self.rules.store(Rules { any_origin: origins.contains("*"), origins, hosts }.into());
    }

    /// Allows the route hosts of this table's spaces from the next handshake on.
    pub(crate) fn follow(&self, table: &Table) {
        let hosts = table.spaces().flat_map(|space| space.route_hosts()).map(str::to_ascii_lowercase).collect();
        self.route_hosts.store(std::sync::Arc::new(hosts));
    }

    /// Checks the request of an upgrade; `secure`: it uses TLS.
    ///
    /// # Errors
    /// The refusal, and its remedy.
    pub(crate) fn check(&self, headers: &HeaderMap, secure: bool) -> Result<(), String> {
        // RFC 9112, 3.2: a proxy may have checked another Host header than this listener would.
        if headers.get_all(HOST).iter().nth(1).is_some() {
            return Err("the request has several Host headers: send one".to_owned());
        }
        let requested = headers.get(HOST).map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase());
        if let Some(requested) = requested.as_deref().filter(|requested| !secure && !self.is_own(host(requested))) {
            return Err(format!("this server is not called {requested:?}: use its address, localhost or a routeHost"));
        }
        for origin in headers.get_all(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            if !self.is_allowed(&origin, requested.as_deref()) {
                return Err(format!("pages of {origin:?} may not connect: --ws-origins lists further allowed origins"));
            }
        }
        Ok(())
    }

    fn is_own(&self, name: &str) -> bool {
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        bare.parse::<IpAddr>().is_ok()
            || self.rules.load().hosts.contains(name)
            || self.route_hosts.load().contains(name)
    }

    /// `requested` is the host and port of the browser's request.
    fn is_allowed(&self, origin: &str, requested: Option<&str>) -> bool {
        let rules = self.rules.load();
        if rules.any_origin || rules.origins.contains(origin) {
            return true;
        }
        let Some(page) = authority(origin) else { return false };
        requested == Some(&*page) || self.route_hosts.load().contains(host(&page))
    }
}

/// Host and port of an origin; `None` for one that names no host, such as `null`.
fn authority(origin: &str) -> Option<String> {
    let uri: Uri = origin.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    uri.authority().filter(|_| is_web).map(|authority| authority.as_str().to_owned())
}

/// A host and port without the port.
fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use tungstenite::http::HeaderValue;

    use super::*;

    fn request(host: Option<&'static str>, origins: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_static(host));
        }
        for origin in origins {
            headers.append(ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    fn access() -> WebAccess {
        let access = WebAccess::new();
        let origins = ["http://localhost:8080", "https://App.example.com", "https://[2001:db8::1]:8443"];
        let rules = WebRules { origins: origins.map(str::to_owned).to_vec(), hosts: vec!["Node.local".to_owned()] };
        access.allow(&rules);
        access.route_hosts.store(std::sync::Arc::new(HashSet::from(["messaging.example.org".to_owned()])));
        access
    }

    #[test]
    fn request_without_an_origin_is_allowed() {
        assert_eq!(access().check(&request(Some("127.0.0.1:8081"), &[]), false), Ok(()));
        assert_eq!(access().check(&request(None, &[]), false), Ok(()));
    }

    #[test]
    fn second_host_header_is_refused() {
        let mut twice = request(Some("127.0.0.1:8081"), &[]);
        twice.append(HOST, HeaderValue::from_static("evil.example"));
        for secure in [false, true] {
            assert_eq!(
                access().check(&twice, secure),
                Err("the request has several Host headers: send one".to_owned())
            );
        }
    }

    #[test]
    fn origins_of_the_platform_its_route_hosts_and_the_list_are_allowed() {
        for origin in [
            "http://localhost:8080",
            "https://app.example.com",
            "https://[2001:DB8::1]:8443",
            "https://messaging.example.org",
            "http://messaging.example.org:8080",
            "http://localhost:8081",
        ] {
            assert_eq!(access().check(&request(Some("localhost:8081"), &[origin]), false), Ok(()), "{origin}");
        }
    }

    #[test]
    fn foreign_origin_is_refused_and_the_error_names_the_option() {
        for origin in [
            "https://evil.example",
            "http://localhost:3000",
            "http://localhost",
            "https://localhost:8080",
            "https://app.example.com.evil.example",
            "https://app.example.com:444",
            "https://messaging.example.org.evil.example",
            "https://messaging.example.org@evil.example",
            "file://",
            "null",
            "",
        ] {
            for secure in [false, true] {
                let refused = access().check(&request(Some("localhost:8081"), &[origin]), secure);
                assert!(refused.is_err_and(|reason| reason.contains("--ws-origins")), "{origin}");
            }
        }
        let both = request(Some("localhost:8081"), &["https://app.example.com", "https://evil.example"]);
        assert!(access().check(&both, false).is_err());
    }

    #[test]
    fn unknown_host_is_refused_without_tls() {
        let rebound = request(Some("evil.example:8081"), &["http://evil.example:8081"]);
        assert!(access().check(&rebound, false).is_err_and(|reason| reason.contains("not called")));
        assert!(access().check(&request(Some("evil.example"), &[]), false).is_err());
        for own in ["NODE.local:8081", "[::1]:8081", "192.0.2.7", "messaging.example.org", "app.example.com:1"] {
            assert_eq!(access().check(&request(Some(own), &[]), false), Ok(()), "{own}");
        }
        assert_eq!(access().check(&request(Some("any.example"), &[]), true), Ok(()), "TLS has checked the name");
    }

    #[test]
    fn wildcard_origin_allows_every_page() {
        let access = WebAccess::new();
        access.allow(&WebRules { origins: vec!["*".to_owned()], hosts: Vec::new() });
        assert_eq!(access.check(&request(Some("localhost"), &["https://evil.example"]), false), Ok(()));
        assert!(access.check(&request(Some("evil.example"), &[]), false).is_err());
    }
}
