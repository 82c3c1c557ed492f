//! Who may come in: the token, on loopback too, since an agent or a web page could reach it as well.
//!
//! A script sends the token as `Authorization: Bearer`; a browser follows a link that works once and gets
//! a cookie (`sessions.rs`), which counts under one host name alone. `Host` must be ours, so that a name
//! that somebody points here does not count, and `Origin` must be the same, so that no other page acts
//! through a browser that is let in.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use grove_environments::problem::Problem;
use grove_store::StoreError;
use sha2::{Digest, Sha256};

use super::App;
use super::fault::Fault;
use super::host::{self, RequestHost};
use super::page::door;
use super::sessions::BrowserSession;

/// The server's token, as a digest.
pub struct Keys {
    pub(super) token: [u8; 32],
}

/// Who was let in.
#[derive(Clone, Debug)]
pub enum Caller {
    Token,
    Browser(BrowserSession),
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl Keys {
    pub fn new(token: &str) -> Self {
        Self { token: digest(token) }
    }

    /// Digests are compared, so that the time says nothing about the token.
    fn fits(&self, token: &str) -> bool {
        digest(token) == self.token
    }
}

/// Lets in whoever has the token, or a session under the host that is asked for.
pub async fn with_token(
    State(app): State<Arc<App>>,
    Extension(host): Extension<RequestHost>,
    mut request: Request,
    next: Next,
) -> Response {
    match caller_of(&app, &host, request.method(), request.headers()).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) if is_page(&request) => door::closed(),
        Ok(None) => {
            let problem = Problem::new(
                "no_token",
                "The token is missing or wrong.",
                "Send what is in GROVE_HOME/token as `Authorization: Bearer …`, or follow the link that `grove up` prints.",
            );
            Fault::new(StatusCode::UNAUTHORIZED, problem).into_response()
        }
        Err(error) if is_page(&request) => Fault::from(error).into_page(),
        Err(error) => Fault::from(error).into_response(),
    }
}

async fn caller_of(
    app: &App,
    host: &RequestHost,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Caller>, StoreError> {
    if bearer_of(headers).is_some_and(|token| app.keys.fits(token)) {
        return Ok(Some(Caller::Token));
    }
    // A browser that changes something names the page that it acts for.
    if !method.is_safe() && !headers.contains_key(ORIGIN) {
        return Ok(None);
    }
    Ok(BrowserSession::find(app, headers, host).await?.map(Caller::Browser))
}

fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub fn is_page(request: &Request) -> bool {
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
pub async fn known_host(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let foreign = |what: &str| {
        let message = format!("This server does not answer for that {what}.");
        let problem = Problem::new("foreign_host", message, "Use the address that the server printed.");
        Fault::new(StatusCode::FORBIDDEN, problem).into_response()
    };
    let host = RequestHost::of(&request).filter(|host| host.is_ours(app.listen, &app.page_host));
    let Some(host) = host else { return foreign("host") };
    let spelled = host::text_of(&request);
    let same = |origin: &axum::http::HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://")) == spelled
    };
    if !request.headers().get_all(ORIGIN).iter().all(same) {
        return foreign("origin");
    }
    request.extensions_mut().insert(host);
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_fits() {
        let keys = Keys::new("secret");
        assert!(keys.fits("secret") && !keys.fits("secret2") && !keys.fits(""));
    }
}
