//! Killed at every step of hibernating, waking and finishing: afterwards it is there whole, or
//! sleeps and wakes whole, or is merged and can be brought back.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use grove_testkit::{DirectorySnapshot, ProgramOutput, Sandbox, TestRepo, is_long_run, on_sqlite};
use serde_json::Value;

use crate::crash::{TRACED_SYSTEM_CALLS, can_trace, killed_at_call};
use crate::crash_removal::{REMOVAL_STEPS, RemovalCrashTest, UNDO_STEPS, run_killed_at};
use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

const FINISH_STEPS: [&str; 4] = ["merging", "merged", "merge-recorded", "finished"];

fn hibernation_steps() -> Vec<&'static str> {
    REMOVAL_STEPS.into_iter().chain(["compacted"]).collect()
}

/// From the end of the merge on it is a removal, however it was merged: the quick run takes the rest
/// of the way once.
fn finish_steps(method: &str) -> Vec<&'static str> {
    let removal = if method == "merge" || is_long_run() { &REMOVAL_STEPS[..] } else { &[] };
    FINISH_STEPS.iter().chain(removal).copied().collect()
}

fn worktree_command(grove: &Sandbox, verb: &str, name: &str) -> Command {
    grove.grove_command(["worktree", verb, name, "--json"])
}

fn list_worktrees(grove: &Sandbox) -> Vec<Value> {
    grove.grove(["worktree", "list", "--json"]).assert_success().json().as_array().unwrap().clone()
}

/// It is awake and whole, or sleeps and wakes whole.
#[track_caller]
fn assert_whole_after_waking(subject: &RemovalCrashTest, when: &str) {
    let grove = subject.grove;
    let list = list_worktrees(grove);
    assert_eq!(list.len(), 1, "{when}");
    if list[0]["status"] == "hibernated" {
        assert!(!subject.dir.exists(), "{when}: the folder of one that sleeps is there");
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 1, "{when}");
        grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        ProgramOutput::from(&mut worktree_command(grove, "wake", "x")).assert_success();
    }
    subject.assert_whole(when);
}

/// Worktrees with one commit each, to be finished one after another.
struct FinishCrashTest<'a> {
    grove: &'a Sandbox,
    name: String,
    method: &'static str,
    dir: PathBuf,
    files: DirectorySnapshot,
    head: String,
    base: String,
}

impl<'a> FinishCrashTest<'a> {
    fn new(grove: &'a Sandbox, name: &str, method: &'static str) -> Self {
        let dir = worktree_path(&create_worktree(grove, &[name]));
        fs::write(dir.join(name), "work\n").unwrap();
        grove.repo.git_in(&dir, &["add", "."]);
        grove.repo.git_in(&dir, &["commit", "-q", "-m", "work"]);
        let (head, base) = (grove.repo.resolve_sha(name), grove.repo.resolve_sha("main"));
        // The status that a look writes into the index is there before.
        grove.repo.git_in(&dir, &["status"]);
        Self { grove, name: name.to_owned(), method, files: DirectorySnapshot::from_directory(&dir), dir, head, base }
    }

    fn finish_command(&self) -> Command {
        self.grove.grove_command(["worktree", "finish", &self.name, "--method", self.method, "--json"])
    }

    /// Whether the base has the work. It has all of it, once, or nothing.
    #[track_caller]
    fn is_merged(&self, when: &str) -> bool {
        let repo = &self.grove.repo;
        let range = format!("{}..main", self.base);
        let new = repo.git(&["rev-list", "--first-parent", &range]).lines().count();
        assert!(new <= 1, "{when}: merged {new} times");
        if new == 1 {
            let parents =
                if self.method == "merge" { format!("{} {}", self.base, self.head) } else { self.base.clone() };
            assert_eq!(repo.git(&["log", "-1", "--format=%P", "main"]), parents, "{when}");
            assert_eq!(repo.git(&["show", &format!("main:{}", self.name)]), "work", "{when}");
        }
        new == 1
    }

    /// Whether it is still there. Then it is whole; otherwise it is merged, and gone altogether.
    #[track_caller]
    fn is_there(&self, when: &str) -> bool {
        let list = list_worktrees(self.grove);
        let there = list.iter().find(|environment| environment["branch"] == *self.name);
        match there {
            Some(environment) => {
                assert_eq!(environment["status"], "active", "{when}");
                self.assert_whole(when);
            }
            None => {
                assert!(self.is_merged(when), "{when}: removed and not merged");
                assert!(!self.dir.exists(), "{when}");
                assert_eq!(self.grove.repo.git(&["branch", "--list", &self.name]), "", "{when}");
            }
        }
        there.is_some()
    }

