//! Making a worktree.
//!
//! `git worktree add` builds its entry under `.git/worktrees/` step by step, in the sight of every
//! other git command of that repository, and several at once trip over each other. Here the entry
//! is built aside, under `.git/grove/staging-…`, filled by git itself, and appears by one rename.
//! Until then nothing in the repository knows of it but the branch.
//!
//! The order, each step told to the [`Journal`] before the next, each undone by [`Created::undo`] or,
//! after a crash, by [`withdraw`]:
//! 1. [`target`]: is the path free?
//! 2. [`source`]: which branch, at which commit? The branch is made by compare-and-swap.
//! 3. [`stage`]: directory, entry, checkout, publication.
//! 4. [`verify`]: git's exit code is not proof.
//!
//! The canonical checkout is never touched: not its HEAD, not its index, not its files.

mod source;
pub(crate) mod stage;
mod target;
mod verify;
mod withdraw;

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_model::{BranchName, CommitSha, Nonce, human_size};
use serde::{Deserialize, Serialize};

pub use source::{Prepared, Source, Wanted};
pub use target::TargetError;
pub use verify::Flaw;
pub use withdraw::{Withdrawn, settle, withdraw};

use crate::base::BaseError;
use crate::holder::HolderState;
use crate::parse::Status;
use crate::upstream::Upstream;
use crate::{GitError, Repository};

#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Base(#[from] BaseError),
    #[error("the branch `{0}` exists already, so it cannot start from another commit")]
    BranchExists(BranchName),
    #[error("the branch `{branch}` is checked out at {}{state}", at.display())]
    BranchHeld { branch: BranchName, at: PathBuf, state: HolderState },
    #[error("`{branch}` cannot be a branch while the branch `{other}` exists")]
    BranchInTheWay { branch: BranchName, other: String },
    #[error("pull request #{number} was not found on `{remote}`")]
    NoSuchPullRequest { number: u64, remote: String },
    #[error("the branch `{branch}` of the pull request is not on `{remote}`")]
    NoSuchBranch { branch: BranchName, remote: String },
    #[error("the commit {sha} of pull request #{number} is not to be had from `{remote}`")]
    NoSuchCommit { sha: CommitSha, number: u64, remote: String },
    #[error("a pull request needs a remote to be fetched from, and this repository has none")]
    NoRemote,
    #[error("`{remote}` could not be asked for {what}: {line}")]
    FetchFailed { remote: String, what: String, line: String },
    #[error("the new worktree is not right: {0}")]
    Flawed(Flaw),
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
    #[error("the branch `{branch}` could not be made: {line}")]
    Branch { branch: BranchName, line: String },
    #[error("the files could not be checked out: {line}")]
    Checkout { line: String },
    #[error("{} has {} free and the files need {}", path.display(), human_size(*free), human_size(*needed))]
    DiskFull { path: PathBuf, free: u64, needed: u64 },
    #[error("the step could not be recorded: {0}")]
    Journal(String),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl AddError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> AddError {
        let what = what.into();
        move |source| AddError::Io { what, source }
    }
}

/// Where a branch is before and after a creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchIntent {
    pub from: Option<CommitSha>,
    pub to: CommitSha,
    /// What it follows, where the creation sets that.
    #[serde(default)]
    pub upstream: Option<UpstreamIntent>,
}

/// What a branch follows before and after a creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamIntent {
    pub from: Upstream,
    pub to: Upstream,
}

/// How far a creation has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The branch is about to be made or moved.
    Branch(BranchIntent),
    /// It was; the files are next.
    Branched,
    /// The empty staging places are there.
    Staged,
    CheckedOut,
    /// Git knows the worktree; its files are not in place yet.
    EntryPublished,
    Published,
    Verified,
}

/// Is told each step before the next begins; what it refuses does not happen.
#[async_trait]
pub trait Journal: Send + Sync {
    async fn step(&self, step: Step) -> Result<(), AddError>;
}

/// A worktree that was just made, with what is needed to take it back.
#[derive(Debug)]
pub struct Created {
    pub path: PathBuf,
    pub admin_dir: PathBuf,
    pub branch: BranchName,
    pub head: CommitSha,
    /// What git says of it; there once it was verified.
    pub status: Option<Status>,
    pub warnings: Vec<String>,
    intent: BranchIntent,
    nonce: Nonce,
    /// Directories above the worktree that did not exist before, outermost first.
    made_parents: Vec<PathBuf>,
}

