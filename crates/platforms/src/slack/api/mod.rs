//! Requests to Slack through slack-morphism. Bodies and responses are JSON of our own, because new fields and
//! words of Slack must not make a request fail.

mod error;
mod files;

use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde::Deserialize;
use serde_json::{Value, json};
use slack_morphism::errors::SlackClientError;
use slack_morphism::hyper_tokio::{SlackClientHyperConnector, SlackClientHyperHttpsConnector};
use slack_morphism::{SlackApiToken, SlackApiTokenValue, SlackClient};

pub(crate) use error::is_missing_message;
use error::{to_chat_error, unavailable};
use files::FileTransfer;

use crate::retry::ChatApiError;

/// The time to wait for one response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// The number of messages of a thread that Slack returns at once.
const REPLIES_PER_PAGE: usize = 200;
/// The number of pages of a thread that are read; longer threads are read to this point.
const MAX_REPLY_PAGES: usize = 25;

/// The reason why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum SlackSetupError {
    #[error("`adapters.slack.api_url` is `{0}`; use an `https://` address that ends with `/api`")]
    Address(String),
    #[error("the certificates of this machine cannot be read: {0}; install the package `ca-certificates`")]
    Certificates(#[from] std::io::Error),
}

/// The account that a token belongs to.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct TokenAccount {
    pub user_id: String,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub team: String,
}

/// A client of Slack's API with the tokens of the app.
pub(crate) struct SlackApi {
    client: SlackClient<SlackClientHyperHttpsConnector>,
    bot_token: SlackApiToken,
    app_token: Option<SlackApiToken>,
    files: FileTransfer,
}

/// A message to post or to update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageContent<'a> {
    pub text: &'a str,
    /// The blocks that are shown instead of the text.
    pub blocks: Option<&'a Value>,
    /// The data that only programs see.
    pub metadata: Option<&'a Value>,
}

impl SlackApi {
    pub fn new(api_url: &str, bot_token: &str, app_token: Option<&str>) -> Result<Self, SlackSetupError> {
        let bad_address = || SlackSetupError::Address(api_url.to_owned());
        let address: Uri = api_url.parse().map_err(|_| bad_address())?;
        if !is_safe_address(&address) {
            return Err(bad_address());
        }
        let connector = build_connector()?;
        let http = SlackClientHyperConnector::with_connector(connector.clone()).with_slack_api_url(api_url);
        let token = |token: &str| SlackApiToken::new(SlackApiTokenValue(token.to_owned()));
        Ok(Self {
            client: SlackClient::new(http),
            bot_token: token(bot_token),
            app_token: app_token.map(token),
            files: FileTransfer::new(connector, &address, bot_token),
        })
    }

    /// Looks up our own account.
    pub async fn test_token(&self) -> Result<TokenAccount, ChatApiError> {
        self.post(&self.bot_token, "auth.test", &json!({})).await.and_then(read_response)
    }

    /// Returns the address of a new socket; `None` without an app token.
    pub async fn open_socket(&self) -> Result<Option<String>, ChatApiError> {
        let Some(token) = &self.app_token else { return Ok(None) };
        let opened = self.post(token, "apps.connections.open", &json!({})).await?;
        let url = opened["url"].as_str().unwrap_or_default();
        let address: Option<Uri> = url.parse().ok().filter(is_safe_address);
        address.map(|_| Some(url.to_owned())).ok_or_else(|| unavailable("Slack named no address of a socket"))
    }

    /// Posts a message into a thread, and returns its timestamp, which identifies it.
    pub async fn post_message(
        &self,
        channel: &str,
        thread: &str,
        content: MessageContent<'_>,
    ) -> Result<String, ChatApiError> {
        let mut body = json!({
            "channel": channel, "thread_ts": thread, "text": content.text, "parse": "none",
            "unfurl_links": false, "unfurl_media": false,
        });
        content.add_to(&mut body);
        let posted = self.post(&self.bot_token, "chat.postMessage", &body).await?;
        posted["ts"].as_str().map(str::to_owned).ok_or_else(|| unavailable("Slack named no timestamp"))
    }

    pub async fn update_message(
        &self,
        channel: &str,
        ts: &str,
        content: MessageContent<'_>,
    ) -> Result<(), ChatApiError> {
        let mut body = json!({ "channel": channel, "ts": ts, "text": content.text, "parse": "none" });
        content.add_to(&mut body);
        self.post(&self.bot_token, "chat.update", &body).await.map(drop)
    }

    pub async fn delete_message(&self, channel: &str, ts: &str) -> Result<(), ChatApiError> {
        self.post(&self.bot_token, "chat.delete", &json!({ "channel": channel, "ts": ts })).await.map(drop)
    }

    /// Returns the messages of a thread, oldest first; `oldest` leaves out what was posted before, except the
    /// first message.
    pub async fn list_replies(
        &self,
        channel: &str,
        thread: &str,
        oldest: Option<&str>,
    ) -> Result<Vec<Value>, ChatApiError> {
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        let limit = REPLIES_PER_PAGE.to_string();
        for _ in 0..MAX_REPLY_PAGES {
            let params = [
                ("channel", Some(channel)),
                ("ts", Some(thread)),
                ("include_all_metadata", Some("true")),
                ("limit", Some(limit.as_str())),
                ("oldest", oldest),
                ("cursor", cursor.as_deref()),
            ];
            let mut page = self.get("conversations.replies", &params).await?;
            if let Some(messages) = page["messages"].as_array_mut() {
                found.append(messages);
            }
            let next = page["response_metadata"]["next_cursor"].as_str().unwrap_or_default();
            if next.is_empty() {
                break;
            }
            cursor = Some(next.to_owned());
        }
        Ok(found)
    }

