//! Everything that speaks against a removal.

use std::path::PathBuf;

use grove_git::lock::{EnvironmentLock, Holder};
use grove_git::removal::BranchFate;
use grove_git::removal::look::{Subject, look};
use grove_git::{Look, Repository, links};
use grove_model::{Answer, Codebase, Environment, Moment, Question, Status};

use crate::environments::{Isolation, with_repository_settings};
use crate::error::IsolationError;
use crate::provider::disk::{OnDisk, on_disk};
use crate::remove::{Asker, Held, Plan, Removable};

impl Isolation {
    /// What a removal would do and what speaks against it. Changes nothing.
    pub async fn plan_removal(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        asker: &Asker,
    ) -> Result<Plan, IsolationError> {
        let mut plan = self.plan_reasons(codebase, environment, asker).await?;
        if let Plan::Remove(removable) = &mut plan {
            self.let_merged_branch_go(codebase, environment, removable).await?;
        }
        Ok(plan)
    }

    /// The same without what becomes of a branch that is merged by squash: asking that takes longer.
    pub(crate) async fn plan_reasons(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        asker: &Asker,
    ) -> Result<Plan, IsolationError> {
        let lock = self.lock_of(codebase, environment)?;
        let holder = lock.try_alone().map_err(lock_failed)?;
        self.plan_with(codebase, environment, asker, &holder).await
    }

    /// A branch whose commits are nowhere else goes all the same if its work is proven to be in the base,
    /// for example by a squash merge. Its tip is pinned.
    pub(super) async fn let_merged_branch_go(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        removable: &mut Removable,
    ) -> Result<(), IsolationError> {
        let BranchFate::OwnCommits { tip, .. } = &removable.branch else { return Ok(()) };
        let standings = self.standings(codebase, std::slice::from_ref(environment), Moment::now()).await?;
        let standing = standings.get(&environment.id);
        if standing.is_some_and(|standing| standing.is_merged() && standing.head.as_ref() == Some(tip)) {
            removable.branch = BranchFate::Goes { tip: tip.clone() };
        }
        Ok(())
    }

