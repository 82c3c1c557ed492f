//! What is known of an environment's pull request, as events tell it.

use grove_model::{BranchName, Codebase, CommitSha, Environment, Kind, PullRequestInfo};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::mirror;

/// What a forge tells of a pull request.
#[derive(Clone, Debug)]
pub struct PullRequestNews {
    pub pull_request: PullRequestInfo,
    /// Its branch, if that is in the same repository.
    pub branch: Option<BranchName>,
}

impl Isolation {
    /// Keeps the news in the record of every environment that is about the pull request; these.
    pub async fn pull_request_changed(
        &self,
        codebase: &Codebase,
        news: &PullRequestNews,
    ) -> Result<Vec<Environment>, IsolationError> {
        let all = self.store.environments(codebase.id, false).await?;
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
    ) -> Result<(), IsolationError> {
        if environment.metadata.pr.as_ref() == Some(pull_request) {
            return Ok(());
        }
        self.store.keep_pull_request(environment.id, pull_request).await?;
        let environment = self.reread(environment).await?;
        if let Err(error) = mirror::write(codebase, &environment) {
            tracing::warn!(environment = %environment.id, "its mirror could not be written: {error}");
        }
        Ok(())
    }

    /// Whether a pull request's head is not in an environment's branch. A commit that is not even here
    /// is not in it.
    pub async fn is_behind(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        head: &CommitSha,
    ) -> Result<bool, IsolationError> {
        let Some(tip) = self.tip(codebase, environment).await? else { return Ok(false) };
        let repo = self.repository(codebase);
        Ok(repo.commit_of(head.as_str()).await?.is_none() || !repo.is_ancestor(head, &tip).await?)
    }
}

/// By its work, by its branch, or because it was linked and is about no other pull request.
fn is_about(environment: &Environment, news: &PullRequestNews) -> bool {
    let number = news.pull_request.number;
    let own = matches!(environment.work.kind(), Kind::Pr | Kind::Review) && environment.work.number() == Some(number);
    let linked = environment.related_prs.contains(&number);
    let no_other = environment.metadata.pr.as_ref().is_none_or(|known| known.number == number);
    own || news.branch.as_ref() == Some(&environment.branch) || (linked && no_other)
}
