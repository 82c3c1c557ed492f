//! Environments: an isolated place for each piece of work, from its creation to its removal.
//!
//! Imports go one way, from the end of this list to its beginning:
//!
//! * [`scripts`]: the interface to what runs programs inside an environment.
//! * [`problem`]: the text that a person reads when something is refused or fails.
//! * [`redact`]: removes secrets from messages, logs and records.
//! * [`settings`]: the configured values, where each came from, and what it means.
//! * [`lease`]: the process that owns a step, and whether it is still running.
//! * [`forge`]: the interface to the service that hosts the repositories.
//! * [`error`]: errors and refusals of operations on environments.
//! * [`paths`], [`journal`], [`mirror`]: where worktrees are; the steps of a creation; `worktree.json`.
//! * [`provider`]: the interface to the kinds of isolation, and its implementation with git worktrees.
//! * [`environments`]: the handle that every operation is a method of.
//! * [`codebases`]: registering repositories.
//! * [`inspect`]: lists, merge status, sizes, diffs.
//! * [`remove`]: removing an environment so that nothing is lost, and bringing it back.
//! * [`ready`]: an environment that an agent may run in.
//! * [`init`]: init scripts and their approval.
//! * [`snapshot`]: a commit that is checked out only to be read.
//! * [`cleanup`]: automatic removal of environments, and the limit on their number.
//! * [`create`]: an environment for a piece of work.
//! * [`integrate`]: finish, sync, push, pull requests.
//! * [`words`]: the text of every refusal and error.
//! * [`maintenance`]: scheduler, reconciliation, doctor.

pub mod cleanup;
pub mod codebases;
pub mod create;
pub mod environments;
pub mod error;
pub mod forge;
pub mod init;
pub mod inspect;
pub mod integrate;
pub mod journal;
pub mod lease;
pub mod maintenance;
pub mod mirror;
pub mod paths;
pub mod problem;
pub mod provider;
pub mod ready;
pub mod redact;
pub mod remove;
pub mod scripts;
pub mod settings;
pub mod snapshot;
pub mod words;

pub use environments::Environments;
pub use error::EnvironmentError;
pub use problem::{Problem, ProblemReason};
