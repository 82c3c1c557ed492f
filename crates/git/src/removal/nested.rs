//! Finds other repositories and regenerable folders inside a worktree.

use std::path::{Path, PathBuf};
use std::{fs, io};

use grove_model::RemovalAnswer;

use super::regenerable::{FolderExtent, FolderMarkers, RegenerableFolder, RegenerableNames, this_instant};
use crate::durable::{MAX_SMALL_FILE_BYTES, read_plain};
use crate::settled::{FileTime, last_touched};
use crate::{Git, GitLocation, links, parse};

/// The result of walking through a worktree; all paths are relative to it.
#[derive(Debug, Default)]
pub(crate) struct WorktreeWalk {
    /// Folders that are repositories or worktrees of their own.
    pub repositories: Vec<PathBuf>,
    /// Folders that tools may have made.
    pub regenerable: Vec<RegenerableFolder>,
    /// The time of the last change to any file; missing if one could not be inspected.
    pub newest: Option<FileTime>,
    /// The first folder that could not be read, and why.
    pub unreadable: Option<(PathBuf, String)>,
}

/// Looks into every folder, also ignored ones, without following links.
pub(crate) fn walk_worktree(root: &Path, regenerable: &RegenerableNames) -> WorktreeWalk {
    walk_but_for(root, regenerable, &[".git"])
}

/// Looks into every folder like [`walk_worktree`]; files of these names in the root do not belong
/// to the worktree.
pub(crate) fn walk_but_for(root: &Path, regenerable: &RegenerableNames, links: &[&str]) -> WorktreeWalk {
    let mut found = WorktreeWalk { newest: Some((0, 0)), ..WorktreeWalk::default() };
    let now = this_instant();
    // Each folder with the markers beside it, and the regenerable folder that it lies in.
    let mut open = vec![(PathBuf::new(), FolderMarkers::default(), None)];
    while let Some((below, beside, mut enclosing)) = open.pop() {
        let mut folders = Vec::new();
        let (mut markers, mut extent) = (FolderMarkers::default(), FolderExtent::default());
        let (mut git, mut bare) = (false, 0);
        let read = fs::read_dir(root.join(&below)).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                let (name, kind) = (entry.file_name(), entry.file_type()?);
                bare += usize::from(name == "HEAD" && kind.is_file());
                bare += usize::from((name == "objects" || name == "refs") && kind.is_dir());
                let link_to_git = below.as_os_str().is_empty() && links.iter().any(|link| name == *link);
                markers.add_entry(&name, kind.is_file());
                if !kind.is_dir() && !link_to_git {
                    let meta = entry.metadata().ok();
                    if let Some(meta) = &meta {
                        extent.add_metadata(meta, now);
                    }
                    let touched = meta.map(|meta| last_touched(&meta));
                    found.newest = found.newest.zip(touched).map(|(newest, touched)| newest.max(touched));
                }
                if name == ".git" {
                    git = true;
                } else if kind.is_dir() {
                    folders.push(below.join(name));
                }
            }
            markers.check_signature(&root.join(&below));
            let may_be = enclosing.is_none() && markers.may_be_regenerable(&below, beside, regenerable);
            if may_be || enclosing.is_some() {
                extent.add_metadata(&root.join(&below).symlink_metadata()?, now);
            }
            if may_be {
                enclosing = Some(found.regenerable.len());
                found.regenerable.push(RegenerableFolder::new(below.clone(), markers));
            }
            if let Some(folder) = enclosing.and_then(|at| found.regenerable.get_mut(at)) {
                folder.add_extent(extent);
            }
            Ok(())
        });
        if let Err(error) = read {
            // A folder that was deleted in the meantime holds nothing.
            if error.kind() != io::ErrorKind::NotFound && found.unreadable.is_none() {
                found.unreadable = Some((below.clone(), error.to_string()));
            }
            continue;
        }
        let nested = !below.as_os_str().is_empty();
        if nested && (git || bare == 3) {
            found.repositories.push(below.clone());
        }
        if nested && !git && bare == 3 {
            continue;
        }
        open.extend(folders.into_iter().map(|folder| (folder, markers, enclosing)));
    }
    found.repositories.sort();
    found.regenerable.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// A repository inside a worktree.
