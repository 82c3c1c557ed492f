//! Reads what is on disk at an environment's path.

use std::io;
use std::path::{Path, PathBuf};

use grove_git::parse::{self, WorktreeStatus as GitStatus};
use grove_git::removal::check::operation_in;
use grove_git::{Git, GitLocation, links};
use grove_model::{Codebase, Environment, GitOperation};
use tokio::task::JoinSet;

use crate::lease::node_name;

/// The facts about an environment's path on disk.
#[derive(Clone, Debug)]
pub enum DiskFacts {
    Missing,
    /// It is gone together with the folder above it.
    NotMounted,
    Present(Box<PresentWorktree>),
}

#[derive(Clone, Debug)]
pub struct PresentWorktree {
    pub admin_dir: PathBuf,
    pub status: GitStatus,
    pub operation: Option<GitOperation>,
}

impl PresentWorktree {
    /// Tells whether files are changed, or an operation waits to be finished. A bisect changes nothing.
    pub fn is_unfinished(&self) -> bool {
        !self.status.is_clean() || self.operation.is_some_and(|operation| operation != GitOperation::Bisect)
    }

    /// Tells whether a commit is checked out, and no branch.
    pub fn is_detached(&self) -> bool {
        self.status.branch.is_none() && self.status.head.is_some()
    }
}

/// Inspects each environment, several at once. A fact that could not be determined is an error with the
/// reason, never an assumption.
pub(super) async fn facts_of(
    git: &Git,
    codebase: &Codebase,
    environments: &[Environment],
) -> Vec<Result<DiskFacts, String>> {
    let mut looks = JoinSet::new();
    for (index, environment) in environments.iter().enumerate() {
        let (git, environment, common_dir) = (git.clone(), environment.clone(), codebase.git_common_dir.clone());
        looks.spawn(async move { (index, inspect_environment(&git, &common_dir, &environment).await) });
    }
    let mut facts = vec![Err("it was not looked at".to_owned()); environments.len()];
    while let Some(look) = looks.join_next().await {
        match look {
            Ok((index, result)) => facts[index] = result,
            Err(error) => tracing::error!("looking at an environment: {error}"),
        }
    }
    facts
}

/// The state of an environment's path, without asking git.
#[derive(Debug)]
pub enum PathState {
    /// Its worktree, with git's entry for it.
    Worktree(PathBuf),
    Gone,
    /// It is gone together with the folder above it.
    NotMounted,
    /// It is on another machine.
    Elsewhere(String),
    Unknown(String),
}

pub(super) fn on_disk(environment: &Environment, common_dir: &Path) -> PathState {
    if environment.node != node_name() {
        return PathState::Elsewhere(environment.node.clone());
    }
    let path = &environment.path;
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return if path.parent().is_some_and(Path::exists) { PathState::Gone } else { PathState::NotMounted };
        }
        Err(error) => return PathState::Unknown(error.to_string()),
        Ok(meta) if !meta.is_dir() => return PathState::Unknown("a link or a file stands there".to_owned()),
        Ok(_) => {}
    }
    // Another clone, or something else altogether, may be at this path now.
    match links::entry_of(path, common_dir) {
        Ok(Some(entry)) => PathState::Worktree(entry),
        Ok(None) => PathState::Unknown("its `.git` is missing or leads to another repository".to_owned()),
        Err(error) => PathState::Unknown(error.to_string()),
    }
}

async fn inspect_environment(git: &Git, common_dir: &Path, environment: &Environment) -> Result<DiskFacts, String> {
    let admin_dir = match on_disk(environment, common_dir) {
        PathState::Worktree(entry) => entry,
        PathState::Gone => return Ok(DiskFacts::Missing),
        PathState::NotMounted => return Ok(DiskFacts::NotMounted),
        PathState::Elsewhere(node) => return Err(format!("it is on another machine ({node})")),
        PathState::Unknown(why) => return Err(why),
    };
    let path = &environment.path;
    // Pinned: an agent may have rewritten the files inside.
    let place = GitLocation::Worktree { work_tree: path, git_dir: &admin_dir, common_dir };
    // Submodules are not inspected: git would run commands there that their own configuration names.
    let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"];
    let status = git.new_command(place, "status").args(flags);
    let output = status.inspecting_worktree().run().await.map_err(|error| error.to_string())?;
    let status = parse::parse_status(&output.stdout).map_err(|error| error.to_string())?;
    let operation = operation_in(&admin_dir);
    Ok(DiskFacts::Present(Box::new(PresentWorktree { admin_dir, status, operation })))
}

/// Tells whether git's entry leads back to the worktree.
pub(super) fn entry_points_to(entry: &Path, path: &Path) -> bool {
    let named = links::worktree_of(entry).ok().flatten().and_then(|named| named.canonicalize().ok());
    named.is_some() && named == path.canonicalize().ok()
}

/// Returns the entry of a worktree that only lost its `.git`, if nothing else is at its path.
pub(super) fn find_unlinked_entry(codebase: &Codebase, environment: &Environment) -> io::Result<Option<PathBuf>> {
    let lost = environment.path.join(".git").symlink_metadata();
    if !environment.path.is_dir() || !lost.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    for entry in links::list_entries(&codebase.git_common_dir)? {
        if links::worktree_of(&entry)?.as_deref() == Some(&environment.path) {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}
