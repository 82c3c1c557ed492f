//! What stands at an environment's path.

use std::path::{Path, PathBuf};

use grove_git::parse::{self, Status as GitStatus};
use grove_git::{Git, Place, links};
use grove_model::{Codebase, Environment};
use tokio::task::JoinSet;

use crate::lease::node;

/// What is really there.
#[derive(Clone, Debug)]
pub enum Facts {
    Missing,
    /// Gone together with the folder above it.
    NotMounted,
    Present(Box<Present>),
}

#[derive(Clone, Debug)]
pub struct Present {
    pub admin_dir: PathBuf,
    pub status: GitStatus,
}

/// Looks at each environment, several at once. What could not be found out is an error with the
/// reason, never an assumption.
pub async fn facts_of(git: &Git, codebase: &Codebase, environments: &[Environment]) -> Vec<Result<Facts, String>> {
    let mut looks = JoinSet::new();
    for (index, environment) in environments.iter().enumerate() {
        let (git, environment, common_dir) = (git.clone(), environment.clone(), codebase.git_common_dir.clone());
        looks.spawn(async move { (index, look(&git, &common_dir, &environment).await) });
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

/// What stands at an environment's path, without asking git.
#[derive(Debug)]
pub(crate) enum OnDisk {
    /// Its worktree; git's entry for it.
    Worktree(PathBuf),
    Gone,
    /// Gone together with the folder above it.
    NotMounted,
    /// On another machine.
    Elsewhere(String),
    Unknown(String),
}

pub(crate) fn on_disk(environment: &Environment, common_dir: &Path) -> OnDisk {
    if environment.node != node() {
        return OnDisk::Elsewhere(environment.node.clone());
    }
    let path = &environment.path;
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return if path.parent().is_some_and(Path::exists) { OnDisk::Gone } else { OnDisk::NotMounted };
        }
        Err(error) => return OnDisk::Unknown(error.to_string()),
        Ok(meta) if !meta.is_dir() => return OnDisk::Unknown("a link or a file stands there".to_owned()),
        Ok(_) => {}
    }
    // Another clone, or something else altogether, may stand there now.
    match links::entry_of(path, common_dir) {
        Ok(Some(entry)) => OnDisk::Worktree(entry),
        Ok(None) => OnDisk::Unknown("its `.git` is missing or leads to another repository".to_owned()),
        Err(error) => OnDisk::Unknown(error.to_string()),
    }
}

async fn look(git: &Git, common_dir: &Path, environment: &Environment) -> Result<Facts, String> {
    let admin_dir = match on_disk(environment, common_dir) {
        OnDisk::Worktree(entry) => entry,
        OnDisk::Gone => return Ok(Facts::Missing),
        OnDisk::NotMounted => return Ok(Facts::NotMounted),
        OnDisk::Elsewhere(node) => return Err(format!("it is on another machine ({node})")),
        OnDisk::Unknown(why) => return Err(why),
    };
    let path = &environment.path;
    // Pinned: an agent may have rewritten what is inside.
    let place = Place::Worktree { work_tree: path, git_dir: &admin_dir, common_dir };
    // Without a look into submodules: git would run there what their own configuration names.
    let flags = ["--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty"];
    let status = git.command(place, "status").args(flags);
    let output = status.inspecting_worktree().run().await.map_err(|error| error.to_string())?;
    let status = parse::status(&output.stdout).map_err(|error| error.to_string())?;
    Ok(Facts::Present(Box::new(Present { admin_dir, status })))
}
