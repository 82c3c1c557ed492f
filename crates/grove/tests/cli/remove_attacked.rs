//! Removal against those who plant things, work beside it, or take the disk away.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use grove_testkit::{DirectorySnapshot, Sandbox, TestRepo};
use serde_json::Value;

use crate::regenerable::{CACHE_TAG_CONTENT, folders_of};
use crate::remove::{expect_removal_refused, remove_worktree, undo_removal, with_everything};
use crate::{create_worktree, new_sandbox, worktree_path};

/// Sweeps as if so many days had passed since the removal.
pub(crate) fn swept_after(grove: &Sandbox, days: i64) -> Value {
    let database = grove.grove_home().join("grove.db");
    let then = format!("strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', '-{days} days')");
    let statement = format!("UPDATE grove_trash SET removed_at = {then}");
    let script = format!("import sqlite3; c = sqlite3.connect({database:?}); c.execute({statement:?}); c.commit()");
    assert!(std::process::Command::new("python3").args(["-c", &script]).status().unwrap().success());
    grove.grove(["worktree", "trash", "sweep", "--json"]).assert_success().json()
}

#[test]
fn the_trash_never_reaches_outside_through_a_link() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.write_file("d/file", "same\n");
    grove.repo.commit_all("d");
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let precious = grove.repo.temp_dir().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::copy(dir.join("d/file"), precious.join("file")).unwrap();
    fs::remove_dir_all(dir.join("d")).unwrap();
    std::os::unix::fs::symlink(&precious, dir.join("d")).unwrap();
    let before = DirectorySnapshot::from_directory(&dir);
    remove_worktree(&grove, &["x", "--force"]);
    assert_eq!(swept_after(&grove, 2)["compacted"], 1);
    assert!(precious.join("file").exists());
    undo_removal(&grove, "x");
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
    // Nor when the worktree itself was moved and a link stands in its place.
    let moved = grove.repo.temp_dir().join("moved");
    fs::rename(&dir, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &dir).unwrap();
    let ran = grove.grove(["worktree", "remove", "x", "--force", "--json"]).assert_exit_code(1);
    assert_eq!(ran.json_error().0, "foreign_repository");
}

#[test]
fn folders_of_nested_repositories_are_not_to_be_made_again() {
    let grove = with_everything();
    let library = grove.repo.temp_dir().join("tracked-build");
    grove.repo.git(&["init", "-q", library.to_str().unwrap()]);
    fs::create_dir(library.join("target")).unwrap();
    fs::write(library.join("target/s"), "v1").unwrap();
    fs::write(library.join("target/CACHEDIR.TAG"), CACHE_TAG_CONTENT).unwrap();
    grove.repo.git_in(&library, &["add", "-f", "."]);
    grove.repo.git_in(&library, &["commit", "-q", "-m", "build"]);
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    grove.repo.git_in(&dir, &["clone", "-q", library.to_str().unwrap(), "cache/clone"]);
    fs::write(dir.join("cache/clone/target/s"), "precious").unwrap();
    for folder in ["sub/target", "target"] {
        fs::create_dir(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join("CACHEDIR.TAG"), CACHE_TAG_CONTENT).unwrap();
    }
    let answer = remove_worktree(&grove, &["x", "--force"]);
    assert_eq!(folders_of(&answer["regenerable"]), ["target"]);
    assert_eq!(swept_after(&grove, 2)["shed"], 1);
    undo_removal(&grove, "x");
    assert!(!dir.join("target").exists());
    assert_eq!(fs::read_to_string(dir.join("cache/clone/target/s")).unwrap(), "precious");
    assert!(dir.join("sub/target").exists());
}

#[test]
fn two_branches_with_one_commit_do_not_both_go() {
    let grove = new_sandbox(TestRepo::new());
    for round in 0..6 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let dir = worktree_path(&create_worktree(&grove, &[&a]));
        grove.repo.git_in(&dir, &["commit", "-q", "--allow-empty", "-m", &a]);
        let commit = grove.repo.resolve_sha(&a);
        grove.repo.git(&["branch", &b, &commit]);
        create_worktree(&grove, &[&b]);
        let children = [&a, &b].map(|name| {
            grove
                .grove_command(["worktree", "remove", name])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        });
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let left = grove.repo.git(&["for-each-ref", "--contains", &commit, "refs/heads"]);
        assert_eq!(left.lines().count(), 1, "round {round}: {left}");
    }
}

