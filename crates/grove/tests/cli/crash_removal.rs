//! Killed at every step of a removal and of an undo, without space, without permission: afterwards
//! it is still there whole, or can be brought back whole.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use grove_testkit::{DirectorySnapshot, ProgramOutput, Sandbox, TestRepo, both_engines, is_long_run};

use crate::blocked::SmallDisk;
use crate::crash::{TRACED_SYSTEM_CALLS, can_trace, killed_at_call};
use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

pub const REMOVAL_STEPS: [&str; 6] = ["removing", "pinned", "files-buried", "entry-buried", "branch-gone", "destroyed"];
pub const UNDO_STEPS: [&str; 6] =
    ["returning", "entry-returned", "branches-returned", "files-returned", "forgotten", "undone"];

/// A worktree with a bit of everything, on a branch that goes with it, and how it looks.
pub struct RemovalCrashTest<'a> {
    pub grove: &'a Sandbox,
    pub dir: PathBuf,
    files: DirectorySnapshot,
    entry: DirectorySnapshot,
    refs: String,
}

fn fill_worktree(repo: &TestRepo, dir: &Path) {
    fs::write(dir.join("README.md"), "changed\n").unwrap();
    fs::write(dir.join("staged"), "staged\n").unwrap();
    repo.git_in(dir, &["add", "staged"]);
    fs::write(dir.join("staged"), "and changed\n").unwrap();
    fs::write(dir.join("untracked"), "untracked\n").unwrap();
    fs::set_permissions(dir.join("untracked"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir(dir.join("empty")).unwrap();
    // A commit that only the reflog has.
    repo.git_in(dir, &["switch", "-q", "--detach"]);
    repo.git_in(dir, &["commit", "-q", "--allow-empty", "-m", "detached"]);
}

impl<'a> RemovalCrashTest<'a> {
    pub fn new(grove: &'a Sandbox) -> Self {
        let dir = worktree_path(&create_worktree(grove, &["x"]));
        fill_worktree(&grove.repo, &dir);
        let files = DirectorySnapshot::from_directory(&dir);
        let entry = DirectorySnapshot::of_entry(&grove.repo.path().join(".git/worktrees/x"), &[]);
        let refs = Self::list_refs(grove);
        Self { grove, dir, files, entry, refs }
    }

    fn list_refs(grove: &Sandbox) -> String {
        let refs = grove.repo.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let log = fs::read_to_string(grove.repo.path().join(".git/logs/refs/heads/x")).unwrap_or_default();
        format!("{refs}\n{log}")
    }

    /// Everything is as it was, and nothing of ours is left over.
    #[track_caller]
    pub fn assert_whole(&self, when: &str) {
        assert_eq!(
            self.files.describe_differences(&DirectorySnapshot::from_directory(&self.dir)),
            Vec::<String>::new(),
            "{when}"
        );
        let entry = DirectorySnapshot::of_entry(&self.grove.repo.path().join(".git/worktrees/x"), &[]);
        assert_eq!(self.entry.describe_differences(&entry), Vec::<String>::new(), "{when}");
        assert_eq!(Self::list_refs(self.grove), self.refs, "{when}");
        assert!(!self.grove.repo.path().join(".git/grove/trash").exists(), "{when}");
        assert!(!self.dir.parent().unwrap().join(".grove-trash").exists(), "{when}");
        let list = self.grove.grove(["worktree", "list", "--json"]).assert_success().json();
        assert_eq!((list[0]["status"].as_str(), list[0]["state"].as_str()), (Some("active"), Some("dirty")), "{when}");
    }

    /// After a crash: puts right what it left, then brings it back if it is gone.
    #[track_caller]
    fn recover_worktree(&self, when: &str) {
        self.grove.grove(["doctor"]);
        let list = self.grove.grove(["worktree", "list", "--json"]).assert_success().json();
        match list.as_array().unwrap().len() {
            0 => {
                assert!(!self.dir.exists(), "{when}: the folder of a removed one is there");
                assert_eq!(self.grove.repo.git(&["worktree", "list"]).lines().count(), 1, "{when}");
                self.grove.repo.git(&["gc", "--quiet", "--prune=now"]);
                self.grove.grove(["worktree", "undo", "x"]).assert_success();
            }
            _ => assert_eq!(list[0]["status"], "active", "{when}"),
        }
        self.assert_whole(when);
    }

    fn removal_command(&self) -> std::process::Command {
        self.grove.grove_command(["worktree", "remove", "x", "--force", "--json"])
    }

    fn undo_command(&self) -> std::process::Command {
        self.grove.grove_command(["worktree", "undo", "x", "--json"])
    }
}

pub fn run_killed_at(mut command: std::process::Command, step: &str) {
    let status = command.env("GROVE_FAULT_AT", step).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.signal(), Some(9), "{step} is a step");
}

both_engines! {
    fn killed_at_every_step_it_is_there_whole_or_comes_back_whole(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let subject = RemovalCrashTest::new(&grove);
        let mut points = 0;
        for step in REMOVAL_STEPS {
            run_killed_at(subject.removal_command(), step);
            subject.recover_worktree(step);
            points += 1;
        }
        for step in UNDO_STEPS {
            ProgramOutput::from(&mut subject.removal_command()).assert_success();
            run_killed_at(subject.undo_command(), step);
            subject.recover_worktree(step);
            points += 1;
        }
        println!("killed at {points} steps of removal and undo, 0 violations");
    }

    fn the_next_command_goes_on_where_another_was_killed(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let subject = RemovalCrashTest::new(&grove);
        for step in &REMOVAL_STEPS[..5] {
            run_killed_at(subject.removal_command(), step);
            let removed = ProgramOutput::from(&mut subject.removal_command());
            // After the first rename it went forward: then there is nothing left to remove.
            assert!(removed.code == 0 || removed.json_error().0 == "not_found", "{step}: {removed:?}");
            ProgramOutput::from(&mut subject.undo_command()).assert_success();
            subject.assert_whole(step);
        }
        for step in &UNDO_STEPS[..5] {
            ProgramOutput::from(&mut subject.removal_command()).assert_success();
            run_killed_at(subject.undo_command(), step);
            let undone = ProgramOutput::from(&mut subject.undo_command());
            assert!(undone.code == 0 || undone.json_error().0 == "not_found", "{step}: {undone:?}");
            subject.assert_whole(step);
        }
        // A request for the work waits for the interrupted removal, and gets an environment.
        run_killed_at(subject.removal_command(), "files-buried");
        let made = create_worktree(&grove, &["x"]);
        assert_eq!(made["untracked"], 0);
    }
}

/// System calls of the program's own that change the file system, one run for each.
#[test]
fn killed_at_system_calls_of_removal_and_undo() {
    if !can_trace() {
        return;
    }
    let grove = new_sandbox(TestRepo::new());
    let subject = RemovalCrashTest::new(&grove);
    let mut points = 0;
    for call in TRACED_SYSTEM_CALLS {
        // The quick run takes every rename and some of the rest.
        let stride = match call {
            _ if is_long_run() => 1,
            "openat" => 61,
            "write" => 9,
            "fsync" => 4,
            "mkdir" | "unlink" => 2,
            _ => 1,
        };
        for number in (1..2000).step_by(stride) {
            let reached = killed_at_call(&subject.removal_command(), call, number);
            subject.recover_worktree(&format!("removal, {call} {number}"));
            if !reached {
                break;
            }
            points += 1;
        }
        for number in (1..2000).step_by(stride) {
            ProgramOutput::from(&mut subject.removal_command()).assert_success();
            let reached = killed_at_call(&subject.undo_command(), call, number);
            subject.recover_worktree(&format!("undo, {call} {number}"));
            if !reached {
                break;
            }
            points += 1;
        }
    }
    println!("killed at {points} system calls of removal and undo, 0 violations");
    assert!(points > 40, "{points}");
}

#[test]
fn without_space_nothing_is_half_done() {
    let grove = new_sandbox(TestRepo::new());
    let small = grove.repo.temp_dir().join("small");
    let Some(_disk) = SmallDisk::mount(&small, "3m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let repo = small.join("repo");
    grove.repo.git(&["clone", "-q", "--no-hardlinks", ".", repo.to_str().unwrap()]);
    grove.repo.git_in(&repo, &["remote", "remove", "origin"]);
    let run = |args: &[&str]| {
        let mut command = grove.grove_command(args);
        command.current_dir(&repo).env("WORKTREE_BASE", small.join("trees")).env("GROVE_LIMITS_MIN_FREE_DISK", "0");
        ProgramOutput::from(&mut command)
    };
    let dir = worktree_path(&run(&["worktree", "create", "x", "--json"]).assert_success().json());
    fill_worktree(&grove.repo, &dir);
    let (files, refs) = (DirectorySnapshot::from_directory(&dir), grove.repo.git_in(&repo, &["for-each-ref"]));
    let filler = small.join("filler");
    let fill_up = |left: u64| {
        fs::write(&filler, "").unwrap();
        let free = rustix::fs::statvfs(&small).map(|stat| stat.f_bavail * stat.f_frsize).unwrap();
        fs::write(&filler, vec![0; free.saturating_sub(left) as usize]).unwrap();
    };
    let mut points = 0;
    for (verb, flags) in [("remove", &["--json", "--force"][..]), ("undo", &["--json"])] {
        for left in (0u64..400).map(|pages| pages * 4096) {
            fill_up(left);
            let ran = run(&[&["worktree", verb, "x"], flags].concat());
            fs::remove_file(&filler).unwrap();
            if ran.code == 0 {
                break;
            }
            points += 1;
            let (code, message) = ran.json_error();
            assert_eq!(code, "disk_full", "{verb} with {left} bytes left: {message}");
            if verb == "remove" {
                assert_eq!(
                    files.describe_differences(&DirectorySnapshot::from_directory(&dir)),
                    Vec::<String>::new(),
                    "with {left} bytes left"
                );
                assert_eq!(grove.repo.git_in(&repo, &["for-each-ref"]), refs, "with {left} bytes left");
                assert!(!repo.join(".git/worktrees/x/locked").exists());
                let list = run(&["worktree", "list", "--json"]).assert_success().json();
                assert_eq!(list[0]["status"], "active", "with {left} bytes left");
            } else {
                assert!(!dir.exists(), "with {left} bytes left");
                let trash = run(&["worktree", "trash", "list", "--json"]).assert_success().json();
                assert_eq!(trash.as_array().unwrap().len(), 1, "with {left} bytes left");
            }
        }
    }
    assert_eq!(files.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
    assert_eq!(grove.repo.git_in(&repo, &["for-each-ref"]), refs);
    println!("a full disk at {points} points of removal and undo, 0 violations");
    assert!(points > 3, "{points}");
}

#[test]
fn without_permission_nothing_is_half_done() {
    let grove = new_sandbox(TestRepo::new());
    grove.unprivileged_command(["codebase", "add", "--json"]).status().unwrap();
    let run = |args: &[&str]| ProgramOutput::from(&mut grove.unprivileged_command(args));
    let dir = worktree_path(&run(&["worktree", "create", "x", "--json"]).assert_success().json());
    fs::write(dir.join("untracked"), "mine\n").unwrap();
    fs::write(dir.join("staged"), "staged\n").unwrap();
    let git = grove.repo.path().join(".git");
    let mut add = std::process::Command::new("git");
    add.args(["add", "staged"]).current_dir(&dir).env_clear().env("PATH", std::env::var("PATH").unwrap());
    if grove_testkit::is_root() {
        use std::os::unix::process::CommandExt;
        add.uid(grove_testkit::NOBODY_UID).gid(grove_testkit::NOBODY_UID);
    }
    assert!(add.status().unwrap().success());
    let refs = || grove.repo.git(&["for-each-ref"]);
    let (files, before) = (DirectorySnapshot::from_directory(&dir), refs());
    let parent = dir.parent().unwrap().to_owned();
    let places = [
        parent,
        dir.clone(),
        git.join("grove"),
        git.join("worktrees"),
        git.join("worktrees/x"),
        git.join("refs"),
        git.join("objects"),
        git.join("logs/refs/heads"),
        git.clone(),
    ];
    // GROVE_HOME is not among them: every command gives its owner the right to it back.
    let (mut refusals, mut passes) = (0, 0);
    for verb in ["remove", "undo"] {
        for place in &places {
            if verb == "undo" {
                run(&["worktree", "remove", "x", "--force", "--json"]).assert_success();
            }
            let mode = place.metadata().map(|meta| meta.permissions().mode());
            let Ok(mode) = mode else {
                // Gone with the worktree.
                run(&["worktree", "undo", "x", "--json"]).assert_success();
                continue;
            };
            fs::set_permissions(place, fs::Permissions::from_mode(0o555)).unwrap();
            let args: &[&str] = if verb == "remove" { &["--force"] } else { &[] };
            let ran = ProgramOutput::from(
                &mut grove.unprivileged_command(["worktree", verb, "x", "--json"].iter().chain(args)),
            );
            fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
            let when = format!("{verb} without {}: {ran:?}", place.display());
            if ran.code == 0 {
                passes += 1;
            } else {
                refusals += 1;
                let (code, _) = ran.json_error();
                assert!(
                    ["permission_denied", "git_failed", "store_unopenable", "not_writable", "store_failed"]
                        .contains(&code.as_str()),
                    "{when}"
                );
            }
            let there = (verb == "remove") == (ran.code != 0);
            let list = run(&["worktree", "list", "--json"]).assert_success().json();
            assert_eq!(list.as_array().unwrap().len(), usize::from(there), "{when}");
            assert_eq!(dir.exists(), there, "{when}");
            if !there {
                run(&["worktree", "undo", "x", "--json"]).assert_success();
            }
            assert_eq!(
                files.describe_differences(&DirectorySnapshot::from_directory(&dir)),
                Vec::<String>::new(),
                "{when}"
            );
            assert_eq!(refs(), before, "{when}");
        }
    }
    println!("{refusals} refusals for want of permission, {passes} that needed none, 0 violations");
    assert!(refusals >= 8, "{refusals}");
}
