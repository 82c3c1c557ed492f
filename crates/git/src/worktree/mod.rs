//! Creates a worktree.
//!
//! `git worktree add` builds its entry under `.git/worktrees/` step by step, visible to every other git
//! command of that repository, and several at once interfere with each other. Here the entry is built aside,
//! under `.git/grove/staging-…`, filled by git itself, and appears by one rename. Until then nothing in the
//! repository knows of it but the branch.
//!
//! The steps are in this order; each is recorded in the [`CreationJournal`] before the next, and undone by
//! [`CreatedWorktree::undo_creation`] or, after a crash, by [`withdraw_creation`]:
//! 1. [`target`]: checks that the path is free.
//! 2. [`source`]: finds the branch and its commit. The branch is created by compare-and-swap.
//! 3. [`stage`]: directory, entry, checkout, publication.
//! 4. [`verify`]: checks the result, since git's exit code is not proof.
//!
//! The canonical checkout is never touched: not its HEAD, not its index, not its files.

mod source;
pub(crate) mod stage;
mod target;
mod untouched;
mod verify;
mod withdraw;

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_model::{BranchName, CommitSha, Nonce, human_size};
use serde::{Deserialize, Serialize};

pub use source::{PreparedWorktree, WorktreeRequest, WorktreeSource};
pub use target::TargetError;
pub use untouched::is_untouched;
pub use verify::WorktreeFlaw;
pub use withdraw::{WithdrawOutcome, unlock_finished, withdraw_creation};

use crate::base::BaseError;
use crate::holder::HolderState;
use crate::parse::WorktreeStatus;
use crate::upstream::Upstream;
use crate::{GitError, Repository};

#[derive(Debug, thiserror::Error)]
pub enum AddWorktreeError {
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
    Flawed(WorktreeFlaw),
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

impl AddWorktreeError {
    pub(crate) fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> AddWorktreeError {
        let what = what.into();
        move |source| AddWorktreeError::Io { what, source }
    }
}

/// The commit of a branch before and after a creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchIntent {
    pub from: Option<CommitSha>,
    pub to: CommitSha,
    /// The upstream, if the creation sets it.
    #[serde(default)]
    pub upstream: Option<UpstreamIntent>,
}

/// The upstream of a branch before and after a creation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamIntent {
    pub from: Upstream,
    pub to: Upstream,
}

/// The progress of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CreationStep {
    /// The branch is about to be created or moved.
    Branch(BranchIntent),
    /// The branch was created or moved; the files are next.
    Branched,
    /// The empty staging folders exist.
    Staged,
    CheckedOut,
    /// Git knows the worktree; its files are not in place yet.
    EntryPublished,
    Published,
    Verified,
}

/// Records each step before the next begins; a step that it refuses does not happen.
#[async_trait]
pub trait CreationJournal: Send + Sync {
    async fn record_step(&self, step: CreationStep) -> Result<(), AddWorktreeError>;
}

/// A worktree that was just created, with the facts that are needed to undo it.
#[derive(Debug)]
pub struct CreatedWorktree {
    pub path: PathBuf,
    pub admin_dir: PathBuf,
    pub branch: BranchName,
    pub head: CommitSha,
    /// Git's status of it; set once it was verified.
    pub status: Option<WorktreeStatus>,
    pub warnings: Vec<String>,
    intent: BranchIntent,
    nonce: Nonce,
    /// Directories above the worktree that did not exist before, outermost first.
    made_parents: Vec<PathBuf>,
}

/// Creates the worktree that `prepared` describes at `path`, locked with `nonce` until
/// [`CreatedWorktree::unlock_worktree`]. A failure leaves nothing behind.
pub async fn add_worktree(
    repo: &Repository,
    path: &Path,
    prepared: PreparedWorktree,
    nonce: Nonce,
    journal: &dyn CreationJournal,
) -> Result<CreatedWorktree, AddWorktreeError> {
    let mut created = CreatedWorktree {
        path: path.to_owned(),
        admin_dir: PathBuf::new(),
        branch: prepared.branch.clone(),
        head: prepared.at.clone(),
        status: None,
        warnings: prepared.warnings.clone(),
        intent: prepared.branch_intent(),
        nonce,
        made_parents: Vec::new(),
    };
    if let Err(error) = fill_worktree(repo, &mut created, &prepared, nonce, journal).await {
        // The first error is the one to report; what cannot be undone is logged beside it.
        for left in created.undo_creation(repo).await {
            tracing::warn!(path = %path.display(), "undoing a failed creation: {left}");
        }
        return Err(disk_full(repo, path, &created.head, &error).await.unwrap_or(error));
    }
    Ok(created)
}

