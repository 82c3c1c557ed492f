//! Removing, refusing to, and bringing back.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use grove_testkit::{DirectorySnapshot, Sandbox, TestRepo, on_sqlite, wait_for};
use serde_json::Value;

use crate::{create_worktree, new_sandbox, run_create, sandbox_on, worktree_path};

/// A refused removal: nothing changed; the codes of the reasons.
#[track_caller]
pub(crate) fn expect_removal_refused(grove: &Sandbox, name: &str) -> Vec<String> {
    let state = || (grove.repo.list_branches(), grove.repo.git(&["worktree", "list", "--porcelain"]));
    let before = state();
    let ran = grove.grove(["worktree", "remove", name, "--json"]).assert_exit_code(1);
    ran.json_error();
    assert_eq!(state(), before, "something was changed");
    let reasons = ran.json()["error"]["reasons"].as_array().cloned().unwrap_or_default();
    for reason in &reasons {
        assert!(!reason["message"].as_str().unwrap().is_empty() && !reason["hint"].as_str().unwrap().is_empty());
    }
    reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
}

#[track_caller]
pub(crate) fn remove_worktree(grove: &Sandbox, args: &[&str]) -> Value {
    let before = grove.repo.snapshot_checkout();
    let ran = grove.grove(["worktree", "remove", "--json"].iter().chain(args)).assert_success().json();
    before.assert_untouched();
    ran
}

#[track_caller]
pub(crate) fn undo_removal(grove: &Sandbox, name: &str) -> Value {
    let before = grove.repo.snapshot_checkout();
    let ran = grove.grove(["worktree", "undo", name, "--json"]).assert_success().json();
    before.assert_untouched();
    ran
}

/// The one record that there is.
fn status_of(grove: &Sandbox, id: &Value) -> String {
    let all = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().json();
    let one = all.as_array().unwrap().iter().find(|e| e["id"] == *id).unwrap().clone();
    one["status"].as_str().unwrap().to_owned()
}

