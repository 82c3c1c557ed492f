//! Finds the repository that a path belongs to.
//!
//! A codebase is always known by its *canonical* checkout, even when the user names a worktree or a
//! folder deep inside, and two clones of one remote are told apart by their common directory.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use grove_model::CommitSha;

use crate::command::GitInvocation;
use crate::parse::{self, WorktreeEntry};
use crate::remote_options::RemoteOptions;
use crate::{Git, GitError, GitLocation};

#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error("there is nothing at {}", .0.display())]
    NotThere(PathBuf),
    #[error("{} is not inside a git repository", .0.display())]
    NotARepository(PathBuf),
    #[error("git does not trust {}, because another user owns it", .0.display())]
    NotTrusted(PathBuf),
    #[error("the repository of {} has no main checkout that git can name", .0.display())]
    NoMainCheckout(PathBuf),
    #[error(transparent)]
    Git(#[from] GitError),
}

#[derive(Clone, Debug)]
pub struct Repository {
    git: Git,
    /// The main checkout; for a bare repository its own directory.
    pub root: PathBuf,
    pub common_dir: PathBuf,
    pub bare: bool,
    pub(crate) remote_options: RemoteOptions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    pub name: String,
    /// Without credentials.
    pub url: String,
}

impl Repository {
    /// Finds the repository that contains `path`.
    pub async fn discover_repository(git: &Git, path: &Path) -> Result<Self, RepositoryError> {
        if !path.is_dir() {
            return Err(match path.symlink_metadata() {
                Ok(_) => RepositoryError::NotARepository(path.to_owned()),
                Err(_) => RepositoryError::NotThere(path.to_owned()),
            });
        }
        let asked = git
            .new_command(GitLocation::Dir(path), "rev-parse")
            .args(["--is-bare-repository", "--path-format=absolute", "--absolute-git-dir", "--git-common-dir"])
            .run_to_text()
            .await;
        let said = match asked {
            Err(GitError::Failed { stderr, .. }) if stderr.contains("not a git repository") => {
                return Err(RepositoryError::NotARepository(path.to_owned()));
            }
            Err(GitError::Failed { stderr, .. }) if stderr.contains("dubious ownership") => {
                return Err(RepositoryError::NotTrusted(path.to_owned()));
            }
            other => other?,
        };
        let lines: Vec<&str> = said.lines().collect();
        let [bare, git_dir, common_dir] = lines[..] else {
            return Err(GitError::unreadable_output("rev-parse", said.as_str()).into());
        };
        let (git_dir, common_dir) = (Path::new(git_dir), canonical_path(Path::new(common_dir)));
        let linked = canonical_path(git_dir) != common_dir;
        // Inside a linked worktree git answers for that worktree; ask again for the repository.
        let bare = if linked {
            git.new_command(GitLocation::Repository(&common_dir), "rev-parse")
                .arg("--is-bare-repository")
                .run_to_text()
                .await?
                == "true"
        } else {
            bare == "true"
        };
        let root = if bare {
            common_dir.clone()
        } else if common_dir.file_name() == Some(OsStr::new(".git")) {
            common_dir.parent().unwrap_or(&common_dir).to_owned()
        } else {
            // A submodule, or a repository whose git directory is elsewhere.
            let from = if linked { GitLocation::Repository(&common_dir) } else { GitLocation::Dir(path) };
            let top = git
                .new_command(from, "rev-parse")
                .args(["--path-format=absolute", "--show-toplevel"])
                .run_to_text()
                .await;
            canonical_path(Path::new(&top.map_err(|_| RepositoryError::NoMainCheckout(path.to_owned()))?))
        };
        Ok(Self { git: git.clone(), root, common_dir, bare, remote_options: RemoteOptions::default() })
    }

    /// Creates a repository from the record, without asking git again.
    pub fn from_record(git: &Git, root: &Path, common_dir: &Path) -> Self {
        Self {
            git: git.clone(),
            root: root.to_owned(),
            common_dir: common_dir.to_owned(),
            bare: root == common_dir,
            remote_options: RemoteOptions::default(),
        }
    }

