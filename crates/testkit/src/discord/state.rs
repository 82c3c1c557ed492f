//! The memory of a fake Discord.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use super::{BOT_NAME, DiscordFault, DiscordRequest};

/// The first millisecond that an id can have, since 1970.
const DISCORD_EPOCH_MS: u64 = 1_420_070_400_000;

/// The application may read the content of messages.
const MESSAGE_CONTENT_FLAG: u64 = 1 << 19;

#[derive(Clone, Debug)]
pub struct FakeUser {
    pub id: u64,
    pub name: String,
    pub is_bot: bool,
}

#[derive(Clone, Debug)]
pub struct FakeChannel {
    pub id: u64,
    pub name: String,
    /// 0 is a channel of the server, 1 a direct one, 11 a thread.
    pub kind: u64,
    pub parent: Option<u64>,
    pub owner: Option<u64>,
    pub forbids_threads: bool,
}

impl FakeChannel {
    pub fn new(id: u64, name: &str, kind: u64) -> Self {
        Self { id, name: name.to_owned(), kind, parent: None, owner: None, forbids_threads: false }
    }

    pub fn is_thread(&self) -> bool {
        self.kind == 11
    }

    pub fn is_direct(&self) -> bool {
        self.kind == 1
    }
}

#[derive(Clone, Debug)]
pub struct FakeMessage {
    pub id: u64,
    pub channel: u64,
    pub author: FakeUser,
    pub content: String,
    /// All versions of its text, the oldest first.
    pub versions: Vec<String>,
    /// 0 is a message, 19 a reply, 20 the reply to a slash command.
    pub kind: u64,
    pub nonce: Option<String>,
    pub components: Value,
    pub flags: u64,
    pub allowed_mentions: Value,
    pub reply_to: Option<u64>,
    pub attachments: Value,
    /// The emoji of each reaction, with the name of its author.
    pub reactions: Vec<(String, String)>,
}

/// An interaction, as a test sees it.
#[derive(Clone, Debug)]
pub struct InteractionView {
    pub id: u64,
    pub token: String,
    pub channel: u64,
    /// The type of the acknowledgement.
    pub receipt: Option<u64>,
    pub acknowledged_after: Option<Duration>,
    /// The text that replaced the "thinking".
    pub reply: Option<String>,
    pub began: Instant,
}

/// An order to the task of a connection.
#[derive(Clone, Debug)]
pub enum SocketOrder {
    Send(String),
    Close(u16),
    /// Ends the connection without a word.
    Drop,
}

/// A session of the gateway.
#[derive(Debug, Default)]
pub struct FakeSession {
    /// The events; the first has the sequence number 1.
    pub events: Vec<Value>,
    pub connection: Option<UnboundedSender<SocketOrder>>,
    pub is_valid: bool,
}

pub struct PlannedFault {
    pub method: String,
    pub path: String,
    pub times: usize,
    pub fault: DiscordFault,
}

/// What the gateway does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayCounts {
    pub connections: usize,
    pub identified: usize,
    pub resumed: usize,
    pub invalidated: usize,
}

pub struct FakeDiscordState {
    pub api_url: String,
    pub gateway_url: String,
    pub is_revoked: bool,
    pub bot: FakeUser,
    pub application: u64,
    pub application_flags: u64,
    pub guild: u64,
    pub users: BTreeMap<String, FakeUser>,
    pub channels: BTreeMap<u64, FakeChannel>,
    pub messages: BTreeMap<u64, FakeMessage>,
    pub files: BTreeMap<String, Vec<u8>>,
    pub commands: Vec<Value>,
    pub interactions: Vec<InteractionView>,
    pub pings: Vec<String>,
    pub sessions: BTreeMap<String, FakeSession>,
    pub counts: GatewayCounts,
    /// The number of events before the missed ones that a resumed session gets again.
    pub replayed_twice: usize,
    pub faults: Vec<PlannedFault>,
    pub requests: Vec<DiscordRequest>,
    pub channel_limit: Option<(u32, Duration)>,
    /// The requests of a bucket in the current window, and when that began.
    pub buckets: BTreeMap<String, (u32, Instant)>,
    last_id: u64,
}

impl FakeDiscordState {
    pub fn new(api_url: String, gateway_url: String) -> Self {
        let mut state = Self {
            api_url,
            gateway_url,
            is_revoked: false,
            bot: FakeUser { id: 0, name: BOT_NAME.to_owned(), is_bot: true },
            application: 0,
            application_flags: MESSAGE_CONTENT_FLAG,
            guild: 0,
            users: BTreeMap::new(),
            channels: BTreeMap::new(),
            messages: BTreeMap::new(),
            files: BTreeMap::new(),
            commands: Vec::new(),
            interactions: Vec::new(),
            pings: Vec::new(),
            sessions: BTreeMap::new(),
            counts: GatewayCounts::default(),
            replayed_twice: 0,
            faults: Vec::new(),
            requests: Vec::new(),
            channel_limit: None,
            buckets: BTreeMap::new(),
            last_id: 0,
        };
        (state.bot.id, state.application, state.guild) = (state.new_id(), state.new_id(), state.new_id());
        state
    }

    /// Returns an id that is larger than all before, with the current time in it.
    pub fn new_id(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time after 1970");
        let ms = u64::try_from(now.as_millis()).expect("a time before the year 584 million") - DISCORD_EPOCH_MS;
        self.last_id = (ms << 22).max(self.last_id + 1);
        self.last_id
    }

    #[track_caller]
    pub fn user(&self, name: &str) -> FakeUser {
        self.users.get(name).unwrap_or_else(|| panic!("{name} is not there")).clone()
    }

    #[track_caller]
    pub fn channel_mut(&mut self, id: u64) -> &mut FakeChannel {
        self.channels.get_mut(&id).expect("a channel")
    }

    /// Returns the first planned fault that hits a request.
    pub fn next_fault(&mut self, method: &str, path: &str) -> Option<DiscordFault> {
        let hits = |planned: &PlannedFault| {
            planned.times > 0 && (planned.method.is_empty() || planned.method == method) && path.contains(&planned.path)
        };
        let planned = self.faults.iter_mut().find(|planned| hits(planned))?;
        planned.times -= 1;
        Some(planned.fault.clone())
    }

    /// Adds a message, and tells the sessions.
    pub fn add_message(&mut self, message: FakeMessage) -> u64 {
        let (id, channel) = (message.id, message.channel);
        self.messages.insert(id, message);
        let mut payload = self.message_json(id);
        if !self.channels[&channel].is_direct() {
            payload["guild_id"] = json!(self.guild.to_string());
            payload["member"] = json!({ "roles": [], "joined_at": "2024-01-01T00:00:00+00:00", "deaf": false, "mute": false, "flags": 0 });
        }
        self.dispatch("MESSAGE_CREATE", &payload);
        id
    }

    /// Sends an event to all sessions; those without a connection keep it.
    pub fn dispatch(&mut self, kind: &str, payload: &Value) {
        for session in self.sessions.values_mut().filter(|session| session.is_valid) {
            let event = json!({ "op": 0, "t": kind, "s": session.events.len() + 1, "d": payload });
            if let Some(connection) = &session.connection {
                // The connection may have ended.
                let _ = connection.send(SocketOrder::Send(event.to_string()));
            }
            session.events.push(event);
        }
    }
}
