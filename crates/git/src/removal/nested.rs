//! What lies inside a worktree besides its files: other repositories, and folders that can be
//! made again.

use std::path::{Path, PathBuf};
use std::{fs, io};

use grove_model::Answer;

use super::regenerable::{Extent, Markers, RegenerableFolder, RegenerableNames, this_instant};
use crate::durable::{SMALL, read_plain};
use crate::settled::{Instant, last_touched};
use crate::{Git, Place, links, parse};

/// What a walk through a worktree found; all paths are below it.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Folders that are repositories or worktrees of their own.
    pub repositories: Vec<PathBuf>,
    /// Folders that tools may have made.
    pub regenerable: Vec<RegenerableFolder>,
    /// When a file was last touched; missing if one could not be looked at.
    pub newest: Option<Instant>,
    /// The first folder that could not be read, and why.
    pub unreadable: Option<(PathBuf, String)>,
}

/// Looks into every folder, also ignored ones, without following links.
pub(crate) fn walk(root: &Path, regenerable: &RegenerableNames) -> Walk {
    walk_but_for(root, regenerable, &[".git"])
}

/// The same; files of these names in the root are no files of the worktree.
pub(crate) fn walk_but_for(root: &Path, regenerable: &RegenerableNames, links: &[&str]) -> Walk {
    let mut found = Walk { newest: Some((0, 0)), ..Walk::default() };
    let now = this_instant();
    // Each with the markers beside it, and which folder that tools may have made it lies in.
    let mut open = vec![(PathBuf::new(), Markers::default(), None)];
    while let Some((below, beside, mut enclosing)) = open.pop() {
        let mut folders = Vec::new();
        let (mut markers, mut extent) = (Markers::default(), Extent::default());
        let (mut git, mut bare) = (false, 0);
        let read = fs::read_dir(root.join(&below)).and_then(|entries| {
            for entry in entries {
                let entry = entry?;
                let (name, kind) = (entry.file_name(), entry.file_type()?);
                bare += usize::from(name == "HEAD" && kind.is_file());
                bare += usize::from((name == "objects" || name == "refs") && kind.is_dir());
                let link_to_git = below.as_os_str().is_empty() && links.iter().any(|link| name == *link);
                markers.note(&name, kind.is_file());
                if !kind.is_dir() && !link_to_git {
                    let meta = entry.metadata().ok();
                    if let Some(meta) = &meta {
                        extent.add(meta, now);
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
                extent.add(&root.join(&below).symlink_metadata()?, now);
            }
            if may_be {
                enclosing = Some(found.regenerable.len());
                found.regenerable.push(RegenerableFolder::new(below.clone(), markers));
            }
            if let Some(folder) = enclosing.and_then(|at| found.regenerable.get_mut(at)) {
                folder.add(extent);
            }
            Ok(())
        });
        if let Err(error) = read {
            // A folder that went away meanwhile holds nothing.
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
pub(super) enum Nested {
    /// A worktree that its repository knows at this place: it would break.
    Worktree,
    /// A clone, or a submodule.
    Repository { git_dir: PathBuf },
    /// A `.git` that leads nowhere.
    Nothing,
}

pub(super) fn kind_of(path: &Path) -> io::Result<Nested> {
    let dot_git = path.join(".git");
    let git_dir = match dot_git.symlink_metadata() {
        Ok(meta) if meta.is_file() => match links::git_dir_of(path)? {
            Some(git_dir) => match git_dir.metadata() {
                Ok(meta) if meta.is_dir() => git_dir,
                Ok(_) => return Ok(Nested::Nothing),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Nested::Nothing),
                Err(error) => return Err(error),
            },
            None => return Ok(Nested::Nothing),
        },
        Ok(_) => dot_git.canonicalize()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    if git_dir.join("commondir").symlink_metadata().is_err() {
        return Ok(Nested::Repository { git_dir });
    }
    // A worktree's entry: does it know this place?
    let known = links::worktree_of(&git_dir)?;
    let here = |known: &PathBuf| known.canonicalize().ok() == path.canonicalize().ok();
    Ok(if known.as_ref().is_some_and(here) { Nested::Worktree } else { Nested::Nothing })
}

/// Whether a nested repository has commits or changes that are nowhere else.
pub(super) async fn own_work(git: &Git, path: &Path, git_dir: &Path) -> Answer {
    if let Err(why) = is_harmless(git_dir) {
        return Answer::Unknown(why);
    }
    match worktrees_elsewhere(path, git_dir) {
        Ok(None) => {}
        Ok(Some(elsewhere)) => return Answer::Yes(format!("a worktree of its own at {}", elsewhere.display())),
        Err(error) => return Answer::unknown(error),
    }
    let place = Place::Worktree { work_tree: path, git_dir, common_dir: git_dir };
    if path != git_dir {
        let status = git.command(place, "status").args(super::look::STATUS);
        let status = status.inspecting_worktree().run().await;
        match status.and_then(|output| parse::status(&output.stdout)) {
            Ok(status) if status.is_clean() => {}
            Ok(_) => return Answer::Yes("changes".to_owned()),
            Err(error) => return Answer::unknown(error),
        }
    }
    // Tags were fetched together with what they name, as a rule; branches and stashes were made.
    let own = git.command(place, "rev-list").args(["--count", "--exclude=refs/tags/*", "--all", "--not", "--remotes"]);
    match own.inspecting_index().text().await {
        Ok(count) if count == "0" => Answer::No,
        Ok(count) => Answer::Yes(format!("{count} commits that no remote has")),
        Err(error) => Answer::unknown(error),
    }
}

/// Whether git may be asked in a repository that an agent can write: its config must say nothing but
/// what is known to be harmless, since some of the rest names programs.
pub(super) fn is_harmless(git_dir: &Path) -> Result<(), String> {
    let config = read_plain(&git_dir.join("config"), SMALL).map_err(|error| error.to_string())?;
    if git_dir.join("config.worktree").symlink_metadata().is_ok() {
        return Err("it has a configuration for worktrees, so it was not asked".to_owned());
    }
    match strange_line(&String::from_utf8_lossy(&config)) {
        None => Ok(()),
        Some(line) => Err(format!("its configuration says `{line}`, so it was not asked")),
    }
}

/// The first line of a config that is not known to be harmless.
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
            // `[section]`, `[section "name"]`; a key behind it on the same line is not read.
            let Some(inside) = header.strip_suffix(']') else { return Some(line) };
            section = inside.split([' ', '.']).next().unwrap_or_default().to_ascii_lowercase();
            continue;
        }
        let key = line.split(['=', ' ', '\t']).next().unwrap_or_default().to_ascii_lowercase();
        // A line that goes on could hide another.
        if !known(&section, &key) || line.ends_with('\\') {
            return Some(line);
        }
    }
    None
}

/// A worktree of a nested repository that lies outside of it and would lose it.
fn worktrees_elsewhere(path: &Path, git_dir: &Path) -> io::Result<Option<PathBuf>> {
    for entry in links::entries(git_dir)? {
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
        let found = walk(dir.path(), &names);
        let paths = |list: &[PathBuf]| list.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(paths(&found.repositories), ["a", "bare", "c", "target/deep/b"]);
        let folders: Vec<PathBuf> = found.regenerable.iter().map(|folder| folder.path.clone()).collect();
        assert_eq!(paths(&folders), ["node_modules", "target"], "a known name needs its marker");
        assert!(found.unreadable.is_none());
        assert!(matches!(kind_of(&dir.path().join("c")).unwrap(), Nested::Nothing));
        assert!(walk(&dir.path().join("missing"), &names).unreadable.is_none());
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
