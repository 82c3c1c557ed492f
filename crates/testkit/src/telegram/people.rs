//! What people do in Telegram.

use serde_json::{Value, json};

use super::state::FakeMessage;
use super::{BOT_NAME, BotMessage, FakeTelegram};

impl FakeTelegram {
    /// Returns the id of a person, who exists from then on.
    pub fn user_id(&self, name: &str) -> i64 {
        self.lock_state().user_id(name)
    }

    /// Gives the name of one person to another account.
    pub fn take_over_name(&self, name: &str) -> i64 {
        let mut state = self.lock_state();
        let id = 90_000 + i64::try_from(state.users.len()).expect("few");
        state.users.insert(name.to_owned(), id);
        id
    }

    /// Opens the private chat of a person with the bot, and returns its id.
    pub fn private_chat(&self, name: &str) -> i64 {
        let mut state = self.lock_state();
        let id = state.user_id(name);
        state.add_chat(id, "private");
        id
    }

    /// Creates a group with the bot in it.
    pub fn create_group(&self) -> i64 {
        let mut state = self.lock_state();
        let id = -1_001_000_000 - i64::try_from(state.chats.len()).expect("few");
        state.add_chat(id, "supergroup");
        id
    }

    /// Creates a topic in a group.
    pub fn create_topic(&self, name: &str, chat: i64) -> i32 {
        let fields = json!({ "forum_topic_created": { "name": "a topic" } });
        let topic = self.send(name, chat, None, &fields);
        self.lock_state().chat_mut(chat).topics.push(topic);
        topic
    }

    /// Writes a message, and returns its id.
    pub fn say(&self, name: &str, chat: i64, text: &str) -> i32 {
        self.send(name, chat, None, &text_fields(text))
    }

    pub fn say_in_topic(&self, name: &str, chat: i64, topic: i32, text: &str) -> i32 {
        self.send(name, chat, Some(topic), &text_fields(text))
    }

    /// Replies to a message.
    pub fn reply(&self, name: &str, chat: i64, to: i32, text: &str) -> i32 {
        let replied = self.lock_state().message_json(chat, to).expect("a message");
        let mut fields = text_fields(text);
        fields["reply_to_message"] = replied;
        self.send(name, chat, None, &fields)
    }

    /// Sends a file with a caption.
    pub fn send_file(&self, name: &str, chat: i64, file: (&str, &str, &[u8]), caption: &str) -> i32 {
        let (file_name, kind, bytes) = file;
        let id = {
            let mut state = self.lock_state();
            let id = format!("file-{}", state.files.len());
            state.files.insert(id.clone(), (format!("documents/{id}"), bytes.to_vec()));
            id
        };
        let document = json!({ "file_id": id, "file_name": file_name, "mime_type": kind, "file_size": bytes.len() });
        self.send(name, chat, None, &json!({ "document": document, "caption": caption }))
    }

    /// Sends a message with any fields.
    pub fn send(&self, name: &str, chat: i64, topic: Option<i32>, fields: &Value) -> i32 {
        let mut state = self.lock_state();
        let from = state.user_json(name);
        let place = state.chat_mut(chat);
        let id = place.next_message;
        place.next_message += 1;
        let mut message = json!({ "message_id": id, "date": 1_700_000_000, "from": from, "chat": { "id": chat, "type": place.kind } });
        if let Some(topic) = topic {
            message["message_thread_id"] = json!(topic);
            message["is_topic_message"] = json!(true);
            message["reply_to_message"] = json!({ "message_id": topic, "chat": { "id": chat, "type": place.kind },
                "from": from, "forum_topic_created": { "name": "a topic" } });
        }
        for (field, value) in fields.as_object().expect("fields") {
            message[field] = value.clone();
        }
        let kept = FakeMessage { json: Some(message.clone()), topic, bot: None, reactions: Vec::new() };
        place.messages.insert(id, kept);
        state.add_update(json!({ "message": message }));
        drop(state);
        self.server.inner.changed.notify_all();
        id
    }

    /// Changes the text of a message.
    pub fn edit(&self, chat: i64, message: i32, text: &str) {
        let mut json = self.lock_state().message_json(chat, message).expect("a message");
        json["text"] = json!(text);
        self.push_update(json!({ "edited_message": json }));
    }

    /// Presses a button of a message of the bot, and returns the id of the press.
    pub fn press(&self, name: &str, chat: i64, message: i32, label: &str) -> String {
        let mut state = self.lock_state();
        let from = state.user_json(name);
        let json = state.message_json(chat, message).expect("a message");
        let bot = state.chat_mut(chat).messages[&message].bot.clone().expect("a message of the bot");
        let data = bot.buttons.into_iter().find(|(text, _)| text == label).expect("a button").1;
        let id = format!("press-{}", state.presses.len());
        state.presses.insert(id.clone(), None);
        state.add_update(json!({ "callback_query": { "id": id, "from": from, "message": json, "data": data,
            "chat_instance": "1" } }));
        drop(state);
        self.server.inner.changed.notify_all();
        id
    }

    /// Returns the text that the bot answered to a press; `None` if it has not answered.
    pub fn press_answer(&self, id: &str) -> Option<String> {
        self.lock_state().presses.get(id).cloned().flatten()
    }

    /// Deletes a message in the chat.
    pub fn delete_message(&self, chat: i64, message: i32) {
        self.lock_state().chat_mut(chat).messages.remove(&message);
    }

    /// Blocks the bot, or removes it from a group.
    pub fn block_bot(&self, chat: i64) {
        self.lock_state().chat_mut(chat).left = true;
    }

    /// Returns the messages of the bot in a chat, in order, without those in topics.
    pub fn bot_messages(&self, chat: i64) -> Vec<BotMessage> {
        self.messages_in(chat, None)
    }

    pub fn topic_messages(&self, chat: i64, topic: i32) -> Vec<BotMessage> {
        self.messages_in(chat, Some(topic))
    }

    fn messages_in(&self, chat: i64, topic: Option<i32>) -> Vec<BotMessage> {
        let state = self.lock_state();
        let messages = state.chats.get(&chat).into_iter().flat_map(|chat| chat.messages.values());
        messages.filter(|message| message.topic == topic).filter_map(|message| message.bot.clone()).collect()
    }

    /// Returns the bot's reactions to a message, in order.
    pub fn reactions(&self, chat: i64, message: i32) -> Vec<String> {
        let state = self.lock_state();
        let message = state.chats.get(&chat).and_then(|chat| chat.messages.get(&message));
        message.map(|message| message.reactions.clone()).unwrap_or_default()
    }
}

/// Returns the fields of a text, with the parts that Telegram marks in it.
fn text_fields(text: &str) -> Value {
    let mut entities = Vec::new();
    let units = |text: &str| text.encode_utf16().count();
    let mention = format!("@{BOT_NAME}");
    for (at, _) in text.match_indices(&mention) {
        entities.push(json!({ "type": "mention", "offset": units(&text[..at]), "length": units(&mention) }));
    }
    if text.starts_with('/') {
        let word = text.split_whitespace().next().unwrap_or_default();
        entities = vec![json!({ "type": "bot_command", "offset": 0, "length": units(word) })];
    }
    if entities.is_empty() { json!({ "text": text }) } else { json!({ "text": text, "entities": entities }) }
}
