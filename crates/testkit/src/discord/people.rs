//! The actions of people on a fake Discord, and what they see.

use std::time::Instant;

use serde_json::{Value, json};

use super::FakeDiscord;
use super::state::{FakeChannel, FakeDiscordState, FakeMessage, InteractionView};

/// A message, as a test sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageView {
    pub id: u64,
    pub author: String,
    pub text: String,
    /// All versions of its text, the oldest first.
    pub versions: Vec<String>,
    pub reply_to: Option<u64>,
    /// The labels of its buttons.
    pub buttons: Vec<String>,
    /// The emoji of its reactions.
    pub reactions: Vec<String>,
    pub allowed_mentions: Value,
    pub flags: u64,
}

impl From<&FakeMessage> for MessageView {
    fn from(message: &FakeMessage) -> Self {
        Self {
            id: message.id,
            author: message.author.name.clone(),
            text: message.content.clone(),
            versions: message.versions.clone(),
            reply_to: message.reply_to,
            buttons: buttons_of(message).iter().map(|button| button["label"].as_str().unwrap().to_owned()).collect(),
            reactions: message.reactions.iter().map(|(emoji, _)| emoji.clone()).collect(),
            allowed_mentions: message.allowed_mentions.clone(),
            flags: message.flags,
        }
    }
}

fn buttons_of(message: &FakeMessage) -> Vec<Value> {
    let rows = message.components.as_array().into_iter().flatten();
    rows.filter_map(|row| row["components"].as_array()).flatten().cloned().collect()
}

impl FakeDiscordState {
    fn new_message(&mut self, person: &str, channel: u64, text: &str) -> FakeMessage {
        FakeMessage {
            id: self.new_id(),
            channel,
            author: self.user(person),
            content: text.to_owned(),
            versions: vec![text.to_owned()],
            kind: 0,
            nonce: None,
            components: json!([]),
            flags: 0,
            allowed_mentions: Value::Null,
            reply_to: None,
            attachments: json!([]),
            reactions: Vec::new(),
        }
    }

    fn new_interaction(&mut self, person: &str, channel: u64, kind: u64) -> Value {
        let (id, user) = (self.new_id(), self.user(person).to_json());
        let (token, here) = (format!("interaction-token-{id}"), self.channels[&channel].clone());
        self.interactions.push(InteractionView {
            id,
            token: token.clone(),
            channel,
            receipt: None,
            acknowledged_after: None,
            reply: None,
            began: Instant::now(),
        });
        let mut payload = json!({
            "id": id.to_string(), "application_id": self.application.to_string(), "type": kind, "token": token,
            "version": 1, "channel_id": channel.to_string(), "channel": self.channel_json(&here),
        });
        if here.is_direct() {
            payload["user"] = user;
        } else {
            payload["guild_id"] = json!(self.guild.to_string());
            payload["member"] = json!({ "user": user, "roles": [], "permissions": "0" });
        }
        payload
    }
}

impl FakeDiscord {
    /// Writes a message, and returns its id.
    pub fn say(&self, person: &str, channel: u64, text: &str) -> u64 {
        let mut state = self.lock_state();
        let message = state.new_message(person, channel, text);
        state.add_message(message)
    }

    /// Writes a message with a file.
    pub fn say_with_file(&self, person: &str, channel: u64, text: &str, file: (&str, &str, &[u8])) -> u64 {
        let (name, kind, bytes) = file;
        let mut state = self.lock_state();
        let mut message = state.new_message(person, channel, text);
        let path = format!("/attachments/{}/{name}", message.id);
        let url = format!("{}{path}", state.api_url);
        message.attachments = json!([{ "id": message.id.to_string(), "filename": name, "content_type": kind, "size": bytes.len(), "url": url, "proxy_url": url }]);
        state.files.insert(path, bytes.to_vec());
        state.add_message(message)
    }

    /// Changes a message.
    pub fn edit(&self, id: u64, text: &str) {
        let mut state = self.lock_state();
        text.clone_into(&mut state.messages.get_mut(&id).expect("a message").content);
        let payload = state.message_json(id);
        state.dispatch("MESSAGE_UPDATE", &payload);
    }

