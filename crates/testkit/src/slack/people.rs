//! What people do in Slack, and what they see.

use serde_json::{Value, json};

use super::state::{FakeFile, FakeMessage, FakeSlackState};
use super::{BOT_USER, FakeSlack, FakeSlackInner};

/// A message as a person sees it.
#[derive(Clone, Debug)]
pub struct SlackMessageView {
    pub ts: String,
    pub user: String,
    pub text: String,
    pub blocks: Value,
    pub metadata: Value,
    pub files: Vec<Value>,
}

impl SlackMessageView {
    /// Returns the labels of the buttons.
    pub fn buttons(&self) -> Vec<String> {
        let blocks = self.blocks.as_array().into_iter().flatten().filter(|block| block["type"] == "actions");
        let elements = blocks.flat_map(|block| block["elements"].as_array().cloned().unwrap_or_default());
        elements.filter_map(|button| Some(button["text"]["text"].as_str()?.to_owned())).collect()
    }
}

impl FakeSlack {
    /// Writes a message in a channel, and returns its timestamp. `@name` becomes a mention.
    pub fn say(&self, user: &str, channel: &str, text: &str) -> String {
        self.write(user, channel, None, text, &json!({}))
    }

    pub fn reply(&self, user: &str, channel: &str, thread: &str, text: &str) -> String {
        self.write(user, channel, Some(thread), text, &json!({}))
    }

    /// Writes a direct message to the bot.
    pub fn say_directly(&self, user: &str, text: &str) -> String {
        self.write(user, &direct_channel(user), None, text, &json!({}))
    }

    /// Writes a message whose event has more fields.
    pub fn write(&self, user: &str, channel: &str, thread: Option<&str>, text: &str, more: &Value) -> String {
        let (ts, event) = {
            let mut state = self.lock_state();
            let message = state.add_message(user, channel, thread, text);
            let mut event = message.to_json(false);
            event["channel"] = json!(channel);
            event["channel_type"] = json!(if channel.starts_with('D') { "im" } else { "channel" });
            event["client_msg_id"] = json!(format!("id-{}", message.ts));
            for (name, value) in more.as_object().into_iter().flatten() {
                event[name] = value.clone();
            }
            (message.ts, event)
        };
        self.inner().emit_message(&event);
        ts
    }

    /// Makes a text file on Slack, and returns its description for a message.
    pub fn make_file(&self, name: &str, mimetype: &str, content: &str) -> Value {
        let mut state = self.lock_state();
        let id = format!("F{}", state.new_id());
        let url = format!("http://{}/files/{id}", state.address);
        state.files.insert(id.clone(), FakeFile { name: name.to_owned(), content: content.as_bytes().to_vec() });
        json!({ "id": id, "name": name, "mimetype": mimetype, "mode": "hosted", "size": content.len(), "url_private": url })
    }

    /// Returns the content of a file that was uploaded.
    pub fn file_content(&self, id: &str) -> String {
        String::from_utf8_lossy(&self.lock_state().files[id].content).into_owned()
    }

    /// Presses a button of a message.
    #[track_caller]
    pub fn press(&self, user: &str, channel: &str, ts: &str, label: &str) {
        let payload = {
            let mut state = self.lock_state();
            let (user_id, action_ts) = (state.user_id(user), state.new_ts());
            let message = state.message_mut(channel, ts).expect("the message").clone();
            let elements =
                message.blocks.as_array().into_iter().flatten().flat_map(|block| block["elements"].as_array());
            let button = elements.flatten().find(|element| element["text"]["text"] == label);
            let mut action = button.unwrap_or_else(|| panic!("no button {label}: {message:?}")).clone();
            action["action_ts"] = json!(action_ts);
            let mut shown = message.to_json(false);
            shown["channel"] = json!(channel);
            json!({
                "type": "block_actions", "user": { "id": user_id, "username": user, "team_id": "T1" }, "api_app_id": "A1",
                "token": "verification-token", "trigger_id": "13345224609.738474920.8088930838d88f008e0",
                "container": { "type": "message", "message_ts": ts, "channel_id": channel, "thread_ts": message.thread_ts },
                "team": { "id": "T1" }, "channel": { "id": channel, "name": "general" }, "message": shown,
                "response_url": "https://hooks.slack.com/actions/T1/1/x", "actions": [action],
            })
        };
        self.inner().emit("interactive", &payload);
    }

    /// Returns the messages of a thread without the first, as people see them.
    pub fn thread(&self, channel: &str, thread: &str) -> Vec<SlackMessageView> {
        let state = self.lock_state();
        let replies = state.messages.iter().filter(|message| message.channel == channel);
        replies
            .filter(|message| message.thread_ts.as_deref() == Some(thread) && message.ts != thread)
            .map(view)
            .collect()
    }

    /// Returns the bot's messages of a thread.
    pub fn bot_messages(&self, channel: &str, thread: &str) -> Vec<SlackMessageView> {
        self.thread(channel, thread).into_iter().filter(|message| message.user == BOT_USER).collect()
    }

    /// Returns all messages of the bot, in any channel.
    pub fn all_bot_messages(&self) -> Vec<SlackMessageView> {
        self.lock_state().messages.iter().filter(|message| message.user == BOT_USER).map(view).collect()
    }

    /// Returns the bot's reactions to a message.
    pub fn reactions(&self, channel: &str, ts: &str) -> Vec<String> {
        let mut state = self.lock_state();
        let message = state.message_mut(channel, ts).expect("the message");
        message.reactions.iter().map(|(name, _)| name.clone()).collect()
    }

    pub fn user_id(&self, name: &str) -> String {
        self.lock_state().user_id(name)
    }
}

/// Returns the channel of a person's direct messages to the bot.
pub fn direct_channel(user: &str) -> String {
    format!("D{}", user.to_uppercase())
}

fn view(message: &FakeMessage) -> SlackMessageView {
    SlackMessageView {
        ts: message.ts.clone(),
        user: message.user.clone(),
        text: message.text.clone(),
        blocks: message.blocks.clone(),
        metadata: message.metadata.clone(),
        files: message.files.clone(),
    }
}

impl FakeSlackInner {
    /// Sends the events about a message: one, or two if it mentions the bot.
    pub fn emit_message(&self, event: &Value) {
        let is_mention = event["text"].as_str().is_some_and(|text| text.contains(&format!("<@{BOT_USER}>")));
        let is_direct = event["channel_type"] == "im";
        if is_mention && !is_direct && event["subtype"].is_null() {
            let mut mention = event.clone();
            mention["type"] = json!("app_mention");
            mention.as_object_mut().expect("an event").remove("channel_type");
            let payload = self.event_payload(&mention);
            self.emit("events_api", &payload);
        }
        let payload = self.event_payload(event);
        self.emit("events_api", &payload);
    }
}

impl FakeSlackState {
    /// Adds a message of a person. The text is written as Slack stores it.
    fn add_message(&mut self, user: &str, channel: &str, thread: Option<&str>, text: &str) -> FakeMessage {
        let mut text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        for (id, name) in &self.users {
            text = text.replace(&format!("@{name}"), &format!("<@{id}>"));
        }
        let message = FakeMessage {
            channel: channel.to_owned(),
            ts: self.new_ts(),
            thread_ts: thread.map(str::to_owned),
            user: self.user_id(user),
            text,
            blocks: Value::Null,
            metadata: Value::Null,
            files: Vec::new(),
            reactions: Vec::new(),
        };
        self.messages.push(message.clone());
        message
    }
}
