//! One request and its response.

use std::time::Duration;

use http::header::{ETAG, IF_NONE_MATCH, LINK, LOCATION};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use octocrab::Octocrab;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::github::api::error::ApiError;
use crate::github::api::{GithubClient, InstallationClient};
use crate::github::repo::RepoName;

/// The time to wait for a response.
const API_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 32 << 20;

/// The maximum number of redirects of a renamed repository.
const MAX_REDIRECTS: usize = 3;

/// The number of seconds that a token for git must still be valid.
const MIN_TOKEN_LIFETIME_SECS: i64 = 600;

pub(crate) struct ApiResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// The result of a conditional request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PollResult<T> {
    /// Nothing changed.
    Unchanged,
    Changed {
        value: T,
        /// Sent with the next request.
        etag: Option<String>,
        /// There is another page.
        more: bool,
    },
}

impl ApiResponse {
    pub fn parse_json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body).map_err(|error| ApiError::Nonsense(error.to_string()))
    }

    /// Parses a list; items that cannot be parsed are skipped.
    pub fn parse_list<T: DeserializeOwned>(&self) -> Result<Vec<T>, ApiError> {
        let values: Vec<Value> = self.parse_json()?;
        let read =
            |value| serde_json::from_value(value).inspect_err(|error| tracing::warn!(%error, "list item skipped")).ok();
        Ok(values.into_iter().filter_map(read).collect())
    }

    pub fn header_value(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the path of the next page of a list.
    fn next_page(&self) -> Option<String> {
        let links = self.headers.get(LINK)?.to_str().ok()?;
        let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
        path_of(next.split_once('<')?.1.split_once('>')?.0)
    }
}

/// Returns the path of an address. Its host is ignored: all requests go to the configured host.
fn path_of(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    Some(uri.path_and_query()?.as_str().to_owned())
}

/// Escapes a part of a path, so that it cannot be more than one part.
pub(crate) fn escape_path_part(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    part.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

async fn send_once(
    client: &Octocrab,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    etag: Option<&str>,
) -> Result<ApiResponse, ApiError> {
    let mut request = http::Request::builder().method(method).uri(path);
    if let Some(etag) = etag {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let request = client.build_request(request, body);
    let request = request.map_err(|error| ApiError::Refused { status: 0, what: error.to_string() })?;
    let answer = async {
        let response = client.execute(request).await.map_err(to_api_error)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, MAX_RESPONSE_BYTES)
            .collect()
            .await
            .map_err(|error| ApiError::from_broken_connection(&*error))?;
        Ok(ApiResponse { status: parts.status, headers: parts.headers, body: body.to_bytes().to_vec() })
    };
    let late = || ApiError::Unavailable { what: "the time is over".to_owned(), wait: None };
    tokio::time::timeout(API_REQUEST_TIMEOUT, answer).await.unwrap_or_else(|_| Err(late()))
}

/// Converts an error of the client itself: it could not reach GitHub, or get a token of an installation.
pub(crate) fn to_api_error(error: octocrab::Error) -> ApiError {
    match error {
        octocrab::Error::GitHub { source, .. } => {
            let body = serde_json::json!({ "message": source.message, "documentation_url": source.documentation_url });
            let headers = source.headers.clone().unwrap_or_default();
            ApiError::from_response(source.status_code, &headers, body.to_string().as_bytes())
        }
        octocrab::Error::Service { source, .. } => ApiError::from_broken_connection(&*source),
        other => ApiError::from_broken_connection(&other),
    }
}

/// Sends a request and returns its response, which is a success or unchanged.
pub(crate) async fn send_api_request(
    client: &Octocrab,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    etag: Option<&str>,
) -> Result<ApiResponse, ApiError> {
    let mut path = path.to_owned();
    for _ in 0..MAX_REDIRECTS {
        let answer = send_once(client, method, &path, body, etag).await?;
        let moved = answer.headers.get(LOCATION).filter(|_| is_moved(answer.status));
        match moved.and_then(|to| to.to_str().ok()).and_then(path_of) {
            // The repository was renamed; the method stays the same.
            Some(to) => path = to,
            None if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED => return Ok(answer),
            None => return Err(ApiError::from_response(answer.status, &answer.headers, &answer.body)),
        }
    }
    Err(ApiError::NotFound("it is moved around in a circle".to_owned()))
}

fn is_moved(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 307 | 308)
}

impl InstallationClient {
    pub(crate) async fn fetch_token(&self) -> Result<SecretString, ApiError> {
        let buffer = chrono::Duration::seconds(MIN_TOKEN_LIFETIME_SECS);
        let token = tokio::time::timeout(API_REQUEST_TIMEOUT, self.client.installation_token_with_buffer(buffer)).await;
        let late = |_| ApiError::Unavailable { what: "the time is over".to_owned(), wait: None };
        token.map_err(late)?.map_err(to_api_error)
    }
}

impl GithubClient {
    /// Sends a request about a repository; `path` is appended to its name.
    pub(crate) async fn request_repository(
        &self,
        repo: &RepoName,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<ApiResponse, ApiError> {
        let client = self.rest_client(repo).await?;
        send_api_request(&client, &method, &format!("/repos/{repo}{path}"), body, None).await
    }

    pub(crate) async fn get(&self, repo: &RepoName, path: &str) -> Result<ApiResponse, ApiError> {
        self.request_repository(repo, Method::GET, path, None).await
    }

    /// Returns a list, up to a number of pages, and whether there was more.
    pub(crate) async fn fetch_pages<T: DeserializeOwned>(
        &self,
        repo: &RepoName,
        path: &str,
        most: usize,
    ) -> Result<(Vec<T>, bool), ApiError> {
        let client = self.rest_client(repo).await?;
        let (mut all, mut path) = (Vec::new(), format!("/repos/{repo}{path}"));
        for _ in 0..most {
            let answer = send_api_request(&client, &Method::GET, &path, None, None).await?;
            all.extend(answer.parse_list::<T>()?);
            match answer.next_page() {
                Some(next) => path = next,
                None => return Ok((all, false)),
            }
        }
        Ok((all, true))
    }

    /// Returns a list, if it changed since `etag`.
    pub(crate) async fn poll_list<T: DeserializeOwned>(
        &self,
        repo: &RepoName,
        path: &str,
        etag: Option<&str>,
    ) -> Result<PollResult<Vec<T>>, ApiError> {
        let client = self.rest_client(repo).await?;
        let answer = send_api_request(&client, &Method::GET, &format!("/repos/{repo}{path}"), None, etag).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(PollResult::Unchanged);
        }
        let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        Ok(PollResult::Changed { value: answer.parse_list()?, etag, more: answer.next_page().is_some() })
    }
}
