//! What Slack sends, by webhook or socket. Only the fields that matter are read; unknown fields, kinds and
//! words are fine.

use serde_json::Value;

/// The longest id that Slack uses, with room to spare.
const MAX_ID_LENGTH: usize = 64;

/// Something that Slack sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlackPayload {
    /// Slack checks that the address of the webhook is ours, and wants this text back.
    Verification { challenge: String },
    /// A message was written, changed or deleted.
    Message { event_id: Option<String>, event: Box<MessageEvent> },
    /// A button was pressed.
    Press(Box<ButtonPress>),
    /// Something that needs no handling.
    Other,
}

/// An event about a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageEvent {
    /// Slack found a mention of the bot.
    pub is_mention: bool,
    pub channel: String,
    pub is_direct: bool,
    pub user: Option<String>,
    pub is_from_bot: bool,
    pub subtype: Option<String>,
    pub is_hidden: bool,
    /// The text with Slack's markup.
    pub text: String,
    /// The timestamp, which identifies the message in its channel.
    pub ts: String,
    pub thread_ts: Option<String>,
    pub files: Vec<SlackFile>,
}

/// A file of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlackFile {
    pub name: String,
    pub mimetype: String,
    /// `snippet`, `hosted`, `external`, …
    pub mode: String,
    pub size: u64,
    pub url: Option<String>,
}

/// A press on a button.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ButtonPress {
    pub user: String,
    pub channel: String,
    /// The message with the button.
    pub message_ts: String,
    pub thread_ts: Option<String>,
    /// What we gave to the button.
    pub value: String,
    pub label: String,
    /// The time of the press.
    pub action_ts: String,
    /// The text and the blocks of the message, for an update without the buttons.
    pub message_text: String,
    pub message_blocks: Vec<Value>,
}

