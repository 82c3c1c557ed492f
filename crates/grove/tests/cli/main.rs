//! `grove` as a person or a script runs it: the real program, real git, real stores.

mod agent;
mod blocked;
mod cleanup;
mod codebase;
mod crash;
mod crash_finish;
mod crash_removal;
mod create;
mod cross_platform;
mod diff;
mod discord;
mod doctor;
mod every_platform;
mod finish;
mod github;
mod head;
mod init;
mod layers;
mod list;
mod names;
mod planted;
mod progress;
mod regenerable;
mod remove;
mod remove_attacked;
mod resolve;
mod settings;
mod shell;
mod slack;
mod store;
mod submodules;
mod talk;
mod telegram;
mod up;
mod words;

use std::path::PathBuf;

use grove_testkit::{ProgramOutput, Sandbox, TestRepo, TestStore};
use serde_json::Value;

fn new_sandbox(repo: TestRepo) -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_grove"), repo)
}

/// On one of the two engines.
fn sandbox_on(store: TestStore, repo: TestRepo) -> Sandbox {
    new_sandbox(repo).with_store(store)
}

/// `grove worktree create ARGS --json`, checked to leave the canonical checkout alone.
#[track_caller]
fn run_create(sandbox: &Sandbox, args: &[&str]) -> ProgramOutput {
    let before = sandbox.repo.snapshot_checkout();
    let ran = sandbox.grove(["worktree", "create", "--json"].iter().chain(args));
    match args.iter().position(|arg| *arg == "pr") {
        // A same-repository pull request's upstream is the one thing that may be added.
        Some(_) if ran.code == 0 => before.assert_only_upstream_added(ran.json()["branch"].as_str().expect("a branch")),
        _ => before.assert_untouched(),
    }
    ran
}

/// The environment that was made.
#[track_caller]
fn create_worktree(sandbox: &Sandbox, args: &[&str]) -> Value {
    let made = run_create(sandbox, args).assert_success().json();
    let path = worktree_path(&made);
    assert_eq!(sandbox.repo.git_in(&path, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.repo.git_in(&path, &["symbolic-ref", "--short", "HEAD"]), made["branch"].as_str().unwrap());
    made
}

/// A creation that must be refused: one sentence, what to do, and nothing changed.
#[track_caller]
fn expect_create_refused(sandbox: &Sandbox, args: &[&str]) -> (String, String) {
    let state = || {
        (
            sandbox.repo.list_branches(),
            sandbox.repo.git(&["worktree", "list", "--porcelain"]),
            worktree_folders(sandbox),
        )
    };
    let before = state();
    let ran = run_create(sandbox, args);
    assert!(ran.code == 1 || ran.code == 2, "{ran:?}");
    assert_eq!(state(), before, "something was left behind: {ran:?}");
    ran.json_error()
}

/// All folders of worktrees.
fn worktree_folders(sandbox: &Sandbox) -> Vec<PathBuf> {
    fn collect_folders(dir: &std::path::Path, depth: usize, into: &mut Vec<PathBuf>) {
        for entry in dir.read_dir().into_iter().flatten().flatten() {
            into.push(entry.path());
            if depth < 2 {
                collect_folders(&entry.path(), depth + 1, into);
            }
        }
    }
    let mut found = Vec::new();
    collect_folders(&sandbox.worktrees_dir(), 0, &mut found);
    found.sort();
    found
}

fn worktree_path(made: &Value) -> PathBuf {
    PathBuf::from(made["path"].as_str().expect("a path"))
}
