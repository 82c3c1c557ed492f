//! Environments: an isolated place for each piece of work, from its creation to its removal.
//!
//! Imports go one way, from the end of this list to its beginning:
//!
//! * [`problem`]: what a person reads when something is refused or fails.
//! * [`redact`]: secrets never leave in a message.
//! * [`settings`]: what was configured, where, and what it means.
//! * [`lease`]: which process is at work, and whether it still is.
//! * [`forge`]: the seam to the service that hosts the repositories.
//! * [`error`]: why something about an environment was refused or failed.
//! * [`paths`], [`journal`], [`mirror`]: where worktrees are; the steps of a creation; `worktree.json`.
//! * [`provider`]: the seam to the kinds of isolation, and git worktrees behind it.
//! * [`environments`]: the handle that all operations hang on.
//! * [`codebases`]: registering repositories.
//! * [`inspect`]: lists, merge status, sizes, diffs.
//! * [`remove`]: removing an environment so that nothing is lost, and bringing it back.
//! * [`ready`]: an environment that an agent may run in.
//! * [`snapshot`]: a commit that is only read.
//! * [`cleanup`]: environments that go by themselves, and the limit.
//! * [`create`]: an environment for a piece of work.
//! * [`integrate`]: finish, sync, push, pull requests.
//! * [`words`]: every sentence of a refusal.
//! * [`maintenance`]: scheduler, reconciliation, doctor.

pub mod cleanup;
pub mod codebases;
pub mod create;
pub mod environments;
pub mod error;
pub mod forge;
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
pub mod settings;
pub mod snapshot;
pub mod words;

pub use environments::Isolation;
pub use error::IsolationError;
pub use problem::{Problem, Reason};
