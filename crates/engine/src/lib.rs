//! What Grovekeeper decides and does, above git and the store and below any platform.
//!
//! * [`settings`]: what was configured, where, and what it means.
//! * [`codebases`]: registering repositories.
//! * [`isolation`]: an environment for a piece of work.
//! * [`removal`]: taking an environment away so that nothing is lost, and bringing it back.
//! * [`owner`]: which process is at work, and whether it still is.
//! * [`reconcile`], [`doctor`]: records, git and disk brought together; what is well and what is not.
//! * `kernel`: what the kernel offers for walls around agents.
//! * [`diff`]: what was changed in an environment.
//! * [`finish`]: the end of a piece of work: merged, or given up.
//! * [`forge`]: the seam to whoever hosts the repositories.
//! * [`push`]: a branch goes to its remote.
//! * [`pull_request`]: what is known of an environment's pull request.
//! * [`sync`]: an environment is brought up to date.
//! * [`cleanup`]: environments go when their work is finished.
//! * [`size`]: how much room environments take.
//! * [`standing`]: is its work merged, is anybody still at it.
//! * [`view`]: environments as people and scripts see them.
//! * [`talk`]: conversations, from a message to its answer.
//! * [`current`]: environments as they are now, whatever was recorded.
//! * [`commands`]: what people can ask for with a slash.
//! * [`custom`]: commands that a repository brings along.
//! * [`agent`]: the seam to coding agents.
//! * [`reply_text`]: every sentence that a person reads in a conversation.
//! * [`redact`]: secrets never leave in a message.
//! * [`words`]: every sentence that a person reads when something is refused.

pub mod agent;
pub mod cleanup;
pub mod codebases;
pub mod commands;
pub mod current;
pub mod custom;
pub mod diff;
pub mod doctor;
pub mod finish;
pub mod forge;
pub mod isolation;
mod kernel;
pub mod letterbox;
pub mod owner;
pub mod pull_request;
pub mod push;
pub mod reconcile;
pub mod redact;
pub mod removal;
pub mod reply_text;
pub mod send;
pub mod settings;
pub mod size;
pub mod standing;
pub mod sync;
pub mod talk;
pub mod view;
pub mod words;

pub use words::{Problem, Reason};
