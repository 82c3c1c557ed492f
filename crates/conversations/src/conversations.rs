//! Conversations: each message is handled in the right environment, in order, exactly once.
//!
//! [`Conversations::accept_incoming`] writes an incoming message to the store; only then is it acknowledged.
//! [`crate::queue`] gives conversations with waiting messages to [`crate::turn`], one turn per conversation
//! at a time. A turn takes one message, its outcome is a [`crate::turn::TurnOutcome`], and the answer goes
//! into the store together with the end of the message. This crate knows no platform: adapters read the
//! answers from the store.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use grove_agents::agent::CancelReason;
use grove_agents::registry::AgentRegistry;
use grove_agents::scripts::SupervisedScripts;
use grove_environments::codebases::Codebases;
use grove_environments::environments::Environments;
use grove_environments::forge::Forge;
use grove_environments::redact::Redactor;
use grove_environments::settings::LiveSettings;
use grove_git::Git;
use grove_model::{Codebase, ConversationId, IncomingEvent, IncomingPayload, MessageId};
use grove_store::{AcceptedMessage, Conversation, Store, StoreError};
use serde::Serialize;
use tokio::sync::{Notify, broadcast, watch};

use crate::command_line;
use crate::title::message_title;

/// An event in a conversation, for subscribers. Subscribers are optional: everything that matters is in the
/// store.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum ConversationEvent {
    /// A message came in.
    Heard { platform: String, conversation: String, text: String },
    /// A piece of an agent's text, which will become the answer to this message.
    Delta { platform: String, conversation: String, message: MessageId, text: String },
    /// A step of an agent on the way to that answer, in one line.
    Step { platform: String, conversation: String, message: MessageId, text: String },
    /// The progress of a clone, fetch or checkout that a message waits for; a later one replaces it.
    Progress { platform: String, conversation: String, message: MessageId, text: String },
    /// A text for people was written to the store.
    Said {
        platform: String,
        conversation: String,
        /// The message that the text answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        answered: Option<MessageId>,
    },
    /// Environments were created, removed or changed.
    Worktrees,
    /// The settings were edited.
    Settings,
}

/// All conversations of this process.
pub struct Conversations {
    pub store: Store,
    pub environments: Environments,
    pub codebases: Codebases,
    pub settings: LiveSettings,
    pub agents: AgentRegistry,
    pub redactor: Redactor,
    pub(crate) events: broadcast::Sender<ConversationEvent>,
    pub(crate) wake: Notify,
    /// The program shuts down: no waiting turn starts any more.
    pub(crate) ending: watch::Sender<bool>,
    pub(crate) running: Mutex<HashMap<ConversationId, watch::Sender<Option<CancelReason>>>>,
    /// The conversations that were started here; set if only these are handled.
    pub(crate) own: Option<Mutex<HashSet<ConversationId>>>,
}

/// The conversations that a process handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversationScope {
    /// All conversations that wait in the store.
    Everything,
    /// Conversations with messages that this process accepted. A process that ends soon must not take turns
    /// that other processes wait for.
    AcceptedHere,
}

impl Conversations {
    pub fn new(
        git: Git,
        store: Store,
        settings: LiveSettings,
        forge: Option<Arc<dyn Forge>>,
        redactor: Redactor,
        scope: ConversationScope,
    ) -> Arc<Self> {
        let codebases = Codebases { git: git.clone(), store: store.clone(), settings: settings.clone() };
        let environments = Environments::new(git, store.clone(), settings.clone());
        let environments = environments.running_scripts_with(Arc::new(SupervisedScripts));
        let environments = match forge {
            Some(forge) => environments.connected_to(forge),
            None => environments,
        };
        let agents = AgentRegistry::new(settings.clone());
        let (events, _) = broadcast::channel(256);
        let own = (scope == ConversationScope::AcceptedHere).then(Mutex::default);
        let (wake, ending, running) = (Notify::new(), watch::Sender::new(false), Mutex::default());
        Arc::new(Self {
            store,
            environments,
            codebases,
            settings,
            agents,
            redactor,
            events,
            wake,
            ending,
            running,
            own,
        })
    }

