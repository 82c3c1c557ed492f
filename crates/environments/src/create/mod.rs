//! Creates an environment for a piece of work.
//!
//! [`Environments::create_environment`] is the entry point: look for an existing environment → claim the work
//! in the store → let the provider create it → record it, or undo everything. The store's `creating` row is
//! the lock, so that two requests at once get one environment.

mod adopt;
pub mod decide;
mod facts;
mod foreign;
mod recover;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use grove_model::{
    AdoptedFrom, BranchName, Codebase, Environment, EnvironmentId, InitScript, Moment, Nonce, PullRequestHead, Status,
    Work, WorkKind,
};
use grove_store::{ClaimOutcome, ConversationRef, NewEnvironment, StoreError};

use crate::create::decide::{DecisionFacts, EnvironmentChoice, WorkRelation, decide_environment};
use crate::environments::{Environments, with_repository_settings};
use crate::error::{CreateError, EnvironmentError};
use crate::init::InitOutcome;
use crate::init::script::find_init_script;
use crate::journal::{StoreJournal, fault_point};
use crate::lease::{OWNER_LEASE_DURATION, is_gone, this_process};
use crate::provider::{ProvisionRequest, ProvisionedEnvironment, disk};
use crate::settings::Settings;
use crate::{mirror, paths};

/// A request for an environment.
#[derive(Clone, Debug)]
pub struct CreateRequest {
    pub work: Work,
    /// A branch that a person named, used as given.
    pub branch: Option<BranchName>,
    pub from: Option<String>,
    pub hints: CreateHints,
    /// The conversation of the request, which works in the environment from then on.
    pub conversation: Option<ConversationRef>,
    pub by: EnvironmentCreator,
}

/// Facts that the caller knows besides the work itself.
#[derive(Clone, Debug, Default)]
pub struct CreateHints {
    pub linked_issues: Vec<u64>,
    pub linked_prs: Vec<u64>,
    /// A branch that the work may be on already.
    pub suggested_branch: Option<BranchName>,
    /// The path that an older kind of record names for the work.
    pub legacy_path: Option<PathBuf>,
}

#[derive(Clone, Debug, Default)]
pub struct EnvironmentCreator {
    pub platform: Option<String>,
    pub user: Option<String>,
}

/// The outcome of a request.
#[derive(Debug)]
pub struct CreateOutcome {
    pub environment: Environment,
    pub how: CreateMethod,
    /// The conversation's own environment was gone, and its reference was cleared.
    pub stale_reference: bool,
}

#[derive(Debug)]
pub enum CreateMethod {
    /// The environment already existed.
    Used,
    /// The environment of a linked issue or pull request.
    Shared(WorkRelation),
    /// Another tool or a person made the worktree.
    Adopted(AdoptedFrom),
    Created(Box<CreatedDetails>),
}

/// Details of an environment that was just created.
#[derive(Debug)]
pub struct CreatedDetails {
    pub facts: disk::DiskFacts,
    /// Notes for a person, one sentence each.
    pub notes: Vec<String>,
}

/// The time to wait for another process that creates the same environment.
const CREATION_WAIT_TIMEOUT: Duration = Duration::from_secs(15 * 60);

pub(super) enum CreateAttempt {
    Done(Box<CreateOutcome>),
    /// Another process has begun to create it.
    InTheMaking(Box<Environment>),
    /// The facts have changed: decide again.
    Again,
}

impl CreateAttempt {
    fn reused_environment(environment: Environment) -> Self {
        CreateAttempt::Done(Box::new(CreateOutcome { environment, how: CreateMethod::Used, stale_reference: false }))
    }
}

