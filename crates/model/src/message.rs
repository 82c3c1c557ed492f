//! The words that the store has for messages and events.

use serde::{Deserialize, Serialize};

use crate::environment::words;

words!(
    /// The progress of an incoming message.
    MessageStatus, "status of a message" {
        /// It is in the queue.
        Waiting = "waiting",
        Running = "running",
        Done = "done",
        /// The request was refused, and the answer says why.
        Refused = "refused",
        /// Its run was interrupted; it can be run again.
        Interrupted = "interrupted",
        /// It was set aside.
        Failed = "failed",
        /// The answer asks a question; the message is kept until that is answered.
        Asked = "asked",
    }
);

impl MessageStatus {
    /// Tells whether the message waits or runs, so that its answer is still to come.
    pub fn is_open(self) -> bool {
        matches!(self, MessageStatus::Waiting | MessageStatus::Running)
    }
}

/// A question with a fixed set of answers. A platform may show them as buttons; sending the text of an option
/// chooses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub question: String,
    pub options: Vec<ChoiceOption>,
}

/// An answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceOption {
    /// The text of a button.
    pub label: String,
    /// The message that chooses it.
    pub text: String,
}

impl ChoiceOption {
    pub fn new(label: impl Into<String>, text: impl Into<String>) -> Self {
        Self { label: label.into(), text: text.into() }
    }
}

words!(
    /// The part that a message to people plays.
    OutboxKind, "kind of message to people" {
        /// A message during the work, before the answer.
        Notice = "notice",
        /// The answer to a message.
        Answer = "answer",
    }
);

words!(
    /// The outcome of handling an event from a platform.
    EventOutcome, "outcome of an event" {
        Done = "done",
        Failed = "failed",
    }
);
