//! The seam to whoever hosts the repositories and knows of their issues and pull requests.

use async_trait::async_trait;
use grove_model::{BranchName, Codebase, CommitSha, Environment, PullRequestInfo};

/// A pull request to be opened.
#[derive(Clone, Debug)]
pub struct NewPullRequest<'a> {
    pub branch: &'a BranchName,
    /// What it goes into.
    pub base: &'a str,
    /// Where nobody gave one: the issue's, or else this.
    pub title: Title<'a>,
    /// The issue that it closes.
    pub issue: Option<u64>,
}

#[derive(Clone, Debug)]
pub enum Title<'a> {
    Given(&'a str),
    /// The issue's, or else this.
    OfIssueOr(&'a str),
}

/// The pull request of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub pull_request: PullRequestInfo,
    /// It was there already.
    pub found: bool,
}

/// Why a forge did not do something, as a person reads it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ForgeError(pub String);

#[async_trait]
pub trait Forge: Send + Sync {
    /// The head of the environment's pull request when it was merged, if it was; beyond what the record
    /// says.
    async fn merged_head(&self, _codebase: &Codebase, _environment: &Environment) -> Option<CommitSha> {
        None
    }

    /// Whether it hosts this codebase.
    fn hosts(&self, _codebase: &Codebase) -> bool {
        false
    }

    /// Opens a pull request for a branch that was pushed, or finds the one that is open.
    async fn open(&self, codebase: &Codebase, _new: &NewPullRequest<'_>) -> Result<Opened, ForgeError> {
        Err(ForgeError(format!("`{}` is not there", codebase.name)))
    }
}
