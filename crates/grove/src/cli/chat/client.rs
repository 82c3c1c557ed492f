//! The calls that a conversation needs.

use std::time::Duration;

use grove_environments::problem::Problem;
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// How long a server may take to answer; none of these calls waits for an agent.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: String,
    conversation: String,
    codebase: Option<String>,
}

#[derive(Debug)]
pub enum CallError {
    /// It may come back.
    Unreachable(String),
    Refused(Problem),
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unreachable(why) => Problem::new(
                "server_gone",
                format!("The server does not answer: {why}."),
                "Start `grove chat` again; `-c` with the conversation's id goes on with it.",
            ),
            CallError::Refused(problem) => problem,
        }
    }
}

/// One line of a conversation, as the API gives it.
#[derive(Clone, Debug, Deserialize)]
pub struct Line {
    pub kind: String,
    pub message: String,
    pub timestamp: String,
    pub status: Option<String>,
}

#[derive(Deserialize)]
struct Lines {
    messages: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Taken {
    message_id: String,
}

/// Without a proxy: what is said here is between this machine's own programs.
pub fn http() -> Result<reqwest::Client, Problem> {
    let builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    builder.connect_timeout(Duration::from_secs(2)).build().map_err(|error| {
        Problem::new("failed", format!("HTTP cannot be spoken: {error}."), "Check the machine's limits.")
    })
}

impl Client {
    pub fn new(address: &str, token: &str, conversation: &str, codebase: Option<String>) -> Result<Self, Problem> {
        let base = Url::parse(address).map_err(|error| {
            let message = format!("`{address}` is no address: {error}.");
            Problem::new("usage", message, "Set `server.listen` to HOST:PORT.")
        })?;
        let (token, conversation) = (token.to_owned(), conversation.to_owned());
        Ok(Self { http: http()?, base, token, conversation, codebase })
    }

    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(path);
        }
        url
    }

    fn messages(&self) -> Url {
        self.url(&["api", "conversations", &self.conversation, "messages"])
    }

    /// Says something; the id of the message.
    pub async fn say(&self, text: &str) -> Result<String, CallError> {
        let mut body = json!({ "message": text, "platform": "cli" });
        if let Some(codebase) = &self.codebase {
            body["codebase"] = json!(codebase);
        }
        let taken: Taken = self.answer(self.http.post(self.messages()).json(&body)).await?;
        Ok(taken.message_id)
    }

    /// A message, and what was said to it so far.
    pub async fn about(&self, message: &str) -> Result<Vec<Line>, CallError> {
        let mut url = self.messages();
        url.query_pairs_mut().append_pair("message", message);
        let lines: Lines = self.answer(self.http.get(url)).await?;
        Ok(lines.messages)
    }

    /// The stream of what happens in the conversation.
    pub async fn events(&self) -> Result<Response, CallError> {
        let mut url = self.url(&["api", "events"]);
        url.query_pairs_mut().append_pair("conversation", &self.conversation);
        self.call(self.http.get(url)).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, CallError> {
        let response = self.call(request.timeout(PATIENCE)).await?;
        response.json().await.map_err(|error| unreachable(&error))
    }

    async fn call(&self, request: RequestBuilder) -> Result<Response, CallError> {
        let response = request.bearer_auth(&self.token).send().await.map_err(|error| unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body: Value = response.json().await.unwrap_or_default();
        let word = |name: &str| body["error"][name].as_str().map(str::to_owned);
        let message = word("message").unwrap_or_else(|| format!("The server answered {status}."));
        let hint = word("hint").unwrap_or_else(|| "See what the server has logged.".to_owned());
        // Its own code is a text of the server's; what a script relies on is that it was refused.
        Err(CallError::Refused(Problem::new("refused", message, hint)))
    }
}

fn unreachable(error: &reqwest::Error) -> CallError {
    // The innermost reason is the one that says something.
    let mut reason: &dyn std::error::Error = error;
    while let Some(deeper) = reason.source() {
        reason = deeper;
    }
    CallError::Unreachable(reason.to_string())
}
