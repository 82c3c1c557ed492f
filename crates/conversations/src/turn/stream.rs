//! What an agent says while it works, on its way to whoever looks on.

use grove_agents::agent::AgentEvent;
use grove_environments::redact::CleanStream;
use grove_store::Session;
use tokio::sync::mpsc;

use crate::conversations::TalkEvent;
use crate::replies;
use crate::turn_context::Desk;

pub(super) struct Hearing<'a> {
    desk: &'a Desk<'a>,
    /// `None`: nobody comes back to it.
    session: Option<Session>,
    /// Shows whole lines, so that a secret is never cut in two; the stored answer is cleaned as a whole.
    text: CleanStream,
    /// Whether pieces of the present text were heard.
    pieces: bool,
}

impl<'a> Hearing<'a> {
    pub fn new(desk: &'a Desk<'a>, session: Option<Session>) -> Self {
        Self { desk, session, text: CleanStream::new(desk.talks.redactor.clone()), pieces: false }
    }

    /// Hears the agent out; the session as it is then known.
    pub async fn listen(mut self, mut heard: mpsc::Receiver<AgentEvent>) -> Option<Session> {
        while let Some(event) = heard.recv().await {
            match event {
                AgentEvent::Session(id) => self.keep(id).await,
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
                // What nobody sees need not be made.
                _ if !self.desk.talks.is_watched() => {}
                other => {
                    if let Some(line) = replies::step(&other) {
                        self.show_step(&line);
                    }
                }
            }
        }
        self.session
    }

    /// The session is kept as soon as it is known, so that a crash does not lose it.
    async fn keep(&mut self, id: String) {
        let Some(session) = &mut self.session else { return };
        if session.facts.begun && session.assistant_id.as_deref() == Some(&id) {
            return;
        }
        session.assistant_id = Some(id);
        session.facts.begun = true;
        if let Err(error) = self.desk.talks.store.keep_session(session).await {
            tracing::error!("an agent's session could not be kept, so the next message begins a new one: {error}");
        }
    }

    fn show_lines(&mut self, text: &str) {
        if !self.desk.talks.is_watched() {
            return self.text.pass_over(text);
        }
        let text = self.text.push(text);
        if !text.is_empty() {
            let (platform, conversation, message) = self.of();
            self.desk.talks.tell_watchers(TalkEvent::Delta { platform, conversation, message, text });
        }
    }

    fn show_step(&self, line: &str) {
        let text = self.desk.talks.redactor.clean_cut(line);
        let (platform, conversation, message) = self.of();
        self.desk.talks.tell_watchers(TalkEvent::Step { platform, conversation, message, text });
    }

    fn of(&self) -> (String, String, grove_model::MessageId) {
        let conversation = self.desk.conversation;
        (conversation.platform.clone(), conversation.name.clone(), self.desk.message.id)
    }
}
