//! The memory of the fake.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{BOT_ID, BOT_NAME, BotFault, BotRequest};

pub struct PlannedFault {
    pub method: String,
    pub times: usize,
    pub fault: BotFault,
}

pub struct FakeTelegramState {
    pub address: String,
    pub token: String,
    /// The ids of people, by name.
    pub users: BTreeMap<String, i64>,
    pub chats: BTreeMap<i64, FakeChat>,
    /// The updates that the bot has not confirmed, with their numbers.
    pub updates: Vec<(i64, Value)>,
    pub sent_updates: Vec<Value>,
    pub next_update: i64,
    pub webhook: Option<(String, String)>,
    pub webhook_error: Option<String>,
    /// The paths and contents of files, by id.
    pub files: BTreeMap<String, (String, Vec<u8>)>,
    /// The presses of buttons, with the text that the bot answered.
    pub presses: BTreeMap<String, Option<String>>,
    pub faults: Vec<PlannedFault>,
    pub requests: Vec<BotRequest>,
    /// Counts the requests for updates: a new one ends the one before.
    pub polls: u64,
    pub reads_all_messages: bool,
}

pub struct FakeChat {
    pub kind: &'static str,
    pub messages: BTreeMap<i32, FakeMessage>,
    pub next_message: i32,
    pub topics: Vec<i32>,
    /// The bot was blocked or removed.
    pub left: bool,
}

#[derive(Clone)]
pub struct FakeMessage {
    /// The JSON of a person's message; `None` for a message of the bot.
    pub json: Option<Value>,
    pub topic: Option<i32>,
    pub bot: Option<BotMessage>,
    pub reactions: Vec<String>,
}

/// A message of the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotMessage {
    pub id: i32,
    /// The text that people see.
    pub text: String,
    /// The text as it was sent.
    pub raw: String,
    pub is_markdown: bool,
    /// The labels of the buttons, with their data.
    pub buttons: Vec<(String, String)>,
    /// The texts that people have seen, in order.
    pub versions: Vec<String>,
    /// The formatted parts of the text: their kind and text.
    pub entities: Vec<(String, String)>,
}

impl FakeTelegramState {
    pub fn new(address: String) -> Self {
        Self {
            address,
            token: format!("{BOT_ID}:a-token-of-the-fake_Telegram"),
            users: BTreeMap::new(),
            chats: BTreeMap::new(),
            updates: Vec::new(),
            sent_updates: Vec::new(),
            next_update: 500,
            webhook: None,
            webhook_error: None,
            files: BTreeMap::new(),
            presses: BTreeMap::new(),
            faults: Vec::new(),
            requests: Vec::new(),
            polls: 0,
            reads_all_messages: false,
        }
    }

    pub fn next_fault(&mut self, method: &str) -> Option<BotFault> {
        let hits =
            |planned: &&mut PlannedFault| planned.times > 0 && (planned.method.is_empty() || planned.method == method);
        let planned = self.faults.iter_mut().find(hits)?;
        planned.times -= 1;
        Some(planned.fault)
    }

    /// Adds an update with the next number.
    pub fn add_update(&mut self, mut update: Value) {
        let number = self.next_update;
        self.next_update += 1;
        update["update_id"] = json!(number);
        self.sent_updates.push(update.clone());
        self.updates.push((number, update));
    }

    pub fn user_id(&mut self, name: &str) -> i64 {
        let next = 1_000 + i64::try_from(self.users.len()).expect("few");
        *self.users.entry(name.to_owned()).or_insert(next)
    }

    pub fn user_json(&mut self, name: &str) -> Value {
        if name == BOT_NAME {
            return bot_json();
        }
        json!({ "id": self.user_id(name), "is_bot": name.ends_with("_bot"), "first_name": name, "username": name })
    }

    /// Returns a chat; the private chat of a person exists once the person has written to the bot.
    pub fn chat_mut(&mut self, chat: i64) -> &mut FakeChat {
        self.chats.get_mut(&chat).unwrap_or_else(|| panic!("no chat {chat}"))
    }

    pub fn add_chat(&mut self, chat: i64, kind: &'static str) {
        self.chats.entry(chat).or_insert_with(|| FakeChat {
            kind,
            messages: BTreeMap::new(),
            next_message: 1,
            topics: Vec::new(),
            left: false,
        });
    }

    pub fn message_json(&self, chat: i64, id: i32) -> Option<Value> {
        let (place, message) = (self.chats.get(&chat)?, self.chats.get(&chat)?.messages.get(&id)?);
        if let Some(json) = &message.json {
            return Some(json.clone());
        }
        let bot = message.bot.as_ref()?;
        let mut json = json!({ "message_id": id, "date": 1_700_000_000, "from": bot_json(),
            "chat": { "id": chat, "type": place.kind }, "text": bot.text });
        if let Some(topic) = message.topic {
            json["message_thread_id"] = json!(topic);
            json["is_topic_message"] = json!(true);
        }
        Some(json)
    }
}

pub fn bot_json() -> Value {
    json!({ "id": BOT_ID, "is_bot": true, "first_name": "Grove", "username": BOT_NAME })
}
