//! One request and its answer.

use std::time::Duration;

use http::header::{ETAG, IF_NONE_MATCH, LINK, LOCATION};
use http::{HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use octocrab::Octocrab;
use secrecy::SecretString;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::github::api::error::ApiError;
use crate::github::api::{Github, Installation};
use crate::github::repo::RepoName;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an answer may weigh.
const LARGEST: usize = 32 << 20;

/// How often a repository that was renamed is followed.
const REDIRECTS: usize = 3;

/// How many seconds a token for git must still be good.
const TOKEN_LASTS: i64 = 600;

pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// What a conditional request came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// It is as it was.
    Unchanged,
    Changed {
        value: T,
        /// To be shown the next time.
        etag: Option<String>,
        /// There is another page.
        more: bool,
    },
}

impl Answer {
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        serde_json::from_slice(&self.body).map_err(|error| ApiError::Nonsense(error.to_string()))
    }

    /// A list; what cannot be read of it is passed over.
    pub fn list<T: DeserializeOwned>(&self) -> Result<Vec<T>, ApiError> {
        let values: Vec<Value> = self.json()?;
        let read =
            |value| serde_json::from_value(value).inspect_err(|error| tracing::warn!("passed over: {error}")).ok();
        Ok(values.into_iter().filter_map(read).collect())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The path of the next page of a list.
    fn next_page(&self) -> Option<String> {
        let links = self.headers.get(LINK)?.to_str().ok()?;
        let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
        path_of(next.split_once('<')?.1.split_once('>')?.0)
    }
}

/// The path of an address. Its host does not matter: whatever we send goes to the one we know.
fn path_of(address: &str) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    Some(uri.path_and_query()?.as_str().to_owned())
}

/// A part of a path, with everything escaped that could be more than that.
pub(crate) fn escaped(part: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    part.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

async fn once(
    client: &Octocrab,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    etag: Option<&str>,
) -> Result<Answer, ApiError> {
    let mut request = http::Request::builder().method(method).uri(path);
    if let Some(etag) = etag {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let request = client.build_request(request, body);
    let request = request.map_err(|error| ApiError::Refused { status: 0, what: error.to_string() })?;
    let answer = async {
        let response = client.execute(request).await.map_err(refusal)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LARGEST).collect().await.map_err(|error| ApiError::broken(&*error))?;
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes().to_vec() })
    };
    let late = || ApiError::Unavailable { what: "the time is over".to_owned(), wait: None };
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| Err(late()))
}

/// What the client itself could not do: reach GitHub, or get a token of an installation.
pub(crate) fn refusal(error: octocrab::Error) -> ApiError {
    match error {
        octocrab::Error::GitHub { source, .. } => {
            let body = serde_json::json!({ "message": source.message, "documentation_url": source.documentation_url });
            let headers = source.headers.clone().unwrap_or_default();
            ApiError::of(source.status_code, &headers, body.to_string().as_bytes())
        }
        octocrab::Error::Service { source, .. } => ApiError::broken(&*source),
        other => ApiError::broken(&other),
    }
}

/// A request to its answer, which is a success or unchanged.
pub(crate) async fn send(
    client: &Octocrab,
    method: &Method,
    path: &str,
    body: Option<&Value>,
    etag: Option<&str>,
) -> Result<Answer, ApiError> {
    let mut path = path.to_owned();
    for _ in 0..REDIRECTS {
        let answer = once(client, method, &path, body, etag).await?;
        let moved = answer.headers.get(LOCATION).filter(|_| is_moved(answer.status));
        match moved.and_then(|to| to.to_str().ok()).and_then(path_of) {
            // A repository that was renamed; the method stays what it is.
            Some(to) => path = to,
            None if answer.status.is_success() || answer.status == StatusCode::NOT_MODIFIED => return Ok(answer),
            None => return Err(ApiError::of(answer.status, &answer.headers, &answer.body)),
        }
    }
    Err(ApiError::NotFound("it is moved around in a circle".to_owned()))
}

fn is_moved(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 307 | 308)
}

impl Installation {
    pub(crate) async fn token(&self) -> Result<SecretString, ApiError> {
        let buffer = chrono::Duration::seconds(TOKEN_LASTS);
        let token = tokio::time::timeout(PATIENCE, self.client.installation_token_with_buffer(buffer)).await;
        let late = |_| ApiError::Unavailable { what: "the time is over".to_owned(), wait: None };
        token.map_err(late)?.map_err(refusal)
    }
}

impl Github {
    /// A request about a repository; `path` goes on behind its name.
    pub(crate) async fn ask(
        &self,
        repo: &RepoName,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ApiError> {
        let client = self.rest(repo).await?;
        send(&client, &method, &format!("/repos/{repo}{path}"), body, None).await
    }

    pub(crate) async fn get(&self, repo: &RepoName, path: &str) -> Result<Answer, ApiError> {
        self.ask(repo, Method::GET, path, None).await
    }

    /// All of a list, up to so many pages; and whether there was more.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        repo: &RepoName,
        path: &str,
        most: usize,
    ) -> Result<(Vec<T>, bool), ApiError> {
        let client = self.rest(repo).await?;
        let (mut all, mut path) = (Vec::new(), format!("/repos/{repo}{path}"));
        for _ in 0..most {
            let answer = send(&client, &Method::GET, &path, None, None).await?;
            all.extend(answer.list::<T>()?);
            match answer.next_page() {
                Some(next) => path = next,
                None => return Ok((all, false)),
            }
        }
        Ok((all, true))
    }

    /// A list, if it changed since `etag`.
    pub(crate) async fn poll<T: DeserializeOwned>(
        &self,
        repo: &RepoName,
        path: &str,
        etag: Option<&str>,
    ) -> Result<Polled<Vec<T>>, ApiError> {
        let client = self.rest(repo).await?;
        let answer = send(&client, &Method::GET, &format!("/repos/{repo}{path}"), None, etag).await?;
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(Polled::Unchanged);
        }
        let etag = answer.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).map(str::to_owned);
        Ok(Polled::Changed { value: answer.list()?, etag, more: answer.next_page().is_some() })
    }
}