/// The size of an entry, its index and a branch, besides the files.
const ENTRY_OVERHEAD_BYTES: u64 = 64 * 1024;

/// Finds out whether a disk is full: git does not always say why it could not write. Once
/// everything is undone, the commit's files and git's entry either fit on their disks or they do
/// not.
async fn disk_full(
    repo: &Repository,
    path: &Path,
    commit: &CommitSha,
    error: &AddWorktreeError,
) -> Option<AddWorktreeError> {
    let written = matches!(
        error,
        AddWorktreeError::Checkout { .. }
            | AddWorktreeError::Io { .. }
            | AddWorktreeError::Branch { .. }
            | AddWorktreeError::Flawed(_)
            | AddWorktreeError::Git(_)
    );
    let there = path.ancestors().find(|dir| dir.is_dir()).filter(|_| written)?;
    let listed = repo
        .new_command("ls-tree")
        .args(["-r", "-l", "-z", "--full-tree", commit.as_str()])
        .with_long_timeout()
        .run()
        .await
        .ok()?;
    // `<mode> <type> <id> <size>\t<path>`
    let sizes = listed.stdout.split(|byte| *byte == 0).filter_map(|line| {
        let header = line.split(|byte| *byte == b'\t').next()?;
        std::str::from_utf8(header).ok()?.split_whitespace().last()?.parse::<u64>().ok()
    });
    let sizes: Vec<u64> = sizes.collect();
    let entry = ENTRY_OVERHEAD_BYTES + 100 * sizes.len() as u64;
    let too_small = |dir: &Path, files: &[u64], more: u64| {
        let disk = rustix::fs::statvfs(dir).ok()?;
        // A file occupies whole blocks.
        let block = disk.f_frsize.max(1);
        let needed = more + files.iter().map(|size| size.div_ceil(block) * block).sum::<u64>();
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let full = needed >= free || (disk.f_files > 0 && files.len() as u64 + 16 >= disk.f_favail);
        full.then(|| AddWorktreeError::DiskFull { path: dir.to_owned(), free, needed })
    };
    too_small(there, &sizes, entry).or_else(|| too_small(&repo.common_dir, &[], entry))
}

async fn fill_worktree(
    repo: &Repository,
    created: &mut CreatedWorktree,
    prepared: &PreparedWorktree,
    nonce: Nonce,
    journal: &dyn CreationJournal,
) -> Result<(), AddWorktreeError> {
    let free = target::check_target(repo, &created.path)?;
    journal.record_step(CreationStep::Branch(prepared.branch_intent())).await?;
    source::make_branch(repo, prepared, nonce).await?;
    created.warnings.extend(prepared.moved_branch_warning());
    journal.record_step(CreationStep::Branched).await?;
    if let Some(moved) = free.clear_path()? {
        created
            .warnings
            .push(format!("a folder without a repository stood there and was moved to {}", moved.display()));
    }
    stage::publish_worktree(repo, created, nonce, journal).await?;
    journal.record_step(CreationStep::Published).await?;
    if let Some(upstream) = &prepared.upstream {
        source::set_upstream(repo, &created.branch, upstream).await?;
    }
    let (status, warnings) = verify::verify_worktree(repo, created).await?;
    created.status = Some(status);
    created.warnings.extend(warnings);
    journal.record_step(CreationStep::Verified).await
}

impl CreatedWorktree {
    /// Undoes everything that the creation made. Returns what could not be undone.
    ///
    /// Only for a worktree that no caller knows of yet: its files are deleted.
    pub async fn undo_creation(&mut self, repo: &Repository) -> Vec<String> {
        let mut left = Vec::new();
        if let Err(error) = withdraw::remove_own(repo, &self.path, self.nonce) {
            left.push(error.to_string());
        }
        // Parent folders that have other contents by now stay.
        for dir in self.made_parents.drain(..).rev() {
            let _ = std::fs::remove_dir(dir);
        }
        if let Err(error) = withdraw::put_branch_back(repo, &self.branch, &self.intent, self.nonce).await {
            left.push(format!("the branch `{}`: {error}", self.branch));
        }
        left
    }

    /// Removes the lock that marked the worktree as unfinished.
    pub fn unlock_worktree(&self) -> Result<(), AddWorktreeError> {
        stage::remove_lock(&self.admin_dir).map_err(AddWorktreeError::io_error("the new worktree cannot be unlocked"))
    }
}