impl Environments {
    /// Returns the environment of a work: the existing one, or a new one. It waits for a process that is
    /// creating the environment right now, and cleans up after a process that ended half way.
    #[tracing::instrument(name = "create", skip_all, fields(codebase = codebase.name, work = %request.work.work_key()))]
    pub async fn create_environment(
        &self,
        codebase: &Codebase,
        request: &CreateRequest,
    ) -> Result<CreateOutcome, EnvironmentError> {
        self.quarantine_broken(codebase).await?;
        let mut stale_reference = false;
        let began = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            let holder = match self.try_create(codebase, request, &mut stale_reference).await? {
                CreateAttempt::Done(outcome) => {
                    if let Some(conversation) = &request.conversation {
                        let id = outcome.environment.id;
                        if !self.store.bind_conversation(conversation, codebase.id, id).await? {
                            // It is being removed at this moment: try again.
                            continue;
                        }
                    }
                    let mut outcome = CreateOutcome { stale_reference, ..*outcome };
                    self.initialize_created(codebase, &mut outcome).await?;
                    return Ok(outcome);
                }
                CreateAttempt::InTheMaking(holder) => holder,
                CreateAttempt::Again => continue,
            };
            if self.recover_environment(codebase, &holder).await? {
                continue;
            }
            if began.elapsed() > CREATION_WAIT_TIMEOUT {
                return Err(EnvironmentError::InTheMaking { work: request.work.work_key().to_string() });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// Runs the init script of an environment that was just created.
    async fn initialize_created(
        &self,
        codebase: &Codebase,
        outcome: &mut CreateOutcome,
    ) -> Result<(), EnvironmentError> {
        let CreateMethod::Created(details) = &mut outcome.how else { return Ok(()) };
        if !outcome.environment.needs_init() {
            return Ok(());
        }
        let show = self.show_script_output.clone();
        match Box::pin(self.initialize_environment(codebase, &outcome.environment, false, &*show)).await? {
            InitOutcome::NotApproved { path } => details.notes.push(not_approved_note(path)),
            InitOutcome::NothingToDo | InitOutcome::Succeeded => {}
        }
        outcome.environment = self.reload_environment(&outcome.environment).await?;
        Ok(())
    }

    async fn try_create(
        &self,
        codebase: &Codebase,
        request: &CreateRequest,
        stale_reference: &mut bool,
    ) -> Result<CreateAttempt, EnvironmentError> {
        let bound = match &request.conversation {
            Some(conversation) => self.store.bound_environment(conversation).await?,
            None => None,
        };
        let mut decision = decide_environment(self.gather_facts(codebase, &request.work, &request.hints, bound).await?);
        for gone in &decision.gone {
            match self.store.advance_status(gone.id, gone.status, Status::Destroyed, Some("its folder is gone")).await {
                Ok(()) => {}
                // A removal took the folder away after the row was read.
                Err(StoreError::Moved { .. }) => return Ok(CreateAttempt::Again),
                Err(error) => return Err(error.into()),
            }
            self.store.clear_references(gone.id).await?;
            self.provider.forget_missing(codebase, gone).await?;
            if let Err(error) = mirror::delete_mirror(codebase, gone) {
                tracing::warn!(environment = %gone.id, "its mirror could not be taken away: {error}");
            }
            *stale_reference |= Some(gone.id) == bound;
        }
        match decision.choice {
            // The worktrees of other tools were not considered yet.
            EnvironmentChoice::Create | EnvironmentChoice::Adopt(_) => {}
            EnvironmentChoice::Wait(environment) => return Ok(CreateAttempt::InTheMaking(environment)),
            EnvironmentChoice::Wake(environment) => {
                self.wake_environment(codebase, &environment).await?;
                return Ok(CreateAttempt::Again);
            }
            EnvironmentChoice::NotMounted(path) => return Err(EnvironmentError::NotMounted(path)),
            EnvironmentChoice::Unknown(environment, why) => {
                return Err(EnvironmentError::Broken { path: environment.path, why });
            }
            EnvironmentChoice::Use(environment) if request.from.is_some() => {
                let (work, branch) = (request.work.work_key().to_string(), environment.branch);
                return Err(EnvironmentError::Create(CreateError::HasEnvironment { work, branch }));
            }
            EnvironmentChoice::Use(environment) => {
                self.finish_recorded_creation(codebase, &environment)?;
                return self.record_choice(*environment, CreateMethod::Used, &decision.steps).await;
            }
            EnvironmentChoice::Share(environment, relation) => {
                self.link_work(environment.id, &request.work).await?;
                return self.record_choice(*environment, CreateMethod::Shared(relation), &decision.steps).await;
            }
        }
        let repo = self.open_repository(codebase);
        let settings =
            with_repository_settings(&repo, &self.settings.current(), codebase.default_branch.as_deref()).await?;
        let branch = self.branch_for(codebase, request, &settings).await?;
        let others = self.store.list_environments(codebase.id, false).await?;
        let path = paths::path_for(&branch, codebase, &settings, &others);
        let new = self.new_row(codebase, request, branch, path);

        if let Some(outcome) = self.take_over_legacy(codebase, request, &new, &mut decision.steps).await? {
            return Ok(outcome);
        }
        let strangers =
            self.find_foreign_worktrees(codebase, &request.work, &request.hints, (&new.path, &new.branch)).await?;
        let second = decide_environment(DecisionFacts { fork: false, candidates: Vec::new(), strangers });
        // The last step of the first decision says that only a new environment is left.
        decision.steps.pop();
        decision.steps.extend(second.steps);
        if let EnvironmentChoice::Adopt(stranger) = second.choice {
            return match self.take_over_row(codebase, new, &stranger.found, stranger.from, false).await? {
                ClaimOutcome::Won(environment) => {
                    self.link_hints(environment.id, &request.hints).await?;
                    self.record_choice(environment, CreateMethod::Adopted(stranger.from), &decision.steps).await
                }
                ClaimOutcome::Held(holder) => self.when_held(holder, request, codebase, &decision.steps).await,
            };
        }
        paths::check_worktree_path(&new.path, codebase, &settings)?;
        Box::pin(self.make_room(codebase)).await?;
        match self.store.claim_environment(&new).await? {
            ClaimOutcome::Won(_) => {
                let mut outcome = self.make_claimed_environment(codebase, request, &settings, &new).await?;
                if !request.work.is_from_fork() {
                    self.link_hints(outcome.environment.id, &request.hints).await?;
                }
                if let CreateMethod::Created(made) = &mut outcome.how {
                    made.notes.extend(decision.without_head.iter().map(own_worktree_note));
                }
                self.record_choice(outcome.environment, outcome.how, &decision.steps).await
            }
            ClaimOutcome::Held(holder) => self.when_held(holder, request, codebase, &decision.steps).await,
        }
    }

    /// Handles a claim that failed because another environment holds the work, the branch or the path.
    pub(super) async fn when_held(
        &self,
        holder: Environment,
        request: &CreateRequest,
        codebase: &Codebase,
        steps: &[decide::DecisionStep],
    ) -> Result<CreateAttempt, EnvironmentError> {
        let ours = holder.codebase_id == codebase.id;
        let same_work = ours && holder.work == *request.work.work_key();
        if matches!(holder.status, Status::Creating | Status::Removing) {
            // Waiting, or cleaning up after its owner, may help: it is the same work, its owner is gone, or
            // it only holds the requested folder.
            let gone = holder.owner.as_ref().is_none_or(|owner| is_gone(owner, holder.lease_until, Moment::now()));
            let branch = request.branch.as_ref().is_some_and(|branch| *branch == holder.branch);
            if ours && (same_work || gone || !branch) {
                return Ok(CreateAttempt::InTheMaking(Box::new(holder)));
            }
        } else if same_work {
            return Ok(CreateAttempt::reused_environment(holder));
        }
        // A pull request's work belongs to the environment where its branch is checked out.
        let of_pull_request = matches!(
            &request.work,
            Work::PullRequest { head: PullRequestHead::SameRepo { branch, .. }, .. } if *branch == holder.branch
        );
        if ours && of_pull_request && holder.status == Status::Active {
            self.link_work(holder.id, &request.work).await?;
            let how = match (holder.work.work_kind(), holder.work.forge_number()) {
                (WorkKind::Issue, Some(number)) => CreateMethod::Shared(WorkRelation::LinkedIssue(number)),
                (_, Some(number)) => CreateMethod::Shared(WorkRelation::LinkedPr(number)),
                _ => CreateMethod::Used,
            };
            return self.record_choice(holder, how, steps).await;
        }
        Err(EnvironmentError::Create(CreateError::Held {
            work: holder.work.to_string(),
            branch: holder.branch,
            path: holder.path,
        }))
    }

    pub(super) fn new_row(
        &self,
        codebase: &Codebase,
        request: &CreateRequest,
        branch: BranchName,
        path: PathBuf,
    ) -> NewEnvironment {
        NewEnvironment {
            id: EnvironmentId::new(),
            codebase_id: codebase.id,
            work: request.work.work_key().clone(),
            provider: self.provider.provider_name(),
            path,
            branch,
            created_by_platform: request.by.platform.clone(),
            created_by_user: request.by.user.clone(),
            node: self.node.clone(),
            nonce: Nonce::new(),
            owner: this_process().clone(),
            lease_until: Moment::now().add_duration(OWNER_LEASE_DURATION),
        }
    }

    /// Records the steps of the decision, for `why`.
    pub(super) async fn record_choice(
        &self,
        environment: Environment,
        how: CreateMethod,
        steps: &[decide::DecisionStep],
    ) -> Result<CreateAttempt, EnvironmentError> {
        let text = serde_json::to_string(steps).unwrap_or_default();
        self.store.keep_resolution(environment.id, &text).await?;
        let environment = self.store.find_environment(environment.id).await?.unwrap_or(environment);
        Ok(CreateAttempt::Done(Box::new(CreateOutcome { environment, how, stale_reference: false })))
    }

    /// Records that an environment is also about this work.
    async fn link_work(&self, id: EnvironmentId, work: &Work) -> Result<(), EnvironmentError> {
        match (work.work_key().work_kind(), work.work_key().forge_number()) {
            (WorkKind::Issue, Some(number)) => Ok(self.store.link_environment(id, WorkKind::Issue, number).await?),
            (WorkKind::Pr | WorkKind::Review, Some(number)) => {
                Ok(self.store.link_environment(id, WorkKind::Pr, number).await?)
            }
            _ => Ok(()),
        }
    }

    async fn link_hints(&self, id: EnvironmentId, hints: &CreateHints) -> Result<(), EnvironmentError> {
        for &number in &hints.linked_issues {
            self.store.link_environment(id, WorkKind::Issue, number).await?;
        }
        for &number in &hints.linked_prs {
            self.store.link_environment(id, WorkKind::Pr, number).await?;
        }
        Ok(())
    }

    async fn branch_for(
        &self,
        codebase: &Codebase,
        request: &CreateRequest,
        settings: &Settings,
    ) -> Result<BranchName, EnvironmentError> {
        if let Some(named) = &request.branch {
            return Ok(named.clone());
        }
        let others = self.store.branches_of_others(codebase.id, request.work.work_key()).await?;
        Ok(request
            .work
            .choose_branch_name(settings.branch_prefix(), |name| others.iter().any(|other| other == name.as_str()))?)
    }

    /// Creates the environment that was claimed. If any step fails, it returns the first error and leaves
    /// nothing behind.
    async fn make_claimed_environment(
        &self,
        codebase: &Codebase,
        request: &CreateRequest,
        settings: &Settings,
        new: &NewEnvironment,
    ) -> Result<CreateOutcome, EnvironmentError> {
        let journal = StoreJournal { store: self.store.clone(), environment: new.id };
        fault_point("claimed");
        let request = ProvisionRequest {
            codebase,
            work: &request.work,
            branch: &new.branch,
            path: &new.path,
            from: request.from.as_deref(),
            nonce: new.nonce,
            settings,
            journal: &journal,
        };
        let made = tokio::select! {
            made = self.provider.create_environment(&request) => made,
            never = self.keep_lease(new) => match never {},
        };
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                self.abandon_creation(new, &error).await;
                return Err(error);
            }
        };
        fault_point("furnished");
        let ProvisionedEnvironment { head, base, facts, mut notes, unfinished } = made;
        let init = match &base {
            Some(base) => find_init_script(&self.open_repository(codebase), &base.sha).await,
            None => Ok(None),
        };
        let init = match init {
            Ok(script) => script.map(|_| InitScript::default()),
            Err(error) => {
                for left in unfinished.take_back().await {
                    tracing::warn!(path = %new.path.display(), "taking an environment back: {left}");
                }
                let error = error.into();
                self.abandon_creation(new, &error).await;
                return Err(error);
            }
        };
        let base = base.as_ref().map(|base| (base.name.as_str(), &base.sha));
        let environment = match self.store.activate_environment(new.id, new.nonce, base, &head, init).await {
            Ok(environment) => environment,
            Err(error) => match self.store.find_environment(new.id).await {
                // The row was written after all; only the answer was lost.
                Ok(Some(environment)) if environment.status == Status::Active => environment,
                Ok(_) => {
                    for left in unfinished.take_back().await {
                        tracing::warn!(path = %new.path.display(), "taking an environment back: {left}");
                    }
                    let error = error.into();
                    self.abandon_creation(new, &error).await;
                    return Err(error);
                }
                // It is unknown whether the row was written: nothing is undone, and the nonce tells later.
                Err(_) => return Err(error.into()),
            },
        };
        fault_point("activated");
        // From here on the environment is complete; the next reconciliation repairs what fails now.
        if let Err(error) = unfinished.mark_finished() {
            notes.push(crate::error::kept_error(&error));
        }
        fault_point("unlocked");
        if let Err(error) = mirror::write_mirror(codebase, &environment) {
            notes.push(format!("the environment's facts could not be mirrored to {}: {error}", mirror::MIRROR_FOLDER));
        }
        if let Err(error) = journal.append_entry("active", None).await {
            tracing::warn!(environment = %new.id, "the last step could not be recorded: {error}");
        }
        Ok(CreateOutcome {
            environment,
            how: CreateMethod::Created(Box::new(CreatedDetails { facts, notes })),
            stale_reference: false,
        })
    }

