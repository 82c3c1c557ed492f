//! Keeps what events report about an environment's pull request.

use grove_model::{BranchName, Codebase, CommitSha, Environment, PullRequestInfo, WorkKind};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::mirror;

/// A forge's report about a pull request.
#[derive(Clone, Debug)]
pub struct PullRequestUpdate {
    pub pull_request: PullRequestInfo,
    /// Its branch, if that is in the same repository.
    pub branch: Option<BranchName>,
}

impl Environments {
    /// Records the update for every environment that is about the pull request, and returns those
    /// environments.
    pub async fn pull_request_changed(
        &self,
        codebase: &Codebase,
        news: &PullRequestUpdate,
    ) -> Result<Vec<Environment>, EnvironmentError> {
        let all = self.store.list_environments(codebase.id, false).await?;
        let about: Vec<Environment> = all.into_iter().filter(|environment| is_about(environment, news)).collect();
        for environment in &about {
            self.keep_pull_request(codebase, environment, &news.pull_request).await?;
        }
        Ok(about)
    }

    pub(crate) async fn keep_pull_request(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        pull_request: &PullRequestInfo,
    ) -> Result<(), EnvironmentError> {
        if environment.metadata.pr.as_ref() == Some(pull_request) {
            return Ok(());
        }
        self.store.keep_pull_request(environment.id, pull_request).await?;
        let environment = self.reload_environment(environment).await?;
        if let Err(error) = mirror::write_mirror(codebase, &environment) {
            tracing::warn!(environment = %environment.id, "its mirror could not be written: {error}");
        }
        Ok(())
    }

    /// Tells whether a pull request's head is missing from an environment's branch. A commit that is not even
    /// in the repository is missing from it.
    pub async fn is_behind(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        head: &CommitSha,
    ) -> Result<bool, EnvironmentError> {
        let Some(tip) = self.head_commit(codebase, environment).await? else { return Ok(false) };
        let repo = self.open_repository(codebase);
        Ok(repo.commit_of(head.as_str()).await?.is_none() || !repo.is_ancestor(head, &tip).await?)
    }
}

/// Tells whether an environment is about the pull request: by its work, by its branch, or because it was
/// linked and is about no other pull request.
fn is_about(environment: &Environment, news: &PullRequestUpdate) -> bool {
    let number = news.pull_request.number;
    let own = matches!(environment.work.work_kind(), WorkKind::Pr | WorkKind::Review)
        && environment.work.forge_number() == Some(number);
    let linked = environment.related_prs.contains(&number);
    let no_other = environment.metadata.pr.as_ref().is_none_or(|known| known.number == number);
    own || news.branch.as_ref() == Some(&environment.branch) || (linked && no_other)
}
