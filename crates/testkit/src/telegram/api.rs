//! The methods of the Bot API, with the checks of the real one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::markdown::{ParsedMarkdown, parse_markdown_v2};
use super::state::{FakeMessage, FakeTelegramState, bot_json};
use super::{BotMessage, FakeTelegramInner};
use crate::github::http::{HttpRequest, HttpResponse};

/// The longest text of a message, after its marks are taken out, in UTF-16 units.
const MAX_TEXT_LENGTH: usize = 4_096;
/// The longest data of a button.
const MAX_BUTTON_DATA_BYTES: usize = 64;
/// The emoji that the bot may react with.
const REACTIONS: [&str; 6] = ["👍", "👎", "❤", "🔥", "👀", "🎉"];

type MethodResult = Result<Value, HttpResponse>;

pub fn error_response(status: u16, description: &str) -> HttpResponse {
    HttpResponse::from_json(status, &json!({ "ok": false, "error_code": status, "description": description }))
}

pub fn limit_response(retry_after: u64) -> HttpResponse {
    let description = format!("Too Many Requests: retry after {retry_after}");
    let body = json!({ "ok": false, "error_code": 429, "description": description,
        "parameters": { "retry_after": retry_after } });
    HttpResponse::from_json(429, &body)
}

fn bad_request(description: &str) -> HttpResponse {
    error_response(400, &format!("Bad Request: {description}"))
}

impl FakeTelegramInner {
    pub fn answer_method(&self, request: &HttpRequest, method: &str, body: &Value) -> HttpResponse {
        let token = self.lock_state().token.clone();
        let files = format!("/file/bot{token}/");
        if let Some(path) = request.path.strip_prefix(&files) {
            let state = self.lock_state();
            let file = state.files.values().find(|(known, _)| known == path);
            return file
                .map_or_else(|| error_response(404, "Not Found"), |(_, bytes)| HttpResponse::new(200, bytes.clone()));
        }
        if request.path != format!("/bot{token}/{method}") {
            return error_response(401, "Unauthorized");
        }
        let done = match method {
            "getUpdates" => self.get_updates(body),
            method => call_method(&mut self.lock_state(), method, body),
        };
        match done {
            Ok(result) => HttpResponse::from_json(200, &json!({ "ok": true, "result": result })),
            Err(response) => response,
        }
    }

