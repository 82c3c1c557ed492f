//! The part of the seam that is about the trash: removal, undo, hibernating and waking.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use async_trait::async_trait;
use grove_git::removal::check::{RemovalSubject, entry_stamp, look_in_trash, pin_all};
use grove_git::removal::{RegenerableFolder, RegenerableNames, RemovalError, TrashManifest, TrashedWorktree};
use grove_git::{GitError, RemovalCheck, Repository};
use grove_model::Environment;

use crate::error::{EnvironmentError, RemoveError};

/// An environment on its way to the trash, in the trash, or on its way back. Each step first checks whether
/// it was done already, so that recovery after a crash can run it again.
#[async_trait]
pub trait TrashedEnvironment: Send + Sync {
    fn manifest(&self) -> &TrashManifest;
    fn manifest_mut(&mut self) -> &mut TrashManifest;

    /// Makes room in the trash, and pins everything that only this environment holds.
    async fn prepare(&self, environment: &Environment, check: &RemovalCheck) -> Result<(), EnvironmentError>;
    /// Tells whether nothing was written to the environment's git state since the check.
    fn is_unchanged_since(&self, check: &RemovalCheck) -> bool;
    fn move_files_to_trash(&self) -> Result<(), RemovalError>;
    fn move_entry_to_trash(&self) -> Result<(), RemovalError>;
    /// Deletes the branch if the manifest says so; returns whether it is gone.
    async fn drop_branch(&self) -> Result<bool, RemovalError>;
    /// Takes the files back that were moved by a removal that is given up.
    fn return_moved_files(&self) -> Result<(), RemovalError>;
    async fn cancel_removal(&self) -> Result<(), RemovalError>;

    /// Checks that nothing is in the way of a restore.
    async fn can_return(&self) -> Result<(), RemovalError>;
    fn return_entry(&mut self) -> Result<(), RemovalError>;
    async fn return_branches(&self) -> Result<(), RemovalError>;
    async fn return_files(&self) -> Result<(), RemovalError>;
    /// Deletes the pins and records of an environment that is in its place again.
    async fn discard_records(&self) -> Result<(), RemovalError>;
    fn cancel_restore(&self) -> Result<(), RemovalError>;

    /// Tells whether the disk with the files is not mounted.
    fn files_are_away(&self) -> bool;
    fn files_are_in_trash(&self) -> bool;
    fn entry_is_in_trash(&self) -> bool;
    fn entry_in_trash(&self) -> PathBuf;

    /// Checks a hibernating environment for changes since it was put away.
    async fn check_again(&self, needed: &[&str]) -> Result<RemovalCheck, RemovalError>;
    /// Writes the manifest down again.
    async fn write_manifest(&self) -> Result<(), RemovalError>;
    /// Deletes tracked files that git holds byte for byte; returns how many.
    async fn compact_files(&self) -> Result<usize, RemovalError>;
    /// Moves folders that tools can recreate aside, to be deleted; returns where they are.
    async fn move_out_regenerable(&self) -> Result<Option<PathBuf>, RemovalError>;
    fn unfinished_deletion(&self) -> Option<PathBuf>;
    fn is_shed(&self, folder: &RegenerableFolder) -> bool;
    fn last_written(&self) -> io::Result<SystemTime>;
    fn total_size(&self) -> u64;
    fn is_being_dropped(&self) -> bool;
    async fn delete_permanently(&self) -> Result<(), RemovalError>;
}

/// Deletes a folder of the trash slowly, so that the disk stays quick for others.
pub(crate) async fn delete_slowly(path: &Path) -> io::Result<()> {
    grove_git::removal::compact::delete_slowly(path).await
}

/// The names of folders that tools can recreate play no role once the check is done.
pub(crate) fn subject_of<'a>(
    environment: &'a Environment,
    entry: &'a Path,
    names: &'a RegenerableNames,
) -> RemovalSubject<'a> {
    RemovalSubject { path: &environment.path, entry, branch: &environment.branch, needed: &[], regenerable: names }
}

/// A git worktree in the trash.
pub(super) struct WorktreeInTrash {
    pub repo: Repository,
    pub trashed: TrashedWorktree,
    /// Git's entry before it was moved.
    pub entry: PathBuf,
}

