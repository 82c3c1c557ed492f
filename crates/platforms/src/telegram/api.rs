//! The requests that we send to Telegram's Bot API, with the client library, and its errors.
//!
//! The token is a part of every address, so no error text contains one. Responses are read tolerantly: only
//! the fields that are needed, whatever else Telegram sends.

use std::fmt::Debug;
use std::time::Duration;

use frankenstein::client_reqwest::Bot;
use frankenstein::methods::{
    AnswerCallbackQueryParams, EditMessageReplyMarkupParams, EditMessageTextParams, GetFileParams, GetUpdatesParams,
    SendMessageParams, SetMessageReactionParams,
};
use frankenstein::response::MethodResponse;
use frankenstein::types::{AllowedUpdate, ReactionType, ReactionTypeEmoji};
use frankenstein::{AsyncTelegramApi, reqwest};
use grove_environments::settings::TelegramSettings;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::retry::ChatApiError;
use crate::telegram::TELEGRAM_PLATFORM;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time to wait for a response that Telegram does not delay on purpose.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The time for which Telegram holds a request for updates open if there are none.
const POLL_TIMEOUT: Duration = Duration::from_secs(50);
/// The pause after a rate limit that names no time.
const DEFAULT_LIMIT_PAUSE: Duration = Duration::from_secs(5);
/// The updates that are handled.
const HANDLED_UPDATES: [AllowedUpdate; 3] =
    [AllowedUpdate::Message, AllowedUpdate::CallbackQuery, AllowedUpdate::MyChatMember];

/// The reason why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TelegramError {
    #[error("Telegram asks us to wait {} seconds", .0.as_secs())]
    Limited(Duration),
    /// The request may or may not have been carried out.
    #[error("Telegram does not answer: {0}")]
    Unavailable(String),
    #[error("Telegram does not take our token: {0}")]
    BadToken(String),
    /// Another program or a webhook gets the updates.
    #[error("{0}")]
    Conflict(String),
    #[error("Telegram refuses: {description}")]
    Refused { description: String, migrated_to: Option<i64> },
}

impl TelegramError {
    /// Tells whether Telegram refused a request with a description that contains one of these texts.
    pub fn is_refused_with(&self, texts: &[&str]) -> bool {
        let Self::Refused { description, .. } = self else { return false };
        let description = description.to_lowercase();
        texts.iter().any(|text| description.contains(text))
    }
}

impl From<TelegramError> for ChatApiError {
    fn from(error: TelegramError) -> Self {
        let platform = "Telegram";
        match error {
            TelegramError::Limited(wait) => Self::Limited { platform, wait },
            TelegramError::Unavailable(what) | TelegramError::Conflict(what) => Self::Unavailable { platform, what },
            TelegramError::BadToken(what) => Self::BadCredentials { platform, what },
            TelegramError::Refused { description, .. } => Self::Refused { platform, what: description },
        }
    }
}

/// The account of the bot.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BotAccount {
    pub id: i64,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub can_read_all_group_messages: bool,
}

/// The webhook of the bot.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct WebhookInfo {
    /// Empty if there is none.
    #[serde(default)]
    pub url: String,
    #[serde(default)]
    pub pending_update_count: i64,
    pub last_error_message: Option<String>,
}

#[derive(Debug, Deserialize)]
struct SentMessage {
    message_id: i32,
}

#[derive(Debug, Deserialize)]
struct FileInfo {
    file_path: Option<String>,
}

/// An error as Telegram sends it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorBody {
    error_code: u64,
    description: String,
    parameters: ErrorParameters,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ErrorParameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

/// A client of the Bot API.
#[derive(Clone)]
pub(crate) struct TelegramClient {
    bot: Bot,
    files_url: String,
    token: String,
}

impl TelegramClient {
    pub fn new(settings: &TelegramSettings, token: &str) -> Result<Self, TelegramError> {
        // A redirect would send the token to another server.
        let client =
            reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(reqwest::redirect::Policy::none());
        let client = client.build().map_err(|error| TelegramError::Unavailable(describe_http_error(&error, token)))?;
        let api_url = &settings.chat.api_url;
        let bot = Bot::builder().api_url(format!("{api_url}/bot{token}")).client(client).build();
        Ok(Self { bot, files_url: format!("{api_url}/file/bot{token}"), token: token.to_owned() })
    }

    pub async fn get_me(&self) -> Result<BotAccount, TelegramError> {
        self.call("getMe", None::<()>, REQUEST_TIMEOUT).await
    }