    /// Sends the event of a message again.
    pub fn repeat_message(&self, id: u64) {
        let mut state = self.lock_state();
        let sessions = state.sessions.values().flat_map(|session| session.events.iter());
        let id = json!(id.to_string());
        let same = |event: &&Value| event["t"] == "MESSAGE_CREATE" && event["d"]["id"] == id;
        let payload = sessions.filter(same).map(|event| event["d"].clone()).next().expect("an event");
        state.dispatch("MESSAGE_CREATE", &payload);
    }

    /// Returns the channel of the direct messages between a person and the bot.
    pub fn direct_channel(&self, person: &str) -> u64 {
        let mut state = self.lock_state();
        let name = format!("direct {person}");
        if let Some(known) = state.channels.values().find(|channel| channel.name == name) {
            return known.id;
        }
        let id = state.new_id();
        state.channels.insert(id, FakeChannel::new(id, &name, 1));
        id
    }

    /// Creates a thread of a person.
    pub fn open_thread(&self, person: &str, channel: u64, name: &str) -> u64 {
        let mut state = self.lock_state();
        let (id, owner) = (state.new_id(), state.user(person).id);
        let thread = FakeChannel { parent: Some(channel), owner: Some(owner), ..FakeChannel::new(id, name, 11) };
        state.channels.insert(id, thread.clone());
        let payload = state.channel_json(&thread);
        state.dispatch("THREAD_CREATE", &payload);
        id
    }

    /// Presses a button of a message by its label.
    #[track_caller]
    pub fn press(&self, person: &str, message: u64, label: &str) -> u64 {
        let state = self.lock_state();
        let there = &state.messages[&message];
        let button = buttons_of(there).into_iter().find(|button| button["label"] == label).expect("a button");
        drop(state);
        self.press_data(person, message, button["custom_id"].as_str().expect("an id"))
    }

    /// Presses a button with this data, whether it is there or not.
    pub fn press_data(&self, person: &str, message: u64, data: &str) -> u64 {
        let mut state = self.lock_state();
        let channel = state.messages[&message].channel;
        let mut payload = state.new_interaction(person, channel, 3);
        payload["data"] = json!({ "custom_id": data, "component_type": 2 });
        payload["message"] = state.message_json(message);
        state.dispatch("INTERACTION_CREATE", &payload);
        payload["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
    }

    /// Uses a slash command: `data` is its name and its options.
    pub fn use_command(&self, person: &str, channel: u64, mut data: Value) -> u64 {
        let mut state = self.lock_state();
        let mut payload = state.new_interaction(person, channel, 2);
        data["id"] = json!("1");
        data["type"] = json!(1);
        payload["data"] = data;
        state.dispatch("INTERACTION_CREATE", &payload);
        payload["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")
    }

    #[track_caller]
    pub fn interaction(&self, id: u64) -> InteractionView {
        self.lock_state().interactions.iter().find(|known| known.id == id).expect("an interaction").clone()
    }

    /// Returns the messages of a channel, the oldest first.
    pub fn messages(&self, channel: u64) -> Vec<MessageView> {
        let state = self.lock_state();
        state.messages.values().filter(|message| message.channel == channel).map(MessageView::from).collect()
    }

    #[track_caller]
    pub fn message(&self, id: u64) -> MessageView {
        MessageView::from(&self.lock_state().messages[&id])
    }

    /// Returns the texts of the bot in a channel.
    pub fn bot_texts(&self, channel: u64) -> Vec<String> {
        let messages = self.messages(channel).into_iter();
        messages.filter(|message| message.author == super::BOT_NAME).map(|message| message.text).collect()
    }

    /// Returns the name of the thread of a message, once it is there.
    pub fn thread_name(&self, message: u64) -> Option<String> {
        self.lock_state().channels.get(&message).map(|thread| thread.name.clone())
    }

    /// Deletes a message.
    pub fn delete(&self, message: u64) {
        self.lock_state().messages.remove(&message);
    }
}
