//! Killed at every step of hibernating, waking and finishing: afterwards it is there whole, or
//! sleeps and wakes whole, or is merged and can be brought back.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use grove_testkit::{Picture, Ran, Sandbox, TestRepo, both_engines};
use serde_json::Value;

use crate::crash::{CALLS, can_trace, killed_at_call};
use crate::crash_removal::{REMOVAL, Subject, UNDO, killed};
use crate::{created, on, path, sandbox};

const FINISH: [&str; 4] = ["merging", "merged", "merge-recorded", "finished"];

fn hibernation() -> Vec<&'static str> {
    REMOVAL.into_iter().chain(["compacted"]).collect()
}

/// From the end of the merge on it is a removal, however it was merged: the quick run takes the rest
/// of the way once.
fn finishing(method: &str) -> Vec<&'static str> {
    let removal = if method == "merge" || is_long() { &REMOVAL[..] } else { &[] };
    FINISH.iter().chain(removal).copied().collect()
}

fn is_long() -> bool {
    std::env::var_os("GROVE_TEST_LONG").is_some()
}

fn verb(grove: &Sandbox, verb: &str, name: &str) -> Command {
    grove.command(["worktree", verb, name, "--json"])
}

fn listed(grove: &Sandbox) -> Vec<Value> {
    grove.grove(["worktree", "list", "--json"]).ok().json().as_array().unwrap().clone()
}

/// It is awake and whole, or sleeps and wakes whole.
#[track_caller]
fn assert_whole_after_waking(subject: &Subject, when: &str) {
    let grove = subject.grove;
    let list = listed(grove);
    assert_eq!(list.len(), 1, "{when}");
    if list[0]["status"] == "hibernated" {
        assert!(!subject.dir.exists(), "{when}: the folder of one that sleeps is there");
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 1, "{when}");
        grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        Ran::from(&mut verb(grove, "wake", "x")).ok();
    }
    subject.assert_whole(when);
}

/// Worktrees with one commit each, to be finished one after another.
struct Finishing<'a> {
    grove: &'a Sandbox,
    name: String,
    method: &'static str,
    dir: PathBuf,
    files: Picture,
    head: String,
    base: String,
}

impl<'a> Finishing<'a> {
    fn new(grove: &'a Sandbox, name: &str, method: &'static str) -> Self {
        let dir = path(&created(grove, &[name]));
        fs::write(dir.join(name), "work\n").unwrap();
        grove.repo.git_in(&dir, &["add", "."]);
        grove.repo.git_in(&dir, &["commit", "-q", "-m", "work"]);
        let (head, base) = (grove.repo.sha(name), grove.repo.sha("main"));
        // The status that a look writes into the index is there before.
        grove.repo.git_in(&dir, &["status"]);
        Self { grove, name: name.to_owned(), method, files: Picture::of(&dir), dir, head, base }
    }

    fn finish(&self) -> Command {
        self.grove.command(["worktree", "finish", &self.name, "--method", self.method, "--json"])
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
        let list = listed(self.grove);
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
        assert_eq!(self.files.differences(&Picture::of(&self.dir)), Vec::<String>::new(), "{when}");
        assert_eq!(self.grove.repo.sha(&self.name), self.head, "{when}");
        assert_eq!(self.grove.repo.git_in(&self.dir, &["status", "--porcelain"]), "", "{when}");
    }

    /// Merged, gone, and comes back whole when asked to.
    #[track_caller]
    fn assert_finished(&self, when: &str) {
        assert!(!self.is_there(when) && self.is_merged(when), "{when}");
        self.grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        Ran::from(&mut verb(self.grove, "undo", &self.name)).ok();
        self.assert_whole(when);
        assert_eq!(listed(self.grove).last().unwrap()["status"], "active", "{when}");
        Ran::from(&mut verb(self.grove, "remove", &self.name)).ok();
    }
}

/// Once with a checkout that is on the base and updated with it, once with one that is on another branch,
/// has changes and is left alone.
const METHODS: [&str; 2] = ["merge", "squash"];

