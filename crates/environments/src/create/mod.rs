//! An environment for a piece of work.
//!
//! [`Isolation::create`] is the story: is there one already → claim the work in the store → let
//! the provider make it → record it, or take everything back. The store's `creating` row is the lock,
//! so that two who ask at once get one environment.

mod adopt;
pub mod decide;
mod facts;
mod foreign;
mod recover;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use grove_git::Repository;
use grove_model::{
    AdoptedFrom, BranchName, Codebase, Environment, EnvironmentId, Kind, Moment, Nonce, PrHead, Status, Work,
};
use grove_store::{Claim, ConversationRef, NewEnvironment};

use crate::create::decide::{Choice, Facts, Relation, decide};
use crate::environments::{Isolation, with_repository_settings};
use crate::error::IsolationError;
use crate::journal::{StoreJournal, fault_point};
use crate::lease::{LEASE, is_gone, this_process};
use crate::provider::{IsolationRequest, Made, disk};
use crate::settings::Settings;
use crate::{mirror, paths};

/// What somebody asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    pub work: Work,
    /// A branch that a person named, used as given.
    pub branch: Option<BranchName>,
    pub from: Option<String>,
    pub hints: Hints,
    /// Where it was asked for; works in the environment from then on.
    pub conversation: Option<ConversationRef>,
    pub by: CreatedBy,
}

/// What whoever asks knows besides the work itself.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    pub linked_issues: Vec<u64>,
    pub linked_prs: Vec<u64>,
    /// A branch that the work may be on already.
    pub suggested_branch: Option<BranchName>,
    /// Where an older kind of record says that the work is.
    pub legacy_path: Option<PathBuf>,
}

#[derive(Clone, Debug, Default)]
pub struct CreatedBy {
    pub platform: Option<String>,
    pub user: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub environment: Environment,
    pub how: How,
    /// The conversation's own environment was gone, and its reference was cleared.
    pub stale_reference: bool,
}

#[derive(Debug)]
pub enum How {
    /// It was there already.
    Used,
    /// It is that of a linked issue or pull request.
    Shared(Relation),
    /// Somebody else made it.
    Adopted(AdoptedFrom),
    Created(Box<New>),
}

/// What is known of an environment that was just made.
#[derive(Debug)]
pub struct New {
    pub facts: disk::Facts,
    /// What a person should know, each one sentence.
    pub notes: Vec<String>,
}

/// How long somebody who makes the same environment is waited for.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

pub(super) enum Tried {
    Done(Box<Outcome>),
    /// Another process has begun it.
    InTheMaking(Box<Environment>),
    /// Things stand differently now.
    Again,
}

impl Tried {
    fn reused(environment: Environment) -> Self {
        Tried::Done(Box::new(Outcome { environment, how: How::Used, stale_reference: false }))
    }
}

