//! The bare repositories of a fake, which real git reads and writes over HTTP.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::http::{HttpRequest, HttpResponse};
use crate::{bare_env, first_git};

/// A file that differs between two commits.
pub struct FileChange {
    pub status: &'static str,
    pub additions: u64,
    pub deletions: u64,
    pub file: String,
    pub previous_file: Option<String>,
}

/// All repositories of a fake, in one folder.
pub struct FakeRepositories {
    root: PathBuf,
    home: PathBuf,
    git: PathBuf,
}

impl FakeRepositories {
    pub fn new(dir: &Path) -> Self {
        let (root, home) = (dir.join("git"), dir.join("home"));
        fs::create_dir_all(&root).expect("a folder");
        fs::create_dir_all(&home).expect("a home");
        let config = "[user]\n\tname = GitHub\n\temail = noreply@example.com\n[init]\n\tdefaultBranch = main\n\
                      [safe]\n\tdirectory = *\n[gc]\n\tauto = 0\n[http]\n\treceivepack = true\n";
        fs::write(home.join(".gitconfig"), config).expect("gitconfig");
        Self { root, home, git: first_git() }
    }

    pub fn repo_path(&self, repo: &str) -> PathBuf {
        self.root.join(format!("{repo}.git"))
    }

    /// Creates a repository with one commit on `main`.
    pub fn create_repo(&self, repo: &str) {
        let path = self.repo_path(repo);
        self.run_git(&self.root, &["init", "--quiet", "--bare", &path.display().to_string()]);
        self.commit_file(repo, "main", None, "README.md", "# A project\n");
    }

    pub fn fork_repo(&self, repo: &str, fork: &str) {
        let (from, to) = (self.repo_path(repo), self.repo_path(fork));
        self.run_git(
            &self.root,
            &["clone", "--quiet", "--bare", &from.display().to_string(), &to.display().to_string()],
        );
    }

