//! The REST API of a fake Discord.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::state::{FakeChannel, FakeDiscordState, FakeMessage};
use super::{BOT_TOKEN, DiscordFault, DiscordRequest, FakeDiscordInner};
use crate::github::http::{HttpRequest, HttpResponse, unescape_url};

/// The time in which an interaction must be acknowledged.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(3);

type Answer = Result<(u16, Value), (u16, u64, &'static str)>;

const UNKNOWN_CHANNEL: (u16, u64, &str) = (404, 10003, "Unknown Channel");
const UNKNOWN_MESSAGE: (u16, u64, &str) = (404, 10008, "Unknown Message");
const INVALID_BODY: (u16, u64, &str) = (400, 50035, "Invalid Form Body");

impl FakeDiscordInner {
    /// Answers a request; `None` drops the connection.
    pub(super) fn answer_request(&self, request: &HttpRequest) -> Option<HttpResponse> {
        if let Some(bytes) = self.lock_state().files.get(&request.path) {
            return Some(HttpResponse::new(200, bytes.clone()));
        }
        let Some(path) = request.path.strip_prefix("/api/v10") else { return Some(HttpResponse::new(404, "")) };
        let body: Value = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        let fault = self.lock_state().next_fault(&request.method, path);
        if fault == Some(DiscordFault::HoldBefore) {
            self.held.wait_for_release();
        }
        let response = match &fault {
            Some(DiscordFault::HoldBefore | DiscordFault::DropBefore) => None,
            Some(DiscordFault::Limited { seconds }) => Some(limited(*seconds, path, "user")),
            Some(DiscordFault::GloballyLimited { seconds }) => Some(limited(*seconds, path, "global")),
            Some(DiscordFault::Status(status)) => Some(error(*status, 0, "Something went wrong")),
            None | Some(DiscordFault::Spared | DiscordFault::DropAfter | DiscordFault::HoldAfter) => {
                Some(self.lock_state().answer(request, path, &body))
            }
        };
        let asked = format!("{path}{}{}", if request.query.is_empty() { "" } else { "?" }, request.query);
        let status = response.as_ref().map_or(0, |response| response.status);
        self.lock_state().requests.push(DiscordRequest { method: request.method.clone(), path: asked, status, body });
        match fault {
            Some(DiscordFault::HoldAfter) => {
                self.held.wait_for_release();
                None
            }
            Some(DiscordFault::DropAfter) => None,
            _ => response,
        }
    }
}

fn error(status: u16, code: u64, message: &str) -> HttpResponse {
    HttpResponse::from_json(status, &json!({ "message": message, "code": code }))
}

fn limited(seconds: f64, path: &str, scope: &str) -> HttpResponse {
    let body = json!({ "message": "You are being rate limited.", "retry_after": seconds, "global": scope == "global" });
    HttpResponse::from_json(429, &body)
        .with_header("retry-after", &format!("{}", seconds.ceil()))
        .with_header("x-ratelimit-scope", scope)
        .with_header("x-ratelimit-bucket", &bucket_of(path))
        .with_header("x-ratelimit-limit", "5")
        .with_header("x-ratelimit-remaining", "0")
        .with_header("x-ratelimit-reset-after", &seconds.to_string())
}

/// Returns the bucket of a path: the same for all messages.
fn bucket_of(path: &str) -> String {
    let kinds = path.split('/').filter(|part| !part.bytes().all(|byte| byte.is_ascii_digit()));
    kinds.collect::<Vec<_>>().join("-")
}

impl FakeDiscordState {
    fn answer(&mut self, request: &HttpRequest, path: &str, body: &Value) -> HttpResponse {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let has_token = request.header_value("authorization") == Some(&format!("Bot {BOT_TOKEN}")) && !self.is_revoked;
        // The token of an interaction is enough.
        let is_open = matches!(parts[..], ["interactions", ..] | ["webhooks", ..]);
        if !has_token && !is_open {
            return error(401, 0, "401: Unauthorized");
        }
        if let Some(wait) = self.count_request(&request.method, path) {
            return limited(wait.as_secs_f64(), path, "user");
        }
        let answered = match (request.method.as_str(), &parts[..]) {
            ("GET", ["gateway"]) => Ok((200, json!({ "url": self.gateway_url }))),
            ("GET", ["gateway", "bot"]) => Ok((200, self.gateway_json())),
            ("GET", ["users", "@me"]) => Ok((200, self.bot.to_json())),
            ("GET", ["applications", "@me"]) => {
                Ok((200, json!({ "id": self.application.to_string(), "flags": self.application_flags })))
            }
            ("GET", ["applications", id, "commands"]) if *id == self.application.to_string() => {
                Ok((200, json!(self.commands)))
            }
            ("PUT", ["applications", id, "commands"]) if *id == self.application.to_string() => {
                self.replace_commands(body)
            }
            ("POST", ["interactions", id, token, "callback"]) => self.acknowledge(id, token, body),
            ("PATCH", ["webhooks", _, token, "messages", "@original"]) => self.complete_interaction(token, body),
            (method, ["channels", channel, rest @ ..]) => {
                match channel.parse().ok().and_then(|id| self.channels.get(&id)) {
                    Some(channel) => {
                        let channel = channel.clone();
                        self.answer_channel(method, &channel, rest, request, body)
                    }
                    None => Err(UNKNOWN_CHANNEL),
                }
            }
            _ => Err((404, 0, "404: Not Found")),
        };
        let response = match answered {
            Ok((204, _)) => HttpResponse::new(204, ""),
            Ok((status, json)) => HttpResponse::from_json(status, &json),
            Err((status, code, message)) => error(status, code, message),
        };
        let (limit, window) = self.channel_limit.unwrap_or((50, Duration::from_secs(1)));
        response
            .with_header("x-ratelimit-bucket", &bucket_of(path))
            .with_header("x-ratelimit-limit", &limit.to_string())
            .with_header("x-ratelimit-remaining", &limit.saturating_sub(1).to_string())
            .with_header("x-ratelimit-reset-after", &window.as_secs_f64().to_string())
    }

    /// Counts a request in its bucket; returns the time to wait if that is full.
    fn count_request(&mut self, method: &str, path: &str) -> Option<Duration> {
        let (limit, window) = self.channel_limit?;
        let channel = path.strip_prefix("/channels/")?.split('/').next()?;
        let key = format!("{method} {channel} {}", bucket_of(path));
        let bucket = self.buckets.entry(key).or_insert_with(|| (0, Instant::now()));
        if bucket.1.elapsed() >= window {
            *bucket = (0, Instant::now());
        }
        bucket.0 += 1;
        (bucket.0 > limit).then(|| window.saturating_sub(bucket.1.elapsed()))
    }

    fn gateway_json(&self) -> Value {
        let limit = json!({ "total": 1000, "remaining": 1000, "reset_after": 0, "max_concurrency": 1 });
        json!({ "url": self.gateway_url, "shards": 1, "session_start_limit": limit })
    }

    fn answer_channel(
        &mut self,
        method: &str,
        channel: &FakeChannel,
        rest: &[&str],
        request: &HttpRequest,
        body: &Value,
    ) -> Answer {
        let message = |at: usize| rest.get(at).and_then(|id| id.parse::<u64>().ok()).unwrap_or_default();
        match (method, rest) {
            ("GET", []) => Ok((200, self.channel_json(channel))),
            ("GET", ["messages"]) => Ok((200, self.list_messages(channel.id, request))),
            ("POST", ["messages"]) => self.create_message(channel, body),
            ("PATCH", ["messages", _]) => self.edit_message(message(1), body),
            ("DELETE", ["messages", _]) => {
                self.messages.remove(&message(1)).map(|_| (204, json!(null))).ok_or(UNKNOWN_MESSAGE)
            }
            ("POST", ["messages", _, "threads"]) => self.create_thread(channel, message(1), body),
            (_, ["messages", _, "reactions", emoji, "@me"]) => self.react(method, message(1), &unescape_url(emoji)),
            _ => Err((404, 0, "404: Not Found")),
        }
    }

    fn list_messages(&self, channel: u64, request: &HttpRequest) -> Value {
        let id = |name: &str| request.query_number(name).and_then(|id| u64::try_from(id).ok());
        let limit = request.query_number("limit").unwrap_or(50);
        let (before, after) = (id("before").unwrap_or(u64::MAX), id("after"));
        let all = self.messages.values().filter(|message| message.channel == channel && message.id < before);
        let mut ids: Vec<u64> = all.map(|message| message.id).filter(|id| *id > after.unwrap_or(0)).collect();
        // Discord gives the newest first; `after` gives those that follow at once.
        if after.is_some() {
            ids.truncate(limit);
        }
        ids.reverse();
        ids.truncate(limit);
        ids.into_iter().map(|id| self.message_json(id)).collect()
    }

    fn create_message(&mut self, channel: &FakeChannel, body: &Value) -> Answer {
        let content = checked_content(body).filter(|content| !content.is_empty()).ok_or(INVALID_BODY)?;
        check_components(&body["components"])?;
        let nonce = body["nonce"].as_str().map(str::to_owned);
        if nonce.as_ref().is_some_and(|nonce| nonce.chars().count() > 25) {
            return Err(INVALID_BODY);
        }
        if body["enforce_nonce"] == true {
            let same = |message: &&FakeMessage| {
                message.channel == channel.id && message.author.id == self.bot.id && message.nonce == nonce
            };
            if let Some(there) = self.messages.values().find(same).filter(|_| nonce.is_some()) {
                return Ok((200, self.message_json(there.id)));
            }
        }
        self.count_pings(&content, body);
        let reply_to = body["message_reference"]["message_id"].as_str().and_then(|id| id.parse().ok());
        let message = FakeMessage {
            id: self.new_id(),
            channel: channel.id,
            author: self.bot.clone(),
            versions: vec![content.clone()],
            content,
            kind: if reply_to.is_some() { 19 } else { 0 },
            nonce,
            components: if body["components"].is_array() { body["components"].clone() } else { json!([]) },
            flags: body["flags"].as_u64().unwrap_or(0),
            allowed_mentions: body["allowed_mentions"].clone(),
            reply_to,
            attachments: json!([]),
            reactions: Vec::new(),
        };
        let id = self.add_message(message);
        Ok((200, self.message_json(id)))
    }

    fn edit_message(&mut self, id: u64, body: &Value) -> Answer {
        let message = self.messages.get(&id).ok_or(UNKNOWN_MESSAGE)?;
        if message.author.id != self.bot.id {
            return Err((403, 50005, "Cannot edit a message authored by another user"));
        }
        check_components(&body["components"])?;
        let content = if body["content"].is_null() {
            None
        } else {
            let content = checked_content(body).filter(|content| !content.is_empty()).ok_or(INVALID_BODY)?;
            self.count_pings(&content, body);
            Some(content)
        };
        let message = self.messages.get_mut(&id).ok_or(UNKNOWN_MESSAGE)?;
        if let Some(content) = content {
            message.content.clone_from(&content);
            message.versions.push(content);
        }
        if body["components"].is_array() {
            message.components = body["components"].clone();
        }
        message.allowed_mentions = body["allowed_mentions"].clone();
        let payload = self.message_json(id);
        self.dispatch("MESSAGE_UPDATE", &payload);
        Ok((200, payload))
    }

    /// Notes whom a text pings: without `allowed_mentions`, all that it mentions.
    fn count_pings(&mut self, content: &str, body: &Value) {
        if body["allowed_mentions"]["parse"] == json!([]) {
            return;
        }
        let names = self.users.values().map(|user| format!("<@{}>", user.id));
        let pinged = names.chain(["@everyone".to_owned(), "@here".to_owned()]).filter(|name| content.contains(name));
        let pinged: Vec<String> = pinged.collect();
        self.pings.extend(pinged);
    }

    fn create_thread(&mut self, channel: &FakeChannel, message: u64, body: &Value) -> Answer {
        if channel.is_thread() || channel.is_direct() {
            return Err((400, 50024, "Cannot execute action on this channel type"));
        }
        if channel.forbids_threads {
            return Err((403, 50013, "Missing Permissions"));
        }
        if self.messages.get(&message).is_none_or(|message| message.channel != channel.id) {
            return Err(UNKNOWN_MESSAGE);
        }
        if self.channels.contains_key(&message) {
            return Err((400, 160_004, "A thread has already been created for this message"));
        }
        let name = body["name"].as_str().filter(|name| (1..=100).contains(&name.chars().count()));
        let name = name.ok_or(INVALID_BODY)?;
        let thread =
            FakeChannel { parent: Some(channel.id), owner: Some(self.bot.id), ..FakeChannel::new(message, name, 11) };
        self.channels.insert(message, thread.clone());
        let payload = self.channel_json(&thread);
        self.dispatch("THREAD_CREATE", &payload);
        Ok((201, payload))
    }

    fn react(&mut self, method: &str, message: u64, emoji: &str) -> Answer {
        let bot = self.bot.name.clone();
        let message = self.messages.get_mut(&message).ok_or(UNKNOWN_MESSAGE)?;
        message.reactions.retain(|reaction| *reaction != (emoji.to_owned(), bot.clone()));
        if method == "PUT" {
            message.reactions.push((emoji.to_owned(), bot));
        }
        Ok((204, json!(null)))
    }

    fn replace_commands(&mut self, body: &Value) -> Answer {
        let commands = body.as_array().filter(|commands| commands.len() <= 100).ok_or(INVALID_BODY)?;
        if !commands.iter().all(|command| is_valid_option(command, 0)) {
            return Err(INVALID_BODY);
        }
        let registered = commands.iter().cloned().map(|mut command| {
            command["id"] = json!(self.new_id().to_string());
            command["type"] = json!(1);
            command
        });
        self.commands = registered.collect::<Vec<_>>();
        Ok((200, json!(self.commands)))
    }

    fn acknowledge(&mut self, id: &str, token: &str, body: &Value) -> Answer {
        let unknown = (404, 10062, "Unknown interaction");
        let known = self.interactions.iter_mut().find(|known| known.id.to_string() == id && known.token == token);
        let interaction = known.filter(|known| known.began.elapsed() < ACKNOWLEDGE_TIMEOUT).ok_or(unknown)?;
        if interaction.receipt.is_some() {
            return Err((400, 40060, "Interaction has already been acknowledged"));
        }
        interaction.receipt = Some(body["type"].as_u64().filter(|kind| [5, 6].contains(kind)).ok_or(INVALID_BODY)?);
        interaction.acknowledged_after = Some(interaction.began.elapsed());
        Ok((204, json!(null)))
    }

    fn complete_interaction(&mut self, token: &str, body: &Value) -> Answer {
        let content = checked_content(body).ok_or(INVALID_BODY)?;
        let known = self.interactions.iter_mut().find(|known| known.token == token && known.receipt == Some(5));
        let interaction = known.ok_or((404, 10015, "Unknown Webhook"))?;
        interaction.reply = Some(content);
        Ok((200, json!({ "id": "1" })))
    }
}

/// Returns the text as Discord keeps it; `None` if it is too long.
fn checked_content(body: &Value) -> Option<String> {
    let content = body["content"].as_str()?.trim().to_owned();
    (content.chars().count() <= 2_000).then_some(content)
}

fn check_components(rows: &Value) -> Result<(), (u16, u64, &'static str)> {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_button = |button: &Value| {
        let fits = |key: &str, most: usize| {
            button[key].as_str().is_some_and(|text| (1..=most).contains(&text.chars().count()))
        };
        button["type"] == 2 && button["style"].is_u64() && fits("label", 80) && fits("custom_id", 100)
    };
    let is_row = |row: &Value| {
        let buttons = row["components"].as_array().map(Vec::as_slice).unwrap_or_default();
        row["type"] == 1 && (1..=5).contains(&buttons.len()) && buttons.iter().all(is_button)
    };
    if rows.len() <= 5 && rows.iter().all(is_row) { Ok(()) } else { Err(INVALID_BODY) }
}

/// Tells whether Discord takes a command or an option of one.
fn is_valid_option(option: &Value, depth: usize) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let name = option["name"].as_str().unwrap_or_default();
    let about = option["description"].as_str().map_or(0, |text| text.chars().count());
    let options = option["options"].as_array().map(Vec::as_slice).unwrap_or_default();
    let required: Vec<bool> = options.iter().map(|option| option["required"] == true).collect();
    (1..=32).contains(&name.len())
        && name.chars().all(fits)
        && (1..=100).contains(&about)
        && options.len() <= 25
        && required.is_sorted_by(|one, next| *one >= *next)
        && (depth == 0 || option["type"].is_u64())
        && depth <= 2
        && options.iter().all(|option| is_valid_option(option, depth + 1))
}
