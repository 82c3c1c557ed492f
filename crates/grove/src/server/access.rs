//! Who may come in: the token, on loopback too, since an agent or a web page could reach it as well.
//!
//! A script sends the token as `Authorization: Bearer`; a browser follows a link that works once and
//! gets a cookie. `Host` must be ours, so that a name that somebody points here does not count, and
//! `Origin` must be the same, so that no other page acts through a browser that is let in.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, HOST, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use grove_engine::Problem;
use sha2::{Digest, Sha256};

use super::App;
use super::fault::Fault;
use super::page::door;
use super::token::random_hex;

/// How long a link waits to be followed.
const LINK: Duration = Duration::from_secs(30 * 60);

const COOKIE_NAME: &str = "grove";

/// What opens the door.
pub struct Keys {
    token: [u8; 32],
    cookie: String,
    links: Mutex<HashMap<String, Instant>>,
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Keys {
    pub fn new(token: &str) -> Self {
        // A cookie opens the pages, but is not the token.
        let cookie = digest(&format!("cookie of {token}")).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { token: digest(token), cookie, links: Mutex::default() }
    }

    /// Makes a link that works once.
    pub fn new_link(&self) -> String {
        let code = random_hex(16).unwrap_or_default();
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.retain(|_, made| made.elapsed() < LINK);
        if !code.is_empty() {
            links.insert(code.clone(), Instant::now());
        }
        code
    }

    fn follow(&self, code: &str) -> bool {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.remove(code).is_some_and(|made| made.elapsed() < LINK)
    }

    /// Digests are compared, so that the time says nothing about the token.
    fn fits(&self, token: &str) -> bool {
        digest(token) == self.token
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut cookies = all.flat_map(|line| line.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        cookies.any(|(name, value)| name == COOKIE_NAME && digest(value) == digest(&self.cookie))
    }
}

pub fn routes() -> Router<Arc<App>> {
    Router::new().route("/login/{code}", get(login))
}

/// Follows a one-time link.
async fn login(State(app): State<Arc<App>>, Path(code): Path<String>, request: Request) -> Response {
    if request.method() == Method::HEAD {
        // Whoever only looks ahead has not followed it.
        return StatusCode::NO_CONTENT.into_response();
    }
    if !app.keys.follow(&code) {
        if is_page(&request) {
            return door::used_link();
        }
        let problem = Problem::new(
            "no_token",
            "This link was used already, or is too old.",
            "Run `grove up` again for a new one.",
        );
        return Fault::new(StatusCode::UNAUTHORIZED, problem).into_response();
    }
    let cookie = format!("{COOKIE_NAME}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000", app.keys.cookie);
    // Not a redirect: a browser that came from elsewhere would not send a strict cookie along with it.
    ([(SET_COOKIE, cookie.as_str()), (CACHE_CONTROL, "no-store")], door::open()).into_response()
}

/// Lets in whoever has the token or the cookie.
pub async fn with_token(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer =
        bearer.and_then(|value| value.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let bearer = bearer.map(|(_, token)| token);
    let by_token = bearer.is_some_and(|token| app.keys.fits(token.trim()));
    let reads = request.method().is_safe();
    // A browser names the page that it acts for.
    let by_cookie = app.keys.has_cookie(headers) && (reads || headers.contains_key(ORIGIN));
    if by_token || by_cookie {
        return next.run(request).await;
    }
    if is_page(&request) {
        return door::closed();
    }
    let problem = Problem::new(
        "no_token",
        "The token is missing or wrong.",
        "Send what is in GROVE_HOME/token as `Authorization: Bearer …`, or follow the link that `grove up` prints.",
    );
    Fault::new(StatusCode::UNAUTHORIZED, problem).into_response()
}

fn is_page(request: &Request) -> bool {
    door::is_page(request.method(), request.uri(), request.headers())
}

/// What changes something goes on to its end, also if nobody waits for the answer any more: a removal
/// or a creation is not left half way because a browser was closed.
pub async fn to_the_end(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!("a request ended badly: {error}");
            let problem = Problem::new("failed", "Something went wrong here.", "See the server's log, and report it.");
            Fault::new(StatusCode::INTERNAL_SERVER_ERROR, problem).into_response()
        }
    }
}

/// Only for processes of this machine.
pub async fn from_this_machine(ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    if peer.ip().to_canonical().is_loopback() {
        return next.run(request).await;
    }
    let problem = Problem::new("forbidden", "The test adapter is for this machine only.", "Call it on loopback.");
    Fault::new(StatusCode::FORBIDDEN, problem).into_response()
}

/// Refuses requests for another host, or from another page.
pub async fn known_host(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    // HTTP/2 and absolute requests name it in the address.
    let host = host.or_else(|| request.uri().authority().map(|authority| authority.as_str())).unwrap_or_default();
    let foreign = |what: &str| {
        let message = format!("This server does not answer for that {what}.");
        let problem = Problem::new("foreign_host", message, "Use the address that the server printed.");
        Fault::new(StatusCode::FORBIDDEN, problem).into_response()
    };
    if !is_ours(host, app.listen) || headers.get_all(HOST).iter().count() > 1 {
        return foreign("host");
    }
    let mut origins = headers.get_all(ORIGIN).iter();
    let same = |origin: &axum::http::HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == Some(host)
    };
    if !origins.all(same) {
        return foreign("origin");
    }
    next.run(request).await
}

/// Names can be pointed anywhere by anybody; `localhost` and addresses cannot.
fn is_ours(host: &str, listen: SocketAddr) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) if rest.is_empty() || rest.starts_with(':') => address,
        Some(_) => return false,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    match name.parse::<IpAddr>() {
        Ok(address) if listen.ip().is_loopback() => address.is_loopback(),
        Ok(_) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_count() {
        let loopback: SocketAddr = "127.0.0.1:3090".parse().unwrap();
        for host in ["127.0.0.1:3090", "localhost:3090", "LOCALHOST", "[::1]:3090", "127.0.0.1"] {
            assert!(is_ours(host, loopback), "{host}");
        }
        for host in [
            "evil.example:3090",
            "127.0.0.1.evil.example",
            "",
            "192.168.1.5:3090",
            "localhost.evil.example",
            "[127.0.0.1]evil.example",
        ] {
            assert!(!is_ours(host, loopback), "{host}");
        }
        let everywhere: SocketAddr = "0.0.0.0:3090".parse().unwrap();
        assert!(is_ours("192.168.1.5:3090", everywhere) && !is_ours("evil.example", everywhere));
    }

    #[test]
    fn a_link_works_once() {
        let keys = Keys::new("secret");
        let link = keys.new_link();
        assert!(!keys.follow("other") && keys.follow(&link) && !keys.follow(&link));
        assert!(keys.fits("secret") && !keys.fits("secret2") && !keys.fits(""));
    }
}
