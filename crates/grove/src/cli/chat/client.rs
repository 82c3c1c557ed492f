//! The API calls of `grove chat`.

use std::time::Duration;

use grove_environments::problem::Problem;
use grove_model::MessageStatus;
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::TERMINAL_PLATFORM;
use crate::words;

/// The time that a server may take to answer; none of these calls waits for an agent.
const API_CALL_TIMEOUT: Duration = Duration::from_secs(30);

pub struct ChatClient {
    http: reqwest::Client,
    base: Url,
    token: String,
    conversation: String,
    codebase: Option<String>,
}

#[derive(Debug)]
pub enum ChatCallError {
    /// The server may come back.
    Unreachable(String),
    Refused(Problem),
}

impl From<ChatCallError> for Problem {
    fn from(error: ChatCallError) -> Self {
        match error {
            ChatCallError::Unreachable(why) => words::server_gone(&why),
            ChatCallError::Refused(problem) => problem,
        }
    }
}

/// One line of a conversation, as the API returns it.
#[derive(Clone, Debug, Deserialize)]
pub struct ChatLine {
    pub kind: String,
    pub message: String,
    pub timestamp: String,
    pub status: Option<MessageStatus>,
}

/// A message and its answers so far, as the API returns them.
#[derive(Deserialize)]
pub struct ChatLines {
    pub messages: Vec<ChatLine>,
    /// Answers are Markdown, and not the output of a shell.
    #[serde(default)]
    pub markdown: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PostedMessage {
    message_id: String,
}

/// Builds a client without a proxy: its requests stay between programs of this machine.
pub fn build_http_client() -> Result<reqwest::Client, Problem> {
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.connect_timeout(Duration::from_secs(2)).build().map_err(|error| words::no_http_client(&error))
}

impl ChatClient {
    pub fn new(address: &str, token: &str, conversation: &str, codebase: Option<String>) -> Result<Self, Problem> {
        let base = Url::parse(address).map_err(|error| words::bad_server_address(address, &error))?;
        let (token, conversation) = (token.to_owned(), conversation.to_owned());
        Ok(Self { http: build_http_client()?, base, token, conversation, codebase })
    }

    pub fn conversation_id(&self) -> &str {
        &self.conversation
    }

    fn build_url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        url
    }

    fn messages_url(&self) -> Url {
        self.build_url(&["api", "conversations", &self.conversation, "messages"])
    }

    /// Sends a message and returns its id.
    pub async fn post_message(&self, text: &str) -> Result<String, ChatCallError> {
        let mut body = json!({ "message": text, "platform": TERMINAL_PLATFORM });
        if let Some(codebase) = &self.codebase {
            body["codebase"] = json!(codebase);
        }
        let taken: PostedMessage = self.send_for_json(self.http.post(self.messages_url()).json(&body)).await?;
        Ok(taken.message_id)
    }

    /// Returns a message and its answers so far.
    pub async fn fetch_exchange(&self, message: &str) -> Result<ChatLines, ChatCallError> {
        let mut url = self.messages_url();
        url.query_pairs_mut().append_pair("message", message);
        self.send_for_json(self.http.get(url)).await
    }

    /// Opens the stream of the conversation's events.
    pub async fn open_event_stream(&self) -> Result<Response, ChatCallError> {
        let mut url = self.build_url(&["api", "events"]);
        url.query_pairs_mut().append_pair("conversation", &self.conversation);
        self.send_request(self.http.get(url)).await
    }

    async fn send_for_json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ChatCallError> {
        let response = self.send_request(request.timeout(API_CALL_TIMEOUT)).await?;
        response.json().await.map_err(|error| unreachable_error(&error))
    }

    async fn send_request(&self, request: RequestBuilder) -> Result<Response, ChatCallError> {
        let response = request.bearer_auth(&self.token).send().await.map_err(|error| unreachable_error(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body: Value = response.json().await.unwrap_or_default();
        let word = |name: &str| body["error"][name].as_str().map(str::to_owned);
        let message = word("message").unwrap_or_else(|| format!("The server answered {status}."));
        let hint = word("hint").unwrap_or_else(|| "See what the server has logged.".to_owned());
        Err(ChatCallError::Refused(words::server_refused(message, hint)))
    }
}

fn unreachable_error(error: &reqwest::Error) -> ChatCallError {
    // The innermost error is the most specific one.
    let mut reason: &dyn std::error::Error = error;
    while let Some(deeper) = reason.source() {
        reason = deeper;
    }
    ChatCallError::Unreachable(reason.to_string())
}