/// The reason why a payload is none of Slack's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PayloadError {
    #[error("the payload has no `{0}`")]
    Missing(&'static str),
    #[error("the payload's `{0}` is none of Slack's")]
    Bad(&'static str),
}

impl MessageEvent {
    /// Returns the first message of the thread that a message is in or starts.
    pub fn thread(&self) -> &str {
        self.thread_ts.as_deref().unwrap_or(&self.ts)
    }
}

/// Returns our id of the conversation: always a thread.
pub fn conversation_id(channel: &str, thread: &str) -> String {
    format!("{channel}:{thread}")
}

/// Returns channel and thread of a conversation.
pub fn parse_conversation(id: &str) -> Option<(&str, &str)> {
    id.split_once(':').filter(|(channel, thread)| is_id(channel) && is_timestamp(thread))
}

/// Parses a payload.
pub fn parse_payload(payload: &Value) -> Result<SlackPayload, PayloadError> {
    match payload["type"].as_str() {
        None => Err(PayloadError::Missing("type")),
        Some("url_verification") => {
            let challenge = payload["challenge"].as_str().ok_or(PayloadError::Missing("challenge"))?;
            Ok(SlackPayload::Verification { challenge: challenge.to_owned() })
        }
        Some("event_callback") => {
            let event = payload.get("event").filter(|event| event.is_object()).ok_or(PayloadError::Missing("event"))?;
            let event_id = payload["event_id"].as_str().filter(|id| is_id(id)).map(str::to_owned);
            match event["type"].as_str() {
                Some("app_mention") => parse_message(event, event_id, true),
                Some("message") => parse_message(event, event_id, false),
                _ => Ok(SlackPayload::Other),
            }
        }
        Some("block_actions") => parse_press(payload),
        Some(_) => Ok(SlackPayload::Other),
    }
}

fn parse_message(event: &Value, event_id: Option<String>, is_mention: bool) -> Result<SlackPayload, PayloadError> {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let channel = read_id(&event["channel"], "channel")?;
    let event = MessageEvent {
        is_mention,
        is_direct: text("channel_type") == "im" || channel.starts_with('D'),
        channel,
        user: event["user"].as_str().filter(|user| is_id(user)).map(str::to_owned),
        is_from_bot: !event["bot_id"].is_null() || event["bot_profile"].is_object(),
        subtype: event["subtype"].as_str().map(str::to_owned),
        is_hidden: event["hidden"] == true,
        text: text("text").to_owned(),
        ts: read_timestamp(&event["ts"], "ts")?,
        thread_ts: match &event["thread_ts"] {
            Value::Null => None,
            thread => Some(read_timestamp(thread, "thread_ts")?),
        },
        files: event["files"].as_array().map(|files| files.iter().map(parse_file).collect()).unwrap_or_default(),
    };
    Ok(SlackPayload::Message { event_id, event: Box::new(event) })
}

fn parse_file(file: &Value) -> SlackFile {
    let text = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
    let url = file["url_private_download"].as_str().or(file["url_private"].as_str());
    SlackFile {
        name: text("name"),
        mimetype: text("mimetype"),
        mode: text("mode"),
        size: file["size"].as_u64().unwrap_or(0),
        url: url.map(str::to_owned),
    }
}

fn parse_press(payload: &Value) -> Result<SlackPayload, PayloadError> {
    let (container, message) = (&payload["container"], &payload["message"]);
    let Some(action) = payload["actions"].as_array().and_then(|actions| actions.first()) else {
        return Err(PayloadError::Missing("actions"));
    };
    if action["type"] != "button" || message.is_null() {
        return Ok(SlackPayload::Other);
    }
    let thread = message.get("thread_ts").or(container.get("thread_ts")).filter(|thread| !thread.is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(SlackPayload::Press(Box::new(ButtonPress {
        user: read_id(&payload["user"]["id"], "user")?,
        channel: read_id(payload["channel"].get("id").unwrap_or(&container["channel_id"]), "channel")?,
        message_ts: read_timestamp(message.get("ts").unwrap_or(&container["message_ts"]), "message")?,
        thread_ts: thread.map(|thread| read_timestamp(thread, "thread_ts")).transpose()?,
        value: text(&action["value"]),
        label: text(&action["text"]["text"]),
        action_ts: read_timestamp(&action["action_ts"], "action_ts")?,
        message_text: text(&message["text"]),
        message_blocks: message["blocks"].as_array().cloned().unwrap_or_default(),
    })))
}

fn read_id(value: &Value, name: &'static str) -> Result<String, PayloadError> {
    let id = value.as_str().ok_or(PayloadError::Missing(name))?;
    if is_id(id) { Ok(id.to_owned()) } else { Err(PayloadError::Bad(name)) }
}

fn read_timestamp(value: &Value, name: &'static str) -> Result<String, PayloadError> {
    let ts = value.as_str().ok_or(PayloadError::Missing(name))?;
    if is_timestamp(ts) { Ok(ts.to_owned()) } else { Err(PayloadError::Bad(name)) }
}

fn is_id(text: &str) -> bool {
    (1..=MAX_ID_LENGTH).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Tells whether a text is like `1512085950.000216`.
fn is_timestamp(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.len() <= MAX_ID_LENGTH && text.split_once('.').is_some_and(|(seconds, rest)| digits(seconds) && digits(rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_known_does_no_harm() {
        let payload = json!({
            "type": "event_callback", "event_id": "Ev1", "brand": { "new": [1] },
            "event": { "type": "message", "channel": "C1", "ts": "17.5", "user": { "id": "U1" }, "text": 5, "files": [7] },
        });
        let Ok(SlackPayload::Message { event_id, event }) = parse_payload(&payload) else { panic!() };
        assert_eq!(
            (event_id.as_deref(), event.user, event.text.as_str(), event.files.len()),
            (Some("Ev1"), None, "", 1)
        );
        for kind in ["reaction_added", "brand_new"] {
            let payload = json!({ "type": "event_callback", "event": { "type": kind } });
            assert_eq!(parse_payload(&payload), Ok(SlackPayload::Other));
        }
        assert_eq!(parse_payload(&json!({ "type": "view_submission" })), Ok(SlackPayload::Other));
    }

    #[test]
    fn what_is_not_slacks_is_refused() {
        for payload in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "type": "event_callback" }),
            json!({ "type": "event_callback", "event": 1 }),
            json!({ "type": "event_callback", "event": { "type": "message", "ts": "1.2" } }),
            json!({ "type": "event_callback", "event": { "type": "message", "channel": "C1" } }),
            json!({ "type": "event_callback", "event": { "type": "message", "channel": "C1:x", "ts": "1.2" } }),
            json!({ "type": "event_callback", "event": { "type": "message", "channel": "C1", "ts": "../1.2" } }),
            json!({ "type": "event_callback", "event": { "type": "message", "channel": "C1", "ts": "1.2", "thread_ts": 7 } }),
            json!({ "type": "block_actions" }),
            json!({ "type": "url_verification" }),
        ] {
            assert!(parse_payload(&payload).is_err(), "{payload}");
        }
    }

    proptest! {
        #[test]
        fn a_conversation_is_read_as_it_was_written(channel in "[A-Z0-9]{1,20}", seconds in 0u64.., rest in 0u32..) {
            let thread = format!("{seconds}.{rest}");
            let id = conversation_id(&channel, &thread);
            prop_assert_eq!(parse_conversation(&id), Some((channel.as_str(), thread.as_str())));
        }
    }
}
