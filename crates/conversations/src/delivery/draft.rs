//! Answers that grow while an agent works.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use grove_model::MessageId;
use tokio::time::Instant;

use crate::conversations::TalkEvent;

/// How much of the end of a growing answer is shown; the answer itself comes whole.
const SHOWN: usize = 8_000;

/// How long an agent speaks before its answer is shown for the first time.
const FIRST: Duration = Duration::from_secs(3);

/// How many answered messages are remembered.
const ENDED: usize = 512;

/// An answer that grows.
pub(super) struct Draft {
    pub conversation: String,
    pub message: MessageId,
    words: String,
    /// What it is called on its platform, once it is there.
    pub shown_as: Option<String>,
    /// It may be there although that was not said.
    pub uncertain: bool,
    changed: bool,
}

impl Draft {
    /// What is shown of it.
    pub fn text(&self) -> String {
        format!("{}\n\n…", self.words.trim_end())
    }

    /// It is shown the next time.
    pub fn put_off(&mut self) {
        self.changed = true;
    }

    fn add(&mut self, text: &str) {
        self.words.push_str(text);
        self.changed = true;
        if self.words.len() > 2 * SHOWN {
            let at = (self.words.len() - SHOWN..).find(|at| self.words.is_char_boundary(*at)).unwrap_or(0);
            self.words.drain(..at);
        }
    }
}

/// The growing answers of one platform.
pub(super) struct Drafts {
    platform: String,
    pace: Option<Duration>,
    growing: HashMap<MessageId, Draft>,
    /// Messages that were answered: what was said before that may still be heard.
    ended: VecDeque<MessageId>,
    next: Instant,
}

impl Drafts {
    pub fn new(platform: &str, pace: Option<Duration>) -> Self {
        Self {
            platform: platform.to_owned(),
            pace,
            growing: HashMap::new(),
            ended: VecDeque::new(),
            next: Instant::now(),
        }
    }

    /// Takes what an agent says.
    pub fn hear(&mut self, event: TalkEvent) {
        let (platform, conversation, message, text) = match event {
            TalkEvent::Delta { platform, conversation, message, text } => (platform, conversation, message, text),
            TalkEvent::Step { platform, conversation, message, text } => {
                (platform, conversation, message, format!("\n> {text}\n\n"))
            }
            TalkEvent::Heard { .. } | TalkEvent::Said { .. } | TalkEvent::Worktrees => return,
        };
        if self.pace.is_none() || platform != self.platform || self.ended.contains(&message) {
            return;
        }
        if !self.growing.contains_key(&message) {
            // A short answer comes whole.
            self.next = self.next.max(Instant::now() + FIRST);
        }
        let new =
            || Draft { conversation, message, words: String::new(), shown_as: None, uncertain: false, changed: false };
        self.growing.entry(message).or_insert_with(new).add(&text);
    }

    /// A message is answered; its draft must not come back.
    pub fn end(&mut self, message: MessageId) {
        self.growing.remove(&message);
        self.ended.push_back(message);
        if self.ended.len() > ENDED {
            self.ended.pop_front();
        }
    }

    /// Waits until something is to be shown; for ever where nothing is.
    pub async fn due(&self) {
        if self.growing.values().any(|draft| draft.changed) {
            tokio::time::sleep_until(self.next).await;
        } else {
            std::future::pending().await
        }
    }

    /// What is to be shown now.
    pub fn ready(&mut self) -> impl Iterator<Item = &mut Draft> {
        self.next = Instant::now() + self.pace.unwrap_or_default();
        self.growing.values_mut().filter_map(|draft| std::mem::take(&mut draft.changed).then_some(draft))
    }
}
