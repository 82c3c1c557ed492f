//! Collects every reason against a removal.

use std::path::PathBuf;

use grove_git::lock::{EnvironmentHolder, EnvironmentLock};
use grove_git::removal::BranchFate;
use grove_git::removal::check::RemovalSubject;
use grove_git::{RemovalCheck, Repository};
use grove_model::{Codebase, Environment, Moment, Question, RemovalAnswer, Status};

use crate::environments::{Environments, with_repository_settings};
use crate::error::EnvironmentError;
use crate::provider::disk::PathState;
use crate::remove::{HeldEnvironment, RemovableEnvironment, RemovalPlan, RemovalRequester};

impl Environments {
    /// Returns the plan of a removal and the reasons against it. Changes nothing.
    pub async fn plan_removal(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        requester: &RemovalRequester,
    ) -> Result<RemovalPlan, EnvironmentError> {
        let mut plan = self.plan_reasons(codebase, environment, requester).await?;
        if let RemovalPlan::Remove(removable) = &mut plan {
            self.let_merged_branch_go(codebase, environment, removable).await?;
        }
        Ok(plan)
    }

    /// Returns the plan and the reasons, but does not check whether the branch was merged by squash: that
    /// takes longer.
    pub(crate) async fn plan_reasons(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        requester: &RemovalRequester,
    ) -> Result<RemovalPlan, EnvironmentError> {
        let lock = self.lock_of(codebase, environment)?;
        let holder = lock.try_alone().map_err(lock_failed)?;
        self.plan_with(codebase, environment, requester, &holder).await
    }

    /// Lets a branch whose commits are nowhere else be deleted all the same if its work is proven to be in
    /// the base, for example by a squash merge. Its tip is pinned.
    pub(super) async fn let_merged_branch_go(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        removable: &mut RemovableEnvironment,
    ) -> Result<(), EnvironmentError> {
        let BranchFate::OwnCommits { tip, .. } = &removable.branch else { return Ok(()) };
        let statuses = self.merge_statuses(codebase, std::slice::from_ref(environment), Moment::now()).await?;
        let merge_status = statuses.get(&environment.id);
        if merge_status.is_some_and(|merge_status| merge_status.is_merged() && merge_status.head.as_ref() == Some(tip))
        {
            removable.branch = BranchFate::Goes { tip: tip.clone() };
        }
        Ok(())
    }

    pub(crate) fn lock_of(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<EnvironmentLock, EnvironmentError> {
        self.provider.open_lock(codebase, environment).map_err(lock_failed)
    }

    /// Holds an environment of ours that exists and may be worked on: its lock, its record and its contents.
    /// Commands that run there are among the answers.
    pub(crate) async fn hold_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        may_be: &[Status],
        requester: &RemovalRequester,
    ) -> Result<HeldEnvironment, EnvironmentError> {
        self.quarantine_broken(codebase).await?;
        let lock = self.lock_of(codebase, environment)?;
        let holder = self.wait_for_mover(&lock).await?;
        let busy = || EnvironmentError::InTheMaking { work: environment.work.to_string() };
        if holder == EnvironmentHolder::Mover {
            return Err(busy());
        }
        let environment = self.settled_record(codebase, environment).await?;
        if !may_be.contains(&environment.status) {
            return Err(busy());
        }
        let why = match self.plan_with(codebase, &environment, requester, &holder).await? {
            RemovalPlan::Remove(removable) => return Ok(HeldEnvironment { lock, environment, removable }),
            RemovalPlan::Gone => "its folder is gone",
            RemovalPlan::Release => "Grovekeeper did not make that worktree",
        };
        Err(EnvironmentError::Broken { path: environment.path, why: why.to_owned() })
    }

    pub(crate) fn try_alone(&self, lock: &EnvironmentLock) -> Result<EnvironmentHolder, EnvironmentError> {
        lock.try_alone().map_err(lock_failed)
    }