#[derive(Debug)]
pub(super) enum NestedFolderKind {
    /// A worktree that its repository has at this path: removing it would break it.
    Worktree,
    /// A clone, or a submodule.
    Repository { git_dir: PathBuf },
    /// A `.git` that does not lead to a repository.
    Nothing,
}

pub(super) fn kind_of(path: &Path) -> io::Result<NestedFolderKind> {
    let dot_git = path.join(".git");
    let git_dir = match dot_git.symlink_metadata() {
        Ok(meta) if meta.is_file() => match links::git_dir_of(path)? {
            Some(git_dir) => match git_dir.metadata() {
                Ok(meta) if meta.is_dir() => git_dir,
                Ok(_) => return Ok(NestedFolderKind::Nothing),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(NestedFolderKind::Nothing),
                Err(error) => return Err(error),
            },
            None => return Ok(NestedFolderKind::Nothing),
        },
        Ok(_) => dot_git.canonicalize()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    if git_dir.join("commondir").symlink_metadata().is_err() {
        return Ok(NestedFolderKind::Repository { git_dir });
    }
    // A worktree's entry: does it name this path?
    let known = links::worktree_of(&git_dir)?;
    let here = |known: &PathBuf| known.canonicalize().ok() == path.canonicalize().ok();
    Ok(if known.as_ref().is_some_and(here) { NestedFolderKind::Worktree } else { NestedFolderKind::Nothing })
}

/// Tells whether a nested repository has commits or changes that are nowhere else.
pub(super) async fn own_work(git: &Git, path: &Path, git_dir: &Path) -> RemovalAnswer {
    if let Err(why) = check_harmless(git_dir) {
        return RemovalAnswer::Unknown(why);
    }
    match worktrees_elsewhere(path, git_dir) {
        Ok(None) => {}
        Ok(Some(elsewhere)) => return RemovalAnswer::Yes(format!("a worktree of its own at {}", elsewhere.display())),
        Err(error) => return RemovalAnswer::unknown_because(error),
    }
    let place = GitLocation::Worktree { work_tree: path, git_dir, common_dir: git_dir };
    if path != git_dir {
        let status = git.new_command(place, "status").args(super::check::STATUS_FLAGS);
        let status = status.inspecting_worktree().run().await;
        match status.and_then(|output| parse::parse_status(&output.stdout)) {
            Ok(status) if status.is_clean() => {}
            Ok(_) => return RemovalAnswer::Yes("changes".to_owned()),
            Err(error) => return RemovalAnswer::unknown_because(error),
        }
    }
    // As a rule, tags were fetched together with their commits; branches and stashes were made
    // here.
    let own =
        git.new_command(place, "rev-list").args(["--count", "--exclude=refs/tags/*", "--all", "--not", "--remotes"]);
    match own.inspecting_index().run_to_text().await {
        Ok(count) if count == "0" => RemovalAnswer::No,
        Ok(count) => RemovalAnswer::Yes(format!("{count} commits that no remote has")),
        Err(error) => RemovalAnswer::unknown_because(error),
    }
}

/// Checks that git may run in a repository that an agent can write: its config may only hold settings that
/// are known to be harmless, since some others name programs.
pub(super) fn check_harmless(git_dir: &Path) -> Result<(), String> {
    let config = read_plain(&git_dir.join("config"), MAX_SMALL_FILE_BYTES).map_err(|error| error.to_string())?;
    if git_dir.join("config.worktree").symlink_metadata().is_ok() {
        return Err("it has a configuration for worktrees, so it was not asked".to_owned());
    }
    match strange_line(&String::from_utf8_lossy(&config)) {
        None => Ok(()),
        Some(line) => Err(format!("its configuration says `{line}`, so it was not asked")),
    }
}

/// Returns the first line of a config that is not known to be harmless.
fn strange_line(config: &str) -> Option<&str> {
    let known = |section: &str, key: &str| match section {
        "core" => matches!(
            key,
            "repositoryformatversion"
                | "filemode"
                | "bare"
                | "logallrefupdates"
                | "ignorecase"
                | "precomposeunicode"
                | "symlinks"
                | "worktree"
                | "autocrlf"
                | "eol"
                | "safecrlf"
        ),
        "remote" => matches!(key, "url" | "pushurl" | "fetch" | "tagopt"),
        "branch" => matches!(key, "remote" | "merge" | "rebase"),
        "submodule" => matches!(key, "url" | "active"),
        "extensions" => matches!(key, "objectformat" | "refstorage"),
        "user" | "init" | "advice" | "pull" | "push" | "gc" | "color" => true,
        _ => false,
    };
    let mut section = String::new();
    for line in config.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';'])) {
        if let Some(header) = line.strip_prefix('[') {
            // `[section]`, `[section "name"]`; a key after it on the same line is not supported.
            let Some(inside) = header.strip_suffix(']') else { return Some(line) };
            section = inside.split([' ', '.']).next().unwrap_or_default().to_ascii_lowercase();
            continue;
        }
        let key = line.split(['=', ' ', '\t']).next().unwrap_or_default().to_ascii_lowercase();
        // A line that continues could hide another.
        if !known(&section, &key) || line.ends_with('\\') {
            return Some(line);
        }
    }
    None
}

