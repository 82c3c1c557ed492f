//! Killed at every step of a creation; started again; nothing lost, nothing left.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use grove_testkit::{DirectorySnapshot, Sandbox, TestRepo, both_engines, is_alive, is_long_run, wait_for};

use crate::{create_worktree, new_sandbox, sandbox_on, worktree_folders, worktree_path};

/// The steps before the record says `active`, and those after it.
const STEPS_BEFORE_ACTIVE: [&str; 9] =
    ["claimed", "branch", "branched", "staged", "checked-out", "entry-published", "published", "verified", "furnished"];
const STEPS_AFTER_ACTIVE: [&str; 3] = ["activated", "unlocked", "active"];

/// Runs a creation that ends at `step` as if it had been killed there.
fn killed_at(grove: &Sandbox, step: &str, args: &[&str]) {
    let mut command = grove.grove_command(["worktree", "create", "--json"].iter().chain(args));
    let status = command.env("GROVE_FAULT_AT", step).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.signal(), Some(9), "{step} is a step of a creation");
}

/// Nothing on disk but what the records say: one folder, one entry, one branch for each.
fn assert_converged(grove: &Sandbox, step: &str) {
    let list = grove.grove(["worktree", "list", "--json"]).assert_success().json();
    let mut recorded: Vec<_> = list.as_array().unwrap().iter().map(worktree_path).collect();
    recorded.sort();
    let mut on_disk: Vec<_> = worktree_folders(grove)
        .into_iter()
        .filter(|dir| dir.ancestors().nth(3) == Some(&grove.worktrees_dir()))
        .collect();
    on_disk.sort();
    assert_eq!(on_disk, recorded, "{step}: folders");
    let listed = grove.repo.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(listed.matches("worktree ").count(), recorded.len() + 1, "{step}: {listed}");
    let marked = listed.lines().find(|line| line.starts_with("locked") || line.starts_with("prunable"));
    assert_eq!(marked, None, "{step}: {listed}");
    let branches = grove.repo.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches.lines().count(), recorded.len() + 1, "{step}: {branches}");
    let ours = grove.repo.path().join(".git/grove");
    let staged =
        ours.read_dir().into_iter().flatten().flatten().find(|e| e.file_name().to_string_lossy().contains("staging"));
    assert!(staged.is_none(), "{step}: {staged:?}");
    grove.repo.git(&["fsck", "--no-dangling"]);
}

both_engines! {
    fn the_next_asker_cleans_up_and_tries_again(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let mut points = 0;
        for step in STEPS_BEFORE_ACTIVE {
            let name = format!("x-{step}");
            let before = grove.repo.snapshot_checkout();
            killed_at(&grove, step, &[&name]);
            before.assert_untouched();
            let made = create_worktree(&grove, &[&name]);
            assert_eq!(made["status"], "active");
            assert_converged(&grove, step);
            points += 1;
        }
        for step in STEPS_AFTER_ACTIVE {
            let name = format!("x-{step}");
            killed_at(&grove, step, &[&name]);
            let made = create_worktree(&grove, &[&name]);
            assert_eq!(made["status"], "active", "{step}");
            let mirror = grove.repo.path().join(format!(".grove/worktrees/{name}/worktree.json"));
            assert_eq!(mirror.exists(), step != "unlocked", "{step}: a missing mirror alone is for reconcile");
            assert_converged(&grove, step);
            points += 1;
        }
        println!("killed at {points} steps, 0 violations");
        let all = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().json();
        let undone = all.as_array().unwrap().iter().filter(|e| e["error"].as_str().is_some_and(|e| e.contains("interrupted"))).count();
        assert_eq!(undone, STEPS_BEFORE_ACTIVE.len(), "each is kept with why it ended");
    }

    fn an_older_review_branch_is_back_after_a_crash(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        grove.repo.git(&["checkout", "-q", "-b", "pr-7-review"]);
        let notes = grove.repo.commit_all("notes of the reviewer");
        grove.repo.git(&["checkout", "-q", "main"]);
        let head = grove.repo.push_commit("refs/pull/7/head", "origin/main", "one");
        let args = ["--kind", "review", "--id", "7", "--sha", &head];
        killed_at(&grove, "published", &args);
        // Another request, on the same branch.
        let made = grove.grove(["worktree", "create", "other", "--json"]).assert_success();
        assert_eq!(made.json()["status"], "active");
        let made = create_worktree(&grove, &args);
        assert_eq!(made["head_sha"].as_str(), Some(head.as_str()));
        let pins = grove.repo.git(&["for-each-ref", "--format=%(objectname)", "refs/grove/trash"]);
        assert_eq!(pins, notes, "pinned once, for the creation that came to its end");
    }

    fn two_who_ask_at_once_get_one_environment(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        grove.grove(["codebase", "add"]).assert_success();
        let children: Vec<_> = (0..6)
            .map(|_| grove.grove_command(["worktree", "create", "--kind", "issue", "--id", "42", "--json"]).stdout(Stdio::piped()).spawn().unwrap())
            .collect();
        let ids: Vec<String> = children.into_iter().map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()["id"].as_str().unwrap().to_owned()
        }).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_converged(&grove, "at once");
    }
}

