//! `grove` as a person or a script runs it: the real program, real git, real stores.

mod agent;
mod blocked;
mod cleanup;
mod codebase;
mod crash;
mod crash_finish;
mod crash_removal;
mod create;
mod doctor;
mod finish;
mod github;
mod head;
mod layers;
mod list;
mod names;
mod planted;
mod regenerable;
mod remove;
mod remove_attacked;
mod resolve;
mod settings;
mod store;
mod submodules;
mod talk;
mod words;

use std::path::PathBuf;

use grove_testkit::{Ran, Sandbox, TestRepo, TestStore};
use serde_json::Value;

fn sandbox(repo: TestRepo) -> Sandbox {
    Sandbox::new(env!("CARGO_BIN_EXE_grove"), repo)
}

/// On one of the two engines.
fn on(store: TestStore, repo: TestRepo) -> Sandbox {
    sandbox(repo).on(store)
}

/// `grove worktree create ARGS --json`, checked to leave the canonical checkout alone.
#[track_caller]
fn create(sandbox: &Sandbox, args: &[&str]) -> Ran {
    let before = sandbox.repo.canonical();
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
fn created(sandbox: &Sandbox, args: &[&str]) -> Value {
    let made = create(sandbox, args).ok().json();
    let path = path(&made);
    assert_eq!(sandbox.repo.git_in(&path, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.repo.git_in(&path, &["symbolic-ref", "--short", "HEAD"]), made["branch"].as_str().unwrap());
    made
}

/// A creation that must be refused: one sentence, what to do, and nothing changed.
#[track_caller]
fn refused(sandbox: &Sandbox, args: &[&str]) -> (String, String) {
    let state = || (sandbox.repo.branches(), sandbox.repo.git(&["worktree", "list", "--porcelain"]), folders(sandbox));
    let before = state();
    let ran = create(sandbox, args);
    assert!(ran.code == 1 || ran.code == 2, "{ran:?}");
    assert_eq!(state(), before, "something was left behind: {ran:?}");
    ran.error()
}

/// All folders of worktrees.
fn folders(sandbox: &Sandbox) -> Vec<PathBuf> {
    fn walk(dir: &std::path::Path, depth: usize, into: &mut Vec<PathBuf>) {
        for entry in dir.read_dir().into_iter().flatten().flatten() {
            into.push(entry.path());
            if depth < 2 {
                walk(&entry.path(), depth + 1, into);
            }
        }
    }
    let mut found = Vec::new();
    walk(&sandbox.worktrees(), 0, &mut found);
    found.sort();
    found
}

fn path(made: &Value) -> PathBuf {
    PathBuf::from(made["path"].as_str().expect("a path"))
}