on_sqlite! {
    fn what_speaks_against_removing_a_hibernated_one_is_said_the_same_everywhere(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = create_worktree(&grove, &["x"]);
        let dir = worktree_path(&made);
        fs::write(dir.join("notes"), "mine").unwrap();
        fs::write(dir.join("staged"), "mine").unwrap();
        grove.repo.git_in(&dir, &["add", "staged"]);
        let (before, branches) = (DirectorySnapshot::from_directory(&dir), grove.repo.list_branches());
        let awake = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
        grove.grove(["worktree", "hibernate", "x"]).assert_success();
        let trash = dir.parent().unwrap().join(".grove-trash");
        let asleep = DirectorySnapshot::from_directory(&trash);

        let plan = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
        assert_eq!((plan["action"].as_str(), plan["would_remove"].as_bool()), (Some("remove"), Some(false)), "{plan}");
        assert_eq!((&plan["reasons"], &plan["checks"]), (&awake["reasons"], &awake["checks"]));
        let said = grove.grove(["worktree", "remove", "x", "--dry-run"]).assert_success().stdout;
        assert!(said.contains("would not be removed") && said.contains("1 staged change"), "{said}");
        assert_eq!(expect_removal_refused(&grove, "x"), ["uncommitted_changes", "untracked_files"]);
        let ran = grove.grove(["worktree", "remove", "x", "--json"]).assert_exit_code(1);
        assert_eq!(ran.json()["error"]["reasons"], plan["reasons"]);
        // Asking has not woken it.
        assert_eq!(status_of(&grove, &made["id"]), "hibernated");
        assert!(!dir.exists());
        assert_eq!(asleep.describe_differences(&DirectorySnapshot::from_directory(&trash)), Vec::<String>::new());

        let forced = grove.grove(["worktree", "remove", "x", "--dry-run", "--force", "--json"]).assert_success().json();
        assert_eq!((forced["would_remove"].as_bool(), &forced["reasons"]), (Some(true), &serde_json::json!([])));
        let answer = remove_worktree(&grove, &["x", "--force"]);
        assert_eq!((&answer["removed"], &answer["branch_kept"]), (&true.into(), &forced["branch_kept"]));
        assert!(answer["undo_until"].as_str().unwrap() > made["created_at"].as_str().unwrap());
        assert_eq!(status_of(&grove, &made["id"]), "destroyed");
        assert_eq!(grove.grove(["worktree", "trash", "list", "--json"]).assert_success().json()[0]["id"], made["id"]);
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "", "everything on it is elsewhere");
        grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        assert_eq!(undo_removal(&grove, "x")["status"], "active");
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
        assert_eq!(grove.repo.list_branches(), branches);
    }

    fn a_hibernated_one_without_unsaved_work_goes_and_comes_back(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["x"]));
        fs::write(dir.join("own"), "own").unwrap();
        grove.repo.git_in(&dir, &["add", "own"]);
        grove.repo.git_in(&dir, &["commit", "-q", "-m", "own"]);
        let (before, tip) = (DirectorySnapshot::from_directory(&dir), grove.repo.resolve_sha("x"));
        grove.grove(["worktree", "hibernate", "x"]).assert_success();
        let plan = grove.grove(["worktree", "remove", "x", "--dry-run"]).assert_success().stdout;
        assert!(plan.contains("would be removed") && plan.contains("it has a commit that is nowhere else"), "{plan}");
        assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], true);
        assert_eq!(grove.repo.resolve_sha("x"), tip);
        undo_removal(&grove, "x");
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
        // The branch is judged as it is when it goes, not as it was when it was put away.
        grove.grove(["worktree", "hibernate", "x"]).assert_success();
        grove.repo.git(&["merge", "-q", "--ff-only", "x"]);
        let plan = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
        assert_eq!((&plan["would_remove"], &plan["branch_kept"]), (&true.into(), &false.into()), "{plan}");
        assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], false);
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "");
        undo_removal(&grove, "x");
        assert_eq!(grove.repo.resolve_sha("x"), tip);
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
    }

    fn a_hibernated_one_in_which_something_was_written_is_not_taken_for_known(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = create_worktree(&grove, &["x"]);
        let dir = worktree_path(&made);
        grove.grove(["worktree", "hibernate", "x"]).assert_success();
        let files = dir.parent().unwrap().join(".grove-trash").join(made["id"].as_str().unwrap());
        fs::write(files.join("late"), "by a process that still stood there").unwrap();
        let plan = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
        let reason = plan["reasons"][0]["message"].as_str().unwrap();
        assert!(reason.contains("something was written there while it hibernated"), "{plan}");
        assert_eq!(expect_removal_refused(&grove, "x"), ["uncommitted_changes"]);
        remove_worktree(&grove, &["x", "--force"]);
        undo_removal(&grove, "x");
        assert!(dir.join("late").exists());
        // Files that a person deleted from the trash are gone; files on an unmounted disk are not.
        fs::remove_file(dir.join("late")).unwrap();
        grove.grove(["worktree", "hibernate", "x"]).assert_success();
        let away = dir.parent().unwrap().with_file_name("away");
        fs::rename(dir.parent().unwrap(), &away).unwrap();
        for args in [&["--dry-run"][..], &[], &["--force"]] {
            let ran = grove.grove(["worktree", "remove", "x", "--json"].iter().chain(args)).assert_exit_code(1);
            assert_eq!(ran.json_error().0, "not_mounted", "{args:?}");
        }
        fs::rename(&away, dir.parent().unwrap()).unwrap();
        fs::remove_dir_all(&files).unwrap();
        assert_eq!(grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json()["action"], "forget");
        assert_eq!(remove_worktree(&grove, &["x"])["undo_until"], Value::Null);
        assert_eq!(status_of(&grove, &made["id"]), "destroyed");
        create_worktree(&grove, &["x"]);
    }
}

