//! The methods of Slack's API that an app like ours uses, with the checks that Slack makes.

use serde_json::{Value, json};

use super::state::{FakeFile, FakeMessage, FakeSlackState};
use super::{APP_TOKEN, BOT_TOKEN, BOT_USER, FakeSlackInner, SlackFault, SlackRequest};
use crate::github::http::{HttpRequest, HttpResponse, unescape_url};

/// The longest text of a message, of a block, and of a button.
const MAX_TEXT: usize = 40_000;
const MAX_SECTION: usize = 3_000;
const MAX_LABEL: usize = 75;

type ApiResult = Result<Value, &'static str>;

impl FakeSlackInner {
    /// Answers a request; `None` drops the connection.
    pub fn answer_request(&self, request: &HttpRequest) -> Option<HttpResponse> {
        if let Some(id) = request.path.strip_prefix("/files/") {
            return Some(self.download(request, id));
        }
        if let Some(id) = request.path.strip_prefix("/upload/") {
            return Some(self.upload(request, id));
        }
        let Some(method) = request.path.strip_prefix("/api/") else { return Some(HttpResponse::new(404, "")) };
        let fault = self.lock_state().next_fault(method);
        let failed = |response: HttpResponse| {
            let error = format!("status {}", response.status);
            self.lock_state().requests.push(SlackRequest {
                method: method.to_owned(),
                body: read_body(request),
                error,
            });
            Some(response)
        };
        match fault {
            Some(SlackFault::Limited { retry_after }) => {
                let response = HttpResponse::from_json(429, &json!({ "ok": false, "error": "ratelimited" }));
                return failed(response.with_header("retry-after", &retry_after.to_string()));
            }
            Some(SlackFault::Status(status)) => return failed(HttpResponse::new(status, "<html>")),
            Some(SlackFault::Error(error)) => {
                return failed(HttpResponse::from_json(200, &json!({ "ok": false, "error": error })));
            }
            Some(SlackFault::DropBefore) => return None,
            Some(SlackFault::HoldBefore) => {
                self.held.wait_for_release();
                return None;
            }
            _ => {}
        }
        let response = self.call_method(request, method);
        match fault {
            Some(SlackFault::DropAfter) => return None,
            Some(SlackFault::HoldAfter) => {
                self.held.wait_for_release();
                return None;
            }
            _ => {}
        }
        Some(HttpResponse::from_json(200, &response))
    }

    fn call_method(&self, request: &HttpRequest, method: &str) -> Value {
        let body = read_body(request);
        let (result, posted) = {
            let mut state = self.lock_state();
            let result = state.perform(request, method, &body);
            let error = result.as_ref().err().copied().unwrap_or_default().to_owned();
            state.requests.push(SlackRequest { method: method.to_owned(), body: body.clone(), error });
            let posted =
                (method == "chat.postMessage" && result.is_ok()).then(|| state.messages.last().cloned()).flatten();
            (result, posted)
        };
        // The app hears its own messages, too.
        if let Some(message) = posted {
            let mut event = message.to_json(false);
            event["channel"] = json!(message.channel);
            event["channel_type"] = json!(if message.channel.starts_with('D') { "im" } else { "channel" });
            self.emit_message(&event);
        }
        match result {
            Ok(mut response) => {
                response["ok"] = json!(true);
                response
            }
            Err("missing_scope") => {
                json!({ "ok": false, "error": "missing_scope", "needed": "files:write", "provided": "chat:write" })
            }
            Err(error) => json!({ "ok": false, "error": error }),
        }
    }

    fn download(&self, request: &HttpRequest, id: &str) -> HttpResponse {
        let state = self.lock_state();
        match (state.files.get(id), bearer(request) == BOT_TOKEN && state.bot_token_valid) {
            (Some(file), true) => HttpResponse::new(200, file.content.clone()),
            // People who are not signed in are sent to a page.
            (_, false) => HttpResponse::new(302, "").with_header("location", "https://slack.com/signin"),
            (None, _) => HttpResponse::new(404, ""),
        }
    }

    fn upload(&self, request: &HttpRequest, id: &str) -> HttpResponse {
        match self.lock_state().files.get_mut(id) {
            Some(file) => {
                file.content = request.body.clone();
                HttpResponse::new(200, format!("OK - {}", request.body.len())).with_header("content-type", "text/plain")
            }
            None => HttpResponse::new(404, ""),
        }
    }
}

