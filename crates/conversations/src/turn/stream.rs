//! Forwards the events of a working agent to subscribers.

use grove_agents::agent::AgentEvent;
use grove_environments::redact::RedactedStream;
use grove_store::AgentSession;
use tokio::sync::mpsc;

use crate::conversations::ConversationEvent;
use crate::replies;
use crate::turn_context::TurnContext;

pub(super) struct AgentEventForwarder<'a> {
    context: &'a TurnContext<'a>,
    /// `None` if the session is never resumed.
    session: Option<AgentSession>,
    /// Forwards complete lines, so that a secret is never split; the stored answer is redacted as a whole.
    text: RedactedStream,
    /// Pieces of the current text were received.
    pieces: bool,
}

impl<'a> AgentEventForwarder<'a> {
    pub fn new(context: &'a TurnContext<'a>, session: Option<AgentSession>) -> Self {
        Self { context, session, text: RedactedStream::new(context.conversations.redactor.clone()), pieces: false }
    }

    /// Forwards all events of the agent. Returns the session as it is known then.
    pub async fn forward_events(mut self, mut heard: mpsc::Receiver<AgentEvent>) -> Option<AgentSession> {
        while let Some(event) = heard.recv().await {
            match event {
                AgentEvent::Session(id) => self.save_session_id(id).await,
                AgentEvent::Delta(text) => {
                    self.pieces = true;
                    self.show_lines(&text);
                }
                AgentEvent::Text(text) => {
                    if !std::mem::take(&mut self.pieces) {
                        self.show_lines(&text);
                    }
                    self.show_lines("\n\n");
                }
                AgentEvent::TextDone => {
                    self.pieces = false;
                    self.show_lines("\n\n");
                }
                // Without subscribers no events are needed.
                _ if !self.context.conversations.is_watched() => {}
                other => {
                    if let Some(line) = replies::step_line(&other) {
                        self.show_step(&line);
                    }
                }
            }
        }
        self.session
    }

    /// Stores the session id as soon as it is known, so that a crash does not lose it.
    async fn save_session_id(&mut self, id: String) {
        let Some(session) = &mut self.session else { return };
        if session.facts.begun && session.assistant_id.as_deref() == Some(&id) {
            return;
        }
        session.assistant_id = Some(id);
        session.facts.begun = true;
        if let Err(error) = self.context.conversations.store.keep_session(session).await {
            tracing::error!(%error, "agent session not stored, the next message begins a new one");
        }
    }

    fn show_lines(&mut self, text: &str) {
        if !self.context.conversations.is_watched() {
            return self.text.pass_over(text);
        }
        let text = self.text.push_piece(text);
        if !text.is_empty() {
            let (platform, conversation, message) = self.message_address();
            self.context.conversations.tell_watchers(ConversationEvent::Delta {
                platform,
                conversation,
                message,
                text,
            });
        }
    }

    fn show_step(&self, line: &str) {
        let text = self.context.conversations.redactor.clean_cut(line);
        let (platform, conversation, message) = self.message_address();
        self.context.conversations.tell_watchers(ConversationEvent::Step { platform, conversation, message, text });
    }

    fn message_address(&self) -> (String, String, grove_model::MessageId) {
        let conversation = self.context.conversation;
        (conversation.platform.clone(), conversation.name.clone(), self.context.message.id)
    }
}