/// Returns a worktree of a nested repository that lies outside of it and would lose its repository.
fn worktrees_elsewhere(path: &Path, git_dir: &Path) -> io::Result<Option<PathBuf>> {
    for entry in links::list_entries(git_dir)? {
        let elsewhere = links::worktree_of(&entry)?.filter(|worktree| worktree.exists() && !worktree.starts_with(path));
        if elsewhere.is_some() {
            return Ok(elsewhere);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_git_ignores_too() {
        let dir = tempfile::tempdir().unwrap();
        for folder in [
            "a/.git",
            "target/deep/b/.git",
            "src/target",
            "node_modules/x/node_modules",
            "bare/objects",
            "bare/refs",
            "c",
        ] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        fs::write(dir.path().join("bare/HEAD"), "").unwrap();
        fs::write(dir.path().join("package.json"), "{}").unwrap();
        fs::write(dir.path().join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
        fs::write(dir.path().join("c/.git"), "gitdir: nowhere\n").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("root")).unwrap();
        let names = RegenerableNames { names: vec!["src/target/".to_owned()], chosen_by_person: true };
        let found = walk_worktree(dir.path(), &names);
        let paths = |list: &[PathBuf]| list.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(paths(&found.repositories), ["a", "bare", "c", "target/deep/b"]);
        let folders: Vec<PathBuf> = found.regenerable.iter().map(|folder| folder.path.clone()).collect();
        assert_eq!(paths(&folders), ["node_modules", "target"], "a known name needs its marker");
        assert!(found.unreadable.is_none());
        assert!(matches!(kind_of(&dir.path().join("c")).unwrap(), NestedFolderKind::Nothing));
        assert!(walk_worktree(&dir.path().join("missing"), &names).unreadable.is_none());
    }

    #[test]
    fn only_a_configuration_that_is_known_to_be_harmless_is_used() {
        let good = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n# words\n[remote \"origin\"]\n\turl = x\n\
                    \tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n[user]\n\tname = a\n";
        assert_eq!(strange_line(good), None);
        for bad in [
            "[Filter \"x\"]\n\tclean = evil\n",
            "[includeIf \"gitdir:/\"]\n\tpath = evil\n",
            "[core]\n\tfsmonitor = evil\n",
            "[core]\n\tbare = false\\\n\tx\n",
            "[core] sshCommand = evil\n",
            "[remote \"o\"]\n\tuploadpack = evil\n",
            "[lfs \"extension.x\"]\n\tclean = evil\n",
            "[extensions]\n\tworktreeConfig = true\n",
        ] {
            assert!(strange_line(bad).is_some(), "{bad}");
        }
    }
}