#[test]
fn a_detached_checkout_or_a_stash_does_not_hold_a_branchs_commits() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    grove.repo.git_in(&dir, &["commit", "-q", "--allow-empty", "-m", "own"]);
    fs::write(dir.join("README.md"), "stashed\n").unwrap();
    grove.repo.git_in(&dir, &["stash", "-q"]);
    grove.repo.git(&["checkout", "-q", "--detach", "x"]);
    assert_eq!(grove.grove(["worktree", "remove", "x", "--json"]).assert_success().json()["branch_kept"], true);
}

#[test]
fn a_branch_that_others_come_back_to_stays() {
    type BranchUse = fn(&Sandbox);
    let uses: [(&str, BranchUse); 3] = [
        ("bisect", |grove| {
            grove.repo.git(&["switch", "-q", "x"]);
            grove.repo.git(&["bisect", "start"]);
            grove.repo.git(&["bisect", "bad"]);
            grove.repo.git(&["bisect", "good", "HEAD~2"]);
        }),
        ("update-refs", |grove| {
            grove.repo.git(&["switch", "-q", "tip"]);
            let mut rebase =
                grove.repo.git_command(grove.repo.path(), &["rebase", "-q", "-i", "--update-refs", "other"]);
            assert!(rebase.env("GIT_SEQUENCE_EDITOR", "sed -i 1ibreak").status().unwrap().success());
        }),
        ("alias", |grove| {
            grove.repo.git(&["symbolic-ref", "refs/heads/x", "refs/heads/tip"]);
        }),
    ];
    for (what, make) in uses {
        let grove = new_sandbox(TestRepo::new());
        for n in 0..3 {
            grove.repo.commit_all(&format!("commit {n}"));
        }
        let dir = worktree_path(&create_worktree(&grove, &["x"]));
        grove.repo.git_in(&dir, &["switch", "-q", "-c", "elsewhere"]);
        grove.repo.git(&["branch", "other", "HEAD~3"]);
        grove.repo.git(&["branch", "tip"]);
        make(&grove);
        let before = grove.repo.git(&["for-each-ref", "refs/heads"]);
        let answer = grove.grove(["worktree", "remove", "x", "--json"]).assert_success().json();
        assert_eq!(answer["branch_kept"], true, "{what}");
        assert_eq!(grove.repo.git(&["for-each-ref", "refs/heads"]), before, "{what}");
    }
}

#[test]
fn a_nested_repository_cannot_make_us_run_or_wait_for_anything() {
    let grove = with_everything();
    let proof = grove.repo.temp_dir().join("ran");
    let evil = format!("sh -c 'touch {}; cat'", proof.display());
    let nest = |dir: &Path, name: &str| {
        let nested = dir.join(name);
        grove.repo.git_in(dir, &["init", "-q", name]);
        fs::write(nested.join(".gitattributes"), "* filter=x\n").unwrap();
        fs::write(nested.join("a"), "a").unwrap();
        grove.repo.git_in(&nested, &["add", "."]);
        grove.repo.git_in(&nested, &["commit", "-q", "-m", "a"]);
        nested
    };
    // A filter in the config for worktrees.
    let dir = worktree_path(&create_worktree(&grove, &["w"]));
    let nested = nest(&dir, "cache-w");
    grove.repo.git_in(&nested, &["config", "extensions.worktreeConfig", "true"]);
    grove.repo.git_in(&nested, &["config", "--worktree", "filter.x.clean", &evil]);
    fs::write(nested.join("a"), "b").unwrap();
    // A filter in a repository that the outer one has as a link.
    let dir = worktree_path(&create_worktree(&grove, &["l"]));
    let nested = nest(&dir, "link");
    grove.repo.git_in(&dir, &["add", "link"]);
    grove.repo.git_in(&dir, &["commit", "-q", "-m", "link"]);
    grove.repo.git_in(&nested, &["config", "filter.x.clean", &evil]);
    fs::write(nested.join("a"), "b").unwrap();
    // A config that never ends.
    let dir = worktree_path(&create_worktree(&grove, &["p"]));
    fs::create_dir_all(dir.join("cache/n/.git")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("cache/n/.git/config")).status().unwrap().success());
    let _ = fs::remove_file(&proof);
    for name in ["w", "l", "p"] {
        let plan = grove.grove(["worktree", "remove", name, "--dry-run", "--json"]).assert_success().json();
        let unknown =
            plan["checks"].as_array().unwrap().iter().find(|check| check["code"] == "nested_repository").unwrap();
        assert_eq!(unknown["answer"], "unknown", "{name}");
        assert_eq!(plan["would_remove"], false, "{name}");
        assert!(!proof.exists(), "{name}: a program was run");
    }
    grove.grove(["worktree", "list"]).assert_success();
    assert!(!proof.exists(), "by the list");
    for name in ["w", "l", "p"] {
        remove_worktree(&grove, &[name, "--force"]);
        assert!(!proof.exists(), "{name}: a program was run");
    }
}