/// Config, refs and `.git/grove` are byte for byte as they were, whatever step a pull request's creation
/// was killed at, and whatever it was refused for.
#[test]
fn a_pull_request_that_was_not_made_leaves_the_git_directory_as_it_was() {
    let grove = new_sandbox(TestRepo::with_origin());
    for name in ["warm", "feat"] {
        grove.repo.push_commit(&format!("refs/heads/{name}"), "origin/main", name);
    }
    grove.repo.push_commit("refs/pull/8/head", "origin/main", "fork");
    // The first one leaves locks of the repository, stamps of its fetches and a line in `info/exclude`.
    create_worktree(&grove, &["warm", "--kind", "pr", "--id", "4"]);
    grove.grove(["worktree", "remove", "warm", "--json"]).assert_success();
    grove.grove(["worktree", "trash", "drop", "warm", "--json"]).assert_success();
    let folder = worktree_path(&create_worktree(&grove, &["beside"])).parent().unwrap().to_owned();
    let git_dir = grove.repo.path().join(".git");
    let locks = git_dir.join("grove/locks").read_dir().unwrap().count();
    assert_eq!(locks, 0, "what is dropped from the trash keeps no lock");
    let before = DirectorySnapshot::of_git_dir(&git_dir);
    let as_before = |when: &str| {
        assert_eq!(
            before.describe_differences(&DirectorySnapshot::of_git_dir(&git_dir)),
            Vec::<String>::new(),
            "{when}"
        );
    };
    let ways = [&["feat", "--kind", "pr", "--id", "5"][..], &["--kind", "pr", "--id", "8", "--fork"], &["task"]];
    for args in ways {
        for step in STEPS_BEFORE_ACTIVE {
            killed_at(&grove, step, args);
            grove.grove(["doctor"]);
            as_before(&format!("{args:?} killed at {step}"));
        }
    }
    // Refused after its fetch: something stands where it would go.
    std::fs::create_dir_all(folder.join("feat")).unwrap();
    std::fs::write(folder.join("feat/mine"), "mine").unwrap();
    assert_eq!(crate::expect_create_refused(&grove, &["feat", "--kind", "pr", "--id", "5"]).0, "path_taken");
    as_before("something at the path");
}

#[test]
fn files_written_into_an_unfinished_worktree_are_kept() {
    let grove = new_sandbox(TestRepo::new());
    killed_at(&grove, "verified", &["x"]);
    let dir = worktree_folders(&grove).into_iter().find(|dir| dir.ends_with("x")).unwrap();
    std::fs::write(dir.join("notes"), "mine").unwrap();
    // The creation is given up, the folder is not: it is taken over as it is.
    let made = grove.grove(["worktree", "create", "x", "--json"]).assert_success().json();
    assert_eq!(
        (worktree_path(&made), made["adopted"].as_bool(), made["untracked"].as_u64()),
        (dir.clone(), Some(true), Some(1))
    );
    assert_eq!(std::fs::read_to_string(dir.join("notes")).unwrap(), "mine");
}

/// System calls that change the file system, and the one that opens files.
pub(crate) const TRACED_SYSTEM_CALLS: [&str; 9] =
    ["mkdir", "rename", "renameat2", "unlink", "unlinkat", "openat", "fsync", "write", "ftruncate"];

pub(crate) fn can_trace() -> bool {
    let strace = std::process::Command::new("strace").arg("-V").stdout(Stdio::null()).status();
    let there = strace.is_ok_and(|status| status.success());
    if !there {
        eprintln!("skipped: strace is not here");
    }
    there
}

/// Runs a command that is killed at its n-th system call of a kind; whether it came so far.
pub(crate) fn killed_at_call(inner: &std::process::Command, call: &str, number: usize) -> bool {
    let mut command = std::process::Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={call}:signal=KILL:when={number}"), "--"]);
    command.env_clear().envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.arg(inner.get_program()).args(inner.get_args());
    if let Some(dir) = inner.get_current_dir() {
        command.current_dir(dir);
    }
    !command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
}

/// Every n-th system call of the program's own that touches the file system, one run for each.
#[test]
fn killed_at_system_calls() {
    if !can_trace() {
        return;
    }
    let mut points = 0;
    for call in TRACED_SYSTEM_CALLS {
        // Most files that are opened are libraries; the quick run takes some of them.
        let stride = match call {
            _ if is_long_run() => 1,
            "openat" => 41,
            "write" => 9,
            "fsync" => 3,
            _ => 1,
        };
        for number in (1..1000).step_by(stride) {
            // A new repository for each: files of an earlier run would change the count.
            let grove = new_sandbox(TestRepo::new());
            grove.grove(["codebase", "add"]).assert_success();
            let inner = grove.grove_command(["worktree", "create", "x", "--json"]);
            let ended = !killed_at_call(&inner, call, number);
            create_worktree(&grove, &["x"]);
            assert_converged(&grove, &format!("{call} {number}"));
            if ended {
                break;
            }
            points += 1;
            assert!(number < 900, "a creation ends");
        }
    }
    println!("killed at {points} system calls, 0 violations");
    assert!(points > 20, "{points}");
}

#[test]
fn a_git_that_outlives_a_killed_program_is_ended_before_its_traces_are() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.write_file(".gitattributes", "README.md filter=slow\n");
    grove.repo.commit_all("a filter");
    let started = grove.repo.temp_dir().join("started");
    let slow = format!("sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 600'", started.display());
    grove.repo.git(&["config", "filter.slow.smudge", &slow]);
    let mut child =
        grove.grove_command(["worktree", "create", "x"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for(|| started.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let filter = std::fs::read_to_string(&started).unwrap();
    assert!(is_alive(&filter), "it goes on without its parent");
    grove.repo.git(&["config", "--unset", "filter.slow.smudge"]);
    create_worktree(&grove, &["x"]);
    assert_converged(&grove, "a git of its own");
    assert!(!is_alive(&filter), "it was ended");
}
