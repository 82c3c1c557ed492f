//! Conversations: somebody says something, and it is worked on in the right place, in order, once.
//!
//! [`Talks::accept`] puts what came in into the store; only then is it acknowledged. [`queue`] hands
//! conversations that have something waiting to [`turn`]s, one at a time each; a turn takes one
//! message, [`turn::Ending`] is what came of it, and the answer goes into the store together with the
//! message's end. Nothing here knows a platform: adapters read what was said from the store.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use grove_agents::agent::Cancel;
use grove_agents::registry::Agents;
use grove_environments::codebases::Codebases;
use grove_environments::environments::Isolation;
use grove_environments::forge::Forge;
use grove_environments::redact::Redactor;
use grove_environments::settings::Settings;
use grove_git::Git;
use grove_model::{Codebase, ConversationId, Event, Incoming, MessageId};
use grove_store::{Accepted, Conversation, Store, StoreError};
use serde::Serialize;
use tokio::sync::{Notify, broadcast, watch};

use crate::command_line;

/// What happens in conversations, for whoever looks on. Nobody has to: everything that matters is in
/// the store.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum TalkEvent {
    /// Somebody said something.
    Heard { platform: String, conversation: String, text: String },
    /// A piece of an agent's text, on its way to be the answer to this message.
    Delta { platform: String, conversation: String, message: MessageId, text: String },
    /// What an agent does on the way to that answer, in one line.
    Step { platform: String, conversation: String, message: MessageId, text: String },
    /// Something was said to people; the store has it.
    Said {
        platform: String,
        conversation: String,
        /// The message that it is the answer to.
        #[serde(skip_serializing_if = "Option::is_none")]
        answered: Option<MessageId>,
    },
    /// Environments came, went or changed.
    Worktrees,
}

/// All conversations of this process.
pub struct Talks {
    pub store: Store,
    pub isolation: Isolation,
    pub codebases: Codebases,
    pub settings: Settings,
    pub agents: Agents,
    pub redactor: Redactor,
    pub(crate) events: broadcast::Sender<TalkEvent>,
    pub(crate) wake: Notify,
    /// The program ends: what has not begun does not begin any more.
    pub(crate) ending: watch::Sender<bool>,
    pub(crate) running: Mutex<HashMap<ConversationId, watch::Sender<Option<Cancel>>>>,
    /// Set where only some conversations are worked on: those that somebody began here.
    pub(crate) own: Option<Mutex<HashSet<ConversationId>>>,
}

/// Whose conversations a process works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything that waits in the store.
    Everything,
    /// What came in here. A process that ends soon must not take what others wait for with it.
    AcceptedHere,
}

impl Talks {
    pub fn new(
        git: Git,
        store: Store,
        settings: Settings,
        forge: Option<Arc<dyn Forge>>,
        redactor: Redactor,
        scope: Scope,
    ) -> Arc<Self> {
        let codebases = Codebases { git: git.clone(), store: store.clone(), settings: settings.clone() };
        let isolation = Isolation::new(git, store.clone(), settings.clone());
        let isolation = match forge {
            Some(forge) => isolation.connected_to(forge),
            None => isolation,
        };
        let agents = Agents::new(&settings);
        let (events, _) = broadcast::channel(256);
        let own = (scope == Scope::AcceptedHere).then(Mutex::default);
        let (wake, ending, running) = (Notify::new(), watch::Sender::new(false), Mutex::default());
        Arc::new(Self { store, isolation, codebases, settings, agents, redactor, events, wake, ending, running, own })
    }

    /// Takes what came in, without its secrets. It is in the store when this returns, and is worked on from
    /// then on.
    pub async fn accept(&self, incoming: &Incoming) -> Result<Accepted, StoreError> {
        self.accept_about(incoming, None).await
    }

    /// The same; if it begins a conversation, that is about this codebase.
    pub async fn accept_about(&self, incoming: &Incoming, codebase: Option<&Codebase>) -> Result<Accepted, StoreError> {
        let incoming = self.without_secrets(incoming);
        let overtakes = matches!(&incoming.event, Event::Message { text, .. } if command_line::overtakes(text));
        let accepted = self.store.accept_about(&incoming, overtakes, codebase.map(|codebase| codebase.id)).await?;
        if let Some(own) = &self.own {
            own.lock().unwrap_or_else(PoisonError::into_inner).insert(accepted.conversation);
        }
        if let Event::Message { text, .. } = incoming.event {
            let (platform, conversation) = (incoming.platform, incoming.conversation);
            self.tell_watchers(TalkEvent::Heard { platform, conversation, text });
        }
        self.wake.notify_one();
        Ok(accepted)
    }

    fn without_secrets(&self, incoming: &Incoming) -> Incoming {
        let mut incoming = incoming.clone();
        if let Event::Message { text, context, hints } = &mut incoming.event {
            *text = self.redactor.clean_incoming(text);
            *context = context.as_deref().map(|context| self.redactor.clean_incoming(context));
            if let Some(pull_request) = &mut hints.pull_request {
                pull_request.title = self.redactor.clean_incoming(&pull_request.title);
            }
        }
        incoming
    }

    /// What happens from now on.
    pub fn watch(&self) -> broadcast::Receiver<TalkEvent> {
        self.events.subscribe()
    }

    /// Whether anybody looks on.
    pub(crate) fn is_watched(&self) -> bool {
        self.events.receiver_count() > 0
    }

    pub fn tell_watchers(&self, event: TalkEvent) {
        // Nobody may be looking.
        let _ = self.events.send(event);
    }

    pub(crate) fn said(&self, conversation: &Conversation, answered: Option<MessageId>) {
        let (platform, name) = (conversation.platform.clone(), conversation.name.clone());
        self.tell_watchers(TalkEvent::Said { platform, conversation: name, answered });
    }

    /// Whether a conversation is for this process to work on.
    pub(crate) fn is_for_us(&self, conversation: ConversationId) -> bool {
        let own = self.own.as_ref();
        own.is_none_or(|own| own.lock().unwrap_or_else(PoisonError::into_inner).contains(&conversation))
    }

    /// How many turns this process has at this moment.
    pub fn running(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn is_running(&self, conversation: ConversationId) -> bool {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&conversation)
    }

    pub(crate) fn cancel(&self, conversation: ConversationId, why: Cancel) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = running.get(&conversation) {
            turn.send_replace(Some(why));
        }
    }

    pub(crate) fn cancel_all(&self, why: Cancel) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for turn in running.values() {
            turn.send_replace(Some(why));
        }
    }

    /// The codebase that a conversation is about: the chosen one, or the only one.
    pub async fn codebase_of(&self, conversation: &Conversation) -> Result<Option<Codebase>, StoreError> {
        let mut all = self.store.codebases().await?;
        if let Some(chosen) = conversation.codebase {
            return Ok(all.into_iter().find(|codebase| codebase.id == chosen));
        }
        Ok(if all.len() == 1 { all.pop() } else { None })
    }

    /// A folder of a conversation's own, for work without a codebase.
    pub(crate) fn scratch(&self, conversation: ConversationId) -> PathBuf {
        self.settings.home().join("scratch").join(conversation.to_string())
    }
}