impl FakeSlackState {
    fn perform(&mut self, request: &HttpRequest, method: &str, body: &Value) -> ApiResult {
        let (token, wanted, valid) = match method {
            "apps.connections.open" => (bearer(request), APP_TOKEN, self.app_token_valid),
            _ => (bearer(request), BOT_TOKEN, self.bot_token_valid),
        };
        if token.is_empty() {
            return Err("not_authed");
        }
        if token != wanted || !valid {
            return Err("invalid_auth");
        }
        if self.forbidden.iter().any(|forbidden| forbidden == method) {
            return Err("missing_scope");
        }
        // These take no JSON.
        let needs_form = ["conversations.replies", "users.info", "files.getUploadURLExternal"].contains(&method);
        if needs_form && request.method != "GET" {
            return Err("invalid_arguments");
        }
        match method {
            "auth.test" => Ok(
                json!({ "url": "https://acme.slack.com/", "team": "Acme", "user": "grove", "team_id": "T1", "user_id": BOT_USER, "bot_id": "B1" }),
            ),
            "apps.connections.open" => {
                let ticket = format!("t{}", self.new_id());
                self.tickets.push(ticket.clone());
                Ok(json!({ "url": format!("ws://{}/link?ticket={ticket}", self.socket_address) }))
            }
            "chat.postMessage" => self.post_message(body),
            "chat.update" => self.update_message(body),
            "chat.delete" => {
                let (channel, ts) = (text(body, "channel")?, text(body, "ts")?);
                let before = self.messages.len();
                self.messages
                    .retain(|message| message.channel != channel || message.ts != ts || message.user != BOT_USER);
                if self.messages.len() < before { Ok(json!({})) } else { Err("message_not_found") }
            }
            "conversations.replies" => self.list_replies(body),
            "reactions.add" | "reactions.remove" => self.change_reaction(method, body),
            "users.info" => {
                let user = text(body, "user")?;
                let name = self.users.get(user).ok_or("user_not_found")?;
                Ok(
                    json!({ "user": { "id": user, "name": name, "real_name": "", "profile": { "display_name": name } } }),
                )
            }
            "files.getUploadURLExternal" => {
                let name = text(body, "filename")?.to_owned();
                text(body, "length")?.parse::<usize>().map_err(|_| "invalid_arguments")?;
                let id = format!("F{}", self.new_id());
                let url = format!("http://{}/upload/{id}", self.address);
                self.files.insert(id.clone(), FakeFile { name, content: Vec::new() });
                Ok(json!({ "upload_url": url, "file_id": id }))
            }
            "files.completeUploadExternal" => self.complete_upload(body),
            _ => Err("unknown_method"),
        }
    }

