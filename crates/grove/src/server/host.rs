//! The host that a request names, and which hosts are this server's.

use std::net::{IpAddr, SocketAddr};

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::HOST;

/// The host and port of a request, as the sender names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHost {
    /// A name in lower case, or an address, without brackets.
    pub name: String,
    port: Option<u16>,
}

impl RequestHost {
    /// Reads the host of a request; `None` if it is missing, given twice, or invalid.
    pub fn from_request(request: &Request) -> Option<Self> {
        Self::parse(text_of(request)?)
    }

    fn parse(host: &str) -> Option<Self> {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => host.find(':').map_or((host, ""), |at| host.split_at(at)),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port.parse().ok()?),
            None if port.is_empty() => None,
            None => return None,
        };
        Some(Self { name: name.to_ascii_lowercase(), port })
    }

    /// Tells whether this server answers for the host. Any owner of a domain can make its name resolve to
    /// this server; `localhost`, addresses and the page's own name are safe from that.
    pub fn is_ours(&self, listen: SocketAddr, page_host: &str) -> bool {
        if self.name == "localhost" || self.name == page_host {
            return true;
        }
        match self.name.parse::<IpAddr>() {
            Ok(address) if listen.ip().is_loopback() => address.is_loopback(),
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Returns the host that a browser shall use, for a client that connects to this one: the page's own
    /// name, if it leads to this server; otherwise the address of the request, or the one that the server
    /// listens on.
    pub fn for_browsers(&self, listen: SocketAddr, page_host: &str) -> Self {
        let reachable = |address: &IpAddr| !address.is_loopback() && !address.is_unspecified();
        let name = match self.name.parse::<IpAddr>().ok().filter(reachable) {
            Some(address) => address.to_string(),
            None if reachable(&listen.ip()) => listen.ip().to_string(),
            None => page_host.to_owned(),
        };
        Self { name, port: self.port }
    }
}

impl From<SocketAddr> for RequestHost {
    fn from(address: SocketAddr) -> Self {
        Self { name: address.ip().to_string(), port: Some(address.port()) }
    }
}

/// Formats the host as in a URL.
impl std::fmt::Display for RequestHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]", self.name)?,
            false => write!(f, "{}", self.name)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Returns the host as the request spells it, with the port; `None` if it is missing or given twice.
pub fn text_of(request: &Request) -> Option<&str> {
    let headers: &HeaderMap = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().ok(),
        // HTTP/2 and absolute requests name the host in the URL.
        (None, None) => request.uri().authority().map(|authority| authority.as_str()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST_PAGE_HOST: &str = "grove-0123456789abcdef.localhost";

    fn is_ours(host: &str, listen: &str) -> bool {
        RequestHost::parse(host).is_some_and(|host| host.is_ours(listen.parse().unwrap(), TEST_PAGE_HOST))
    }

    #[test]
    fn only_our_own_names_count() {
        let own = format!("{TEST_PAGE_HOST}:3090");
        for host in ["127.0.0.1:3090", "localhost:3090", "LOCALHOST", "[::1]:3090", "127.0.0.1", &own, TEST_PAGE_HOST] {
            assert!(is_ours(host, "127.0.0.1:3090"), "{host}");
        }
        for host in [
            "evil.example:3090",
            "127.0.0.1.evil.example",
            "",
            "192.168.1.5:3090",
            "localhost.evil.example",
            "[127.0.0.1]evil.example",
            "localhost:x",
            "[::1",
            "::1",
            "grove-0.localhost",
            "x.grove-0123456789abcdef.localhost",
        ] {
            assert!(!is_ours(host, "127.0.0.1:3090"), "{host}");
        }
        assert!(is_ours("192.168.1.5:3090", "0.0.0.0:3090") && !is_ours("evil.example", "0.0.0.0:3090"));
    }

    #[test]
    fn a_browser_is_sent_to_the_pages_own_name_wherever_that_leads_here() {
        for (asked, listen, browser) in [
            ("127.0.0.1:3090", "127.0.0.1:3090", "grove-0123456789abcdef.localhost:3090"),
            ("[::1]:3090", "[::1]:3090", "grove-0123456789abcdef.localhost:3090"),
            // Through a tunnel, or another port of a container.
            ("localhost:8080", "127.0.0.1:3090", "grove-0123456789abcdef.localhost:8080"),
            ("0.0.0.0:3090", "0.0.0.0:3090", "grove-0123456789abcdef.localhost:3090"),
            ("192.168.1.5:3090", "0.0.0.0:3090", "192.168.1.5:3090"),
            ("[2001:db8::5]:3090", "[::]:3090", "[2001:db8::5]:3090"),
            ("localhost:3090", "192.168.1.5:3090", "192.168.1.5:3090"),
            ("192.168.1.5:3090", "192.168.1.5:3090", "192.168.1.5:3090"),
        ] {
            let asked = RequestHost::parse(asked).unwrap();
            assert_eq!(
                asked.for_browsers(listen.parse().unwrap(), TEST_PAGE_HOST).to_string(),
                browser,
                "{asked} {listen}"
            );
        }
    }
}