    /// Renews our lease again and again, for other machines. Never returns.
    async fn keep_lease(&self, new: &NewEnvironment) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(Duration::from_secs(OWNER_LEASE_DURATION.unsigned_abs().as_secs() / 3)).await;
            if let Err(error) = self
                .store
                .renew_environment_lease(new.id, &new.owner, Moment::now().add_duration(OWNER_LEASE_DURATION))
                .await
            {
                tracing::warn!(environment = %new.id, "the lease could not be renewed: {error}");
            }
        }
    }

    async fn abandon_creation(&self, new: &NewEnvironment, error: &EnvironmentError) {
        let why = crate::error::kept_error(error);
        if let Err(error) = self.store.abandon_environment(new.id, new.nonce, &why).await {
            tracing::error!(environment = %new.id, "a failed creation could not be recorded: {error}");
        }
    }
}

fn not_approved_note(path: &str) -> String {
    format!("the init script {path} is not approved, so it was not run; `grove trust` shows it and approves it")
}

fn own_worktree_note(relation: &WorkRelation) -> String {
    let other = match relation {
        WorkRelation::LinkedPr(number) => format!("pr #{number}"),
        WorkRelation::LinkedIssue(number) => format!("issue #{number}"),
        WorkRelation::Bound | WorkRelation::SameWork => "the other".to_owned(),
    };
    format!("the worktree of {other} does not have this pull request's head, so it got its own, linked")
}