on_sqlite! {
    fn a_clean_worktree_goes_with_its_branch_and_comes_back(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = create_worktree(&grove, &["x"]);
        let dir = worktree_path(&made);
        let (before, branches) = (DirectorySnapshot::from_directory(&dir), grove.repo.list_branches());
        let mirror = grove.repo.path().join(".grove/worktrees/x/worktree.json");
        let answer = remove_worktree(&grove, &["x"]);
        assert_eq!((answer["removed"].as_bool(), answer["branch_kept"].as_bool()), (Some(true), Some(false)));
        assert!(answer["undo_until"].as_str().unwrap() > made["created_at"].as_str().unwrap());
        assert!(!dir.exists() && !mirror.exists());
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "");
        assert_eq!(status_of(&grove, &made["id"]), "destroyed");
        assert_eq!(grove.grove(["worktree", "list", "--json"]).assert_success().json(), serde_json::json!([]));
        let trash = grove.grove(["worktree", "trash", "list", "--json"]).assert_success().json();
        assert_eq!((trash[0]["branch"].as_str(), trash[0]["id"].clone()), (Some("x"), made["id"].clone()));

        let back = undo_removal(&grove, "x");
        assert_eq!((back["id"].clone(), back["status"].as_str(), back["state"].as_str()), (made["id"].clone(), Some("active"), Some("fresh")));
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
        assert_eq!(grove.repo.list_branches(), branches, "no pin is left");
        assert!(mirror.exists());
        assert_eq!(grove.grove(["worktree", "trash", "list", "--json"]).assert_success().json(), serde_json::json!([]));
    }

    fn commits_that_are_nowhere_else_keep_the_branch_and_the_answer_says_so(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = create_worktree(&grove, &["x"]);
        grove.repo.git_in(&worktree_path(&made), &["commit", "-q", "--allow-empty", "-m", "own"]);
        let tip = grove.repo.resolve_sha("x");
        let answer = grove.grove(["worktree", "remove", "x"]).assert_success();
        assert!(answer.stdout.contains("The branch `x` stays: it has a commit that is nowhere else."), "{}", answer.stdout);
        assert!(!worktree_path(&made).exists());
        assert_eq!(grove.repo.resolve_sha("x"), tip);
        // Pins of the trash do not count as somewhere else.
        undo_removal(&grove, "x");
        assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], true);
        undo_removal(&grove, "x");
        assert_eq!(grove.repo.git_in(&worktree_path(&made), &["rev-parse", "HEAD"]), tip);
        // Nor while the older removal is still in the trash.
        assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], true);
        create_worktree(&grove, &["x"]);
        assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], true);
        undo_removal(&grove, "x");
        // On another branch too: then it goes.
        grove.repo.git(&["branch", "other", "x"]);
        assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], false);
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "");
    }

    fn a_removed_work_gets_a_new_environment_and_the_old_one_stays_in_the_trash(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let args = ["--kind", "issue", "--id", "42"];
        let first = create_worktree(&grove, &args);
        fs::write(worktree_path(&first).join("notes"), "mine").unwrap();
        remove_worktree(&grove, &["issue-42", "--force"]);
        let second = create_worktree(&grove, &args);
        assert_ne!(first["id"], second["id"]);
        assert_eq!(second["untracked"], 0);
        // The successor has the work.
        let (code, text) = grove.grove(["worktree", "undo", "issue-42", "--json"]).assert_exit_code(1).json_error();
        assert!(code == "path_taken" || code == "successor", "{code}: {text}");
        assert_eq!(status_of(&grove, &first["id"]), "destroyed");
        remove_worktree(&grove, &["issue-42"]);
        // The last one removed is the one that is meant; the older by its id.
        let id = first["id"].as_str().unwrap();
        undo_removal(&grove, id);
        assert_eq!(fs::read_to_string(worktree_path(&first).join("notes")).unwrap(), "mine");
    }

    fn a_gone_directory_ends_the_record_and_an_unmounted_one_does_not(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = create_worktree(&grove, &["x"]);
        fs::remove_dir_all(worktree_path(&made)).unwrap();
        let answer = remove_worktree(&grove, &["x"]);
        assert_eq!((answer["removed"].as_bool(), answer["undo_until"].is_null()), (Some(true), true));
        assert_eq!(status_of(&grove, &made["id"]), "destroyed");
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 1);
        let made = create_worktree(&grove, &["y"]);
        let parent = worktree_path(&made).parent().unwrap().to_owned();
        let away = parent.with_file_name("away");
        fs::rename(&parent, &away).unwrap();
        for args in [&["y"][..], &["y", "--force"]] {
            let ran = grove.grove(["worktree", "remove", "--json"].iter().chain(args)).assert_exit_code(1);
            assert_eq!(ran.json_error().0, "not_mounted");
        }
        assert_eq!(status_of(&grove, &made["id"]), "active");
        fs::rename(&away, &parent).unwrap();
        remove_worktree(&grove, &["y"]);
    }

    fn an_adopted_one_is_released(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let theirs = grove.repo.temp_dir().join("theirs");
        grove.repo.git(&["worktree", "add", "-q", "-b", "theirs", theirs.to_str().unwrap()]);
        fs::write(theirs.join("dirty"), "x").unwrap();
        let made = grove.grove(["worktree", "adopt", theirs.to_str().unwrap(), "--json"]).assert_success().json();
        let before = DirectorySnapshot::from_directory(&theirs);
        let answer = remove_worktree(&grove, &["theirs"]);
        assert_eq!((answer["released"].as_bool(), answer["branch_kept"].as_bool()), (Some(true), Some(true)));
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&theirs)), Vec::<String>::new());
        assert_eq!(status_of(&grove, &made["id"]), "destroyed");
        assert!(grove.repo.git(&["worktree", "list"]).contains("theirs"));
    }
}

