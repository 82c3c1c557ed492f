//! Random states: removed by force, collected by git's gc, brought back, compared byte by byte.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use grove_environments::remove::{RemoveOptions, RemoveOutcome};
use grove_model::Environment;
use grove_testkit::{DirectorySnapshot, SeededRandom, TestEngine, TestRepo, TestStore, is_long_run};

use crate::{EnvironmentsTest, task_request};

/// What a state is made of. Those of the first line must each be in at least one of twenty.
const STATE_KINDS: [&str; 24] = [
    "conflict stages",
    "intent-to-add",
    "skip-worktree",
    "CRLF",
    "0600",
    "empty directories",
    "nested clone",
    "submodule with a commit of its own",
    "rebase in progress",
    "a process with an open file there",
    "staged",
    "unstaged",
    "untracked",
    "ignored",
    "symbolic links",
    "deleted",
    "assume-unchanged",
    "own commits",
    "amended commits",
    "detached with commits",
    "another branch",
    "bisect",
    "locked",
    "strange names",
];
const REQUIRED_KIND_COUNT: usize = 10;

/// A process that has a file of the worktree open and writes what it is told.
struct FileWriterProcess {
    child: Child,
    input: ChildStdin,
    /// A line for each that is in the file.
    written: BufReader<ChildStdout>,
    file: PathBuf,
}

impl FileWriterProcess {
    fn start(file: PathBuf) -> Self {
        let script = "exec 3>>\"$0\"; echo; while read -r line; do echo \"$line\" >&3; echo; done";
        let mut command = std::process::Command::new("/bin/sh");
        command.env_clear().arg("-c").arg(script).arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let written = BufReader::new(child.stdout.take().unwrap());
        let mut writer = Self { child, input, written, file };
        writer.wait_for_line();
        writer
    }

    /// Writes a line and waits until it is in the file, wherever that is now.
    fn write_line(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.wait_for_line();
    }

    fn wait_for_line(&mut self) {
        assert_eq!(self.written.read_line(&mut String::new()).unwrap(), 1, "the process lives");
    }
}

impl Drop for FileWriterProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct RandomWorktreeState<'a> {
    repo: &'a TestRepo,
    path: &'a Path,
    dice: &'a mut SeededRandom,
    kinds: Vec<&'static str>,
    writer: Option<FileWriterProcess>,
}