#[async_trait]
impl TrashedEnvironment for WorktreeInTrash {
    fn manifest(&self) -> &TrashManifest {
        &self.trashed.manifest
    }

    fn manifest_mut(&mut self) -> &mut TrashManifest {
        &mut self.trashed.manifest
    }

    async fn prepare(&self, environment: &Environment, check: &RemovalCheck) -> Result<(), EnvironmentError> {
        let (base, names) = (self.trashed.manifest.pins_ref_path(), RegenerableNames::default());
        let subject = subject_of(environment, &self.entry, &names);
        let (prepared, pinned) =
            tokio::join!(self.trashed.prepare_trash(&self.repo), pin_all(&self.repo, &base, subject, check));
        prepared.map_err(RemoveError::Removal)?;
        pinned.map_err(|error| match error {
            GitError::Interrupted { .. } => EnvironmentError::Git(error),
            other => EnvironmentError::Remove(RemoveError::Removal(RemovalError::Pin(other.to_string()))),
        })
    }

    fn is_unchanged_since(&self, check: &RemovalCheck) -> bool {
        entry_stamp(&self.entry) == check.stamp
    }

    fn move_files_to_trash(&self) -> Result<(), RemovalError> {
        self.trashed.move_files_to_trash()
    }

    fn move_entry_to_trash(&self) -> Result<(), RemovalError> {
        self.trashed.move_entry_to_trash(&self.repo)
    }

    async fn drop_branch(&self) -> Result<bool, RemovalError> {
        self.trashed.drop_branch(&self.repo).await
    }

    fn return_moved_files(&self) -> Result<(), RemovalError> {
        self.trashed.return_moved_files()
    }

    async fn cancel_removal(&self) -> Result<(), RemovalError> {
        self.trashed.cancel_removal(&self.repo).await
    }

    async fn can_return(&self) -> Result<(), RemovalError> {
        self.trashed.can_return(&self.repo).await
    }

    fn return_entry(&mut self) -> Result<(), RemovalError> {
        self.trashed.return_entry(&self.repo)
    }

    async fn return_branches(&self) -> Result<(), RemovalError> {
        self.trashed.return_branches(&self.repo).await
    }

    async fn return_files(&self) -> Result<(), RemovalError> {
        self.trashed.return_files(&self.repo).await
    }

    async fn discard_records(&self) -> Result<(), RemovalError> {
        self.trashed.discard_records(&self.repo).await
    }

    fn cancel_restore(&self) -> Result<(), RemovalError> {
        self.trashed.cancel_restore()
    }

    fn files_are_away(&self) -> bool {
        self.trashed.files_are_away()
    }

    fn files_are_in_trash(&self) -> bool {
        self.trashed.files_are_in_trash()
    }

    fn entry_is_in_trash(&self) -> bool {
        self.trashed.entry_is_in_trash()
    }

    fn entry_in_trash(&self) -> PathBuf {
        self.trashed.entry_in_trash()
    }

    async fn check_again(&self, needed: &[&str]) -> Result<RemovalCheck, RemovalError> {
        look_in_trash(&self.repo, &self.trashed, needed).await
    }

    async fn write_manifest(&self) -> Result<(), RemovalError> {
        self.trashed.write_down(&self.repo).await
    }

    async fn compact_files(&self) -> Result<usize, RemovalError> {
        self.trashed.compact_files(&self.repo).await
    }

    async fn move_out_regenerable(&self) -> Result<Option<PathBuf>, RemovalError> {
        self.trashed.move_out_regenerable().await
    }

    fn unfinished_deletion(&self) -> Option<PathBuf> {
        self.trashed.unfinished_deletion()
    }

    fn is_shed(&self, folder: &RegenerableFolder) -> bool {
        self.trashed.is_shed(folder)
    }

    fn last_written(&self) -> io::Result<SystemTime> {
        self.trashed.last_written()
    }

    fn total_size(&self) -> u64 {
        self.trashed.total_size()
    }

    fn is_being_dropped(&self) -> bool {
        self.trashed.is_being_dropped()
    }

    async fn delete_permanently(&self) -> Result<(), RemovalError> {
        self.trashed.delete_permanently(&self.repo).await
    }
}
