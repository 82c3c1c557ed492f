//! Real repositories in a temporary directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::{CheckoutSnapshot, bare_env};

/// A repository with one commit on `main`, in a directory of its own together with a HOME.
pub struct TestRepo {
    dir: TempDir,
    path: PathBuf,
    git: PathBuf,
}

/// Lists the paths at which a git may be, in the order of PATH.
fn git_paths() -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").expect("PATH");
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/local/bin".into(), "/usr/bin".into()]).collect();
    dirs.into_iter().map(|dir| dir.join("git")).filter(|git| git.is_file())
}

/// Returns the git that a person on this machine runs.
pub fn first_git() -> PathBuf {
    git_paths().next().expect("no git on this machine")
}

/// Lists the different gits of this machine: Debian's, a newer one under `/usr/local`, …
pub fn installed_gits() -> &'static [PathBuf] {
    static FOUND: OnceLock<Vec<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let mut found: Vec<(String, PathBuf)> = Vec::new();
        for git in git_paths() {
            let Ok(output) = Command::new(&git).arg("--version").output() else { continue };
            let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            if output.status.success() && !found.iter().any(|(known, _)| *known == version) {
                found.push((version, git));
            }
        }
        assert!(!found.is_empty(), "no git on this machine");
        found.into_iter().map(|(_, git)| git).collect()
    })
}

