//! Access control by token, on loopback too, since an agent or a web page could reach the server as well.
//!
//! A script sends the token as `Authorization: Bearer`; a browser follows a link that works once and gets a
//! cookie (`sessions.rs`), which is valid under one host name only. `Host` must be ours, so that a foreign
//! name that resolves to this server is refused, and `Origin` must be the same, so that no other page acts
//! through a browser that has access.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Extension, Request, State};
use axum::http::header::{AUTHORIZATION, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use grove_store::StoreError;
use sha2::{Digest, Sha256};
use tracing::Instrument;

use super::ServerState;
use super::fault::HttpError;
use super::host::{self, RequestHost};
use super::page::login_page;
use super::sessions::BrowserSession;
use crate::words;

/// The server's token, as a digest.
pub struct TokenDigest {
    pub(super) token: [u8; 32],
}

/// The caller that was granted access.
#[derive(Clone, Debug)]
pub enum RequestCaller {
    Token,
    Browser(BrowserSession),
}

fn sha256_digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

impl TokenDigest {
    pub fn new(token: &str) -> Self {
        Self { token: sha256_digest(token) }
    }

    /// Compares digests, so that the time of the comparison reveals nothing about the token.
    fn matches_token(&self, token: &str) -> bool {
        sha256_digest(token) == self.token
    }
}

/// Grants access to a caller with the token, or with a session under the requested host.
pub async fn with_token(
    State(app): State<Arc<ServerState>>,
    Extension(host): Extension<RequestHost>,
    mut request: Request,
    next: Next,
) -> Response {
    match caller_of(&app, &host, request.method(), request.headers()).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) if is_page(&request) => login_page::respond_locked(),
        Ok(None) => HttpError::new(StatusCode::UNAUTHORIZED, words::no_token()).into_response(),
        Err(error) if is_page(&request) => HttpError::from(error).into_page(),
        Err(error) => HttpError::from(error).into_response(),
    }
}

async fn caller_of(
    app: &ServerState,
    host: &RequestHost,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<RequestCaller>, StoreError> {
    if bearer_of(headers).is_some_and(|token| app.keys.matches_token(token)) {
        return Ok(Some(RequestCaller::Token));
    }
    // A browser that changes something names the page that it acts for.
    if !method.is_safe() && !headers.contains_key(ORIGIN) {
        return Ok(None);
    }
    Ok(BrowserSession::find_by_cookie(app, headers, host).await?.map(RequestCaller::Browser))
}

fn bearer_of(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

pub fn is_page(request: &Request) -> bool {
    login_page::is_page(request.method(), request.uri(), request.headers())
}

/// Runs a request that changes something to its end, also if the client no longer waits for the answer: a
/// removal or a creation is not left half done because a browser was closed.
pub async fn to_the_end(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request).in_current_span()).await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(%error, "request handler failed");
            HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, words::handler_failed()).into_response()
        }
    }
}

/// Accepts only requests from processes of this machine.
pub async fn from_this_machine(ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request, next: Next) -> Response {
    if peer.ip().to_canonical().is_loopback() {
        return next.run(request).await;
    }
    HttpError::new(StatusCode::FORBIDDEN, words::test_adapter_is_local()).into_response()
}

/// Refuses requests for another host, or from another page.
pub async fn known_host(State(app): State<Arc<ServerState>>, mut request: Request, next: Next) -> Response {
    let foreign = |what: &str| HttpError::new(StatusCode::FORBIDDEN, words::foreign_host(what)).into_response();
    let host = RequestHost::from_request(&request).filter(|host| host.is_ours(app.listen, &app.page_host));
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
        let keys = TokenDigest::new("secret");
        assert!(keys.matches_token("secret") && !keys.matches_token("secret2") && !keys.matches_token(""));
    }
}