/// Makes the worktree that `prepared` describes at `path`, locked with `nonce` until
/// [`Created::unlock`]. When it fails, nothing is left.
pub async fn add(
    repo: &Repository,
    path: &Path,
    prepared: Prepared,
    nonce: Nonce,
    journal: &dyn Journal,
) -> Result<Created, AddError> {
    let mut created = Created {
        path: path.to_owned(),
        admin_dir: PathBuf::new(),
        branch: prepared.branch.clone(),
        head: prepared.at.clone(),
        status: None,
        warnings: prepared.warnings.clone(),
        intent: prepared.intent(),
        nonce,
        made_parents: Vec::new(),
    };
    if let Err(error) = fill(repo, &mut created, &prepared, nonce, journal).await {
        // The first error is the one to report; what cannot be undone is said beside it.
        for left in created.undo(repo).await {
            tracing::warn!(path = %path.display(), "undoing a failed creation: {left}");
        }
        return Err(disk_full(repo, path, &created.head, &error).await.unwrap_or(error));
    }
    Ok(created)
}

/// What an entry, its index and a branch take besides the files.
const OVERHEAD: u64 = 64 * 1024;

/// Git does not always say why it could not write. Once all is taken back, the commit's files and
/// git's entry either fit their disks or they do not.
async fn disk_full(repo: &Repository, path: &Path, commit: &CommitSha, error: &AddError) -> Option<AddError> {
    let written = matches!(
        error,
        AddError::Checkout { .. }
            | AddError::Io { .. }
            | AddError::Branch { .. }
            | AddError::Flawed(_)
            | AddError::Git(_)
    );
    let there = path.ancestors().find(|dir| dir.is_dir()).filter(|_| written)?;
    let listed =
        repo.command("ls-tree").args(["-r", "-l", "-z", "--full-tree", commit.as_str()]).long().run().await.ok()?;
    // `<mode> <type> <id> <size>\t<path>`
    let sizes = listed.stdout.split(|byte| *byte == 0).filter_map(|line| {
        let header = line.split(|byte| *byte == b'\t').next()?;
        std::str::from_utf8(header).ok()?.split_whitespace().last()?.parse::<u64>().ok()
    });
    let sizes: Vec<u64> = sizes.collect();
    let entry = OVERHEAD + 100 * sizes.len() as u64;
    let too_small = |dir: &Path, files: &[u64], more: u64| {
        let disk = rustix::fs::statvfs(dir).ok()?;
        // A file takes whole blocks.
        let block = disk.f_frsize.max(1);
        let needed = more + files.iter().map(|size| size.div_ceil(block) * block).sum::<u64>();
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let full = needed >= free || (disk.f_files > 0 && files.len() as u64 + 16 >= disk.f_favail);
        full.then(|| AddError::DiskFull { path: dir.to_owned(), free, needed })
    };
    too_small(there, &sizes, entry).or_else(|| too_small(&repo.common_dir, &[], entry))
}

async fn fill(
    repo: &Repository,
    created: &mut Created,
    prepared: &Prepared,
    nonce: Nonce,
    journal: &dyn Journal,
) -> Result<(), AddError> {
    let free = target::check(repo, &created.path)?;
    journal.step(Step::Branch(prepared.intent())).await?;
    source::make_branch(repo, prepared, nonce).await?;
    created.warnings.extend(prepared.moved_branch_warning());
    journal.step(Step::Branched).await?;
    if let Some(moved) = free.clear()? {
        created
            .warnings
            .push(format!("a folder without a repository stood there and was moved to {}", moved.display()));
    }
    stage::publish(repo, created, nonce, journal).await?;
    journal.step(Step::Published).await?;
    if let Some(upstream) = &prepared.upstream {
        source::set_upstream(repo, &created.branch, upstream).await?;
    }
    let (status, warnings) = verify::verify(repo, created).await?;
    created.status = Some(status);
    created.warnings.extend(warnings);
    journal.step(Step::Verified).await
}

impl Created {
    /// Takes back everything that the creation made. Gives what could not be taken back.
    ///
    /// Only for a worktree that nobody was told of yet: its files are deleted.
    pub async fn undo(&mut self, repo: &Repository) -> Vec<String> {
        let mut left = Vec::new();
        if let Err(error) = withdraw::remove_own(repo, &self.path, self.nonce) {
            left.push(error.to_string());
        }
        // Those above may have got other tenants meanwhile and then stay.
        for dir in self.made_parents.drain(..).rev() {
            let _ = std::fs::remove_dir(dir);
        }
        if let Err(error) = withdraw::put_branch_back(repo, &self.branch, &self.intent, self.nonce).await {
            left.push(format!("the branch `{}`: {error}", self.branch));
        }
        left
    }

    /// Takes the lock away that marked the worktree as unfinished.
    pub fn unlock(&self) -> Result<(), AddError> {
        stage::unlock(&self.admin_dir).map_err(AddError::io("the new worktree cannot be unlocked"))
    }
}