    pub async fn get_webhook_info(&self) -> Result<WebhookInfo, TelegramError> {
        self.call("getWebhookInfo", None::<()>, REQUEST_TIMEOUT).await
    }

    /// Waits for updates; returns none if there are none for a while. An offset confirms all updates before it.
    pub async fn get_updates(&self, offset: Option<i64>) -> Result<Vec<Value>, TelegramError> {
        let params = GetUpdatesParams::builder()
            .maybe_offset(offset)
            .limit(100)
            .timeout(u32::try_from(POLL_TIMEOUT.as_secs()).unwrap_or(50))
            .allowed_updates(HANDLED_UPDATES.to_vec())
            .build();
        self.call("getUpdates", Some(params), POLL_TIMEOUT + REQUEST_TIMEOUT).await
    }

    /// Sends a message, and returns its id.
    pub async fn send_message(&self, params: SendMessageParams) -> Result<i32, TelegramError> {
        let sent: SentMessage = self.call("sendMessage", Some(params), REQUEST_TIMEOUT).await?;
        Ok(sent.message_id)
    }

    pub async fn edit_message_text(&self, params: EditMessageTextParams) -> Result<(), TelegramError> {
        self.call::<_, Value>("editMessageText", Some(params), REQUEST_TIMEOUT).await.map(drop)
    }

    /// Removes the buttons of a message.
    pub async fn remove_buttons(&self, chat: i64, message: i32) -> Result<(), TelegramError> {
        let params = EditMessageReplyMarkupParams::builder().chat_id(chat).message_id(message).build();
        self.call::<_, Value>("editMessageReplyMarkup", Some(params), REQUEST_TIMEOUT).await.map(drop)
    }

    /// Tells the app of the person who pressed a button that it was received, with a text to show.
    pub async fn answer_button(&self, query: &str, text: Option<&str>) -> Result<(), TelegramError> {
        let params = AnswerCallbackQueryParams::builder()
            .callback_query_id(query)
            .maybe_text(text)
            .show_alert(text.is_some())
            .build();
        self.call::<_, Value>("answerCallbackQuery", Some(params), REQUEST_TIMEOUT).await.map(drop)
    }

    /// Replaces our reaction to a message.
    pub async fn set_reaction(&self, chat: i64, message: i32, emoji: &str) -> Result<(), TelegramError> {
        let reaction = ReactionType::Emoji(ReactionTypeEmoji { emoji: emoji.to_owned() });
        let params =
            SetMessageReactionParams::builder().chat_id(chat).message_id(message).reaction(vec![reaction]).build();
        self.call::<_, Value>("setMessageReaction", Some(params), REQUEST_TIMEOUT).await.map(drop)
    }

    /// Downloads a file; `None` if it has more than `most` bytes or cannot be downloaded from here.
    pub async fn download_file(&self, file_id: &str, most: usize) -> Result<Option<Vec<u8>>, TelegramError> {
        let params = GetFileParams::builder().file_id(file_id).build();
        let file: FileInfo = self.call("getFile", Some(params), REQUEST_TIMEOUT).await?;
        let path = file.file_path.filter(|path| !path.starts_with('/') && !path.contains(".."));
        let Some(path) = path else { return Ok(None) };
        let failed = |error: reqwest::Error| TelegramError::Unavailable(describe_http_error(&error, &self.token));
        let download = async {
            let mut response =
                self.bot.client.get(format!("{}/{path}", self.files_url)).send().await.map_err(failed)?;
            if !response.status().is_success() {
                return Err(TelegramError::Unavailable(format!("a file gives {}", response.status())));
            }
            let mut bytes = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(failed)? {
                bytes.extend_from_slice(&chunk);
                if bytes.len() > most {
                    return Ok(None);
                }
            }
            Ok(Some(bytes))
        };
        tokio::time::timeout(REQUEST_TIMEOUT, download).await.unwrap_or_else(|_| Err(too_late(REQUEST_TIMEOUT)))
    }

    async fn call<P, T>(&self, method: &str, params: Option<P>, timeout: Duration) -> Result<T, TelegramError>
    where
        P: Serialize + Debug + Send,
        T: DeserializeOwned,
    {
        let sent = self.bot.request::<P, MethodResponse<T>>(method, params);
        match tokio::time::timeout(timeout, sent).await {
            Ok(Ok(response)) => Ok(response.result),
            Ok(Err(error)) => Err(classify_error(error, &self.token)),
            Err(_) => Err(too_late(timeout)),
        }
    }
}