/// Each kind of thing that speaks against a removal, the code that says so, and how to make it.
type RemovalObstacle = (&'static str, fn(&Sandbox, &Path));

const REMOVAL_OBSTACLES: [RemovalObstacle; 17] = [
    ("uncommitted_changes", |_, dir| fs::write(dir.join("README.md"), "changed\n").unwrap()),
    ("uncommitted_changes", |grove, dir| {
        fs::write(dir.join("staged"), "x").unwrap();
        grove.repo.git_in(dir, &["add", "staged"]);
    }),
    ("uncommitted_changes", |_, dir| fs::remove_file(dir.join("README.md")).unwrap()),
    ("untracked_files", |_, dir| fs::write(dir.join("new"), "x").unwrap()),
    ("untracked_files", |grove, dir| {
        grove.repo.git(&["config", "status.showUntrackedFiles", "no"]);
        fs::create_dir(dir.join("folder")).unwrap();
        fs::write(dir.join("folder/new"), "x").unwrap();
    }),
    ("hidden_changes", |grove, dir| {
        grove.repo.git_in(dir, &["update-index", "--skip-worktree", "README.md"]);
        fs::write(dir.join("README.md"), "hidden\n").unwrap();
    }),
    ("hidden_changes", |grove, dir| {
        grove.repo.git_in(dir, &["update-index", "--assume-unchanged", "README.md"]);
        fs::remove_file(dir.join("README.md")).unwrap();
    }),
    ("detached_commits", |grove, dir| {
        grove.repo.git_in(dir, &["switch", "-q", "--detach"]);
        grove.repo.git_in(dir, &["commit", "-q", "--allow-empty", "-m", "lost"]);
    }),
    ("operation_in_progress", |grove, dir| {
        grove.repo.git_in(dir, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let rebase = grove.repo.git_command(dir, &["rebase", "-q", "--exec", "false", "HEAD~1"]).output().unwrap();
        assert!(!rebase.status.success());
    }),
    ("operation_in_progress", |grove, dir| drop(grove.repo.git_in(dir, &["bisect", "start"]))),
    ("operation_in_progress", |grove, dir| {
        grove.repo.git_in(dir, &["merge", "-q", "--no-commit", "--no-ff", "side"]);
    }),
    ("locked", |grove, dir| drop(grove.repo.git_in(dir, &["worktree", "lock", "."]))),
    ("nested_worktree", |grove, dir| {
        fs::create_dir(dir.join("cache")).unwrap();
        grove.repo.git_in(dir, &["worktree", "add", "-q", "-b", "nested", "cache/nested"]);
        fs::write(dir.join("cache/nested/dirty"), "x").unwrap();
    }),
    ("nested_repository", |grove, dir| {
        fs::create_dir(dir.join("cache")).unwrap();
        grove.repo.git_in(dir, &["init", "-q", "cache/own"]);
        grove.repo.git_in(&dir.join("cache/own"), &["commit", "-q", "--allow-empty", "-m", "own"]);
    }),
    ("nested_repository", |grove, dir| {
        let from = grove.repo.path().to_str().unwrap().to_owned();
        grove.repo.git_in(dir, &["clone", "-q", &from, "cache/clone"]);
        fs::write(dir.join("cache/clone/new"), "x").unwrap();
    }),
    ("changed_submodules", |_, dir| fs::write(dir.join("sub/lib.c"), "changed\n").unwrap()),
    ("nested_repository", |grove, dir| {
        // Committed in the submodule and in the worktree, pushed nowhere.
        grove.repo.git_in(&dir.join("sub"), &["commit", "-q", "--allow-empty", "-m", "own"]);
        grove.repo.git_in(dir, &["commit", "-q", "-a", "-m", "the submodule's own"]);
    }),
];

/// A repository with a submodule, an ignored folder and a branch to merge.
pub(crate) fn with_everything() -> Sandbox {
    let repo = TestRepo::new();
    repo.add_submodule();
    repo.write_file(".gitignore", "cache/\ntarget/\n");
    repo.commit_all("ground");
    repo.git(&["switch", "-q", "-c", "side"]);
    repo.write_file("side", "x");
    repo.commit_all("side");
    repo.git(&["switch", "-q", "main"]);
    new_sandbox(repo)
}

/// The parts are tests of their own, so that they run at once.
const OBSTACLE_PARTS: usize = 3;

#[test]
fn each_kind_of_unsaved_work_is_a_reason_with_its_code_1() {
    expect_each_obstacle_of_part(0);
}

#[test]
fn each_kind_of_unsaved_work_is_a_reason_with_its_code_2() {
    expect_each_obstacle_of_part(1);
}

#[test]
fn each_kind_of_unsaved_work_is_a_reason_with_its_code_3() {
    expect_each_obstacle_of_part(2);
}

fn expect_each_obstacle_of_part(part: usize) {
    let grove = with_everything();
    for (n, (code, make)) in REMOVAL_OBSTACLES.into_iter().enumerate().skip(part).step_by(OBSTACLE_PARTS) {
        let name = format!("x{n}");
        let dir = worktree_path(&create_worktree(&grove, &[&name]));
        make(&grove, &dir);
        let before = DirectorySnapshot::from_directory(&dir);
        let codes = expect_removal_refused(&grove, &name);
        assert!(codes.iter().any(|found| found == code), "{n}: {code} among {codes:?}");
        assert_eq!(
            before.describe_differences(&DirectorySnapshot::from_directory(&dir)),
            Vec::<String>::new(),
            "{code}"
        );
        let plan = grove.grove(["worktree", "remove", &name, "--dry-run", "--json"]).assert_success().json();
        assert_eq!(plan["would_remove"], false);
        let check = plan["checks"].as_array().unwrap().iter().find(|check| check["code"] == code).unwrap().clone();
        assert_eq!(check["answer"], "yes", "{check}");
        // Forced: all but a nested worktree, which would break, goes and comes back.
        let forced = grove.grove(["worktree", "remove", &name, "--force", "--json"]);
        if code == "nested_worktree" {
            forced.assert_exit_code(1);
        } else {
            assert_eq!(forced.assert_success().json()["removed"], true);
            assert!(!dir.exists());
            undo_removal(&grove, &name);
        }
        assert_eq!(
            before.describe_differences(&DirectorySnapshot::from_directory(&dir)),
            Vec::<String>::new(),
            "{code}"
        );
        grove.repo.git(&["config", "status.showUntrackedFiles", "normal"]);
    }
}

#[test]
fn all_reasons_are_told_at_once_in_words() {
    let grove = with_everything();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("README.md"), "changed\n").unwrap();
    fs::write(dir.join("new"), "x").unwrap();
    grove.repo.git_in(&dir, &["bisect", "start"]);
    grove.repo.git_in(&dir, &["worktree", "lock", "--reason", "on a stick", "."]);
    assert_eq!(
        expect_removal_refused(&grove, "x"),
        ["uncommitted_changes", "untracked_files", "operation_in_progress", "locked"]
    );
    let said = grove.grove(["worktree", "remove", "x"]).assert_exit_code(1).stderr;
    for words in [
        "Cannot remove worktree - you have uncommitted changes.",
        "1 unstaged change",
        "1 untracked file",
        "A bisect is in progress",
        "on a stick",
        "kept for 30 days",
        "grove worktree undo x",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn nothing_that_git_can_give_back_is_a_reason() {
    let grove = with_everything();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    // Ignored files, an empty folder, a clone with nothing of its own, a file hidden but unchanged.
    fs::create_dir_all(dir.join("cache/empty")).unwrap();
    fs::write(dir.join("cache/file"), "ignored").unwrap();
    let from = grove.repo.path().to_str().unwrap().to_owned();
    grove.repo.git_in(&dir, &["clone", "-q", &from, "cache/clone"]);
    grove.repo.git_in(&dir, &["update-index", "--skip-worktree", "README.md"]);
    let before = DirectorySnapshot::from_directory(&dir);
    assert_eq!(remove_worktree(&grove, &["x"])["branch_kept"], false);
    undo_removal(&grove, "x");
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
}

#[test]
fn not_to_know_is_a_reason_and_siblings_work() {
    let grove = new_sandbox(TestRepo::new());
    let sibling = worktree_path(&create_worktree(&grove, &["sibling"]));
    type WorktreeDamage = (&'static str, fn(&Path, &Path));
    let spoil: [WorktreeDamage; 5] = [
        ("index", |_, entry| fs::write(entry.join("index"), "garbage").unwrap()),
        ("no .git", |dir, _| fs::remove_file(dir.join(".git")).unwrap()),
        ("rewritten .git", |dir, _| fs::write(dir.join(".git"), "gitdir: /somewhere/else\n").unwrap()),
        ("commondir", |_, entry| fs::write(entry.join("commondir"), "").unwrap()),
        ("head", |_, entry| fs::write(entry.join("HEAD"), "nonsense\n").unwrap()),
    ];
    for (n, (what, spoil)) in spoil.into_iter().enumerate() {
        let name = format!("x{n}");
        let made = create_worktree(&grove, &[&name]);
        let dir = worktree_path(&made);
        let entry = grove.repo.path().join(".git/worktrees").join(&name);
        spoil(&dir, &entry);
        let before = DirectorySnapshot::from_directory(&dir);
        let ran = grove.grove(["worktree", "remove", &name, "--json"]).assert_exit_code(1);
        ran.json_error();
        assert_eq!(
            before.describe_differences(&DirectorySnapshot::from_directory(&dir)),
            Vec::<String>::new(),
            "{what}"
        );
        assert_eq!(status_of(&grove, &made["id"]), "active", "{what}");
        grove.repo.git_in(&sibling, &["status"]);
        grove.repo.git_in(&sibling, &["commit", "-q", "--allow-empty", "-m", what]);
        let forced = grove.grove(["worktree", "remove", &name, "--force", "--json"]);
        match what {
            // Nothing stands there but its own files: that can be moved and brought back.
            "no .git" => {
                forced.assert_success();
                undone_files(&grove, &name);
            }
            _ => drop(forced.assert_exit_code(1)),
        }
        assert_eq!(
            before.describe_differences(&DirectorySnapshot::from_directory(&dir)),
            Vec::<String>::new(),
            "{what}, forced"
        );
    }
}

/// Brings back what git cannot look at.
fn undone_files(grove: &Sandbox, name: &str) {
    grove.grove(["worktree", "undo", name, "--json"]).assert_success();
}

#[test]
fn another_repository_at_the_path_is_never_touched() {
    let grove = new_sandbox(TestRepo::new());
    let made = create_worktree(&grove, &["x"]);
    let dir = worktree_path(&made);
    for what in ["clone", "foreign worktree"] {
        fs::remove_dir_all(&dir).unwrap();
        let from = grove.repo.path().to_str().unwrap();
        if what == "clone" {
            grove.repo.git(&["clone", "-q", from, dir.to_str().unwrap()]);
        } else {
            let other = grove.repo.temp_dir().join("other");
            grove.repo.git(&["clone", "-q", from, other.to_str().unwrap()]);
            grove.repo.git_in(&other, &["worktree", "add", "-q", "-b", "y", dir.to_str().unwrap()]);
        }
        let before = DirectorySnapshot::from_directory(&dir);
        for args in [&["x"][..], &["x", "--force"]] {
            let ran = grove.grove(["worktree", "remove", "--json"].iter().chain(args)).assert_exit_code(1);
            assert_eq!(ran.json_error().0, "foreign_repository");
        }
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
        assert_eq!(status_of(&grove, &made["id"]), "active");
    }
}

#[test]
fn a_branch_that_is_needed_elsewhere_stays() {
    let grove = new_sandbox(TestRepo::with_origin());
    // Checked out twice.
    let dir = worktree_path(&create_worktree(&grove, &["twice"]));
    let second = grove.repo.temp_dir().join("second");
    grove.repo.git(&["worktree", "add", "-q", "--force", second.to_str().unwrap(), "twice"]);
    assert_eq!(remove_worktree(&grove, &["twice"])["branch_kept"], true);
    assert!(!dir.exists());
    grove.repo.git_in(&second, &["status"]);
    // The head of the pull request is on the remote: the local branch and its upstream go, and return.
    let head = grove.repo.push_commit("refs/heads/feature", "origin/main", "feature");
    let made = run_create(&grove, &["feature", "--kind", "pr", "--id", "7"]).assert_success().json();
    assert_eq!(made["head_sha"].as_str(), Some(head.as_str()));
    let upstream =
        || grove.repo.git_command(grove.repo.path(), &["config", "branch.feature.merge"]).output().unwrap().stdout;
    assert_eq!(upstream(), b"refs/heads/feature\n");
    let answer = grove.grove(["worktree", "remove", "pr-7", "--json"]).assert_success().json();
    assert_eq!(answer["branch_kept"], false);
    assert_eq!(upstream(), b"");
    grove.grove(["worktree", "undo", "pr-7"]).assert_success();
    assert_eq!(upstream(), b"refs/heads/feature\n");
    assert_eq!(grove.repo.git_in(&worktree_path(&made), &["rev-parse", "--abbrev-ref", "@{u}"]), "origin/feature");
}

#[test]
fn the_default_branch_of_a_bare_repository_stays() {
    let repo = TestRepo::with_origin();
    let grove = new_sandbox(repo);
    let run = |args: &[&str]| {
        let mut command = grove.grove_command(args);
        command.current_dir(grove.repo.origin_path());
        grove_testkit::ProgramOutput::from(&mut command)
    };
    let made = run(&["worktree", "create", "main", "--json"]).assert_success().json();
    run(&["worktree", "remove", "main", "--json"]).assert_success();
    assert!(!worktree_path(&made).exists());
    assert_ne!(grove.repo.git_in(&grove.repo.origin_path(), &["rev-parse", "--verify", "main"]), "");
}

#[test]
fn an_undo_overwrites_nothing() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    grove.repo.git_in(&dir, &["commit", "-q", "--allow-empty", "-m", "own"]);
    let before = DirectorySnapshot::from_directory(&dir);
    remove_worktree(&grove, &["x"]);
    let refuses = |wanted: &str| {
        let (code, text) = grove.grove(["worktree", "undo", "x", "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, wanted, "{text}");
        assert_eq!(
            grove.grove(["worktree", "trash", "list", "--json"]).assert_success().json().as_array().unwrap().len(),
            1
        );
    };
    fs::create_dir(&dir).unwrap();
    refuses("path_taken");
    fs::remove_dir(&dir).unwrap();
    let tip = grove.repo.resolve_sha("x");
    grove.repo.git(&["branch", "-f", "x", "main"]);
    refuses("branch_moved");
    assert_eq!(grove.repo.resolve_sha("x"), grove.repo.resolve_sha("main"));
    grove.repo.git(&["branch", "-f", "x", &tip]);
    let other = grove.repo.temp_dir().join("other");
    grove.repo.git(&["worktree", "add", "-q", other.to_str().unwrap(), "x"]);
    refuses("branch_held");
    grove.repo.git(&["worktree", "remove", other.to_str().unwrap()]);
    // A person deleted the branch that had stayed: its commit is pinned.
    grove.repo.git(&["branch", "-q", "-D", "x"]);
    grove.repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    grove.repo.git(&["gc", "--quiet", "--prune=now"]);
    undo_removal(&grove, "x");
    assert_eq!(grove.repo.resolve_sha("x"), tip);
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
    assert_eq!(grove.grove(["worktree", "undo", "--json"]).assert_exit_code(1).json_error().0, "not_found");
    assert_eq!(grove.grove(["worktree", "undo", "never", "--json"]).assert_exit_code(1).json_error().0, "not_found");
}

#[test]
fn an_entry_whose_name_was_taken_gets_another() {
    let grove = with_everything();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    remove_worktree(&grove, &["x"]);
    let other = grove.repo.temp_dir().join("elsewhere/x");
    grove.repo.git(&["worktree", "add", "-q", "-b", "other", other.to_str().unwrap()]);
    undo_removal(&grove, "x");
    for place in [&dir, &other, &dir.join("sub")] {
        assert_eq!(grove.repo.git_in(place, &["status", "--porcelain"]), "", "{}", place.display());
    }
    assert_eq!(grove.repo.git_in(&dir, &["symbolic-ref", "--short", "HEAD"]), "x");
    grove.repo.git_in(&dir.join("sub"), &["commit", "-q", "--allow-empty", "-m", "works"]);
}

#[test]
fn a_running_command_is_a_reason_and_force_ends_it() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let started = dir.join("started");
    let script =
        "trap '' TERM; (setsid sh -c 'echo $$ > started.new; mv started.new started; sleep 600' &) ; sleep 600";
    let mut child =
        grove.grove_command(["worktree", "exec", "x", "--", "sh", "-c", script]).stdout(Stdio::null()).spawn().unwrap();
    wait_for(|| started.exists());
    let grandchild = fs::read_to_string(&started).unwrap();
    assert!(expect_removal_refused(&grove, "x").contains(&"live_run".to_owned()));
    assert!(grove_testkit::is_alive(&grandchild));
    remove_worktree(&grove, &["x", "--force"]);
    assert!(!grove_testkit::is_alive(&grandchild), "also what began a session of its own");
    child.wait().unwrap();
    undo_removal(&grove, "x");
    assert_eq!(fs::read_to_string(&started).unwrap(), grandchild);
}

#[test]
fn a_worktree_that_is_a_mount_of_its_own_is_refused() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let mount = |args: &[&str]| std::process::Command::new("mount").args(args).stderr(Stdio::null()).status();
    let at = dir.to_str().unwrap();
    if !mount(&["--bind", at, at]).is_ok_and(|status| status.success()) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let ran = grove.grove(["worktree", "remove", "x", "--force", "--json"]);
    assert!(std::process::Command::new("umount").arg(at).status().unwrap().success());
    assert_eq!(ran.assert_exit_code(1).json_error().0, "other_file_system");
    assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
    assert_eq!(grove.repo.git(&["for-each-ref", "refs/grove"]), "");
    remove_worktree(&grove, &["x"]);
}

#[test]
fn what_is_dropped_is_gone_for_good() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::create_dir(dir.join("locked-up")).unwrap();
    fs::write(dir.join("locked-up/file"), "x").unwrap();
    fs::set_permissions(dir.join("locked-up"), fs::Permissions::from_mode(0o555)).unwrap();
    let outside = grove.repo.temp_dir().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("link")).unwrap();
    remove_worktree(&grove, &["x", "--force"]);
    let dropped = grove.grove(["worktree", "trash", "drop", "x", "--json"]).assert_success().json();
    assert_eq!(dropped["branch"], "x");
    assert!(outside.join("precious").exists());
    assert_eq!(grove.repo.git(&["for-each-ref", "refs/grove"]), "");
    assert!(!grove.repo.path().join(".git/grove/trash").exists());
    assert!(!dir.parent().unwrap().join(".grove-trash").exists());
    assert_eq!(grove.grove(["worktree", "undo", "x", "--json"]).assert_exit_code(1).json_error().0, "not_found");
    assert_eq!(
        grove.grove(["worktree", "trash", "drop", "x", "--json"]).assert_exit_code(1).json_error().0,
        "not_found"
    );
}

#[test]
fn words_for_people() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["x"]);
    let said = grove.grove(["worktree", "remove", "x", "--dry-run"]).assert_success().stdout;
    assert!(said.contains("would be removed") && said.contains("The branch `x` would go too"), "{said}");
    let said = grove.grove(["worktree", "remove", "x"]).assert_success().stdout;
    assert!(said.contains("Removed the worktree `x`.") && said.contains("undo x"), "{said}");
    let said = grove.grove(["worktree", "trash", "list"]).assert_success().stdout;
    assert!(said.contains("BRANCH") && said.contains("task x"), "{said}");
    let said = grove.grove(["worktree", "undo"]).assert_success().stdout;
    assert!(said.contains("Brought back `x`."), "{said}");
    assert_eq!(grove.grove(["worktree", "trash", "list"]).assert_success().stdout, "The trash is empty.\n");
    assert_eq!(
        grove.grove(["worktree", "remove", "nothing", "--json"]).assert_exit_code(1).json_error().0,
        "not_found"
    );
}