    /// Accepts a message without its secrets. It is in the store when this returns, and is handled from then
    /// on.
    pub async fn accept_incoming(&self, incoming: &IncomingEvent) -> Result<AcceptedMessage, StoreError> {
        self.accept_about(incoming, None).await
    }

    /// Accepts a message like [`Self::accept_incoming`]; if it starts a conversation, that is about this
    /// codebase.
    pub async fn accept_about(
        &self,
        incoming: &IncomingEvent,
        codebase: Option<&Codebase>,
    ) -> Result<AcceptedMessage, StoreError> {
        let incoming = self.without_secrets(incoming);
        let overtakes =
            matches!(&incoming.event, IncomingPayload::Message { text, .. } if command_line::can_skip_queue(text));
        let title = match &incoming.event {
            IncomingPayload::Message { text, hints, .. } => message_title(text, hints),
            IncomingPayload::Closed { .. } | IncomingPayload::Pushed { .. } => None,
        };
        let codebase = codebase.map(|codebase| codebase.id);
        let accepted = self.store.accept_about(&incoming, overtakes, codebase, title.as_deref()).await?;
        if let Some(own) = &self.own {
            own.lock().unwrap_or_else(PoisonError::into_inner).insert(accepted.conversation);
        }
        if let IncomingPayload::Message { text, .. } = incoming.event {
            let (platform, conversation) = (incoming.platform, incoming.conversation);
            self.tell_watchers(ConversationEvent::Heard { platform, conversation, text });
        }
        self.wake.notify_one();
        Ok(accepted)
    }

    fn without_secrets(&self, incoming: &IncomingEvent) -> IncomingEvent {
        let mut incoming = incoming.clone();
        if let IncomingPayload::Message { text, context, hints } = &mut incoming.event {
            *text = self.redactor.clean_incoming(text);
            *context = context.as_deref().map(|context| self.redactor.clean_incoming(context));
            if let Some(pull_request) = &mut hints.pull_request {
                pull_request.title = self.redactor.clean_incoming(&pull_request.title);
            }
            hints.title = hints.title.as_deref().map(|title| self.redactor.clean_incoming(title));
        }
        incoming
    }

    /// Subscribes to all events from now on.
    pub fn subscribe_events(&self) -> broadcast::Receiver<ConversationEvent> {
        self.events.subscribe()
    }

    /// Tells whether there are subscribers.
    pub(crate) fn is_watched(&self) -> bool {
        self.events.receiver_count() > 0
    }

    pub fn tell_watchers(&self, event: ConversationEvent) {
        // There may be no subscribers.
        let _ = self.events.send(event);
    }

    pub(crate) fn announce_reply(&self, conversation: &Conversation, answered: Option<MessageId>) {
        let (platform, name) = (conversation.platform.clone(), conversation.name.clone());
        self.tell_watchers(ConversationEvent::Said { platform, conversation: name, answered });
    }

    /// Tells whether this process handles a conversation.
    pub(crate) fn is_for_us(&self, conversation: ConversationId) -> bool {
        let own = self.own.as_ref();
        own.is_none_or(|own| own.lock().unwrap_or_else(PoisonError::into_inner).contains(&conversation))
    }

    /// Returns the number of turns that this process runs at this moment.
    pub fn running_turn_count(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn is_running(&self, conversation: ConversationId) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&conversation)
    }

    pub(crate) fn cancel_turn(&self, conversation: ConversationId, why: CancelReason) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = running.get(&conversation) {
            turn.send_replace(Some(why));
        }
    }

    pub(crate) fn cancel_all(&self, why: CancelReason) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for turn in running.values() {
            turn.send_replace(Some(why));
        }
    }

    /// Returns the codebase of a conversation: the chosen one, or the only one.
    pub async fn codebase_of(&self, conversation: &Conversation) -> Result<Option<Codebase>, StoreError> {
        let mut all = self.store.list_codebases().await?;
        if let Some(chosen) = conversation.codebase {
            return Ok(all.into_iter().find(|codebase| codebase.id == chosen));
        }
        Ok(if all.len() == 1 { all.pop() } else { None })
    }

    /// Returns the conversation's own folder, for work without a codebase.
    pub(crate) fn scratch_folder(&self, conversation: ConversationId) -> PathBuf {
        self.settings.current().home_path().join("scratch").join(conversation.to_string())
    }
}