    pub fn rename_repo(&self, repo: &str, name: &str) {
        let to = self.repo_path(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        fs::rename(self.repo_path(repo), to).expect("renamed");
    }

    pub fn delete_repo(&self, repo: &str) {
        fs::remove_dir_all(self.repo_path(repo)).expect("deleted");
    }

    /// Commits one file on top of `parent` (default: the branch itself), as the tip of `branch`.
    pub fn commit_file(&self, repo: &str, branch: &str, parent: Option<&str>, file: &str, text: &str) -> String {
        let parent = match parent {
            Some(parent) => self.resolve_sha(repo, parent),
            None => self.resolve_sha(repo, &format!("refs/heads/{branch}")),
        };
        let blob = read_output(
            &mut self.git_command(&self.repo_path(repo), &["hash-object", "-w", "--stdin"]),
            text.as_bytes(),
        );
        self.commit_index(repo, (branch, file), parent.as_deref(), &format!("100644 {blob}\t{file}\0"))
    }

    /// Commits the renaming of a file on top of a branch.
    pub fn commit_rename(&self, repo: &str, branch: &str, from: &str, to: &str) -> String {
        let parent = self.resolve_sha(repo, &format!("refs/heads/{branch}")).expect("a branch");
        let blob = self.run_git(&self.repo_path(repo), &["rev-parse", &format!("{parent}:{from}")]);
        let changes = format!("0 {}\t{from}\0100644 {blob}\t{to}\0", "0".repeat(40));
        self.commit_index(repo, (branch, to), Some(&parent), &changes)
    }

    /// Commits the parent's tree with changes for `git update-index --index-info`, as the tip of `branch`.
    fn commit_index(&self, repo: &str, (branch, subject): (&str, &str), parent: Option<&str>, changes: &str) -> String {
        let path = self.repo_path(repo);
        let index = path.join("fake-index");
        let _ = fs::remove_file(&index);
        let with_index = |args: &[&str], input: &str| {
            let mut command = self.git_command(&path, args);
            read_output(command.env("GIT_INDEX_FILE", &index), input.as_bytes())
        };
        if let Some(parent) = parent {
            with_index(&["read-tree", parent], "");
        }
        with_index(&["update-index", "-z", "--index-info"], changes);
        let tree = with_index(&["write-tree"], "");
        let mut args = vec!["commit-tree", tree.as_str(), "-m", subject];
        args.extend(parent.into_iter().flat_map(|parent| ["-p", parent]));
        let commit = self.run_git(&path, &args);
        self.run_git(&path, &["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit
    }

    /// Merges a commit into a branch, with a merge commit or as one new commit.
    pub fn merge_commit(&self, repo: &str, branch: &str, head: &str, squash: bool) -> String {
        let path = self.repo_path(repo);
        let base = self.resolve_sha(repo, branch).expect("a base");
        let tree = self.run_git(&path, &["merge-tree", "--write-tree", &base, head]);
        let mut args = vec!["commit-tree", tree.as_str(), "-m", "Merge", "-p", base.as_str()];
        if !squash {
            args.extend(["-p", head]);
        }
        let commit = self.run_git(&path, &args);
        self.run_git(&path, &["update-ref", &format!("refs/heads/{branch}"), &commit]);
        commit
    }

    /// Sets `refs/pull/N/head`.
    pub fn set_pull_head(&self, repo: &str, from: &str, number: u64, sha: &str) {
        let path = self.repo_path(repo);
        if from != repo {
            let from = self.repo_path(from).display().to_string();
            self.run_git(&path, &["fetch", "--quiet", "--no-tags", &from, sha]);
        }
        self.run_git(&path, &["update-ref", &format!("refs/pull/{number}/head"), sha]);
    }

    pub fn resolve_sha(&self, repo: &str, revision: &str) -> Option<String> {
        let revision = format!("{revision}^{{commit}}");
        let mut command = self.git_command(&self.repo_path(repo), &["rev-parse", "--verify", "--quiet", &revision]);
        let output = command.output().expect("git starts");
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Lists every file that differs.
    pub fn changed_files(&self, repo: &str, base: &str, head: &str) -> Vec<FileChange> {
        let (path, range) = (self.repo_path(repo), format!("{base}...{head}"));
        let numbers = self.run_git(&path, &["diff", "--numstat", "-z", "--find-renames", &range]);
        let status = self.run_git(&path, &["diff", "--name-status", "-z", "--find-renames", &range]);
        let (mut numbers, mut status) = (numbers.split('\0'), status.split('\0'));
        let mut changes = Vec::new();
        while let Some(letter) = status.next().filter(|letter| !letter.is_empty()) {
            let is_renamed = letter.starts_with('R');
            let previous_file = if is_renamed { status.next().map(str::to_owned) } else { None };
            let file = status.next().expect("a path").to_owned();
            let mut counts = numbers.next().expect("counts").split('\t').map(|count| count.parse().unwrap_or_default());
            let (additions, deletions) = (counts.next().unwrap_or_default(), counts.next().unwrap_or_default());
            if is_renamed {
                // The two names of a rename are fields of their own.
                numbers.by_ref().take(2).for_each(drop);
            }
            let status = match &letter[..1] {
                "A" => "added",
                "D" => "removed",
                "R" => "renamed",
                _ => "modified",
            };
            changes.push(FileChange { status, additions, deletions, file, previous_file });
        }
        changes
    }

    pub fn run_git(&self, dir: &Path, args: &[&str]) -> String {
        read_output(&mut self.git_command(dir, args), b"")
    }

    fn git_command(&self, dir: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(&self.git);
        command.env_clear().envs(bare_env(&self.home)).current_dir(dir).args(args);
        command
    }

    /// Answers a request of git with git's own HTTP backend.
    pub fn serve_git_request(&self, request: &HttpRequest, login: &str) -> HttpResponse {
        let mut command = self.git_command(&self.root, &["http-backend"]);
        command
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", &request.method)
            .env("PATH_INFO", &request.path)
            .env("QUERY_STRING", &request.query)
            .env("REMOTE_USER", login)
            .env("REMOTE_ADDR", "127.0.0.1")
            .env("CONTENT_TYPE", request.header_value("content-type").unwrap_or_default())
            .env("CONTENT_LENGTH", request.body.len().to_string());
        for (header, variable) in [("content-encoding", "HTTP_CONTENT_ENCODING"), ("git-protocol", "GIT_PROTOCOL")] {
            if let Some(value) = request.header_value(header) {
                command.env(variable, value);
            }
        }
        let output = run_with_input(&mut command, &request.body);
        let split = output.stdout.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(output.stdout.len());
        let (head, body) = output.stdout.split_at(split);
        let mut response = HttpResponse::new(200, body.get(4..).unwrap_or_default());
        for line in String::from_utf8_lossy(head).lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            match name.to_ascii_lowercase().as_str() {
                "status" => response.status = value[..3].parse().expect("a status"),
                _ => response = response.with_header(name, value),
            }
        }
        response
    }
}

fn run_with_input(command: &mut Command, input: &[u8]) -> std::process::Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("git starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // Git may answer before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("git ends");
    writer.join().expect("written");
    output
}

fn read_output(command: &mut Command, input: &[u8]) -> String {
    let output = run_with_input(command, input);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
