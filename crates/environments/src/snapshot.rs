//! A commit that somebody only looks at: no branch, no record, and gone afterwards.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use grove_git::Repository;
use grove_git::lock::{Locks, repository_lock};
use grove_git::processes::end_calls_of;
use grove_git::reading::{self, Ended, Mark, Reading};
use grove_model::{Codebase, CommitSha, FolderName, Moment, Nonce, Status};
use jiff::SignedDuration;

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::lease::{is_gone, this_process};
use crate::maintenance::reconcile::{Fix, Reconciled};
use crate::paths;
use crate::problem::Problem;
use crate::provider::disk::{Facts, facts_of};
use crate::ready::{PATIENCE, ReadyReading};

/// Where they are, below GROVE_HOME.
const FOLDER: &str = "readings";

/// What making one and taking it away may need beside the run.
const BESIDE: SignedDuration = SignedDuration::from_hours(1);

/// What is looked at.
pub struct Sight {
    pub at: CommitSha,
    /// The branch of an environment where something is that nobody has committed.
    pub uncommitted_on: Option<String>,
}

/// A reading that was not taken away.
#[derive(Debug)]
pub enum Left {
    /// Something was written there: this.
    Written { path: PathBuf, what: String },
    /// It could not be looked at; the next start tries again.
    Unknown { path: PathBuf, why: Problem },
}

impl Isolation {
    /// The commit that a conversation is at: its environment's, or the base branch's.
    pub async fn sight(
        &self,
        codebase: &Codebase,
        environment: Option<grove_model::EnvironmentId>,
    ) -> Result<Sight, IsolationError> {
        let bound = match environment {
            Some(id) => self.store.environment(id).await?,
            None => None,
        };
        let of_codebase = |environment: &grove_model::Environment| environment.codebase_id == codebase.id;
        let Some(environment) = bound.filter(of_codebase).filter(|e| e.status != Status::Destroyed) else {
            return self.base_sight(codebase).await;
        };
        let broken = |why: String| IsolationError::Broken { path: environment.path.clone(), why };
        if environment.status == Status::Hibernated {
            let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
            let at = repo.commit_of(&environment.branch.full_ref()).await?;
            let at = at.ok_or_else(|| broken(format!("its branch `{}` is not there", environment.branch)))?;
            return Ok(Sight { at, uncommitted_on: None });
        }
        match facts_of(&self.git, codebase, std::slice::from_ref(&environment)).await.remove(0) {
            Ok(Facts::Present(here)) => {
                let uncommitted = !here.status.is_clean();
                let at = here.status.head.ok_or_else(|| broken("nothing is committed there yet".to_owned()))?;
                Ok(Sight { at, uncommitted_on: uncommitted.then(|| environment.branch.to_string()) })
            }
            // The next message that needs one gets a new one, from the base.
            Ok(Facts::Missing) => self.base_sight(codebase).await,
            Ok(Facts::NotMounted) => Err(IsolationError::NotMounted(environment.path)),
            Err(why) => Err(broken(why)),
        }
    }

    async fn base_sight(&self, codebase: &Codebase) -> Result<Sight, IsolationError> {
        Ok(Sight { at: self.base(codebase, None).await?.sha, uncommitted_on: None })
    }

    /// Lays a commit out for a run that takes `longest`.
    pub async fn begin_reading(
        &self,
        codebase: &Codebase,
        at: &CommitSha,
        longest: Duration,
    ) -> Result<ReadyReading, IsolationError> {
        let nonce = Nonce::new();
        let path = self.readings().join(FolderName::sanitise(&codebase.name).as_str()).join(nonce.to_string());
        paths::has_room(&path, &self.settings)?;
        let locks = self.reading_locks(nonce).map_err(locked_out)?;
        let longest = SignedDuration::try_from(longest).unwrap_or(SignedDuration::MAX);
        let until = Moment::now().plus(longest.saturating_add(BESIDE));
        let mark = Mark { nonce, at: at.clone(), until, owner: this_process().clone() };
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let made = reading::begin(&repo, &path, mark).await;
        let reading = made.map_err(|error| IsolationError::NotLaidOut(Box::new(error)))?;
        match ReadyReading::new(codebase, reading.clone(), locks) {
            Ok(ready) => Ok(ready),
            Err(error) => {
                self.end_reading(codebase, reading).await;
                Err(locked_out(error))
            }
        }
    }