impl RandomWorktreeState<'_> {
    fn run_git(&self, args: &[&str]) -> String {
        self.repo.git_in(self.path, args)
    }

    /// Git that stops half way on purpose.
    fn git_stops(&self, args: &[&str]) {
        let output = self.repo.git_command(self.path, args).output().unwrap();
        assert!(!output.status.success(), "git {args:?} was to stop");
    }

    fn write_file(&mut self, name: &str, bytes: &[u8]) {
        let file = self.path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    fn commit_file(&mut self, name: &str) {
        let bytes = self.dice.random_bytes();
        self.write_file(name, &bytes);
        self.run_git(&["add", "--", name]);
        self.run_git(&["commit", "-q", "-m", name]);
    }

    /// Puts one kind of thing there.
    fn add_kind(&mut self, kind: &'static str) {
        self.kinds.push(kind);
        match kind {
            "own commits" => {
                for n in 0..=self.dice.next_below(2) {
                    self.commit_file(&format!("own{n}"));
                }
            }
            "amended commits" => {
                self.commit_file("amended");
                self.run_git(&["commit", "-q", "--amend", "-m", "better"]);
            }
            "another branch" => drop(self.run_git(&["switch", "-q", "-c", &format!("{}-other", self.name())])),
            "detached with commits" => {
                self.run_git(&["switch", "-q", "--detach"]);
                self.commit_file("detached");
            }
            "submodule with a commit of its own" => {
                let sub = self.path.join("sub");
                fs::write(sub.join("own"), "own").unwrap();
                self.repo.git_in(&sub, &["add", "own"]);
                self.repo.git_in(&sub, &["commit", "-q", "-m", "own"]);
                fs::write(sub.join("untracked"), "x").unwrap();
            }
            "conflict stages" => {
                self.write_file("both", b"ours\n");
                self.run_git(&["commit", "-q", "-a", "-m", "ours"]);
                self.git_stops(&["merge", "-q", "theirs"]);
            }
            "rebase in progress" => {
                self.write_file("both", b"mine\n");
                self.run_git(&["commit", "-q", "-a", "-m", "mine"]);
                if self.dice.one_in(2) {
                    self.git_stops(&["rebase", "-q", "theirs"]);
                } else {
                    self.git_stops(&["rebase", "-q", "--exec", "false", "HEAD~1"]);
                }
            }
            "bisect" => {
                self.run_git(&["bisect", "start"]);
                self.run_git(&["bisect", "bad"]);
            }
            "intent-to-add" => {
                self.write_file("ita", b"");
                if self.dice.one_in(2) {
                    self.write_file("ita", b"some\n");
                }
                self.run_git(&["add", "-N", "ita"]);
            }
            "staged" => {
                let bytes = self.dice.random_bytes();
                self.write_file("staged", &bytes);
                self.run_git(&["add", "staged"]);
                self.write_file("staged", b"and then changed\n");
            }
            "unstaged" => {
                let bytes = self.dice.random_bytes();
                self.write_file("README.md", &bytes);
            }
            "skip-worktree" => {
                self.run_git(&["update-index", "--skip-worktree", "hidden"]);
                self.write_file("hidden", b"edited behind git's back\n");
            }
            "assume-unchanged" => {
                self.run_git(&["update-index", "--assume-unchanged", "assumed"]);
                self.write_file("assumed", b"edited too\n");
            }
            "deleted" => fs::remove_file(self.path.join("src/main.c")).unwrap(),
            "CRLF" => self.write_file("text.txt", b"one\r\ntwo\r\n"),
            "0600" => {
                self.write_file("secret", b"key\n");
                fs::set_permissions(self.path.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
                fs::set_permissions(self.path.join("hidden"), fs::Permissions::from_mode(0o751)).unwrap();
            }
            "empty directories" => {
                fs::create_dir_all(self.path.join("empty/deeper")).unwrap();
                fs::set_permissions(self.path.join("empty"), fs::Permissions::from_mode(0o2750)).unwrap();
            }
            "untracked" => {
                let bytes = self.dice.random_bytes();
                self.write_file("untracked/deep/file", &bytes);
            }
            "ignored" => {
                self.write_file("cache/ignored", b"kept\n");
                self.write_file(".env", b"TOKEN=secret\n");
            }
            "symbolic links" => {
                symlink("README.md", self.path.join("link")).unwrap();
                symlink("/nowhere/at/all", self.path.join("dangling")).unwrap();
                symlink("..", self.path.join("cycle")).unwrap();
            }
            "nested clone" => {
                let folder = if self.dice.one_in(2) { "cache/clone" } else { "clone" };
                let nested = self.path.join(folder);
                self.run_git(&[
                    "clone",
                    "-q",
                    "--no-local",
                    self.repo.path().to_str().unwrap(),
                    nested.to_str().unwrap(),
                ]);
                fs::write(nested.join("mine"), "mine").unwrap();
                self.repo.git_in(&nested, &["add", "mine"]);
                self.repo.git_in(&nested, &["commit", "-q", "-m", "mine"]);
                fs::write(nested.join("dirty"), "dirty").unwrap();
            }
            "locked" => drop(self.run_git(&["worktree", "lock", "--reason", "on a stick", "."])),
            "strange names" => {
                for name in ["with space", "ünïcode", "new\nline", "-dash", "\u{1}control"] {
                    self.write_file(name, b"x");
                }
                use std::os::unix::ffi::OsStrExt;
                fs::write(self.path.join(std::ffi::OsStr::from_bytes(b"not\xffutf8")), "x").unwrap();
            }
            "a process with an open file there" => {
                self.write_file("held", b"");
                self.writer = Some(FileWriterProcess::start(self.path.join("held")));
            }
            other => panic!("{other}"),
        }
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap().to_string_lossy().into_owned()
    }

    /// A random choice of kinds, in an order in which git can have made them.
    fn add_random_kinds(&mut self, with_submodule: bool) {
        if self.dice.one_in(6) {
            self.add_kind("own commits");
        }
        if self.dice.one_in(8) {
            self.add_kind("amended commits");
        }
        match self.dice.next_below(12) {
            0 => self.add_kind("another branch"),
            1 | 2 => self.add_kind("detached with commits"),
            _ => {}
        }
        if with_submodule && self.dice.next_below(4) > 0 {
            self.add_kind("submodule with a commit of its own");
        }
        match self.dice.next_below(8) {
            0 | 1 => self.add_kind("conflict stages"),
            2 | 3 => self.add_kind("rebase in progress"),
            4 => self.add_kind("bisect"),
            _ => {}
        }
        for kind in [
            "intent-to-add",
            "staged",
            "unstaged",
            "skip-worktree",
            "assume-unchanged",
            "deleted",
            "CRLF",
            "0600",
            "empty directories",
            "untracked",
            "ignored",
            "symbolic links",
            "strange names",
        ] {
            if self.dice.one_in(5) {
                self.add_kind(kind);
            }
        }
        for kind in ["nested clone", "a process with an open file there", "locked"] {
            if self.dice.one_in(5) {
                self.add_kind(kind);
            }
        }
    }
}

/// A repository that every kind of state can be made in.
fn make_repository(with_submodule: bool) -> TestRepo {
    let repo = TestRepo::new();
    for name in ["both", "hidden", "assumed", "text.txt"] {
        repo.write_file(name, "base\n");
    }
    repo.write_file(".gitignore", "cache/\n.env\n");
    repo.write_file(".gitattributes", "*.txt text\n");
    if with_submodule {
        repo.add_submodule();
    }
    repo.commit_all("base");
    repo.git(&["switch", "-q", "-c", "theirs"]);
    repo.write_file("both", "theirs\n");
    repo.commit_all("theirs");
    repo.git(&["switch", "-q", "main"]);
    repo
}

/// Everything outside of the worktree that a removal and its undo must leave as it was.
fn shared_state(repo: &TestRepo) -> (String, BTreeMap<PathBuf, Vec<u8>>) {
    let refs = repo.git(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]);
    let ours: String =
        refs.lines().filter(|line| !line.starts_with("refs/grove/")).map(|line| format!("{line}\n")).collect();
    let mut logs = BTreeMap::new();
    let mut open = vec![repo.path().join(".git/logs")];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                logs.insert(entry.path(), fs::read(entry.path()).unwrap());
            }
        }
    }
    (ours, logs)
}