    pub(crate) fn lock_of(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<EnvironmentLock, IsolationError> {
        EnvironmentLock::open(&codebase.git_common_dir, environment.id).map_err(lock_failed)
    }

    /// An environment of ours that is there and may be worked on: its lock, its record and what is in
    /// it. Commands that run there are among the answers.
    pub(crate) async fn hold(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        may_be: &[Status],
        asker: &Asker,
    ) -> Result<Held, IsolationError> {
        self.quarantine_broken(codebase).await?;
        let lock = self.lock_of(codebase, environment)?;
        let holder = self.wait_for_mover(&lock).await?;
        let busy = || IsolationError::InTheMaking { work: environment.work.to_string() };
        if holder == Holder::Mover {
            return Err(busy());
        }
        let environment = self.as_it_is(codebase, environment).await?;
        if !may_be.contains(&environment.status) {
            return Err(busy());
        }
        let why = match self.plan_with(codebase, &environment, asker, &holder).await? {
            Plan::Remove(removable) => return Ok(Held { lock, environment, removable }),
            Plan::Gone => "its folder is gone",
            Plan::Release => "somebody else made that worktree",
        };
        Err(IsolationError::Broken { path: environment.path, why: why.to_owned() })
    }

    pub(crate) fn try_alone(&self, lock: &EnvironmentLock) -> Result<Holder, IsolationError> {
        lock.try_alone().map_err(lock_failed)
    }

    pub(crate) async fn plan_with(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        asker: &Asker,
        holder: &Holder,
    ) -> Result<Plan, IsolationError> {
        if environment.status == Status::Hibernated {
            return self.plan_sleeping(codebase, environment, asker, holder).await;
        }
        let broken = |why: String| IsolationError::Broken { path: environment.path.clone(), why };
        let (entry, flaw) = match on_disk(environment, &codebase.git_common_dir) {
            OnDisk::Gone => return Ok(Plan::Gone),
            OnDisk::NotMounted => return Err(IsolationError::NotMounted(environment.path.clone())),
            OnDisk::Elsewhere(node) => return Err(broken(format!("it is on another machine ({node})"))),
            OnDisk::Worktree(entry) => {
                let flaw =
                    (!knows(&entry, &environment.path)).then(|| "git's entry for it names another place".to_owned());
                (entry, flaw)
            }
            OnDisk::Unknown(why) => match unlinked(codebase, environment)? {
                Some(entry) => (entry, Some(why)),
                None => return Err(IsolationError::Foreign { path: environment.path.clone(), why }),
            },
        };
        if environment.is_adopted() {
            return Ok(Plan::Release);
        }
        let repo = self.repository(codebase);
        let needed = self.needed_branches(codebase, environment).await?;
        let subject = Subject {
            path: &environment.path,
            entry: &entry,
            branch: &environment.branch,
            needed: &needed.iter().map(String::as_str).collect::<Vec<_>>(),
            regenerable: &self.settings.regenerable_names(),
        };
        let mut look = Box::pin(look(&repo, subject)).await;
        if let Some(why) = flaw {
            look.findings.set(Question::Changes, Answer::Unknown(why));
        }
        self.keep_configured_folders(codebase, &repo, &mut look).await;
        Ok(Plan::Remove(Box::new(self.with_record(environment, asker, holder, entry, look).await?)))
    }

    /// Leaves those folders that the settings name, the repository's own included. Those are read only
    /// where there is a folder to ask for.
    async fn keep_configured_folders(&self, codebase: &Codebase, repo: &Repository, look: &mut Look) {
        if look.regenerable.is_empty() {
            return;
        }
        match with_repository_settings(repo, &self.settings, codebase.default_branch.as_deref()).await {
            Ok(settings) => {
                let names = settings.regenerable_names();
                look.regenerable.retain(|folder| names.include(folder));
            }
            Err(error) => {
                tracing::warn!("folders that tools make again are kept like all others: {error}");
                look.regenerable.clear();
            }
        }
    }

    /// What new work starts from, here or in any other environment.
    pub(super) async fn needed_branches(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Vec<String>, IsolationError> {
        let all = self.store.environments(codebase.id, false).await?;
        let bases = all.into_iter().filter(|other| other.id != environment.id).filter_map(|other| other.base_ref);
        let configured = [codebase.default_branch.as_deref(), self.settings.base_branch()].into_iter().flatten();
        Ok(configured.map(str::to_owned).chain(bases).collect())
    }

    /// Adds the record's answers to what git and the disk say.
    pub(super) async fn with_record(
        &self,
        environment: &Environment,
        asker: &Asker,
        holder: &Holder,
        entry: PathBuf,
        look: Look,
    ) -> Result<Removable, IsolationError> {
        let mut checks = look.findings.answers.clone();
        checks.push((Question::LiveRun, live_run(holder)));
        checks.push((Question::Conversations, self.used_by(environment, asker).await?));
        let pr = environment.metadata.pr.as_ref().filter(|pr| pr.is_open());
        checks.push((Question::PullRequest, Answer::of(pr.map(|pr| format!("#{}", pr.number)))));
        let branch = look.branch.clone();
        Ok(Removable { checks, entry, look, branch })
    }

    async fn used_by(&self, environment: &Environment, asker: &Asker) -> Result<Answer, IsolationError> {
        let (all, us) = match asker {
            // Whoever only remembers it is told at their next message.
            Asker::Person => (self.store.busy_conversations(environment.id).await?, None),
            Asker::PersonIn(us) => (self.store.busy_conversations(environment.id).await?, Some(us)),
            Asker::Conversation(us) => (self.store.conversations_of(environment.id).await?, Some(us)),
        };
        let others: Vec<String> = all.into_iter().filter(|other| Some(other) != us).map(|other| other.id).collect();
        Ok(Answer::of(Some(others.join(", ")).filter(|text| !text.is_empty())))
    }
}

pub(super) fn lock_failed(source: std::io::Error) -> IsolationError {
    IsolationError::Io { what: "the environment cannot be locked".to_owned(), source }
}

fn live_run(holder: &Holder) -> Answer {
    match holder {
        Holder::Us => Answer::No,
        Holder::Mover => Answer::Unknown("another grove moves it at this moment".to_owned()),
        Holder::Commands(processes) => {
            let list: Vec<String> = processes.iter().map(ToString::to_string).collect();
            Answer::Yes(if list.is_empty() { "a command".to_owned() } else { format!("process {}", list.join(", ")) })
        }
    }
}

/// Whether git's entry leads back to the worktree.
pub(crate) fn knows(entry: &std::path::Path, path: &std::path::Path) -> bool {
    let named = links::worktree_of(entry).ok().flatten().and_then(|named| named.canonicalize().ok());
    named.is_some() && named == path.canonicalize().ok()
}

/// The entry of a worktree that only lost its `.git`; nothing else stands there.
fn unlinked(codebase: &Codebase, environment: &Environment) -> Result<Option<PathBuf>, IsolationError> {
    let failed = |source| IsolationError::Io { what: "git's entries cannot be looked at".to_owned(), source };
    let lost = environment.path.join(".git").symlink_metadata();
    if !environment.path.is_dir() || !lost.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    for entry in links::entries(&codebase.git_common_dir).map_err(failed)? {
        if links::worktree_of(&entry).map_err(failed)?.as_deref() == Some(&environment.path) {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}
