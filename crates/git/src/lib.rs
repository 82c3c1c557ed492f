//! Git, by subprocess. This crate is the only place that spawns git.
//!
//! * [`command`]: the one builder that every call goes through.
//! * [`environment`]: the variables of every call, built from nothing.
//! * [`inspections`]: one look at a time at a worktree that an agent can write.
//! * [`planted`]: programs that a repository's own config names, which do not run.
//! * [`credentials`]: what git shows to a remote.
//! * [`network`]: the git directory of ours from which a remote is talked to.
//! * [`push`]: a branch goes to its remote.
//! * [`processes`]: ending all that a call started.
//! * [`parse`]: pure parsers of git's machine-readable output.
//! * [`repository`]: which repository a path belongs to, and its canonical checkout.
//! * [`base`]: which commit new work starts from.
//! * [`checked_out`]: what is checked out in a worktree now.
//! * [`holder`]: which worktree has a branch checked out.
//! * [`worktree`]: making a worktree, proving that it is right, taking it back.
//! * [`removal`]: taking a worktree away so that nothing is lost, and bringing it back.
//! * [`verdict`]: whether the work on a branch is in its base.
//! * [`finish`]: merging a finished branch into its base.
//! * [`files`]: files as a commit has them.
//! * [`reading`]: a worktree to look at, which is gone afterwards.
//! * [`leftovers`]: what calls that a crash ended have left.
//! * [`quarantine`]: entries that would break everybody else.

pub mod base;
pub mod checked_out;
pub mod clone;
pub mod command;
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

pub use command::{Git, Place, credentials};
pub use error::GitError;
pub use remote_options::{OnWait, RemoteOptions};
pub use removal::Look;
pub use repository::Repository;