    #[track_caller]
    fn assert_whole(&self, when: &str) {
        assert_eq!(
            self.files.describe_differences(&DirectorySnapshot::from_directory(&self.dir)),
            Vec::<String>::new(),
            "{when}"
        );
        assert_eq!(self.grove.repo.resolve_sha(&self.name), self.head, "{when}");
        assert_eq!(self.grove.repo.git_in(&self.dir, &["status", "--porcelain"]), "", "{when}");
    }

    /// Merged, gone, and comes back whole when asked to.
    #[track_caller]
    fn assert_finished(&self, when: &str) {
        assert!(!self.is_there(when) && self.is_merged(when), "{when}");
        self.grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        ProgramOutput::from(&mut worktree_command(self.grove, "undo", &self.name)).assert_success();
        self.assert_whole(when);
        assert_eq!(list_worktrees(self.grove).last().unwrap()["status"], "active", "{when}");
        ProgramOutput::from(&mut worktree_command(self.grove, "remove", &self.name)).assert_success();
    }
}

/// Once with a checkout that is on the base and updated with it, once with one that is on another branch,
/// has changes and is left alone.
const MERGE_METHODS: [&str; 2] = ["merge", "squash"];

fn set_up(grove: &Sandbox, method: &str) {
    if method == "squash" {
        grove.repo.git(&["checkout", "-q", "-b", "elsewhere"]);
        grove.repo.write_file("README.md", "changed by a person\n");
    }
}

#[track_caller]
fn assert_checkout_is_sound(grove: &Sandbox, method: &str, when: &str) {
    if method == "squash" {
        assert_eq!(fs::read_to_string(grove.repo.path().join("README.md")).unwrap(), "changed by a person\n", "{when}");
    } else {
        assert_eq!(grove.repo.git(&["status", "--porcelain"]), "", "{when}");
    }
}

