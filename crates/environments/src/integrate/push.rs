//! Pushes an environment's branch to its remote and opens its pull request. Grovekeeper does this, not the
//! agent.

use grove_git::Repository;
use grove_git::base::choose_remote;
use grove_git::push::{PushError, PushOutcome, default_of, push_branch};
use grove_model::{BranchName, Codebase, CommitSha, Environment, WorkKind};

use crate::environments::Environments;
use crate::error::{EnvironmentError, IntegrateError, PushRefusedError};
use crate::forge::{NewPullRequest, OpenedPullRequest, PullRequestTitle};
use crate::provider::disk::PathState;
use crate::settings::PushPolicy;

impl Environments {
    /// Checks whether an environment's branch may be pushed at all, using only known facts.
    fn may_push(&self, codebase: &Codebase, environment: &Environment) -> Result<(), PushRefusedError> {
        if self.settings.current().push_policy() == PushPolicy::Never {
            return Err(PushRefusedError::SwitchedOff);
        }
        let branch = &environment.branch;
        let of_pull_request = matches!(environment.work.work_kind(), WorkKind::Pr | WorkKind::Review);
        if let Some(number) = environment.work.forge_number().filter(|_| of_pull_request)
            && branch.as_str().ends_with(&format!("pr-{number}-review"))
        {
            return Err(PushRefusedError::ForReview { branch: branch.clone(), number });
        }
        let settings = self.settings.current();
        let bases = [codebase.default_branch.as_deref(), settings.base_branch()];
        if bases.into_iter().flatten().any(|base| base == branch.as_str()) {
            return Err(PushRefusedError::DefaultBranch { branch: branch.clone() });
        }
        Ok(())
    }

    /// Pushes an environment's branch to its remote, never by force. If another branch than the recorded one
    /// is checked out, `branch` says which of the two is meant.
    pub async fn push_branch(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        branch: Option<&BranchName>,
    ) -> Result<PushOutcome, EnvironmentError> {
        let branch = self.chosen_branch(codebase, environment, branch).await?;
        let environment = &Environment { branch, ..environment.clone() };
        self.may_push(codebase, environment)?;
        let repo = self.open_repository(codebase);
        let remote = choose_remote(self.settings.current().remote_name(), &repo.list_remotes().await?)?
            .ok_or(PushRefusedError::NoRemote)?;
        // The default branch is not recorded: the remote knows it.
        if codebase.default_branch.is_none()
            && default_of(&repo, &remote).await?.as_deref() == Some(environment.branch.as_str())
        {
            return Err(PushRefusedError::DefaultBranch { branch: environment.branch.clone() }.into());
        }
        let base = match environment.work.work_kind() {
            // The commits of a pull request were made elsewhere.
            WorkKind::Pr | WorkKind::Review => None,
            WorkKind::Issue | WorkKind::Thread | WorkKind::Task => environment.base_sha.as_ref(),
        };
        let pushed = push_branch(&repo, &environment.branch, &remote, base).await.map_err(|error| match error {
            PushError::Git(error) => EnvironmentError::Git(error),
            other => EnvironmentError::Integrate(IntegrateError::Push(Box::new(other))),
        })?;
        self.store.record_journal_line(environment.id, "pushed", Some(pushed.at.as_str())).await?;
        Ok(pushed)
    }

    /// Counts the files of an environment that are not committed, and so are not pushed. `None`: not known.
    pub async fn count_uncommitted_files(&self, codebase: &Codebase, environment: &Environment) -> Option<usize> {
        let PathState::Worktree(entry) = self.provider.path_state(codebase, environment) else { return None };
        let counted = self.provider.count_uncommitted(codebase, environment, &entry).await;
        counted.inspect_err(|error| tracing::warn!("what is not committed could not be counted: {error}")).ok()
    }

    /// Tells whether a run left commits to push. `before` is the commit that was checked out before the run.
    pub async fn left_commits(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        before: Option<&CommitSha>,
    ) -> Result<bool, EnvironmentError> {
        if self.settings.current().push_policy() != PushPolicy::Auto || self.may_push(codebase, environment).is_err() {
            return Ok(false);
        }
        let now = self.head_commit(codebase, environment).await?;
        Ok(now.is_some() && now.as_ref() != before)
    }

    /// Pushes the branch, and opens its pull request or returns the one that is already open.
    pub async fn open_pull_request(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        title: Option<&str>,
    ) -> Result<(PushOutcome, OpenedPullRequest), EnvironmentError> {
        let no_forge = || PushRefusedError::NoForge { codebase: codebase.name.clone() };
        self.may_push(codebase, environment)?;
        let forge = self.forge.as_ref().filter(|forge| forge.hosts_codebase(codebase)).ok_or_else(no_forge)?;
        let pushed = self.push_branch(codebase, environment, None).await?;
        let repo = self.open_repository(codebase);
        let base = base_of(codebase, environment, &pushed.remote);
        let base = base.ok_or_else(|| PushRefusedError::NoBase { branch: environment.branch.clone() })?;
        let subject = commit_subject(&repo, &pushed.at).await?;
        let new = NewPullRequest {
            branch: &environment.branch,
            base: &base,
            title: title.map_or(PullRequestTitle::OfIssueOr(&subject), PullRequestTitle::Given),
            issue: environment.work.forge_number().filter(|_| environment.work.work_kind() == WorkKind::Issue),
        };
        let opened = forge.open_pull_request(codebase, &new).await.map_err(|error| {
            EnvironmentError::Integrate(IntegrateError::Forge {
                branch: environment.branch.clone(),
                why: error.to_string(),
            })
        })?;
        self.keep_pull_request(codebase, environment, &opened.pull_request).await?;
        Ok((pushed, opened))
    }
}

/// Returns the branch that the work began from, under the remote's name for it.
fn base_of(codebase: &Codebase, environment: &Environment, remote: &str) -> Option<String> {
    let of_remote = |base: &str| base.strip_prefix(&format!("{remote}/")).map(str::to_owned);
    let began = environment.base_ref.as_deref().and_then(of_remote);
    began.or_else(|| codebase.default_branch.clone())
}

async fn commit_subject(repo: &Repository, at: &CommitSha) -> Result<String, EnvironmentError> {
    let show = repo.new_command("show").args(["--no-patch", "--no-show-signature", "--format=%s", at.as_str()]);
    Ok(show.run_to_text().await?)
}