fn set_up(grove: &Sandbox, method: &str) {
    if method == "squash" {
        grove.repo.git(&["checkout", "-q", "-b", "elsewhere"]);
        grove.repo.write("README.md", "changed by a person\n");
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

both_engines! {
    fn killed_at_every_step_it_is_awake_or_sleeps_and_wakes_whole(store: TestStore) {
        let grove = on(store, TestRepo::new());
        let subject = Subject::new(&grove);
        let mut points = 0;
        for step in hibernation() {
            killed(verb(&grove, "hibernate", "x"), step);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("hibernate, {step}"));
            points += 1;
        }
        for step in UNDO {
            Ran::from(&mut verb(&grove, "hibernate", "x")).ok();
            killed(verb(&grove, "wake", "x"), step);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("wake, {step}"));
            points += 1;
        }
        println!("killed at {points} steps of hibernating and waking, 0 violations");
    }

    fn killed_at_every_step_of_removing_what_sleeps_it_sleeps_or_comes_back_whole(store: TestStore) {
        let grove = on(store, TestRepo::new());
        let subject = Subject::new(&grove);
        for step in ["removing", "entry-buried", "branch-gone", "destroyed"] {
            Ran::from(&mut verb(&grove, "hibernate", "x")).ok();
            killed(grove.command(["worktree", "remove", "x", "--force", "--json"]), step);
            grove.grove(["doctor"]);
            assert_eq!(listed(&grove), Vec::<Value>::new(), "{step}");
            grove.repo.git(&["gc", "--quiet", "--prune=now"]);
            Ran::from(&mut verb(&grove, "undo", "x")).ok();
            subject.assert_whole(&format!("removed asleep, {step}"));
        }
    }

    fn the_next_command_goes_on_where_hibernating_or_waking_was_killed(store: TestStore) {
        let grove = on(store, TestRepo::new());
        let subject = Subject::new(&grove);
        for next in ["hibernate", "wake"] {
            for step in hibernation() {
                let when = format!("hibernate, {step}, {next}");
                killed(verb(&grove, "hibernate", "x"), step);
                let status = Ran::from(&mut verb(&grove, next, "x")).ok().json()["status"].clone();
                assert_eq!(status, if next == "wake" { "active" } else { "hibernated" }, "{when}");
                assert_whole_after_waking(&subject, &when);
            }
            for step in &UNDO[..5] {
                let when = format!("wake, {step}, {next}");
                Ran::from(&mut verb(&grove, "hibernate", "x")).ok();
                killed(verb(&grove, "wake", "x"), step);
                let status = Ran::from(&mut verb(&grove, next, "x")).ok().json()["status"].clone();
                assert_eq!(status, if next == "wake" { "active" } else { "hibernated" }, "{when}");
                assert_whole_after_waking(&subject, &when);
            }
        }
        // Somebody who asks for the work gets the same environment.
        killed(verb(&grove, "hibernate", "x"), "files-buried");
        let made = grove.grove(["worktree", "create", "x", "--json"]).ok().json();
        assert_eq!((made["status"].as_str(), made["path"].as_str()), (Some("active"), subject.dir.to_str()));
        subject.assert_whole("asked for");
    }

    fn killed_at_every_step_of_finishing_it_is_merged_or_not(store: TestStore) {
        let mut points = 0;
        let grove = on(store, TestRepo::new());
        for method in METHODS {
            set_up(&grove, method);
            for step in finishing(method) {
                let when = format!("{method}, {step}");
                let subject = Finishing::new(&grove, &format!("{method}-{step}"), method);
                killed(subject.finish(), step);
                grove.grove(["doctor"]);
                assert_checkout_is_sound(&grove, method, &when);
                subject.is_merged(&when);
                if subject.is_there(&when) {
                    let again = Ran::from(&mut subject.finish()).ok().json();
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
        let grove = on(store, TestRepo::new());
        // How it is merged matters little for what comes after; the long run takes both.
        let methods = if is_long() { &METHODS[..] } else { &METHODS[..1] };
        for &method in methods {
            set_up(&grove, method);
            // Of the steps that removal has too, the quick run takes every second one.
            let steps = finishing(method).into_iter().enumerate();
            for (_, step) in steps.filter(|(number, _)| is_long() || number % 2 == 0) {
                let when = format!("{method}, {step}, finish again");
                let subject = Finishing::new(&grove, &format!("{method}-{step}"), method);
                killed(subject.finish(), step);
                let again = Ran::from(&mut subject.finish());
                assert!(again.code == 0 || again.error().0 == "not_found", "{when}: {again:?}");
                assert_checkout_is_sound(&grove, method, &when);
                subject.assert_finished(&when);

                let when = format!("{method}, {step}, remove");
                let subject = Finishing::new(&grove, &format!("{method}-{step}-remove"), method);
                killed(subject.finish(), step);
                let merged = subject.is_merged(&when);
                let removed = Ran::from(&mut verb(&grove, "remove", &subject.name));
                assert!(removed.code == 0 || removed.error().0 == "not_found", "{when}: {removed:?}");
                assert_eq!(subject.is_merged(&when), merged, "{when}");
                assert!(!subject.dir.exists(), "{when}");
                Ran::from(&mut verb(&grove, "undo", &subject.name)).ok();
                assert!(subject.is_there(&when));
                // Whatever came before, it can be finished in the end.
                Ran::from(&mut subject.finish()).ok();
                subject.assert_finished(&when);
            }
        }
    }
}

/// Every system call of the program's own that changes the file system, one run for each.
#[test]
fn killed_at_system_calls_of_hibernating_and_waking() {
    // The quick run has the same code's removal and undo.
    if !can_trace() || !is_long() {
        return;
    }
    let grove = sandbox(TestRepo::new());
    let subject = Subject::new(&grove);
    let mut points = 0;
    for call in CALLS {
        for number in 1..2000 {
            let reached = killed_at_call(&verb(&grove, "hibernate", "x"), call, number);
            grove.grove(["doctor"]);
            assert_whole_after_waking(&subject, &format!("hibernate, {call} {number}"));
            if !reached {
                break;
            }
            points += 1;
        }
        for number in 1..2000 {
            Ran::from(&mut verb(&grove, "hibernate", "x")).ok();
            let reached = killed_at_call(&verb(&grove, "wake", "x"), call, number);
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
