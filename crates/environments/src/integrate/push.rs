//! An environment's branch goes to its remote, and becomes a pull request: by us, not by the agent.

use grove_git::base::choose_remote;
use grove_git::push::{PushError, Pushed, default_of, push, uncommitted};
use grove_git::{Place, Repository};
use grove_model::{BranchName, Codebase, CommitSha, Environment, Kind};

use crate::environments::Isolation;
use crate::error::{IsolationError, NoPush};
use crate::forge::{NewPullRequest, Opened, Title};
use crate::provider::disk::{OnDisk, on_disk};
use crate::settings::PushPolicy;

impl Isolation {
    /// Whether an environment's branch may be pushed at all; a plain look at what is known.
    fn may_push(&self, codebase: &Codebase, environment: &Environment) -> Result<(), NoPush> {
        if self.settings.push() == PushPolicy::Never {
            return Err(NoPush::SwitchedOff);
        }
        let branch = &environment.branch;
        let of_pull_request = matches!(environment.work.kind(), Kind::Pr | Kind::Review);
        if let Some(number) = environment.work.number().filter(|_| of_pull_request)
            && branch.as_str().ends_with(&format!("pr-{number}-review"))
        {
            return Err(NoPush::ForReview { branch: branch.clone(), number });
        }
        let bases = [codebase.default_branch.as_deref(), self.settings.base_branch()];
        if bases.into_iter().flatten().any(|base| base == branch.as_str()) {
            return Err(NoPush::DefaultBranch { branch: branch.clone() });
        }
        Ok(())
    }

    /// Pushes an environment's branch to its remote, never by force. Where another branch than the
    /// recorded one is checked out, `branch` says which of the two is meant.
    pub async fn push(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        branch: Option<&BranchName>,
    ) -> Result<Pushed, IsolationError> {
        let branch = self.chosen_branch(codebase, environment, branch).await?;
        let environment = &Environment { branch, ..environment.clone() };
        self.may_push(codebase, environment)?;
        let repo = self.repository(codebase);
        let remote = choose_remote(self.settings.remote(), &repo.remotes().await?)?.ok_or(NoPush::NoRemote)?;
        // Nobody recorded which one it is: the remote knows.
        if codebase.default_branch.is_none()
            && default_of(&repo, &remote).await?.as_deref() == Some(environment.branch.as_str())
        {
            return Err(NoPush::DefaultBranch { branch: environment.branch.clone() }.into());
        }
        let base = match environment.work.kind() {
            // Its commits were made elsewhere.
            Kind::Pr | Kind::Review => None,
            Kind::Issue | Kind::Thread | Kind::Task => environment.base_sha.as_ref(),
        };
        let pushed = push(&repo, &environment.branch, &remote, base).await.map_err(|error| match error {
            PushError::Git(error) => IsolationError::Git(error),
            other => IsolationError::Push(Box::new(other)),
        })?;
        self.store.record(environment.id, "pushed", Some(pushed.at.as_str())).await?;
        Ok(pushed)
    }

    /// How many files of an environment are not committed, and so are not pushed. `None`: not known.
    pub async fn uncommitted(&self, codebase: &Codebase, environment: &Environment) -> Option<usize> {
        let common_dir = &codebase.git_common_dir;
        let OnDisk::Worktree(git_dir) = on_disk(environment, common_dir) else { return None };
        // Pinned: an agent may have rewritten what is inside.
        let place = Place::Worktree { work_tree: &environment.path, git_dir: &git_dir, common_dir };
        let counted = uncommitted(&self.git, place).await;
        counted.inspect_err(|error| tracing::warn!("what is not committed could not be counted: {error}")).ok()
    }

    /// Whether a run left commits that are to be pushed. `before` is what was checked out before it.
    pub async fn left_commits(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        before: Option<&CommitSha>,
    ) -> Result<bool, IsolationError> {
        if self.settings.push() != PushPolicy::Auto || self.may_push(codebase, environment).is_err() {
            return Ok(false);
        }
        let now = self.tip(codebase, environment).await?;
        Ok(now.is_some() && now.as_ref() != before)
    }

    /// Pushes, and opens the pull request of the branch or finds the one that is open.
    pub async fn open_pull_request(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        title: Option<&str>,
    ) -> Result<(Pushed, Opened), IsolationError> {
        let no_forge = || NoPush::NoForge { codebase: codebase.name.clone() };
        self.may_push(codebase, environment)?;
        let forge = self.forge.as_ref().filter(|forge| forge.hosts(codebase)).ok_or_else(no_forge)?;
        let pushed = self.push(codebase, environment, None).await?;
        let repo = self.repository(codebase);
        let base = base_of(codebase, environment, &pushed.remote);
        let base = base.ok_or_else(|| NoPush::NoBase { branch: environment.branch.clone() })?;
        let subject = subject(&repo, &pushed.at).await?;
        let new = NewPullRequest {
            branch: &environment.branch,
            base: &base,
            title: title.map_or(Title::OfIssueOr(&subject), Title::Given),
            issue: environment.work.number().filter(|_| environment.work.kind() == Kind::Issue),
        };
        let opened = forge
            .open(codebase, &new)
            .await
            .map_err(|error| IsolationError::Forge { branch: environment.branch.clone(), why: error.to_string() })?;
        self.keep_pull_request(codebase, environment, &opened.pull_request).await?;
        Ok((pushed, opened))
    }
}

/// The branch that the work began from, as the remote calls it.
fn base_of(codebase: &Codebase, environment: &Environment, remote: &str) -> Option<String> {
    let of_remote = |base: &str| base.strip_prefix(&format!("{remote}/")).map(str::to_owned);
    let began = environment.base_ref.as_deref().and_then(of_remote);
    began.or_else(|| codebase.default_branch.clone())
}

async fn subject(repo: &Repository, at: &CommitSha) -> Result<String, IsolationError> {
    let show = repo.command("show").args(["--no-patch", "--no-show-signature", "--format=%s", at.as_str()]);
    Ok(show.text().await?)
}
