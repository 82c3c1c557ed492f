//! What the fake remembers.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::events::SentEvent;
use super::{BOT_USER, SlackFault, SlackRequest};

/// A message of a channel.
#[derive(Clone, Debug)]
pub struct FakeMessage {
    pub channel: String,
    pub ts: String,
    pub thread_ts: Option<String>,
    pub user: String,
    pub text: String,
    pub blocks: Value,
    pub metadata: Value,
    pub files: Vec<Value>,
    /// Each reaction with its user.
    pub reactions: Vec<(String, String)>,
}

impl FakeMessage {
    pub fn to_json(&self, with_metadata: bool) -> Value {
        let mut json = json!({ "type": "message", "user": self.user, "text": self.text, "ts": self.ts });
        let fields =
            [("thread_ts", json!(self.thread_ts)), ("blocks", self.blocks.clone()), ("files", json!(self.files))];
        for (name, value) in fields {
            if !value.is_null() && value != json!([]) {
                json[name] = value;
            }
        }
        if self.user == BOT_USER {
            json["bot_id"] = json!("B1");
        }
        if with_metadata && !self.metadata.is_null() {
            json["metadata"] = self.metadata.clone();
        }
        json
    }
}

#[derive(Clone, Debug)]
pub struct FakeFile {
    pub name: String,
    pub content: Vec<u8>,
}

pub struct PlannedFault {
    pub method: String,
    pub times: usize,
    pub fault: SlackFault,
}

/// What a socket is told to do.
pub enum SocketCommand {
    Send(String),
    Drop,
    Disconnect,
}

/// An envelope that is not acknowledged yet.
pub struct PendingEnvelope {
    pub frame: Value,
    /// The socket that it was sent to.
    pub socket: Option<u64>,
}

pub struct FakeSlackState {
    pub address: String,
    pub socket_address: String,
    pub bot_token_valid: bool,
    pub app_token_valid: bool,
    pub archived: Vec<String>,
    pub forbidden: Vec<String>,
    pub faults: Vec<PlannedFault>,
    pub requests: Vec<SlackRequest>,
    /// Names by id.
    pub users: BTreeMap<String, String>,
    pub messages: Vec<FakeMessage>,
    pub files: HashMap<String, FakeFile>,
    pub hook: Option<String>,
    pub sent: Vec<SentEvent>,
    pub tickets: Vec<String>,
    pub sockets: BTreeMap<u64, UnboundedSender<SocketCommand>>,
    /// In the order in which they were made.
    pub pending: BTreeMap<u64, PendingEnvelope>,
    pub acknowledged: Vec<String>,
    pub duplicates: bool,
    last_time: u64,
    last_id: u64,
}

impl FakeSlackState {
    pub fn new(address: String, socket_address: String) -> Self {
        Self {
            address,
            socket_address,
            bot_token_valid: true,
            app_token_valid: true,
            archived: Vec::new(),
            forbidden: Vec::new(),
            faults: Vec::new(),
            requests: Vec::new(),
            users: BTreeMap::from([(BOT_USER.to_owned(), "grove".to_owned())]),
            messages: Vec::new(),
            files: HashMap::new(),
            hook: None,
            sent: Vec::new(),
            tickets: Vec::new(),
            sockets: BTreeMap::new(),
            pending: BTreeMap::new(),
            acknowledged: Vec::new(),
            duplicates: false,
            last_time: 0,
            last_id: 0,
        }
    }

    pub fn new_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Returns a timestamp that no other message has, later than all others.
    pub fn new_ts(&mut self) -> String {
        let now = u64::try_from(Timestamp::now().as_microsecond()).expect("after 1970");
        self.last_time = now.max(self.last_time + 1);
        format!("{}.{:06}", self.last_time / 1_000_000, self.last_time % 1_000_000)
    }

    pub fn user_id(&mut self, name: &str) -> String {
        let known = self.users.iter().find(|(_, known)| *known == name).map(|(id, _)| id.clone());
        known.unwrap_or_else(|| {
            let id = format!("U{}", name.to_uppercase());
            self.users.insert(id.clone(), name.to_owned());
            id
        })
    }

    pub fn message_mut(&mut self, channel: &str, ts: &str) -> Option<&mut FakeMessage> {
        self.messages.iter_mut().find(|message| message.channel == channel && message.ts == ts)
    }

    pub fn next_fault(&mut self, method: &str) -> Option<SlackFault> {
        let hits = |fault: &&mut PlannedFault| fault.times > 0 && (fault.method.is_empty() || fault.method == method);
        let planned = self.faults.iter_mut().find(hits)?;
        planned.times -= 1;
        Some(planned.fault.clone()).filter(|fault| *fault != SlackFault::Spared)
    }

    /// Ends the oldest socket; its unacknowledged envelopes go to the others.
    pub fn end_socket(&mut self, command: SocketCommand) {
        if let Some((id, socket)) = self.sockets.pop_first() {
            let _ = socket.send(command);
            self.forget_socket(id);
        }
    }

    pub fn forget_socket(&mut self, id: u64) {
        self.sockets.remove(&id);
        self.pending
            .values_mut()
            .filter(|envelope| envelope.socket == Some(id))
            .for_each(|envelope| envelope.socket = None);
        self.send_pending();
    }

    /// Sends the envelopes that no socket has.
    pub fn send_pending(&mut self) {
        let sockets: Vec<u64> = self.sockets.keys().copied().collect();
        if sockets.is_empty() {
            return;
        }
        for (number, envelope) in self.pending.iter_mut().filter(|(_, envelope)| envelope.socket.is_none()) {
            let at = usize::try_from(*number).expect("few") % sockets.len();
            let chosen = if self.duplicates { sockets.clone() } else { vec![sockets[at]] };
            for socket in chosen {
                let _ = self.sockets[&socket].send(SocketCommand::Send(envelope.frame.to_string()));
                envelope.socket = Some(socket);
            }
        }
    }

    pub fn acknowledge(&mut self, envelope: &str) {
        self.acknowledged.push(envelope.to_owned());
        self.pending.retain(|_, pending| pending.frame["envelope_id"] != envelope);
    }
}
