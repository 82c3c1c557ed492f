//! The disk usage of environments.
//!
//! The record keeps the size and when it was measured, so that a list need not walk through every tree. Each
//! list measures a few of those whose size is outdated; a clean-up measures all. A size is what `du` reports,
//! or there is none: part of a tree is never taken for the whole.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use grove_model::{Codebase, Environment, EnvironmentId, Moment, Status};
use jiff::SignedDuration;

use crate::environments::Environments;
use crate::provider::IsolationProvider;
use crate::provider::disk::PathState;

/// The time for which a measured size is valid.
const SIZE_CACHE_DURATION: SignedDuration = SignedDuration::from_hours(1);

/// The number of files that one list reads. The first environment is always measured to the end, so that even
/// a huge one gets its size.
const MAX_FILES_PER_LIST: usize = 5_000;

/// The measured sizes: `None` where the size could not be determined.
pub(crate) type EnvironmentSizes = HashMap<EnvironmentId, Option<i64>>;

impl Environments {
    /// Measures these environments, however many files they have. Used right after they changed.
    pub async fn measure_environments(&self, codebase: &Codebase, environments: &[Environment]) {
        self.measure_up_to(codebase, environments.to_vec(), usize::MAX).await;
    }

    /// Measures some of the environments whose size is outdated.
    pub(crate) async fn measure_some(
        &self,
        codebase: &Codebase,
        environments: &[Environment],
        now: Moment,
    ) -> EnvironmentSizes {
        let mut due: Vec<Environment> = environments.iter().filter(|e| is_due(e, now)).cloned().collect();
        due.sort_by_key(|environment| (environment.size_at, environment.created_at));
        self.measure_up_to(codebase, due, MAX_FILES_PER_LIST).await
    }

    async fn measure_up_to(
        &self,
        codebase: &Codebase,
        environments: Vec<Environment>,
        files: usize,
    ) -> EnvironmentSizes {
        let (provider, codebase) = (self.provider.clone(), codebase.clone());
        let walk = tokio::task::spawn_blocking(move || measure_each(&*provider, &codebase, &environments, files));
        let sizes = match walk.await {
            Ok(sizes) => sizes,
            Err(error) => {
                tracing::error!("measuring environments: {error}");
                return EnvironmentSizes::new();
            }
        };
        if !sizes.is_empty()
            && let Err(error) = self.store.keep_sizes(&sizes, Moment::now()).await
        {
            tracing::warn!("sizes could not be remembered: {error}");
        }
        sizes
    }
}

fn is_due(environment: &Environment, now: Moment) -> bool {
    // A size from the future was measured before the clock was set back.
    environment
        .size_at
        .is_none_or(|at| now.duration_since(at) > SIZE_CACHE_DURATION || now.duration_since(at).is_negative())
}

fn measure_each(
    provider: &dyn IsolationProvider,
    codebase: &Codebase,
    environments: &[Environment],
    mut files: usize,
) -> EnvironmentSizes {
    let mut sizes = EnvironmentSizes::new();
    for environment in environments {
        let settled = matches!(environment.status, Status::Active | Status::Failed | Status::Merging);
        if !settled || !matches!(provider.path_state(codebase, environment), PathState::Worktree(_)) {
            continue;
        }
        let limit = if sizes.is_empty() { usize::MAX } else { files };
        let size = match size_on_disk(&environment.path, limit) {
            Ok(Some(size)) => {
                files = files.saturating_sub(size.files);
                i64::try_from(size.bytes).ok()
            }
            // The next list begins with it.
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(environment = %environment.id, "not measured: {error}");
                None
            }
        };
        sizes.insert(environment.id, size);
    }
    sizes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    pub bytes: u64,
    /// The number of files, folders and links that were read.
    pub files: usize,
}

/// Returns the disk usage of `root` and everything below it: several names of one file count once, links are
/// not followed, other file systems are not entered. Returns `None` if there are more than `limit` files.
pub fn size_on_disk(root: &Path, limit: usize) -> io::Result<Option<DiskUsage>> {
    let top = root.symlink_metadata()?;
    let mut size = DiskUsage { bytes: top.blocks() * 512, files: 1 };
    let mut seen = HashSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = match fs::read_dir(&dir) {
            // It was deleted during the walk, and takes no room any more.
            Err(error) if error.kind() == io::ErrorKind::NotFound && dir != root => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let meta = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            size.files += 1;
            if size.files > limit {
                return Ok(None);
            }
            if meta.dev() != top.dev() || (!meta.is_dir() && meta.nlink() > 1 && !seen.insert(meta.ino())) {
                continue;
            }
            size.bytes += meta.blocks() * 512;
            if meta.is_dir() {
                open.push(entry.path());
            }
        }
    }
    Ok(Some(size))
}