on_sqlite! {
    fn a_branch_that_is_merged_by_squash_goes_and_comes_back(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["x"]));
        for name in ["one", "two"] {
            fs::write(dir.join(name), name).unwrap();
            grove.repo.git_in(&dir, &["add", name]);
            grove.repo.git_in(&dir, &["commit", "-q", "-m", name]);
        }
        let tip = grove.repo.resolve_sha("x");
        grove.repo.git(&["merge", "-q", "--squash", "x"]);
        grove.repo.commit_all("squashed");
        let plan = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
        assert_eq!(plan["branch_kept"], false, "{plan}");
        let answer = grove.grove(["worktree", "remove", "x", "--json"]).assert_success().json();
        assert_eq!((answer["removed"].as_bool(), answer["branch_kept"].as_bool()), (Some(true), Some(false)));
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "");
        grove.repo.git(&["reflog", "expire", "--expire=now", "--all"]);
        grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        grove.grove(["worktree", "undo", "x"]).assert_success();
        assert_eq!(grove.repo.resolve_sha("x"), tip);
        assert_eq!(fs::read_to_string(dir.join("two")).unwrap(), "two");
        assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
        // Work that came after the merge keeps the branch.
        fs::write(dir.join("three"), "three").unwrap();
        grove.repo.git_in(&dir, &["add", "three"]);
        grove.repo.git_in(&dir, &["commit", "-q", "-m", "three"]);
        assert_eq!(grove.grove(["worktree", "remove", "x", "--json"]).assert_success().json()["branch_kept"], true);
    }
}
