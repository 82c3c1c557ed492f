//! How much room environments take on disk.
//!
//! The record keeps the figure and when it was taken, so that a list need not walk through every
//! tree. Those whose figure is old are measured as lists are asked for, a few each time; a clean-up
//! measures all. A figure is what `du` gives, or there is none: part of a tree is never taken for
//! the whole.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use grove_model::{Codebase, Environment, EnvironmentId, Moment, Status};
use jiff::SignedDuration;

use crate::environments::Isolation;
use crate::provider::disk::{OnDisk, on_disk};

/// How long a figure is good for.
const GOOD_FOR: SignedDuration = SignedDuration::from_hours(1);

/// How many files one list looks at. The first environment is always measured to the end, so that
/// even a huge one gets its figure.
const FILES_AT_ONCE: usize = 5_000;

/// What was measured: `None` where it could not be found out.
pub(crate) type Sizes = HashMap<EnvironmentId, Option<i64>>;

impl Isolation {
    /// Measures these, however many files they have; for when they have just changed.
    pub async fn measure(&self, codebase: &Codebase, environments: &[Environment]) {
        self.measured(codebase, environments.to_vec(), usize::MAX).await;
    }

    /// Measures some of those that were not for long.
    pub(crate) async fn measure_some(&self, codebase: &Codebase, environments: &[Environment], now: Moment) -> Sizes {
        let mut due: Vec<Environment> = environments.iter().filter(|e| is_due(e, now)).cloned().collect();
        due.sort_by_key(|environment| (environment.size_at, environment.created_at));
        self.measured(codebase, due, FILES_AT_ONCE).await
    }

    async fn measured(&self, codebase: &Codebase, environments: Vec<Environment>, files: usize) -> Sizes {
        let common_dir = codebase.git_common_dir.clone();
        let walk = tokio::task::spawn_blocking(move || measure_each(&environments, &common_dir, files));
        let sizes = match walk.await {
            Ok(sizes) => sizes,
            Err(error) => {
                tracing::error!("measuring environments: {error}");
                return Sizes::new();
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
    // A figure from the future is one from before the clock was put back.
    environment.size_at.is_none_or(|at| now.since(at) > GOOD_FOR || now.since(at).is_negative())
}

fn measure_each(environments: &[Environment], common_dir: &Path, mut files: usize) -> Sizes {
    let mut sizes = Sizes::new();
    for environment in environments {
        let settled = matches!(environment.status, Status::Active | Status::Failed | Status::Merging);
        if !settled || !matches!(on_disk(environment, common_dir), OnDisk::Worktree(_)) {
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
pub struct Size {
    pub bytes: u64,
    /// How many files, folders and links were looked at.
    pub files: usize,
}

/// What `root` and everything below it take on disk: several names of one file count once, links are
/// not followed, other file systems are not entered. `None`: there are more than `limit` files.
pub fn size_on_disk(root: &Path, limit: usize) -> io::Result<Option<Size>> {
    let top = root.symlink_metadata()?;
    let mut size = Size { bytes: top.blocks() * 512, files: 1 };
    let mut seen = HashSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        let entries = match fs::read_dir(&dir) {
            // It went while we looked, and takes no room any more.
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