struct StateBeforeRemoval {
    environment: Environment,
    kinds: Vec<&'static str>,
    writer: Option<FileWriterProcess>,
    files: DirectorySnapshot,
    entry: PathBuf,
    entry_picture: DirectorySnapshot,
    index: String,
    status: String,
}

async fn run_batch(
    dice: &mut SeededRandom,
    with_submodule: bool,
    size: usize,
    counts: &mut BTreeMap<&'static str, usize>,
) {
    let (repo, store) = (make_repository(with_submodule), TestStore::new(TestEngine::Sqlite));
    let world = EnvironmentsTest::open(&repo, &store).await;
    let mut made = Vec::new();
    for n in 0..size {
        let environment = world
            .isolation
            .create_environment(&world.codebase, &task_request(&format!("w{n}")))
            .await
            .unwrap()
            .environment;
        let path = environment.path.clone();
        let mut state = RandomWorktreeState { repo: &repo, path: &path, dice, kinds: Vec::new(), writer: None };
        state.add_random_kinds(with_submodule);
        let (kinds, writer) = (state.kinds, state.writer);
        let entry = PathBuf::from(repo.git_in(&path, &["rev-parse", "--absolute-git-dir"]));
        let index = repo.git_in(&path, &["ls-files", "--stage", "-v", "--debug"]);
        let status = repo.git_in(&path, &["--no-optional-locks", "status", "--porcelain=v2", "--branch", "--ignored"]);
        let entry_picture = DirectorySnapshot::of_entry(&entry, &[]);
        let files = DirectorySnapshot::from_directory(&path);
        made.push(StateBeforeRemoval { environment, kinds, writer, files, entry, entry_picture, index, status });
    }
    let before = shared_state(&repo);
    for one in &mut made {
        let request = RemoveOptions { force: true, ..RemoveOptions::default() };
        let removed = world.isolation.remove_environment(&world.codebase, &one.environment, &request).await;
        assert!(matches!(removed, Ok(RemoveOutcome::Trashed { .. })), "{:?}: {removed:?}", one.kinds);
        assert!(!one.environment.path.exists() && !one.entry.exists());
        if let Some(writer) = &mut one.writer {
            writer.write_line("written after it was removed");
        }
    }
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    // In another order than they went.
    made.rotate_left(size / 3);
    for one in &made {
        let back = world.isolation.undo_removal(&world.codebase, &one.environment).await;
        let back = back.unwrap_or_else(|error| panic!("{:?}: {error}", one.kinds));
        assert_eq!(back.environment.status, one.environment.status);
    }
    assert_eq!(shared_state(&repo), before, "refs and reflogs");
    assert_eq!(repo.git(&["for-each-ref", "refs/grove"]), "", "no pin is left");
    for mut one in made {
        let path = &one.environment.path;
        let context = format!("{} {:?}", path.display(), one.kinds);
        if let Some(writer) = &one.writer {
            assert_eq!(fs::read_to_string(&writer.file).unwrap(), "written after it was removed\n");
            // Put back what the process changed on purpose, so that all else can be compared.
            let modified = one.files.modified_time("held");
            fs::File::options().write(true).truncate(true).open(&writer.file).unwrap().set_modified(modified).unwrap();
        }
        one.writer = None;
        assert_eq!(
            one.files.describe_differences(&DirectorySnapshot::from_directory(path)),
            Vec::<String>::new(),
            "{context}"
        );
        let entry = DirectorySnapshot::of_entry(&one.entry, &[]);
        assert_eq!(one.entry_picture.describe_differences(&entry), Vec::<String>::new(), "{context}: git's entry");
        assert_eq!(repo.git_in(path, &["ls-files", "--stage", "-v", "--debug"]), one.index, "{context}");
        let status = repo.git_in(path, &["--no-optional-locks", "status", "--porcelain=v2", "--branch", "--ignored"]);
        assert_eq!(status, one.status, "{context}");
        repo.git_in(path, &["fsck", "--no-dangling", "--no-progress"]);
        for kind in one.kinds {
            *counts.entry(kind).or_default() += 1;
        }
    }
}

async fn random_states(seed: u64) {
    let states = if is_long_run() { 2500 } else { 20 };
    // The quick run takes two of the four parts.
    if !is_long_run() && seed.is_multiple_of(2) {
        return;
    }
    let mut counts = BTreeMap::new();
    let mut dice = SeededRandom(seed);
    for round in 0..states / 10 {
        run_batch(&mut dice, round % 3 == 0, 10, &mut counts).await;
    }
    println!("{states} states, 0 differences:");
    for kind in STATE_KINDS {
        println!("  {:5} {kind}", counts.get(kind).copied().unwrap_or_default());
    }
    for kind in &STATE_KINDS[..REQUIRED_KIND_COUNT] {
        let count = counts.get(kind).copied().unwrap_or_default();
        assert!(count * 20 >= states, "{kind}: {count} of {states}");
    }
}

#[tokio::test]
async fn random_states_come_back_whole_1() {
    random_states(1).await;
}

#[tokio::test]
async fn random_states_come_back_whole_2() {
    random_states(2).await;
}

#[tokio::test]
async fn random_states_come_back_whole_3() {
    random_states(3).await;
}

#[tokio::test]
async fn random_states_come_back_whole_4() {
    random_states(4).await;
}
