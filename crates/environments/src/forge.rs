//! The interface to the service that hosts the repositories, their issues and their pull requests.

use async_trait::async_trait;
use grove_model::{BranchName, Codebase, CommitSha, Environment, PullRequestInfo};

/// A pull request to be opened.
#[derive(Clone, Debug)]
pub struct NewPullRequest<'a> {
    pub branch: &'a BranchName,
    /// The branch that it is to be merged into.
    pub base: &'a str,
    /// The title that was given, or the issue's title, or the fallback.
    pub title: PullRequestTitle<'a>,
    /// The issue that it closes.
    pub issue: Option<u64>,
}

#[derive(Clone, Debug)]
pub enum PullRequestTitle<'a> {
    Given(&'a str),
    /// The issue's title, or else this one.
    OfIssueOr(&'a str),
}

/// The pull request of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedPullRequest {
    pub pull_request: PullRequestInfo,
    /// The pull request already existed.
    pub found: bool,
}

/// The reason why a forge did not do something, as a person reads it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ForgeError(pub String);

#[async_trait]
pub trait Forge: Send + Sync {
    /// Returns the head of the environment's pull request when it was merged, if it was, where the record
    /// does not say so.
    async fn merged_head(&self, _codebase: &Codebase, _environment: &Environment) -> Option<CommitSha> {
        None
    }

    /// Tells whether this forge hosts the codebase.
    fn hosts_codebase(&self, _codebase: &Codebase) -> bool {
        false
    }

    /// Opens a pull request for a pushed branch, or returns the one that is already open.
    async fn open_pull_request(
        &self,
        codebase: &Codebase,
        _new: &NewPullRequest<'_>,
    ) -> Result<OpenedPullRequest, ForgeError> {
        Err(ForgeError(format!("`{}` is not there", codebase.name)))
    }
}