    pub(crate) async fn plan_with(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        requester: &RemovalRequester,
        holder: &EnvironmentHolder,
    ) -> Result<RemovalPlan, EnvironmentError> {
        if environment.status == Status::Hibernated {
            return self.plan_sleeping(codebase, environment, requester, holder).await;
        }
        let broken = |why: String| EnvironmentError::Broken { path: environment.path.clone(), why };
        let (entry, flaw) = match self.provider.path_state(codebase, environment) {
            PathState::Gone => return Ok(RemovalPlan::Gone),
            PathState::NotMounted => return Err(EnvironmentError::NotMounted(environment.path.clone())),
            PathState::Elsewhere(node) => return Err(broken(format!("it is on another machine ({node})"))),
            PathState::Worktree(entry) => {
                let flaw = (!self.provider.entry_points_to(&entry, &environment.path))
                    .then(|| "git's entry for it names another place".to_owned());
                (entry, flaw)
            }
            PathState::Unknown(why) => {
                match self.provider.find_unlinked_entry(codebase, environment).map_err(entries_failed)? {
                    Some(entry) => (entry, Some(why)),
                    None => return Err(EnvironmentError::Foreign { path: environment.path.clone(), why }),
                }
            }
        };
        if environment.is_adopted() {
            return Ok(RemovalPlan::Release);
        }
        let repo = self.open_repository(codebase);
        let needed = self.needed_branches(codebase, environment).await?;
        let subject = RemovalSubject {
            path: &environment.path,
            entry: &entry,
            branch: &environment.branch,
            needed: &needed.iter().map(String::as_str).collect::<Vec<_>>(),
            regenerable: &self.settings.current().regenerable_names(),
        };
        let mut check = self.provider.check_removal(codebase, subject).await;
        if let Some(why) = flaw {
            check.findings.set_answer(Question::Changes, RemovalAnswer::Unknown(why));
        }
        self.keep_configured_folders(codebase, &repo, &mut check).await;
        Ok(RemovalPlan::Remove(Box::new(self.with_record(environment, requester, holder, entry, check).await?)))
    }

    /// Keeps only the folders that the settings name, including the repository's own settings. Those are read
    /// only if there is a folder to ask about.
    async fn keep_configured_folders(&self, codebase: &Codebase, repo: &Repository, check: &mut RemovalCheck) {
        if check.regenerable.is_empty() {
            return;
        }
        match with_repository_settings(repo, &self.settings.current(), codebase.default_branch.as_deref()).await {
            Ok(settings) => {
                let names = settings.regenerable_names();
                check.regenerable.retain(|folder| names.includes_folder(folder));
            }
            Err(error) => {
                tracing::warn!("folders that tools make again are kept like all others: {error}");
                check.regenerable.clear();
            }
        }
    }

    /// Returns the branches that new work starts from, here or in any other environment.
    pub(super) async fn needed_branches(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Vec<String>, EnvironmentError> {
        let all = self.store.list_environments(codebase.id, false).await?;
        let bases = all.into_iter().filter(|other| other.id != environment.id).filter_map(|other| other.base_ref);
        let settings = self.settings.current();
        let configured = [codebase.default_branch.as_deref(), settings.base_branch()].into_iter().flatten();
        Ok(configured.map(str::to_owned).chain(bases).collect())
    }

    /// Adds the record's answers to those of git and the disk.
    pub(super) async fn with_record(
        &self,
        environment: &Environment,
        requester: &RemovalRequester,
        holder: &EnvironmentHolder,
        entry: PathBuf,
        check: RemovalCheck,
    ) -> Result<RemovableEnvironment, EnvironmentError> {
        let mut checks = check.findings.answers.clone();
        checks.push((Question::LiveRun, live_run(holder)));
        checks.push((Question::Conversations, self.used_by(environment, requester).await?));
        let pr = environment.metadata.pr.as_ref().filter(|pr| pr.is_open());
        checks.push((Question::PullRequest, RemovalAnswer::from_finding(pr.map(|pr| format!("#{}", pr.number)))));
        let branch = check.branch.clone();
        Ok(RemovableEnvironment { checks, entry, check, branch })
    }

    async fn used_by(
        &self,
        environment: &Environment,
        requester: &RemovalRequester,
    ) -> Result<RemovalAnswer, EnvironmentError> {
        let (all, us) = match requester {
            // A conversation that is only bound to it is told at its next message.
            RemovalRequester::Person => (self.store.busy_conversations(environment.id).await?, None),
            RemovalRequester::PersonIn(us) => (self.store.busy_conversations(environment.id).await?, Some(us)),
            RemovalRequester::Conversation(us) => (self.store.conversations_of(environment.id).await?, Some(us)),
        };
        let others: Vec<String> = all.into_iter().filter(|other| Some(other) != us).map(|other| other.id).collect();
        Ok(RemovalAnswer::from_finding(Some(others.join(", ")).filter(|text| !text.is_empty())))
    }
}

pub(super) fn lock_failed(source: std::io::Error) -> EnvironmentError {
    EnvironmentError::Io { what: "the environment cannot be locked".to_owned(), source }
}

fn live_run(holder: &EnvironmentHolder) -> RemovalAnswer {
    match holder {
        EnvironmentHolder::Us => RemovalAnswer::No,
        EnvironmentHolder::Mover => RemovalAnswer::Unknown("another grove moves it at this moment".to_owned()),
        EnvironmentHolder::Commands(processes) => {
            let list: Vec<String> = processes.iter().map(ToString::to_string).collect();
            RemovalAnswer::Yes(if list.is_empty() {
                "a command".to_owned()
            } else {
                format!("process {}", list.join(", "))
            })
        }
    }
}

fn entries_failed(source: std::io::Error) -> EnvironmentError {
    EnvironmentError::Io { what: "git's entries cannot be looked at".to_owned(), source }
}
