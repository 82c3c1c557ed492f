//! One request and its response.
//!
//! The client library keeps the limits of each bucket and repeats a request after a 429. It would sleep for
//! as long as Discord says; a wait of more than a moment is returned to the caller instead, so that other
//! conversations go on. It would also repeat a request at once if a 429 names no bucket; then the request is
//! given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::MissedTickBehavior;
use twilight_http::client::ClientBuilder;
use twilight_http::error::ErrorType;
use twilight_http::request::{Method, RequestBuilder};
use twilight_http::{Client, Response};
use twilight_http_ratelimiting::Endpoint;

use super::error::DiscordApiError;

/// The time to wait for a response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The time that a request may wait for its limit inside of the client.
const MAX_LIMIT_WAIT: Duration = Duration::from_secs(1);
/// The interval at which a waiting request looks at its limit.
const LIMIT_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a 429 that does not say how long to wait.
const UNNAMED_LIMIT_WAIT: Duration = Duration::from_secs(5);
/// The minimum time between two attempts of one request; sooner means that no limit was named.
const MIN_ATTEMPT_INTERVAL: Duration = Duration::from_millis(50);

/// The address of Discord's API if no other one is configured.
const DEFAULT_API_URL: &str = "https://discord.com";

/// The reason why the client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum DiscordSetupError {
    #[error("`adapters.discord.api_url` is not an address such as `https://discord.com`: {0}")]
    ApiUrl(String),
    #[error("`adapters.discord.gateway_url` is not an address such as `wss://gateway.discord.gg`: {0}")]
    GatewayUrl(String),
    #[error("this machine has no root certificates; install the package `ca-certificates`")]
    NoCertificates,
}

/// Sends requests with the bot's token.
#[derive(Clone, Debug)]
pub struct DiscordClient {
    client: Arc<Client>,
}

impl DiscordClient {
    /// Builds the client.
    pub async fn new(api_url: &str, token: &str) -> Result<Self, DiscordSetupError> {
        let mut builder = Client::builder().token(token.to_owned()).timeout(REQUEST_TIMEOUT);
        // A token that is refused once may be accepted later: Discord has bad moments, too.
        builder = builder.remember_invalid_token(false);
        if api_url != DEFAULT_API_URL {
            let (host, use_http) = split_api_url(api_url)?;
            builder = builder.proxy(host, use_http);
        }
        // The library panics if it finds no root certificates.
        let built = tokio::spawn(async move { ClientBuilder::build(builder) }).await;
        built.map(|client| Self { client: Arc::new(client) }).map_err(|_| DiscordSetupError::NoCertificates)
    }