fn too_late(timeout: Duration) -> TelegramError {
    TelegramError::Unavailable(format!("no response within {} seconds", timeout.as_secs()))
}

fn classify_error(error: frankenstein::Error, token: &str) -> TelegramError {
    match error {
        frankenstein::Error::Api(error) => classify_api_error(ErrorBody {
            error_code: error.error_code,
            description: error.description.replace(token, "***"),
            parameters: ErrorParameters {
                retry_after: error.parameters.and_then(|it| it.retry_after).map(u64::from),
                migrate_to_chat_id: error.parameters.and_then(|it| it.migrate_to_chat_id),
            },
        }),
        // An error in a form that the library does not know, or not from Telegram at all, such as a proxy's page.
        frankenstein::Error::JsonDecode { input, .. } => match serde_json::from_str::<ErrorBody>(&input) {
            Ok(body) if body.error_code != 0 => {
                classify_api_error(ErrorBody { description: body.description.replace(token, "***"), ..body })
            }
            _ => TelegramError::Unavailable("the response cannot be read".to_owned()),
        },
        frankenstein::Error::HttpReqwest(error) if error.is_builder() => {
            TelegramError::BadToken("the token and `adapters.telegram.api_url` do not form an address".to_owned())
        }
        frankenstein::Error::HttpReqwest(error) => TelegramError::Unavailable(describe_http_error(&error, token)),
        error => TelegramError::Unavailable(error.to_string().replace(token, "***")),
    }
}

fn classify_api_error(body: ErrorBody) -> TelegramError {
    let ErrorBody { error_code, description, parameters } = body;
    match error_code {
        // A token without the form of one gives 404.
        401 | 404 => TelegramError::BadToken(description),
        409 => TelegramError::Conflict(description),
        429 => TelegramError::Limited(parameters.retry_after.map_or(DEFAULT_LIMIT_PAUSE, Duration::from_secs)),
        500.. => TelegramError::Unavailable(description),
        _ => TelegramError::Refused { description, migrated_to: parameters.migrate_to_chat_id },
    }
}

/// Returns an error with its causes, without the address.
fn describe_http_error(error: &reqwest::Error, token: &str) -> String {
    let what = if error.is_timeout() {
        "timeout"
    } else if error.is_connect() {
        "no connection"
    } else {
        "the connection broke"
    };
    let mut text = what.to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text.replace(token, "***")
}

impl Debug for TelegramClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct(TELEGRAM_PLATFORM).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classify_body(body: &str) -> TelegramError {
        let source = serde_json::from_str::<()>("x").unwrap_err();
        classify_error(frankenstein::Error::JsonDecode { source, input: body.to_owned() }, "1:secret")
    }

    #[test]
    fn errors_say_whether_a_retry_helps() {
        let limited = classify_body(r#"{"ok":false,"error_code":429,"parameters":{"retry_after":70000}}"#);
        assert!(matches!(limited, TelegramError::Limited(wait) if wait.as_secs() == 70_000));
        assert!(matches!(
            classify_body(r#"{"error_code":401,"description":"Unauthorized"}"#),
            TelegramError::BadToken(_)
        ));
        assert!(matches!(
            classify_body(r#"{"error_code":403,"description":"blocked"}"#),
            TelegramError::Refused { .. }
        ));
        for unreadable in ["<html>502</html>", "{}", "[]", r#"{"ok":true,"result":7}"#, r#"{"error_code":502}"#] {
            assert!(matches!(classify_body(unreadable), TelegramError::Unavailable(_)), "{unreadable}");
        }
    }

    #[tokio::test]
    async fn https_works_and_an_unreachable_server_is_said() {
        let chat = grove_environments::settings::ChatSettings {
            api_url: "https://127.0.0.1:1".to_owned(),
            allowed_users: Vec::new(),
            allow_all: false,
            update_interval: None,
        };
        let settings = TelegramSettings { token: None, webhook_secret: None, chat };
        let error = TelegramClient::new(&settings, "1:secret").unwrap().get_me().await.unwrap_err().to_string();
        assert!(error.starts_with("Telegram does not answer: no connection") && error.contains("refused"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn no_error_shows_the_token() {
        let error = classify_body(r#"{"error_code":400,"description":"bad address /bot1:secret/x"}"#);
        assert_eq!(error.to_string(), "Telegram refuses: bad address /bot***/x");
        let parsed = error.is_refused_with(&["bad address"]);
        assert!(parsed && !error.is_refused_with(&["chat not found"]));
    }
}