impl Isolation {
    /// The environment of a work: the one that it has, or a new one. Somebody who is making it
    /// right now is waited for; somebody who ended half way is cleaned up after.
    pub async fn create(&self, codebase: &Codebase, wish: &Wish) -> Result<Outcome, IsolationError> {
        self.quarantine_broken(codebase).await?;
        let mut stale_reference = false;
        let began = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let holder = match self.try_create(codebase, wish, &mut stale_reference).await? {
                Tried::Done(outcome) => {
                    if let Some(conversation) = &wish.conversation {
                        let id = outcome.environment.id;
                        if !self.store.bind_conversation(conversation, codebase.id, id).await? {
                            // It is being removed at this moment: once more.
                            continue;
                        }
                    }
                    return Ok(Outcome { stale_reference, ..*outcome });
                }
                Tried::InTheMaking(holder) => holder,
                Tried::Again => continue,
            };
            if self.recover(codebase, &holder).await? {
                continue;
            }
            if began.elapsed() > PATIENCE {
                return Err(IsolationError::InTheMaking { work: wish.work.key().to_string() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    async fn try_create(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        stale_reference: &mut bool,
    ) -> Result<Tried, IsolationError> {
        let bound = match &wish.conversation {
            Some(conversation) => self.store.bound_environment(conversation).await?,
            None => None,
        };
        let mut decision = decide(self.facts(codebase, &wish.work, &wish.hints, bound).await?);
        for gone in &decision.gone {
            self.store.advance(gone.id, gone.status, Status::Destroyed, Some("its folder is gone")).await?;
            self.store.clear_references(gone.id).await?;
            self.provider.forget(codebase, gone).await?;
            if let Err(error) = mirror::remove(codebase, gone) {
                tracing::warn!(environment = %gone.id, "its mirror could not be taken away: {error}");
            }
            *stale_reference |= Some(gone.id) == bound;
        }
        match decision.choice {
            // No strangers were looked at yet.
            Choice::Create | Choice::Adopt(_) => {}
            Choice::Wait(environment) => return Ok(Tried::InTheMaking(environment)),
            Choice::Wake(environment) => {
                self.wake(codebase, &environment).await?;
                return Ok(Tried::Again);
            }
            Choice::NotMounted(path) => return Err(IsolationError::NotMounted(path)),
            Choice::Unknown(environment, why) => return Err(IsolationError::Broken { path: environment.path, why }),
            Choice::Use(environment) if wish.from.is_some() => {
                let (work, branch) = (wish.work.key().to_string(), environment.branch);
                return Err(IsolationError::HasEnvironment { work, branch });
            }
            Choice::Use(environment) => {
                self.settle(codebase, &environment)?;
                return self.chosen(*environment, How::Used, &decision.steps).await;
            }
            Choice::Share(environment, relation) => {
                self.link_work(environment.id, &wish.work).await?;
                return self.chosen(*environment, How::Shared(relation), &decision.steps).await;
            }
        }
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let settings = with_repository_settings(&repo, &self.settings, codebase.default_branch.as_deref()).await?;
        let branch = self.branch_for(codebase, wish, &settings).await?;
        let others = self.store.environments(codebase.id, false).await?;
        let path = paths::path_for(&branch, codebase, &settings, &others);
        let new = self.new_row(codebase, wish, branch, path);

        if let Some(outcome) = self.take_over_legacy(codebase, wish, &new, &mut decision.steps).await? {
            return Ok(outcome);
        }
        let strangers = self.strangers(codebase, &wish.work, &wish.hints, (&new.path, &new.branch)).await?;
        let second = decide(Facts { fork: false, candidates: Vec::new(), strangers });
        // The first look's last line said that nothing but a new one was left.
        decision.steps.pop();
        decision.steps.extend(second.steps);
        if let Choice::Adopt(stranger) = second.choice {
            return match self.take_over_row(codebase, new, &stranger.found, stranger.from, false).await? {
                Claim::Won(environment) => {
                    self.link_hints(environment.id, &wish.hints).await?;
                    self.chosen(environment, How::Adopted(stranger.from), &decision.steps).await
                }
                Claim::Held(holder) => self.when_held(holder, wish, codebase, &decision.steps).await,
            };
        }
        paths::check(&new.path, codebase, &settings)?;
        Box::pin(self.make_room(codebase)).await?;
        match self.store.claim(&new).await? {
            Claim::Won(_) => {
                let mut outcome = self.make(codebase, wish, &settings, &new).await?;
                if !wish.work.is_from_fork() {
                    self.link_hints(outcome.environment.id, &wish.hints).await?;
                }
                if let How::Created(made) = &mut outcome.how {
                    made.notes.extend(decision.without_head.iter().map(own_worktree_note));
                }
                self.chosen(outcome.environment, outcome.how, &decision.steps).await
            }
            Claim::Held(holder) => self.when_held(holder, wish, codebase, &decision.steps).await,
        }
    }

    /// Somebody has the work, the branch or the path already.
    pub(super) async fn when_held(
        &self,
        holder: Environment,
        wish: &Wish,
        codebase: &Codebase,
        steps: &[decide::Step],
    ) -> Result<Tried, IsolationError> {
        let ours = holder.codebase_id == codebase.id;
        let same_work = ours && holder.work == *wish.work.key();
        if matches!(holder.status, Status::Creating | Status::Removing) {
            // Waiting, or cleaning up after its owner, may help: it is the same work, its owner is
            // gone, or it only has the folder that we wanted.
            let gone = holder.owner.as_ref().is_none_or(|owner| is_gone(owner, holder.lease_until, Moment::now()));
            let branch = wish.branch.as_ref().is_some_and(|branch| *branch == holder.branch);
            if ours && (same_work || gone || !branch) {
                return Ok(Tried::InTheMaking(Box::new(holder)));
            }
        } else if same_work {
            return Ok(Tried::reused(holder));
        }
        // A pull request's branch is wherever it is checked out.
        let of_pull_request = matches!(
            &wish.work,
            Work::PullRequest { head: PrHead::SameRepo { branch, .. }, .. } if *branch == holder.branch
        );
        if ours && of_pull_request && holder.status == Status::Active {
            self.link_work(holder.id, &wish.work).await?;
            let how = match (holder.work.kind(), holder.work.number()) {
                (Kind::Issue, Some(number)) => How::Shared(Relation::LinkedIssue(number)),
                (_, Some(number)) => How::Shared(Relation::LinkedPr(number)),
                _ => How::Used,
            };
            return self.chosen(holder, how, steps).await;
        }
        Err(IsolationError::Held { work: holder.work.to_string(), branch: holder.branch, path: holder.path })
    }

    pub(super) fn new_row(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        branch: BranchName,
        path: PathBuf,
    ) -> NewEnvironment {
        NewEnvironment {
            id: EnvironmentId::new(),
            codebase_id: codebase.id,
            work: wish.work.key().clone(),
            provider: self.provider.name(),
            path,
            branch,
            created_by_platform: wish.by.platform.clone(),
            created_by_user: wish.by.user.clone(),
            node: self.node.clone(),
            nonce: Nonce::new(),
            owner: this_process().clone(),
            lease_until: Moment::now().plus(LEASE),
        }
    }

    /// Keeps why it was chosen, for `why`.
    pub(super) async fn chosen(
        &self,
        environment: Environment,
        how: How,
        steps: &[decide::Step],
    ) -> Result<Tried, IsolationError> {
        let text = serde_json::to_string(steps).unwrap_or_default();
        self.store.keep_resolution(environment.id, &text).await?;
        let environment = self.store.environment(environment.id).await?.unwrap_or(environment);
        Ok(Tried::Done(Box::new(Outcome { environment, how, stale_reference: false })))
    }

    /// Says in the record that an environment is also about this work.
    async fn link_work(&self, id: EnvironmentId, work: &Work) -> Result<(), IsolationError> {
        match (work.key().kind(), work.key().number()) {
            (Kind::Issue, Some(number)) => Ok(self.store.link(id, Kind::Issue, number).await?),
            (Kind::Pr | Kind::Review, Some(number)) => Ok(self.store.link(id, Kind::Pr, number).await?),
            _ => Ok(()),
        }
    }

    async fn link_hints(&self, id: EnvironmentId, hints: &Hints) -> Result<(), IsolationError> {
        for &number in &hints.linked_issues {
            self.store.link(id, Kind::Issue, number).await?;
        }
        for &number in &hints.linked_prs {
            self.store.link(id, Kind::Pr, number).await?;
        }
        Ok(())
    }

    async fn branch_for(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        settings: &Settings,
    ) -> Result<BranchName, IsolationError> {
        if let Some(named) = &wish.branch {
            return Ok(named.clone());
        }
        let others = self.store.branches_of_others(codebase.id, wish.work.key()).await?;
        Ok(wish.work.branch(settings.branch_prefix(), |name| others.iter().any(|other| other == name.as_str()))?)
    }

    /// Makes what was claimed. Whatever fails, the first error is told and nothing is left.
    async fn make(
        &self,
        codebase: &Codebase,
        wish: &Wish,
        settings: &Settings,
        new: &NewEnvironment,
    ) -> Result<Outcome, IsolationError> {
        let journal = StoreJournal { store: self.store.clone(), environment: new.id };
        fault_point("claimed");
        let request = IsolationRequest {
            codebase,
            work: &wish.work,
            branch: &new.branch,
            path: &new.path,
            from: wish.from.as_deref(),
            nonce: new.nonce,
            settings,
            journal: &journal,
            on_wait: self.on_wait.as_ref(),
        };
        let made = tokio::select! {
            made = self.provider.create(&request) => made,
            never = self.keep_lease(new) => match never {},
        };
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                self.abandon(new, &error).await;
                return Err(error);
            }
        };
        fault_point("furnished");
        let Made { head, base, facts, mut notes, unfinished } = made;
        let base = base.as_ref().map(|base| (base.name.as_str(), &base.sha));
        let environment = match self.store.activate(new.id, new.nonce, base, &head).await {
            Ok(environment) => environment,
            Err(error) => match self.store.environment(new.id).await {
                // Written after all; only the answer was lost.
                Ok(Some(environment)) if environment.status == Status::Active => environment,
                Ok(_) => {
                    for left in unfinished.take_back().await {
                        tracing::warn!(path = %new.path.display(), "taking an environment back: {left}");
                    }
                    let error = error.into();
                    self.abandon(new, &error).await;
                    return Err(error);
                }
                // Not known whether it was written: nothing is taken back, the nonce tells later.
                Err(_) => return Err(error.into()),
            },
        };
        fault_point("activated");
        // From here on the environment is whole; what fails now is put right by the next look.
        if let Err(error) = unfinished.finish() {
            notes.push(crate::error::kept_error(&error));
        }
        fault_point("unlocked");
        if let Err(error) = mirror::write(codebase, &environment) {
            notes.push(format!("the environment's facts could not be mirrored to {}: {error}", mirror::FOLDER));
        }
        if let Err(error) = journal.note("active", None).await {
            tracing::warn!(environment = %new.id, "the last step could not be recorded: {error}");
        }
        Ok(Outcome { environment, how: How::Created(Box::new(New { facts, notes })), stale_reference: false })
    }

    /// Says again and again that we are at work, for other machines. Never ends by itself.
    async fn keep_lease(&self, new: &NewEnvironment) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_secs(LEASE.unsigned_abs().as_secs() / 3)).await;
            if let Err(error) = self.store.renew(new.id, &new.owner, Moment::now().plus(LEASE)).await {
                tracing::warn!(environment = %new.id, "the lease could not be renewed: {error}");
            }
        }
    }

    async fn abandon(&self, new: &NewEnvironment, error: &IsolationError) {
        let why = crate::error::kept_error(error);
        if let Err(error) = self.store.abandon(new.id, new.nonce, &why).await {
            tracing::error!(environment = %new.id, "a failed creation could not be recorded: {error}");
        }
    }
}

fn own_worktree_note(relation: &Relation) -> String {
    let other = match relation {
        Relation::LinkedPr(number) => format!("pr #{number}"),
        Relation::LinkedIssue(number) => format!("issue #{number}"),
        Relation::Bound | Relation::SameWork => "the other".to_owned(),
    };
    format!("the worktree of {other} does not have this pull request's head, so it got its own, linked")
}