    /// Sends a request and reads its response.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        body: Option<&Value>,
    ) -> Result<T, DiscordApiError> {
        let bytes = self.send(method, path, body).await?;
        serde_json::from_slice(&bytes)
            .map_err(|error| DiscordApiError::unavailable(format!("its answer is not understood: {error}")))
    }

    /// Sends a request, and returns the body of the response.
    pub(super) async fn send(
        &self,
        method: Method,
        path: String,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, DiscordApiError> {
        let endpoint = Endpoint { method, path: path.split('?').next().unwrap_or_default().to_owned() };
        let mut request = RequestBuilder::raw(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        let request = request.build().map_err(|error| DiscordApiError::from_client(&error))?;
        let mut sending = self.client.request::<Value>(request);
        sending.set_pre_flight(AttemptLimit::default().into_check());
        let mut looks = tokio::time::interval(LIMIT_CHECK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let response: Response<Value> = loop {
            tokio::select! {
                biased;
                sent = &mut sending => match sent {
                    Ok(response) => break response,
                    Err(error) if matches!(error.kind(), ErrorType::RequestCanceled) => {
                        return Err(DiscordApiError::limited(UNNAMED_LIMIT_WAIT));
                    }
                    Err(error) => return Err(DiscordApiError::from_client(&error)),
                },
                _ = looks.tick() => if let Some(wait) = self.limit_wait(&endpoint).await {
                    return Err(DiscordApiError::limited(wait));
                },
            }
        };
        let bytes = tokio::time::timeout(REQUEST_TIMEOUT, response.bytes()).await;
        let bytes = bytes.map_err(|_| DiscordApiError::unavailable("its answer does not end"))?;
        bytes.map_err(|error| DiscordApiError::unavailable(error.to_string()))
    }

    /// Returns how long the limit of an endpoint still lasts, if that is too long to wait for it. A request
    /// that was answered has ended before this is asked, so an exhausted bucket means that the request still
    /// waits.
    async fn limit_wait(&self, endpoint: &Endpoint) -> Option<Duration> {
        let bucket = self.client.ratelimiter()?.bucket(endpoint.clone()).await?;
        let wait = bucket.reset_at.saturating_duration_since(Instant::now());
        (bucket.remaining == 0 && wait > MAX_LIMIT_WAIT).then_some(wait)
    }
}

/// Counts the attempts of one request.
#[derive(Default)]
struct AttemptLimit {
    /// Microseconds between the beginning and the last attempt, plus one; 0 before the first.
    last: AtomicU64,
}

impl AttemptLimit {
    /// Returns the check that the client calls before each attempt.
    fn into_check(self) -> impl Fn() -> bool + Send + 'static {
        let began = Instant::now();
        move || {
            let now = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX).saturating_add(1);
            let last = self.last.swap(now, Ordering::Relaxed);
            last == 0 || Duration::from_micros(now.saturating_sub(last)) >= MIN_ATTEMPT_INTERVAL
        }
    }
}

/// Splits an address into what the client wants: host and port, and whether it is plain HTTP.
fn split_api_url(api_url: &str) -> Result<(String, bool), DiscordSetupError> {
    let wrong = || DiscordSetupError::ApiUrl(api_url.to_owned());
    let address: http::Uri = api_url.parse().map_err(|_| wrong())?;
    let host = address.authority().ok_or_else(wrong)?.to_string();
    match (address.scheme_str(), address.path()) {
        (Some("http"), "/" | "") => Ok((host, true)),
        (Some("https"), "/" | "") => Ok((host, false)),
        _ => Err(wrong()),
    }
}

/// Checks the address of the gateway: the library panics at one that it cannot parse.
pub(crate) fn check_gateway_url(gateway_url: &str) -> Result<String, DiscordSetupError> {
    let wrong = || DiscordSetupError::GatewayUrl(gateway_url.to_owned());
    let address: http::Uri = gateway_url.trim_end_matches('/').parse().map_err(|_| wrong())?;
    let is_socket = matches!(address.scheme_str(), Some("ws" | "wss"));
    (is_socket && address.host().is_some() && matches!(address.path(), "" | "/"))
        .then(|| gateway_url.trim_end_matches('/').to_owned())
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        assert_eq!(split_api_url("http://127.0.0.1:8080").unwrap(), ("127.0.0.1:8080".to_owned(), true));
        assert_eq!(split_api_url("https://proxy.example/").unwrap(), ("proxy.example".to_owned(), false));
        for wrong in ["", "proxy.example", "ftp://x", "https://proxy.example/api/v10", "https://"] {
            assert!(split_api_url(wrong).is_err(), "{wrong}");
        }
        assert_eq!(check_gateway_url("wss://gateway.discord.gg/").unwrap(), "wss://gateway.discord.gg");
        assert!(check_gateway_url("ws://127.0.0.1:8080").is_ok());
        for wrong in ["", "gateway.discord.gg", "https://gateway.discord.gg", "wss://", "ws://x/y", "wss://a b"] {
            assert!(check_gateway_url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_request_is_not_repeated_at_once() {
        let check = AttemptLimit::default().into_check();
        assert!(check(), "the first attempt");
        assert!(!check(), "a second one without a wait");
        std::thread::sleep(MIN_ATTEMPT_INTERVAL);
        assert!(check(), "one after a wait");
    }
}