    fn check_channel(&self, channel: &str, thread: Option<&str>) -> Result<(), &'static str> {
        if self.archived.iter().any(|archived| archived == channel) {
            return Err("is_archived");
        }
        let mut known = self.messages.iter().filter(|message| message.channel == channel);
        match thread {
            _ if known.clone().next().is_none() => Err("channel_not_found"),
            Some(thread) if !known.any(|message| message.ts == thread) => Err("thread_not_found"),
            _ => Ok(()),
        }
    }

    fn post_message(&mut self, body: &Value) -> ApiResult {
        let (channel, thread) = (text(body, "channel")?, body["thread_ts"].as_str());
        self.check_channel(channel, thread)?;
        check_content(body)?;
        if body["unfurl_links"] != false {
            return Err("invalid_arguments");
        }
        let message = FakeMessage {
            channel: channel.to_owned(),
            ts: self.new_ts(),
            thread_ts: thread.map(str::to_owned),
            user: BOT_USER.to_owned(),
            text: body["text"].as_str().unwrap_or_default().to_owned(),
            blocks: body["blocks"].clone(),
            metadata: body["metadata"].clone(),
            files: Vec::new(),
            reactions: Vec::new(),
        };
        let (ts, shown) = (message.ts.clone(), message.to_json(true));
        self.messages.push(message);
        Ok(json!({ "channel": channel, "ts": ts, "message": shown }))
    }

    fn update_message(&mut self, body: &Value) -> ApiResult {
        let (channel, ts) = (text(body, "channel")?, text(body, "ts")?);
        self.check_channel(channel, None)?;
        check_content(body)?;
        let message = self.message_mut(channel, ts).ok_or("message_not_found")?;
        if message.user != BOT_USER {
            return Err("cant_update_message");
        }
        message.text = body["text"].as_str().unwrap_or_default().to_owned();
        message.blocks = body["blocks"].clone();
        if !body["metadata"].is_null() {
            message.metadata = body["metadata"].clone();
        }
        Ok(json!({ "channel": channel, "ts": ts, "text": message.text }))
    }

    fn list_replies(&self, body: &Value) -> ApiResult {
        let (channel, thread) = (text(body, "channel")?, text(body, "ts")?);
        self.check_channel(channel, Some(thread))?;
        let number = |name: &str| body[name].as_str().and_then(|text| text.parse::<usize>().ok());
        let (limit, from) = (number("limit").unwrap_or(1_000), number("cursor").unwrap_or(0));
        let oldest = body["oldest"].as_str().and_then(|oldest| oldest.parse::<f64>().ok()).unwrap_or(0.0);
        let is_reply = |message: &&FakeMessage| {
            message.channel == channel
                && (message.ts == thread
                    || message.thread_ts.as_deref() == Some(thread)
                        && message.ts.parse::<f64>().is_ok_and(|ts| ts >= oldest))
        };
        let all: Vec<&FakeMessage> = self.messages.iter().filter(is_reply).collect();
        let with_metadata = body["include_all_metadata"] == "true";
        let page: Vec<Value> =
            all.iter().skip(from).take(limit).map(|message| message.to_json(with_metadata)).collect();
        let next = if from + limit < all.len() { (from + limit).to_string() } else { String::new() };
        Ok(json!({ "messages": page, "has_more": !next.is_empty(), "response_metadata": { "next_cursor": next } }))
    }

    fn change_reaction(&mut self, method: &str, body: &Value) -> ApiResult {
        let name = text(body, "name")?.to_owned();
        let message = self.message_mut(text(body, "channel")?, text(body, "timestamp")?).ok_or("message_not_found")?;
        let known = message.reactions.iter().position(|(known, user)| *known == name && user == BOT_USER);
        match (method, known) {
            ("reactions.add", Some(_)) => return Err("already_reacted"),
            ("reactions.add", None) => message.reactions.push((name, BOT_USER.to_owned())),
            (_, Some(known)) => drop(message.reactions.remove(known)),
            (_, None) => return Err("no_reaction"),
        }
        Ok(json!({}))
    }

    fn complete_upload(&mut self, body: &Value) -> ApiResult {
        let (channel, thread) = (text(body, "channel_id")?, body["thread_ts"].as_str());
        self.check_channel(channel, thread)?;
        let mut files = Vec::new();
        for file in body["files"].as_array().ok_or("invalid_arguments")? {
            let id = text(file, "id")?;
            let known = self.files.get(id).ok_or("file_not_found")?;
            files.push(json!({ "id": id, "name": known.name, "size": known.content.len() }));
        }
        let message = FakeMessage {
            channel: channel.to_owned(),
            ts: self.new_ts(),
            thread_ts: thread.map(str::to_owned),
            user: BOT_USER.to_owned(),
            text: String::new(),
            blocks: Value::Null,
            metadata: Value::Null,
            files: files.clone(),
            reactions: Vec::new(),
        };
        self.messages.push(message);
        Ok(json!({ "files": files }))
    }
}

/// Checks text, blocks and metadata of a message.
fn check_content(body: &Value) -> Result<(), &'static str> {
    let length = |value: &Value| value.as_str().unwrap_or_default().chars().count();
    let blocks = body["blocks"].as_array();
    if length(&body["text"]) == 0 && blocks.is_none() {
        return Err("no_text");
    }
    if length(&body["text"]) > MAX_TEXT {
        return Err("msg_too_long");
    }
    for block in blocks.into_iter().flatten() {
        let elements = block["elements"].as_array().cloned().unwrap_or_default();
        let fits = match block["type"].as_str() {
            Some("section") => (1..=MAX_SECTION).contains(&length(&block["text"]["text"])),
            Some("actions") => elements.iter().all(|button| {
                (1..=MAX_LABEL).contains(&length(&button["text"]["text"])) && button["action_id"].is_string()
            }),
            Some("context") => !elements.is_empty(),
            _ => false,
        };
        if !fits {
            return Err("invalid_blocks");
        }
    }
    let metadata = &body["metadata"];
    let has_fields = metadata["event_type"].is_string() && metadata["event_payload"].is_object();
    if metadata.is_null() || has_fields { Ok(()) } else { Err("invalid_metadata_format") }
}

fn text<'a>(body: &'a Value, name: &str) -> Result<&'a str, &'static str> {
    body[name].as_str().ok_or("invalid_arguments")
}

fn bearer(request: &HttpRequest) -> &str {
    request.header_value("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default()
}

/// Returns the arguments of a request: JSON, or the query.
fn read_body(request: &HttpRequest) -> Value {
    if request.method == "POST" {
        return serde_json::from_slice(&request.body).unwrap_or_default();
    }
    let parts = request.query.split('&').filter_map(|part| part.split_once('='));
    parts
        .map(|(name, value)| (unescape_url(name), Value::String(unescape_url(value))))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
