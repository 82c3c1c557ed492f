//! Drafts: answers that are shown while an agent still writes them.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use grove_model::MessageId;
use tokio::time::Instant;

use crate::conversations::ConversationEvent;

/// The number of bytes at the end of a draft that are shown; the final answer is shown completely.
const MAX_SHOWN_BYTES: usize = 8_000;

/// The time that an agent writes before its draft is shown for the first time.
const FIRST_DRAFT_DELAY: Duration = Duration::from_secs(3);

/// The number of answered messages that are remembered.
const MAX_ENDED_MESSAGES: usize = 512;

/// An answer that an agent still writes.
pub(super) struct AnswerDraft {
    pub conversation: String,
    pub message: MessageId,
    words: String,
    /// How far the preparations are, before the agent writes.
    progress: Option<String>,
    /// The platform's id of the draft, once it is shown.
    pub shown_as: Option<String>,
    /// The draft may be on the platform although the platform did not confirm it.
    pub uncertain: bool,
    changed: bool,
}

impl AnswerDraft {
    /// Returns the part of the draft that is shown.
    pub fn shown_text(&self) -> String {
        let progress = self.progress.as_deref().unwrap_or_default();
        format!("{}\n\n{progress}…", self.words.trim_end()).trim_start().to_owned()
    }

    /// Marks the draft to be shown the next time.
    pub fn put_off(&mut self) {
        self.changed = true;
    }

    fn apply_change(&mut self, change: DraftChange) {
        self.changed = true;
        match change {
            DraftChange::Words(text) => self.append_text(&text),
            DraftChange::Progress(text) => self.progress = Some(text),
        }
    }

    fn append_text(&mut self, text: &str) {
        self.progress = None;
        self.words.push_str(text);
        if self.words.len() > 2 * MAX_SHOWN_BYTES {
            let at = (self.words.len() - MAX_SHOWN_BYTES..).find(|at| self.words.is_char_boundary(*at)).unwrap_or(0);
            self.words.drain(..at);
        }
    }
}

/// A change of a draft.
enum DraftChange {
    Words(String),
    Progress(String),
}

/// The drafts of one platform.
pub(super) struct AnswerDrafts {
    platform: String,
    pace: Option<Duration>,
    growing: HashMap<MessageId, AnswerDraft>,
    /// Messages that were answered: earlier events about them may still arrive.
    ended: VecDeque<MessageId>,
    next: Instant,
}

impl AnswerDrafts {
    pub fn new(platform: &str, pace: Option<Duration>) -> Self {
        Self {
            platform: platform.to_owned(),
            pace,
            growing: HashMap::new(),
            ended: VecDeque::new(),
            next: Instant::now(),
        }
    }

    /// Applies an event to the draft of its message.
    pub fn apply_event(&mut self, event: ConversationEvent) {
        let (platform, conversation, message, change) = match event {
            ConversationEvent::Delta { platform, conversation, message, text } => {
                (platform, conversation, message, DraftChange::Words(text))
            }
            ConversationEvent::Step { platform, conversation, message, text } => {
                (platform, conversation, message, DraftChange::Words(format!("\n> {text}\n\n")))
            }
            ConversationEvent::Progress { platform, conversation, message, text } => {
                (platform, conversation, message, DraftChange::Progress(text))
            }
            ConversationEvent::Heard { .. }
            | ConversationEvent::Said { .. }
            | ConversationEvent::Worktrees
            | ConversationEvent::Settings => return,
        };
        if self.pace.is_none() || platform != self.platform || self.ended.contains(&message) {
            return;
        }
        if !self.growing.contains_key(&message) {
            // A short answer is shown only when it is complete.
            self.next = self.next.max(Instant::now() + FIRST_DRAFT_DELAY);
        }
        let new = || AnswerDraft {
            conversation,
            message,
            words: String::new(),
            progress: None,
            shown_as: None,
            uncertain: false,
            changed: false,
        };
        self.growing.entry(message).or_insert_with(new).apply_change(change);
    }

    /// Ends the draft of an answered message; later events must not recreate it.
    pub fn end_draft(&mut self, message: MessageId) {
        self.growing.remove(&message);
        self.ended.push_back(message);
        if self.ended.len() > MAX_ENDED_MESSAGES {
            self.ended.pop_front();
        }
    }

    /// Waits until a draft is to be shown; forever if there is none.
    pub async fn wait_until_due(&self) {
        if self.growing.values().any(|draft| draft.changed) {
            tokio::time::sleep_until(self.next).await;
        } else {
            std::future::pending().await
        }
    }

    /// Returns the drafts that are to be shown now.
    pub fn take_ready(&mut self) -> impl Iterator<Item = &mut AnswerDraft> {
        self.next = Instant::now() + self.pace.unwrap_or_default();
        self.growing.values_mut().filter_map(|draft| std::mem::take(&mut draft.changed).then_some(draft))
    }
}