    /// Takes a reading away whose run has ended, unless something was written there.
    pub async fn end_reading(&self, codebase: &Codebase, reading: Reading) -> Option<Left> {
        let (path, nonce) = (reading.path.clone(), reading.mark.nonce);
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let ended = reading::end(&repo, reading, &self.settings.regenerable_names()).await;
        if let Err(error) = self.reading_locks(nonce).and_then(|locks| locks.delete_files()) {
            tracing::warn!(%nonce, "the locks of a reading could not be deleted: {error}");
        }
        match ended {
            Ok(Ended::Gone) => None,
            Ok(Ended::Kept(what)) => Some(Left::Written { path, what }),
            Err(error) => Some(Left::Unknown { path, why: IsolationError::from(error).into() }),
        }
    }

    /// Takes away what killed processes left, as carefully.
    pub(crate) async fn sweep_readings(
        &self,
        codebase: &Codebase,
        done: &mut Reconciled,
    ) -> Result<(), IsolationError> {
        let repo = Repository::known(&self.git, &codebase.default_cwd, &codebase.git_common_dir);
        let failed = |source| IsolationError::Io { what: "readings cannot be looked for".to_owned(), source };
        if !reading::all(&repo).map_err(failed)?.iter().any(|reading| self.is_left(reading)) {
            return Ok(());
        }
        // Two that sweep at once would be in each other's way.
        let _alone = repository_lock(&codebase.git_common_dir, "readings.lock").await.map_err(failed)?;
        for reading in reading::all(&repo).map_err(failed)?.into_iter().filter(|reading| self.is_left(reading)) {
            let (owner, us) = (&reading.mark.owner, this_process());
            if (&owner.node, &owner.boot, &owner.namespace) == (&us.node, &us.boot, &us.namespace) {
                // A git that it started may still be writing.
                end_calls_of(owner.process, owner.started).await;
            }
            let locks = self.reading_locks(reading.mark.nonce).map_err(locked_out)?;
            if let Err(source) = locks.wait_for_runs(PATIENCE).await {
                done.left.push((reading.path.display().to_string(), locked_out(source).into()));
                continue;
            }
            match self.end_reading(codebase, reading).await {
                None => done.fixes.push(Fix("what a killed run had laid out for reading was taken away".to_owned())),
                Some(Left::Written { path, what }) => {
                    done.fixes
                        .push(Fix(format!("{} was only to be read and holds {what}; it is kept", path.display())));
                }
                Some(Left::Unknown { path, why }) => done.left.push((path.display().to_string(), why)),
            }
        }
        Ok(())
    }

    /// Whether a reading is where ours are, under its own name, and its owner is gone.
    fn is_left(&self, reading: &Reading) -> bool {
        let Reading { path, mark, .. } = reading;
        let name = path.file_name().and_then(|name| name.to_str()).map(str::parse::<Nonce>);
        let ours =
            matches!(name, Some(Ok(nonce)) if nonce == mark.nonce) && path.ancestors().nth(2) == Some(&self.readings());
        // On another machine it may be where we cannot see it.
        let can_be_seen = mark.owner.node == self.node || path.exists();
        ours && can_be_seen && is_gone(&mark.owner, Some(mark.until), Moment::now())
    }

    fn readings(&self) -> PathBuf {
        let home = self.settings.home();
        home.canonicalize().unwrap_or_else(|_| home.to_owned()).join(FOLDER)
    }

    fn reading_locks(&self, nonce: Nonce) -> io::Result<Locks> {
        let folder: &Path = &self.settings.home().join("locks");
        fs::create_dir_all(folder)?;
        Ok(Locks::in_folder(folder, &format!("reading-{nonce}")))
    }
}

fn locked_out(source: io::Error) -> IsolationError {
    IsolationError::Io { what: "what is to be read cannot be locked".to_owned(), source }
}