#[test]
fn an_entry_that_names_another_place_is_unknown_and_comes_back_by_force() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(grove.repo.path().join(".git/worktrees/x/gitdir"), "/workspace/x/.git\n").unwrap();
    assert_eq!(expect_removal_refused(&grove, "x"), ["uncommitted_changes"]);
    let before = DirectorySnapshot::from_directory(&dir);
    remove_worktree(&grove, &["x", "--force"]);
    undo_removal(&grove, "x");
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
}

#[test]
fn a_disk_that_is_away_takes_nothing_with_it() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("new"), "mine").unwrap();
    remove_worktree(&grove, &["x", "--force"]);
    let trash = dir.parent().unwrap().join(".grove-trash");
    let away = grove.repo.temp_dir().join("away");
    fs::rename(&trash, &away).unwrap();
    for days in [2, 400] {
        assert_eq!(swept_after(&grove, days)["expired"], serde_json::json!([]));
    }
    fs::rename(&away, &trash).unwrap();
    undo_removal(&grove, "x");
    assert_eq!(fs::read_to_string(dir.join("new")).unwrap(), "mine");
}

#[test]
fn a_commit_made_in_the_trash_does_not_reach_the_successor() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("new"), "mine").unwrap();
    remove_worktree(&grove, &["x", "--force"]);
    let trash = grove.grove(["worktree", "trash", "show", "x", "--json"]).assert_success().json();
    create_worktree(&grove, &["x"]);
    let old = Path::new(trash["files"].as_str().unwrap());
    let commit = grove.repo.git_command(old, &["add", "new"]).output().unwrap();
    assert!(!commit.status.success());
    assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
}

#[test]
fn a_lock_that_was_set_meanwhile_stays() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let mut killed = grove.grove_command(["worktree", "remove", "x"]);
    killed.env("GROVE_FAULT_AT", "removing").stderr(Stdio::null()).status().unwrap();
    grove.repo.git_in(&dir, &["worktree", "lock", "--reason", "mine", "."]);
    grove.grove(["doctor"]);
    assert!(grove.repo.git(&["worktree", "list", "--porcelain"]).contains("locked mine"));
    assert_eq!(grove.grove(["worktree", "list", "--json"]).assert_success().json()[0]["status"], "active");
}

#[test]
fn a_very_deep_folder_can_be_dropped() {
    let grove = with_everything();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let script = "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(1500):\n  os.mkdir('cache' if n == 0 else 'd'); os.chdir('cache' if n == 0 else 'd')\n";
    assert!(std::process::Command::new("python3").args(["-c", script]).arg(&dir).status().unwrap().success());
    remove_worktree(&grove, &["x"]);
    grove.grove(["worktree", "trash", "drop", "x"]).assert_success();
    assert!(!dir.parent().unwrap().join(".grove-trash").exists());
}
