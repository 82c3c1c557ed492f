//! The seam where kinds of isolation differ: worktrees now, containers and other machines later.

pub mod disk;
pub mod worktree;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use grove_git::OnWait;
use grove_git::base::Base;
use grove_git::worktree::{BranchIntent, Journal};
use grove_model::{BranchName, Codebase, CommitSha, Environment, Nonce, Work};

use crate::error::IsolationError;
use crate::provider::disk::Facts;
use crate::settings::Settings;

/// Everything that a provider needs to know to make an environment.
pub struct IsolationRequest<'a> {
    pub codebase: &'a Codebase,
    pub work: &'a Work,
    pub branch: &'a BranchName,
    pub path: &'a Path,
    /// `--from`: any branch, tag or commit.
    pub from: Option<&'a str>,
    pub nonce: Nonce,
    /// With those of the repository.
    pub settings: &'a Settings,
    pub journal: &'a dyn Journal,
    /// Is told of a remote that lets the creation wait.
    pub on_wait: Option<&'a OnWait>,
}

/// What was made, and how to take it back if the record cannot be written.
pub struct Made {
    pub head: CommitSha,
    pub base: Option<Base>,
    /// What is there now, so that nobody has to look again.
    pub facts: Facts,
    /// What a person should know, each one sentence.
    pub notes: Vec<String>,
    pub unfinished: Box<dyn Unfinished>,
}

/// Something made and not yet recorded.
#[async_trait]
pub trait Unfinished: Send {
    /// The record is written: whatever marked it as unfinished goes.
    fn finish(&self) -> Result<(), IsolationError>;

    /// Removes everything that the creation made; gives what could not be removed.
    async fn take_back(self: Box<Self>) -> Vec<String>;
}

/// An environment as it is outside of our records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    /// `None` when it is on no branch.
    pub branch: Option<String>,
    pub head: Option<CommitSha>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Good,
    Missing,
    /// Gone together with the folder above it.
    NotMounted,
    Bad(String),
}

#[async_trait]
pub trait IsolationProvider: Send + Sync {
    /// The word in the record's `provider` column.
    fn name(&self) -> &'static str;

    /// Makes the environment whole, or leaves nothing.
    async fn create(&self, request: &IsolationRequest<'_>) -> Result<Made, IsolationError>;

    /// Takes back a creation that was cut short, by its nonce; gives what stays because somebody
    /// has put something there.
    async fn withdraw(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        intent: Option<&BranchIntent>,
    ) -> Result<Option<PathBuf>, IsolationError>;

    /// Takes the mark of an unfinished creation from an environment that was recorded; whether there
    /// was one.
    fn settle(&self, codebase: &Codebase, environment: &Environment) -> Result<bool, IsolationError>;

    /// Lets go of what is left of an environment whose folder is gone, so that its branch is free.
    async fn forget(&self, codebase: &Codebase, environment: &Environment) -> Result<(), IsolationError>;

    /// What is really at an environment's path, if it is one of this codebase.
    async fn get(&self, codebase: &Codebase, path: &Path) -> Result<Option<Found>, IsolationError>;

    /// All of a codebase's, whoever made them; never the canonical checkout.
    async fn list(&self, codebase: &Codebase) -> Result<Vec<Found>, IsolationError>;

    /// Makes sure that something made by others at `path` can be taken over; changes nothing.
    async fn adopt(&self, codebase: &Codebase, path: &Path) -> Result<Option<Found>, IsolationError>;

    async fn health_check(&self, codebase: &Codebase, environment: &Environment) -> Result<Health, IsolationError>;
}