/// Makes a program that runs `git` without the host's configuration. For code that runs inside
/// the test's own process and so inherits its environment.
pub fn hermetic_git(git: &Path, dir: &Path) -> PathBuf {
    let home = dir.join("home");
    let script = dir.join("hermetic-git");
    let text = format!(
        "#!/bin/sh\nHOME='{home}' XDG_CONFIG_HOME='{home}/.config' GIT_CONFIG_NOSYSTEM=1 exec '{git}' \"$@\"\n",
        home = home.display(),
        git = git.display()
    );
    fs::write(&script, text).expect("write the script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("make it a program");
    script
}

impl TestRepo {
    pub fn new() -> Self {
        Self::with_git(&first_git())
    }

    pub fn with_git(git: &Path) -> Self {
        let repo = Self::new_empty(git);
        repo.run_git(&repo.temp_dir(), &["init", "--quiet", "repo"]);
        repo.write_file("README.md", "# A project\n");
        repo.write_file("src/main.c", "int main(void) { return 0; }\n");
        repo.commit_all("first");
        repo
    }

    /// Returns a repository with the same files and history, in a directory of its own. For one without a
    /// remote or worktrees: git's files name their paths.
    pub fn copy(&self) -> Self {
        let copy = Self::new_empty(&self.git);
        copy_directory(&self.path, &copy.path);
        copy
    }

    /// Makes a clone of a bare `origin.git` beside it.
    pub fn with_origin() -> Self {
        Self::with_git_and_origin(&first_git())
    }

    pub fn with_git_and_origin(git: &Path) -> Self {
        let seed = Self::with_git(git);
        let dir = seed.temp_dir();
        seed.run_git(&dir, &["clone", "--quiet", "--bare", "repo", "origin.git"]);
        fs::remove_dir_all(&seed.path).expect("take the seed away");
        let origin = seed.origin_path();
        seed.run_git(&dir, &["clone", "--quiet", origin.to_str().expect("utf-8"), "repo"]);
        seed
    }

    /// Adds the submodule `sub`, of a `library` beside the repository; the caller commits.
    pub fn add_submodule(&self) {
        let library = self.temp_dir().join("library");
        fs::create_dir(&library).expect("library");
        self.run_git(&library, &["init", "-q"]);
        fs::write(library.join("lib.c"), "int x;\n").expect("write");
        self.run_git(&library, &["add", "."]);
        self.run_git(&library, &["commit", "-q", "-m", "library"]);
        self.git(&["submodule", "--quiet", "add", library.to_str().expect("utf-8"), "sub"]);
    }

    fn new_empty(git: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("grove-test-").tempdir().expect("a temporary directory");
        // Readable for the unprivileged user of permission tests.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let home = dir.path().join("home");
        fs::create_dir(&home).expect("home");
        let config = "[user]\n\tname = Test Person\n\temail = test@example.com\n[init]\n\tdefaultBranch = main\n\
                      [protocol \"file\"]\n\tallow = always\n[safe]\n\tdirectory = *\n[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n";
        fs::write(home.join(".gitconfig"), config).expect("gitconfig");
        let real = dir.path().canonicalize().expect("real path");
        Self { path: real.join("repo"), dir, git: git.to_owned() }
    }

    /// Returns the temporary directory that contains everything.
    pub fn temp_dir(&self) -> PathBuf {
        self.dir.path().canonicalize().expect("real path")
    }

    pub fn home_dir(&self) -> PathBuf {
        self.temp_dir().join("home")
    }

    /// Returns the path of the canonical checkout.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn origin_path(&self) -> PathBuf {
        self.temp_dir().join("origin.git")
    }

    /// Returns a git without the host's configuration, for code that runs in the test's own process.
    pub fn hermetic_git(&self) -> PathBuf {
        hermetic_git(&self.git, &self.temp_dir())
    }

    /// Runs git in the canonical checkout, and returns its output without the last newline.
    pub fn git(&self, args: &[&str]) -> String {
        self.run_git(&self.path, args)
    }

    pub fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        self.run_git(dir, args)
    }

    fn run_git(&self, dir: &Path, args: &[&str]) -> String {
        let output = self.git_command(dir, args).output().expect("git starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {args:?} in {}: {stderr}", dir.display());
        String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()
    }

    /// Returns a git command as a person would run it, for a caller that expects it to fail.
    pub fn git_command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.git);
        command.env_clear().envs(bare_env(&self.home_dir())).current_dir(dir).args(args);
        command
    }

    pub fn write_file(&self, path: &str, text: &str) {
        let file = self.path.join(path);
        fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        fs::write(file, text).expect("write");
    }

    /// Commits everything in the canonical checkout.
    pub fn commit_all(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head_commit()
    }

    /// Returns the commit of HEAD in the canonical checkout. A ref that has just been written is in a file of
    /// its own, which takes no process to read.
    fn head_commit(&self) -> String {
        let head = self.read_head();
        let Some(branch) = head.strip_prefix("ref: ") else { return head };
        let commit = fs::read_to_string(self.path.join(".git").join(branch));
        commit.map_or_else(|_| self.resolve_sha("HEAD"), |commit| commit.trim_end().to_owned())
    }

    /// Returns the text of HEAD: `ref: refs/heads/BRANCH`, or a commit.
    pub fn read_head(&self) -> String {
        fs::read_to_string(self.path.join(".git/HEAD")).expect("HEAD").trim_end().to_owned()
    }

    pub fn resolve_sha(&self, revision: &str) -> String {
        self.git(&["rev-parse", "--verify", revision])
    }

    /// Pushes a commit with one new file, on top of `parent`, to origin as `name` (a full ref). The commit
    /// is known nowhere else.
    pub fn push_commit(&self, name: &str, parent: &str, file: &str) -> String {
        let other = self.temp_dir().join("colleague");
        if !other.exists() {
            let origin = self.origin_path();
            self.run_git(&self.temp_dir(), &["clone", "--quiet", origin.to_str().expect("utf-8"), "colleague"]);
        }
        self.run_git(&other, &["checkout", "--quiet", "--detach", parent]);
        fs::write(other.join(file), format!("{file}\n")).expect("write");
        self.run_git(&other, &["add", "--all"]);
        self.run_git(&other, &["commit", "--quiet", "--message", file]);
        self.run_git(&other, &["push", "--quiet", "--force", "origin", &format!("HEAD:{name}")]);
        self.run_git(&other, &["rev-parse", "HEAD"])
    }

    /// Takes a snapshot of the files that creation must not touch.
    pub fn snapshot_checkout(&self) -> CheckoutSnapshot {
        CheckoutSnapshot::from_checkout(&self.path)
    }

    /// Lists all branches with their commits, which a failed creation must leave as they were.
    pub fn list_branches(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/grove"])
    }
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_directory(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copy a file");
        }
    }
}

impl Default for TestRepo {
    fn default() -> Self {
        Self::new()
    }
}
