//! Init scripts: a repository's own preparation of a new worktree.
//!
//! The script is the base branch's blob, never a file of a worktree: a fork or an agent cannot change it. It
//! runs once, and only if a person approved its content for this codebase ([`trust`]). An environment whose
//! script has not succeeded gets no agent.
//!
//! * [`script`]: finds the script. [`trust`]: approvals. `run`: runs it and records the outcome.

mod run;
pub mod script;
pub mod trust;

pub use run::InitOutcome;