    /// Sets the options for contacting the remotes of this repository.
    pub fn with_remote_options(self, remote_options: RemoteOptions) -> Self {
        Self { remote_options, ..self }
    }

    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Creates a call in the common directory: refs, objects, config.
    pub fn new_command(&self, subcommand: &'static str) -> GitInvocation<'_> {
        self.git.new_command(GitLocation::Repository(&self.common_dir), subcommand)
    }

    pub async fn list_remotes(&self) -> Result<Vec<Remote>, GitError> {
        let asked = self.new_command("config").args(["-z", "--get-regexp", r"^remote\..*\.url$"]);
        // Exit code 1: nothing matched.
        let output = asked.run_for(&[0, 1]).await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut remotes: Vec<Remote> = Vec::new();
        for entry in text.split('\0').filter(|entry| !entry.is_empty()) {
            let (key, url) = entry.split_once('\n').unwrap_or((entry, ""));
            let name = key.strip_prefix("remote.").and_then(|key| key.strip_suffix(".url")).unwrap_or(key);
            // A remote may have several addresses; fetches use the first.
            if !remotes.iter().any(|remote| remote.name == name) {
                remotes.push(Remote { name: name.to_owned(), url: crate::redact::redact_credentials(url) });
            }
        }
        Ok(remotes)
    }

    /// Returns the branch that HEAD of the main checkout (or of the bare repository) names.
    pub async fn current_branch(&self) -> Result<Option<String>, GitError> {
        let output = self.new_command("symbolic-ref").args(["--quiet", "HEAD"]).run_for(&[0, 1]).await?;
        let full = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        Ok(full.strip_prefix("refs/heads/").map(str::to_owned))
    }

    /// Returns all worktrees; the main one first.
    pub async fn list_worktrees(&self) -> Result<Vec<WorktreeEntry>, GitError> {
        let output = self.new_command("worktree").args(["list", "--porcelain", "-z"]).run().await?;
        parse::parse_worktrees(&output.stdout)
    }

    /// Makes the links of all worktrees name this repository's path, after the repository was
    /// moved.
    pub async fn repair_worktrees(&self) -> Result<(), GitError> {
        self.new_command("worktree").arg("repair").run().await.map(drop)
    }

    /// Returns the plain files of a commit at these paths, in the same order; `None` for each that it does not
    /// have. Always takes one process.
    pub async fn blobs_of(&self, commit: &CommitSha, paths: &[&str]) -> Result<Vec<Option<Vec<u8>>>, GitError> {
        let questions: String = paths.iter().map(|path| format!("{commit}:{path}\n")).collect();
        let output = self.new_command("cat-file").arg("--batch").with_stdin(questions).run().await?;
        let mut rest = &output.stdout[..];
        let read = |_| Ok(next_object(&mut rest)?.filter(|(kind, _)| *kind == "blob").map(|(_, bytes)| bytes.to_vec()));
        paths.iter().map(read).collect()
    }

    /// Returns the file `path` of the first of `refs` that exists, and that ref. `None` if that ref
    /// has no such file, or none of them exists. Always takes one process.
    pub async fn file_of_first(&self, refs: &[String], path: &str) -> Result<Option<(String, Vec<u8>)>, GitError> {
        let questions: String = refs.iter().map(|name| format!("{name}^{{commit}}\n{name}:{path}\n")).collect();
        let output = self.new_command("cat-file").arg("--batch").with_stdin(questions).run().await?;
        let mut rest = &output.stdout[..];
        for name in refs {
            let commit = next_object(&mut rest)?;
            let file = next_object(&mut rest)?;
            match (commit, file) {
                (Some(_), Some(("blob", bytes))) => return Ok(Some((name.clone(), bytes.to_vec()))),
                (Some(_), _) => return Ok(None),
                (None, _) => {}
            }
        }
        Ok(None)
    }
}

/// Parses the next answer of `cat-file --batch`: `<id> <type> <size>` and the bytes, or `…
/// missing`.
pub(crate) fn next_object<'a>(rest: &mut &'a [u8]) -> Result<Option<(&'a str, &'a [u8])>, GitError> {
    let unreadable = || GitError::unreadable_output("cat-file", String::from_utf8_lossy(&rest[..rest.len().min(120)]));
    let end = rest.iter().position(|byte| *byte == b'\n').ok_or_else(unreadable)?;
    let header = std::str::from_utf8(&rest[..end]).map_err(|_| unreadable())?;
    let after = &rest[end + 1..];
    if header.ends_with(" missing") {
        *rest = after;
        return Ok(None);
    }
    let fields: Vec<&str> = header.split(' ').collect();
    let [_, kind, size] = fields[..] else { return Err(unreadable()) };
    let size: usize = size.parse().map_err(|_| unreadable())?;
    let bytes = after.get(..size).ok_or_else(unreadable)?;
    *rest = after.get(size + 1..).ok_or_else(unreadable)?;
    Ok(Some((kind, bytes)))
}

/// Resolves symbolic links if the path exists.
fn canonical_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