on_sqlite! {
    fn killed_at_every_step_it_is_awake_or_sleeps_and_wakes_whole(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let subject = RemovalCrashTest::new(&grove);
        let mut points = 0;
        for step in hibernation_steps() {
            run_killed_at(worktree_command(&grove, "hibernate", "x"), step);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("hibernate, {step}"));
            points += 1;
        }
        for step in UNDO_STEPS {
            ProgramOutput::from(&mut worktree_command(&grove, "hibernate", "x")).assert_success();
            run_killed_at(worktree_command(&grove, "wake", "x"), step);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("wake, {step}"));
            points += 1;
        }
        println!("killed at {points} steps of hibernating and waking, 0 violations");
    }

    fn killed_at_every_step_of_removing_what_sleeps_it_sleeps_or_comes_back_whole(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let subject = RemovalCrashTest::new(&grove);
        for step in ["removing", "entry-buried", "branch-gone", "destroyed"] {
            ProgramOutput::from(&mut worktree_command(&grove, "hibernate", "x")).assert_success();
            run_killed_at(grove.grove_command(["worktree", "remove", "x", "--force", "--json"]), step);
            grove.grove(["doctor"]);
            assert_eq!(list_worktrees(&grove), Vec::<Value>::new(), "{step}");
            grove.repo.git(&["gc", "--quiet", "--prune=now"]);
            ProgramOutput::from(&mut worktree_command(&grove, "undo", "x")).assert_success();
            subject.assert_whole(&format!("removed asleep, {step}"));
        }
    }

    fn the_next_command_goes_on_where_hibernating_or_waking_was_killed(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let subject = RemovalCrashTest::new(&grove);
        for next in ["hibernate", "wake"] {
            for step in hibernation_steps() {
                let when = format!("hibernate, {step}, {next}");
                run_killed_at(worktree_command(&grove, "hibernate", "x"), step);
                let status = ProgramOutput::from(&mut worktree_command(&grove, next, "x")).assert_success().json()["status"].clone();
                assert_eq!(status, if next == "wake" { "active" } else { "hibernated" }, "{when}");
                assert_whole_after_waking(&subject, &when);
            }
            for step in &UNDO_STEPS[..5] {
                let when = format!("wake, {step}, {next}");
                ProgramOutput::from(&mut worktree_command(&grove, "hibernate", "x")).assert_success();
                run_killed_at(worktree_command(&grove, "wake", "x"), step);
                let status = ProgramOutput::from(&mut worktree_command(&grove, next, "x")).assert_success().json()["status"].clone();
                assert_eq!(status, if next == "wake" { "active" } else { "hibernated" }, "{when}");
                assert_whole_after_waking(&subject, &when);
            }
        }
        // A request for the work gets the same environment.
        run_killed_at(worktree_command(&grove, "hibernate", "x"), "files-buried");
        let made = grove.grove(["worktree", "create", "x", "--json"]).assert_success().json();
        assert_eq!((made["status"].as_str(), made["path"].as_str()), (Some("active"), subject.dir.to_str()));
        subject.assert_whole("asked for");
    }

    fn killed_at_every_step_of_finishing_it_is_merged_or_not(store: TestStore) {
        let mut points = 0;
        let grove = sandbox_on(store, TestRepo::new());
        for method in MERGE_METHODS {
            set_up(&grove, method);
            for step in finish_steps(method) {
                let when = format!("{method}, {step}");
                let subject = FinishCrashTest::new(&grove, &format!("{method}-{step}"), method);
                run_killed_at(subject.finish_command(), step);
                grove.grove(["doctor"]);
                assert_checkout_is_sound(&grove, method, &when);
                subject.is_merged(&when);
                if subject.is_there(&when) {
                    let again = ProgramOutput::from(&mut subject.finish_command()).assert_success().json();
                    assert_eq!((again["removed"].as_bool(), again["branch_kept"].as_bool()), (Some(true), Some(false)), "{when}");
                }
                assert_checkout_is_sound(&grove, method, &when);
                subject.assert_finished(&when);
                points += 1;
            }
        }
        println!("killed at {points} steps of finishing, 0 violations");
    }

    fn the_next_command_goes_on_where_finishing_was_killed(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        // How it is merged matters little for what comes after; the long run takes both.
        let methods = if is_long_run() { &MERGE_METHODS[..] } else { &MERGE_METHODS[..1] };
        for &method in methods {
            set_up(&grove, method);
            // Of the steps that removal has too, the quick run takes every second one.
            let steps = finish_steps(method).into_iter().enumerate();
            for (_, step) in steps.filter(|(number, _)| is_long_run() || number % 2 == 0) {
                let when = format!("{method}, {step}, finish again");
                let subject = FinishCrashTest::new(&grove, &format!("{method}-{step}"), method);
                run_killed_at(subject.finish_command(), step);
                let again = ProgramOutput::from(&mut subject.finish_command());
                assert!(again.code == 0 || again.json_error().0 == "not_found", "{when}: {again:?}");
                assert_checkout_is_sound(&grove, method, &when);
                subject.assert_finished(&when);

                let when = format!("{method}, {step}, remove");
                let subject = FinishCrashTest::new(&grove, &format!("{method}-{step}-remove"), method);
                run_killed_at(subject.finish_command(), step);
                let merged = subject.is_merged(&when);
                let removed = ProgramOutput::from(&mut worktree_command(&grove, "remove", &subject.name));
                assert!(removed.code == 0 || removed.json_error().0 == "not_found", "{when}: {removed:?}");
                assert_eq!(subject.is_merged(&when), merged, "{when}");
                assert!(!subject.dir.exists(), "{when}");
                ProgramOutput::from(&mut worktree_command(&grove, "undo", &subject.name)).assert_success();
                assert!(subject.is_there(&when));
                // Whatever came before, it can be finished in the end.
                ProgramOutput::from(&mut subject.finish_command()).assert_success();
                subject.assert_finished(&when);
            }
        }
    }
}

/// Every system call of the program's own that changes the file system, one run for each.
#[test]
fn killed_at_system_calls_of_hibernating_and_waking() {
    // The quick run has the same code's removal and undo.
    if !can_trace() || !is_long_run() {
        return;
    }
    let grove = new_sandbox(TestRepo::new());
    let subject = RemovalCrashTest::new(&grove);
    let mut points = 0;
    for call in TRACED_SYSTEM_CALLS {
        for number in 1..2000 {
            let reached = killed_at_call(&worktree_command(&grove, "hibernate", "x"), call, number);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("hibernate, {call} {number}"));
            if !reached {
                break;
            }
            points += 1;
        }
        for number in 1..2000 {
            ProgramOutput::from(&mut worktree_command(&grove, "hibernate", "x")).assert_success();
            let reached = killed_at_call(&worktree_command(&grove, "wake", "x"), call, number);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("wake, {call} {number}"));
            if !reached {
                break;
            }
            points += 1;
        }
    }
    println!("killed at {points} system calls of hibernating and waking, 0 violations");
    assert!(points > 40, "{points}");
}