    pub async fn add_reaction(&self, channel: &str, ts: &str, name: &str) -> Result<(), ChatApiError> {
        self.change_reaction("reactions.add", channel, ts, name, "already_reacted").await
    }

    pub async fn remove_reaction(&self, channel: &str, ts: &str, name: &str) -> Result<(), ChatApiError> {
        self.change_reaction("reactions.remove", channel, ts, name, "no_reaction").await
    }

    async fn change_reaction(
        &self,
        method: &str,
        channel: &str,
        ts: &str,
        name: &str,
        done: &str,
    ) -> Result<(), ChatApiError> {
        let body = json!({ "channel": channel, "timestamp": ts, "name": name });
        match self.post(&self.bot_token, method, &body).await {
            Err(ChatApiError::Refused { what, .. }) if what == done => Ok(()),
            changed => changed.map(drop),
        }
    }

    /// Returns the name that people see for a user.
    pub async fn user_name(&self, user: &str) -> Result<Option<String>, ChatApiError> {
        let found = self.get("users.info", &[("user", Some(user))]).await?;
        let user = &found["user"];
        let names = [&user["profile"]["display_name"], &user["real_name"], &user["name"]];
        Ok(names.into_iter().filter_map(Value::as_str).find(|name| !name.is_empty()).map(str::to_owned))
    }

    /// Uploads a text as a file, which is not shown to people yet. Returns the file's id.
    pub async fn upload_text(&self, name: &str, text: &str) -> Result<String, ChatApiError> {
        let length = text.len().to_string();
        let params = [("filename", Some(name)), ("length", Some(length.as_str()))];
        let place = self.get("files.getUploadURLExternal", &params).await?;
        let (Some(url), Some(file)) = (place["upload_url"].as_str(), place["file_id"].as_str()) else {
            return Err(unavailable("Slack named no address for the file"));
        };
        self.files.upload(url, text).await?;
        Ok(file.to_owned())
    }

    /// Shows an uploaded file in a thread.
    pub async fn share_file(&self, channel: &str, thread: &str, file: &str, title: &str) -> Result<(), ChatApiError> {
        let files = json!([{ "id": file, "title": title }]);
        let body = json!({ "files": files, "channel_id": channel, "thread_ts": thread });
        self.post(&self.bot_token, "files.completeUploadExternal", &body).await.map(drop)
    }

    /// Downloads a text file of at most `most` bytes from Slack; `None` if the address is not Slack's own, or
    /// the file is larger or not text.
    pub async fn download_text(&self, url: &str, most: usize) -> Result<Option<String>, ChatApiError> {
        self.files.download(url, most).await
    }

    async fn post(&self, token: &SlackApiToken, method: &str, body: &Value) -> Result<Value, ChatApiError> {
        let session = self.client.open_session(token);
        let sent = session.http_session_api.http_post(method, body, None);
        finish_request(sent).await
    }

    async fn get(&self, method: &str, params: &[(&str, Option<&str>)]) -> Result<Value, ChatApiError> {
        let session = self.client.open_session(&self.bot_token);
        let params = params.to_vec();
        let sent = session.http_session_api.http_get(method, &params, None);
        finish_request(sent).await
    }
}

impl MessageContent<'_> {
    fn add_to(&self, body: &mut Value) {
        for (name, value) in [("blocks", self.blocks), ("metadata", self.metadata)] {
            if let Some(value) = value {
                body[name] = value.clone();
            }
        }
    }
}

async fn finish_request(sent: impl Future<Output = Result<Value, SlackClientError>>) -> Result<Value, ChatApiError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, sent).await {
        Ok(Ok(response)) if response["ok"] == true => Ok(response),
        Ok(Ok(_)) => Err(unavailable("the response is not Slack's")),
        Ok(Err(error)) => Err(to_chat_error(error)),
        Err(_) => Err(unavailable("no response in time")),
    }
}

fn read_response<T: serde::de::DeserializeOwned>(response: Value) -> Result<T, ChatApiError> {
    serde_json::from_value(response).map_err(|error| unavailable(&error.to_string()))
}

fn build_connector() -> Result<HttpsConnector<HttpConnector>, std::io::Error> {
    Ok(HttpsConnectorBuilder::new().with_native_roots()?.https_or_http().enable_http1().build())
}

/// Tells whether what is sent to an address stays secret: it is encrypted, or does not leave the machine.
fn is_safe_address(address: &Uri) -> bool {
    let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    match address.scheme_str() {
        Some("https" | "wss") => !host.is_empty(),
        Some("http" | "ws") => is_local,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_sent_encrypted_or_not_at_all() {
        for address in ["https://slack.com/api", "http://127.0.0.1:8/api", "ws://[::1]:8/", "wss://wss.slack.com/?x=1"]
        {
            assert!(is_safe_address(&address.parse().unwrap()), "{address}");
        }
        for address in ["http://slack.com/api", "ws://10.0.0.1/", "/api", "ftp://127.0.0.1/"] {
            assert!(!is_safe_address(&address.parse().unwrap()), "{address}");
        }
    }
}
