//! Records, git's list and the disk, brought together again.
//!
//! Runs at the start of a server and from `grove doctor`. It finishes or undoes what was cut short,
//! puts broken entries aside and rewrites missing mirrors. It deletes only what an unfinished
//! intent's nonce proves to be its own; all else it reports. A second run changes nothing, and an
//! error of the store ends it.

use std::fs;

use grove_git::lock::Locks;
use grove_git::quarantine::{broken_entries, pin, quarantine};
use grove_git::{Repository, leftovers};
use grove_model::{Codebase, Environment, Nonce, Status};

use crate::environments::Isolation;
use crate::error::IsolationError;
use crate::lease::node;
use crate::problem::Problem;

/// One thing that was put right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix(pub String);

/// What a look over a codebase did, and what it could not put right: a branch, and why.
#[derive(Debug)]
pub struct Reconciled {
    pub fixes: Vec<Fix>,
    pub left: Vec<(String, Problem)>,
}

impl Isolation {
    /// Puts entries aside that would break git for the whole repository.
    pub async fn quarantine_broken(&self, codebase: &Codebase) -> Result<Vec<Fix>, IsolationError> {
        let common_dir = &codebase.git_common_dir;
        let failed =
            |source| IsolationError::Io { what: format!("{} cannot be looked at", common_dir.display()), source };
        let mut fixes = Vec::new();
        for broken in broken_entries(common_dir).map_err(failed)? {
            let aside = quarantine(common_dir, &broken).map_err(failed)?;
            pin(&Repository::known(self.git(), &codebase.default_cwd, common_dir), &aside).await?;
            tracing::warn!(entry = %broken.entry.display(), "quarantined: {}", broken.why);
            let worktree = broken.worktree.map(|path| format!(" of {}", path.display())).unwrap_or_default();
            fixes.push(Fix(format!(
                "git's entry{worktree} is broken ({}) and was put aside at {}",
                broken.why,
                aside.display()
            )));
        }
        Ok(fixes)
    }

    /// Brings one codebase's records, entries and folders together.
    pub async fn reconcile(&self, codebase: &Codebase) -> Result<Reconciled, IsolationError> {
        let mut done = Reconciled { fixes: self.quarantine_broken(codebase).await?, left: Vec::new() };
        let here = node();
        let all = self.store().environments(codebase.id, true).await?;
        for environment in all.iter().filter(|environment| environment.node == here) {
            match self.reconcile_one(codebase, environment).await {
                Ok(fix) => done.fixes.extend(fix.map(Fix)),
                Err(error @ IsolationError::Store(_)) => return Err(error),
                // One that cannot be put right does not stop the rest.
                Err(error) => done.left.push((environment.branch.to_string(), error.into())),
            }
        }
        self.sweep_staging(codebase, &all, &mut done.fixes)?;
        self.sweep_locks(codebase, &all).await?;
        self.sweep_readings(codebase, &mut done).await?;
        Ok(done)
    }

    async fn reconcile_one(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<Option<String>, IsolationError> {
        let branch = &environment.branch;
        let whole = environment.status == Status::Active && environment.path.is_dir();
        Ok(match environment.status {
            Status::Creating if self.recover(codebase, environment).await? => {
                Some(format!("the unfinished creation of `{branch}` was undone"))
            }
            Status::Removing if self.recover(codebase, environment).await? => {
                let now = self.store().environment(environment.id).await?;
                let back = now.is_some_and(|now| now.status != Status::Destroyed);
                let how = if back { "it is back" } else { "it is in the trash" };
                Some(format!("the unfinished removal of `{branch}` was put right: {how}"))
            }
            Status::Merging if self.stop_merging(codebase, environment).await? => {
                Some(format!("`{branch}` was left merging by a crash and is active again"))
            }
            _ if whole && self.settle(codebase, environment)? => {
                Some(format!("`{branch}` was left locked by a crash and is unlocked"))
            }
            _ if whole && self.mirror_again(codebase, environment)? => {
                Some(format!("the mirror of `{branch}` was missing and is written"))
            }
            _ => None,
        })
    }

    /// Deletes the files of locks of environments that are gone for good: ended, and not in the trash.
    async fn sweep_locks(&self, codebase: &Codebase, all: &[Environment]) -> Result<(), IsolationError> {
        let common_dir = &codebase.git_common_dir;
        let failed = |source| IsolationError::Io { what: "files of locks cannot be deleted".to_owned(), source };
        let found = Locks::environments(common_dir).map_err(failed)?;
        if found.is_empty() {
            return Ok(());
        }
        let kept = self.store().trash_of(codebase.id).await?;
        let here = node();
        for id in found {
            let ended = all.iter().any(|e| e.id == id && e.status == Status::Destroyed && e.node == here);
            if ended && !kept.iter().any(|row| row.environment == id) {
                Locks::of_environment(common_dir, id).and_then(|locks| locks.delete_files()).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Staging places of creations that have ended: their names say whose they were.
    fn sweep_staging(
        &self,
        codebase: &Codebase,
        all: &[Environment],
        fixes: &mut Vec<Fix>,
    ) -> Result<(), IsolationError> {
        let ended: Vec<Nonce> = all.iter().filter(|e| e.status == Status::Destroyed).map(|e| e.nonce).collect();
        let staged = fs::read_dir(codebase.git_common_dir.join("grove")).into_iter().flatten().flatten();
        for entry in staged {
            let name = entry.file_name().to_string_lossy().into_owned();
            let nonce = name.strip_prefix("staging-").and_then(|nonce| nonce.parse::<Nonce>().ok());
            if nonce.is_some_and(|nonce| ended.contains(&nonce)) {
                fs::remove_dir_all(entry.path())
                    .map_err(|source| IsolationError::Io { what: format!("{name} cannot be taken away"), source })?;
                fixes.push(Fix(format!("{name} of a creation that ended was taken away")));
            }
        }
        for path in leftovers::sweep(&codebase.git_common_dir)
            .map_err(|source| IsolationError::Io { what: "leftovers of git cannot be taken away".to_owned(), source })?
        {
            fixes.push(Fix(format!("{} of a call of git that ended was taken away", path.display())));
        }
        Ok(())
    }
}
