//! Git, by subprocess. This crate is the only place that spawns git.
//!
//! * [`command`]: the builder of every call to git; its modules are `environment` (the variables of
//!   every call), `inspections` (one inspection at a time of a worktree that an agent can write),
//!   `planted` (blocks programs that a repository's own config names) and [`credentials`] (what git
//!   sends to a remote).
//! * [`network`]: the temporary git directory from which calls connect to a remote.
//! * `remote_options`: how remotes are contacted for one caller.
//! * `progress`: how far a clone, fetch or checkout is.
//! * [`processes`]: ends every process that a call started.
//! * [`lock`]: file locks among Grovekeeper's own processes.
//! * `durable`: durable writes, and reads that never block.
//! * [`error`], [`redact`]: the errors of git, and messages without credentials.
//! * [`parse`]: pure parsers of git's machine-readable output.
//! * [`repository`]: finds the repository of a path, and its canonical checkout.
//! * [`clone`]: clones a repository.
//! * [`refs`], [`upstream`]: read and write refs, and the upstream of a branch.
//! * [`links`]: the links between a worktree and git's entry for it.
//! * [`base`], [`refresh`]: choose the commit that new work starts from, and update bases.
//! * [`checked_out`]: what is checked out in a worktree now.
//! * [`diff`]: the changes in a worktree since a commit.
//! * [`holder`]: finds the worktree that has a branch checked out.
//! * [`worktree`]: creates a worktree, verifies it and undoes a creation.
//! * [`include`], [`submodules`]: ignored files and submodules of a new worktree.
//! * `settled`: asks git cheaply whether anything changed since a checkout.
//! * [`removal`]: moves a worktree to the trash without loss, and restores it.
//! * [`verdict`]: tells whether the work on a branch is in its base.
//! * [`sync`]: merges the base, or a pull request's newer head, into a worktree.
//! * [`push`]: pushes a branch to its remote.
//! * [`finish`]: merges a finished branch into its base.
//! * [`files`]: reads files of a commit.
//! * [`reading`]: snapshots, worktrees that are only read and then removed.
//! * [`leftovers`]: removes files of calls that a crash ended.
//! * [`quarantine`]: moves broken entries aside that would break the whole repository.

pub mod base;
pub mod checked_out;
pub mod clone;
pub mod command;
pub mod diff;
mod durable;
pub mod error;
pub mod files;
pub mod finish;
pub mod holder;
pub mod include;
pub mod leftovers;
pub mod links;
pub mod lock;
pub mod network;
pub mod parse;
pub mod processes;
mod progress;
pub mod push;
pub mod quarantine;
pub mod reading;
pub mod redact;
pub mod refresh;
pub mod refs;
mod remote_options;
pub mod removal;
pub mod repository;
mod settled;
pub mod submodules;
pub mod sync;
pub mod upstream;
pub mod verdict;
pub mod worktree;

pub use command::{Git, GitLocation, credentials};
pub use error::GitError;
pub use progress::{GitProgress, ProgressCallback, ProgressPhase, ProgressStep};
pub use remote_options::RemoteOptions;
pub use removal::RemovalCheck;
pub use repository::Repository;