    /// Waits for updates behind the offset, which confirms those before it. A newer request ends this one.
    fn get_updates(&self, body: &Value) -> MethodResult {
        let mut state = self.lock_state();
        if state.webhook.is_some() {
            let why = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
            return Err(error_response(409, why));
        }
        state.polls += 1;
        let round = state.polls;
        self.changed.notify_all();
        if let Some(offset) = body["offset"].as_i64() {
            state.updates.retain(|(number, _)| *number >= offset);
        }
        let allowed: Vec<String> = serde_json::from_value(body["allowed_updates"].clone()).unwrap_or_default();
        let is_allowed = |update: &Value| allowed.is_empty() || allowed.iter().any(|kind| update.get(kind).is_some());
        state.updates.retain(|(_, update)| is_allowed(update));
        let until = Instant::now() + Duration::from_secs(body["timeout"].as_u64().unwrap_or(0));
        loop {
            if state.polls != round {
                let why =
                    "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
                return Err(error_response(409, why));
            }
            let limit = usize::try_from(body["limit"].as_u64().unwrap_or(100)).unwrap_or(100);
            let found: Vec<Value> = state
                .updates
                .iter()
                .filter(|(_, update)| is_allowed(update))
                .take(limit)
                .map(|(_, update)| update.clone())
                .collect();
            let rest = until.saturating_duration_since(Instant::now());
            if !found.is_empty() || rest.is_zero() {
                return Ok(json!(found));
            }
            state = self.changed.wait_timeout(state, rest).unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

fn call_method(state: &mut FakeTelegramState, method: &str, body: &Value) -> MethodResult {
    match method {
        "getMe" => {
            let mut me = bot_json();
            me["can_join_groups"] = json!(true);
            me["can_read_all_group_messages"] = json!(state.reads_all_messages);
            Ok(me)
        }
        "getWebhookInfo" => {
            let url = state.webhook.as_ref().map_or("", |(url, _)| url);
            let mut info =
                json!({ "url": url, "has_custom_certificate": false, "pending_update_count": state.updates.len() });
            if let Some(error) = &state.webhook_error {
                info["last_error_message"] = json!(error);
                info["last_error_date"] = json!(1_700_000_000);
            }
            Ok(info)
        }
        "setWebhook" => {
            let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
            state.webhook = Some((text("url"), text("secret_token")));
            Ok(json!(true))
        }
        "deleteWebhook" => {
            state.webhook = None;
            Ok(json!(true))
        }
        "sendMessage" => send_message(state, body),
        "editMessageText" => edit_message(state, body),
        "editMessageReplyMarkup" => {
            let (chat, id) = message_ids(state, body)?;
            let bot = bot_message(state, chat, id)?;
            bot.buttons = parse_buttons(body)?;
            Ok(json!(true))
        }
        "answerCallbackQuery" => {
            let id = body["callback_query_id"].as_str().unwrap_or_default();
            let press = state.presses.get_mut(id);
            let press = press
                .ok_or_else(|| bad_request("query is too old and response timeout expired or query ID is invalid"))?;
            *press = Some(body["text"].as_str().unwrap_or_default().to_owned());
            Ok(json!(true))
        }
        "setMessageReaction" => {
            let (chat, id) = message_ids(state, body)?;
            let message =
                state.chat_mut(chat).messages.get_mut(&id).ok_or_else(|| bad_request("message to react not found"))?;
            for reaction in body["reaction"].as_array().into_iter().flatten() {
                let emoji = reaction["emoji"].as_str().unwrap_or_default();
                if reaction["type"] != "emoji" || !REACTIONS.contains(&emoji) {
                    return Err(bad_request("REACTION_INVALID"));
                }
                message.reactions.push(emoji.to_owned());
            }
            Ok(json!(true))
        }
        "getFile" => {
            let id = body["file_id"].as_str().unwrap_or_default();
            let file = state.files.get(id).ok_or_else(|| bad_request("invalid file_id"))?;
            Ok(json!({ "file_id": id, "file_unique_id": id, "file_size": file.1.len(), "file_path": file.0 }))
        }
        _ => Err(error_response(404, "Not Found: method not found")),
    }
}

/// Returns the chat of a request, if the bot may write there.
fn open_chat(state: &FakeTelegramState, body: &Value) -> Result<i64, HttpResponse> {
    let id = body["chat_id"].as_i64().ok_or_else(|| bad_request("chat_id is empty"))?;
    let chat = state.chats.get(&id).ok_or_else(|| bad_request("chat not found"))?;
    match (chat.left, chat.kind) {
        (false, _) => Ok(id),
        (true, "private") => Err(error_response(403, "Forbidden: bot was blocked by the user")),
        (true, _) => Err(error_response(403, "Forbidden: bot was kicked from the supergroup chat")),
    }
}

fn message_ids(state: &FakeTelegramState, body: &Value) -> Result<(i64, i32), HttpResponse> {
    let chat = open_chat(state, body)?;
    let id = body["message_id"].as_i64().and_then(|id| i32::try_from(id).ok());
    Ok((chat, id.ok_or_else(|| bad_request("message identifier is not specified"))?))
}

fn bot_message(state: &mut FakeTelegramState, chat: i64, id: i32) -> Result<&mut BotMessage, HttpResponse> {
    let message = state.chat_mut(chat).messages.get_mut(&id).ok_or_else(|| bad_request("message to edit not found"))?;
    message.bot.as_mut().ok_or_else(|| bad_request("message can't be edited"))
}

fn send_message(state: &mut FakeTelegramState, body: &Value) -> MethodResult {
    let chat = open_chat(state, body)?;
    let topic = body["message_thread_id"].as_i64().and_then(|topic| i32::try_from(topic).ok());
    if topic.is_some_and(|topic| !state.chats[&chat].topics.contains(&topic)) {
        return Err(bad_request("message thread not found"));
    }
    if body["link_preview_options"]["is_disabled"] != true {
        return Err(bad_request("the fake wants no link previews"));
    }
    let (parsed, is_markdown) = parse_text(body)?;
    let buttons = parse_buttons(body)?;
    let place = state.chat_mut(chat);
    let id = place.next_message;
    place.next_message += 1;
    let bot = BotMessage {
        id,
        text: parsed.text.clone(),
        raw: body["text"].as_str().unwrap_or_default().to_owned(),
        is_markdown,
        buttons,
        versions: vec![parsed.text],
        entities: parsed.entities,
    };
    place.messages.insert(id, FakeMessage { json: None, topic, bot: Some(bot), reactions: Vec::new() });
    Ok(state.message_json(chat, id).expect("the new message"))
}

fn edit_message(state: &mut FakeTelegramState, body: &Value) -> MethodResult {
    let (chat, id) = message_ids(state, body)?;
    let (parsed, is_markdown) = parse_text(body)?;
    let buttons = parse_buttons(body)?;
    let bot = bot_message(state, chat, id)?;
    if (&bot.text, &bot.entities, &bot.buttons) == (&parsed.text, &parsed.entities, &buttons) {
        let why = "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message";
        return Err(bad_request(why));
    }
    bot.raw = body["text"].as_str().unwrap_or_default().to_owned();
    bot.versions.push(parsed.text.clone());
    (bot.text, bot.entities, bot.is_markdown, bot.buttons) = (parsed.text, parsed.entities, is_markdown, buttons);
    Ok(state.message_json(chat, id).expect("the message"))
}

/// Checks the text of a message, and returns it as people see it.
fn parse_text(body: &Value) -> Result<(ParsedMarkdown, bool), HttpResponse> {
    let text = body["text"].as_str().unwrap_or_default();
    let (parsed, is_markdown) = match body["parse_mode"].as_str() {
        None => (ParsedMarkdown { text: text.to_owned(), entities: Vec::new() }, false),
        Some("MarkdownV2") => {
            let parsed = parse_markdown_v2(text);
            (parsed.map_err(|why| bad_request(&format!("can't parse entities: {why}")))?, true)
        }
        Some(_) => return Err(bad_request("unsupported parse_mode")),
    };
    if parsed.text.trim().is_empty() {
        return Err(bad_request("message text is empty"));
    }
    if parsed.text.encode_utf16().count() > MAX_TEXT_LENGTH {
        return Err(bad_request("message is too long"));
    }
    Ok((parsed, is_markdown))
}

fn parse_buttons(body: &Value) -> Result<Vec<(String, String)>, HttpResponse> {
    let rows = body["reply_markup"]["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let buttons = rows.iter().flat_map(|row| row.as_array().cloned().unwrap_or_default());
    let text = |button: &Value, name: &str| button[name].as_str().unwrap_or_default().to_owned();
    let buttons: Vec<(String, String)> =
        buttons.map(|button| (text(&button, "text"), text(&button, "callback_data"))).collect();
    let bad =
        |(label, data): &(String, String)| label.is_empty() || data.is_empty() || data.len() > MAX_BUTTON_DATA_BYTES;
    if buttons.iter().any(bad) { Err(bad_request("BUTTON_DATA_INVALID")) } else { Ok(buttons) }
}
