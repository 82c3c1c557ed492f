//! Removal against those who plant things, work beside it, or take the disk away.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use grove_testkit::{Picture, Sandbox, TestRepo};
use serde_json::Value;

use crate::regenerable::{CACHE_TAG, folders_of};
use crate::remove::{refused, removed, undone, with_everything};
use crate::{created, path, sandbox};

/// Sweeps as if so many days had passed since the removal.
pub(crate) fn swept_after(grove: &Sandbox, days: i64) -> Value {
    let database = grove.grove_home().join("grove.db");
    let then = format!("strftime('%Y-%m-%dT%H:%M:%S.000000Z', 'now', '-{days} days')");
    let statement = format!("UPDATE grove_trash SET removed_at = {then}");
    let script = format!("import sqlite3; c = sqlite3.connect({database:?}); c.execute({statement:?}); c.commit()");
    assert!(std::process::Command::new("python3").args(["-c", &script]).status().unwrap().success());
    grove.grove(["worktree", "trash", "sweep", "--json"]).ok().json()
}

#[test]
fn the_trash_never_reaches_outside_through_a_link() {
    let grove = sandbox(TestRepo::new());
    grove.repo.write("d/file", "same\n");
    grove.repo.commit("d");
    let dir = path(&created(&grove, &["x"]));
    let precious = grove.repo.dir().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::copy(dir.join("d/file"), precious.join("file")).unwrap();
    fs::remove_dir_all(dir.join("d")).unwrap();
    std::os::unix::fs::symlink(&precious, dir.join("d")).unwrap();
    let before = Picture::of(&dir);
    removed(&grove, &["x", "--force"]);
    assert_eq!(swept_after(&grove, 2)["compacted"], 1);
    assert!(precious.join("file").exists());
    undone(&grove, "x");
    assert_eq!(before.differences(&Picture::of(&dir)), Vec::<String>::new());
    // Nor when the worktree itself was moved and a link stands in its place.
    let moved = grove.repo.dir().join("moved");
    fs::rename(&dir, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &dir).unwrap();
    let ran = grove.grove(["worktree", "remove", "x", "--force", "--json"]).fails(1);
    assert_eq!(ran.error().0, "foreign_repository");
}

#[test]
fn folders_of_nested_repositories_are_not_to_be_made_again() {
    let grove = with_everything();
    let library = grove.repo.dir().join("tracked-build");
    grove.repo.git(&["init", "-q", library.to_str().unwrap()]);
    fs::create_dir(library.join("target")).unwrap();
    fs::write(library.join("target/s"), "v1").unwrap();
    fs::write(library.join("target/CACHEDIR.TAG"), CACHE_TAG).unwrap();
    grove.repo.git_in(&library, &["add", "-f", "."]);
    grove.repo.git_in(&library, &["commit", "-q", "-m", "build"]);
    let dir = path(&created(&grove, &["x"]));
    grove.repo.git_in(&dir, &["clone", "-q", library.to_str().unwrap(), "cache/clone"]);
    fs::write(dir.join("cache/clone/target/s"), "precious").unwrap();
    for folder in ["sub/target", "target"] {
        fs::create_dir(dir.join(folder)).unwrap();
        fs::write(dir.join(folder).join("CACHEDIR.TAG"), CACHE_TAG).unwrap();
    }
    let answer = removed(&grove, &["x", "--force"]);
    assert_eq!(folders_of(&answer["regenerable"]), ["target"]);
    assert_eq!(swept_after(&grove, 2)["shed"], 1);
    undone(&grove, "x");
    assert!(!dir.join("target").exists());
    assert_eq!(fs::read_to_string(dir.join("cache/clone/target/s")).unwrap(), "precious");
    assert!(dir.join("sub/target").exists());
}

#[test]
fn two_branches_with_one_commit_do_not_both_go() {
    let grove = sandbox(TestRepo::new());
    for round in 0..6 {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let dir = path(&created(&grove, &[&a]));
        grove.repo.git_in(&dir, &["commit", "-q", "--allow-empty", "-m", &a]);
        let commit = grove.repo.sha(&a);
        grove.repo.git(&["branch", &b, &commit]);
        created(&grove, &[&b]);
        let children = [&a, &b].map(|name| {
            grove.command(["worktree", "remove", name]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        });
        for mut child in children {
            assert!(child.wait().unwrap().success());
        }
        let left = grove.repo.git(&["for-each-ref", "--contains", &commit, "refs/heads"]);
        assert_eq!(left.lines().count(), 1, "round {round}: {left}");
    }
}

#[test]
fn what_somebody_only_looks_at_or_stashed_does_not_hold_a_branchs_commits() {
    let grove = sandbox(TestRepo::new());
    let dir = path(&created(&grove, &["x"]));
    grove.repo.git_in(&dir, &["commit", "-q", "--allow-empty", "-m", "own"]);
    fs::write(dir.join("README.md"), "stashed\n").unwrap();
    grove.repo.git_in(&dir, &["stash", "-q"]);
    grove.repo.git(&["checkout", "-q", "--detach", "x"]);
    assert_eq!(grove.grove(["worktree", "remove", "x", "--json"]).ok().json()["branch_kept"], true);
}

#[test]
fn a_branch_that_others_come_back_to_stays() {
    type Uses = fn(&Sandbox);
    let uses: [(&str, Uses); 3] = [
        ("bisect", |grove| {
            grove.repo.git(&["switch", "-q", "x"]);
            grove.repo.git(&["bisect", "start"]);
            grove.repo.git(&["bisect", "bad"]);
            grove.repo.git(&["bisect", "good", "HEAD~2"]);
        }),
        ("update-refs", |grove| {
            grove.repo.git(&["switch", "-q", "tip"]);
            let mut rebase = grove.repo.command(grove.repo.path(), &["rebase", "-q", "-i", "--update-refs", "other"]);
            assert!(rebase.env("GIT_SEQUENCE_EDITOR", "sed -i 1ibreak").status().unwrap().success());
        }),
        ("alias", |grove| {
            grove.repo.git(&["symbolic-ref", "refs/heads/x", "refs/heads/tip"]);
        }),
    ];
    for (what, make) in uses {
        let grove = sandbox(TestRepo::new());
        for n in 0..3 {
            grove.repo.commit(&format!("commit {n}"));
        }
        let dir = path(&created(&grove, &["x"]));
        grove.repo.git_in(&dir, &["switch", "-q", "-c", "elsewhere"]);
        grove.repo.git(&["branch", "other", "HEAD~3"]);
        grove.repo.git(&["branch", "tip"]);
        make(&grove);
        let before = grove.repo.git(&["for-each-ref", "refs/heads"]);
        let answer = grove.grove(["worktree", "remove", "x", "--json"]).ok().json();
        assert_eq!(answer["branch_kept"], true, "{what}");
        assert_eq!(grove.repo.git(&["for-each-ref", "refs/heads"]), before, "{what}");
    }
}

#[test]
fn a_nested_repository_cannot_make_us_run_or_wait_for_anything() {
    let grove = with_everything();
    let proof = grove.repo.dir().join("ran");
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
    let dir = path(&created(&grove, &["w"]));
    let nested = nest(&dir, "cache-w");
    grove.repo.git_in(&nested, &["config", "extensions.worktreeConfig", "true"]);
    grove.repo.git_in(&nested, &["config", "--worktree", "filter.x.clean", &evil]);
    fs::write(nested.join("a"), "b").unwrap();
    // A filter in a repository that the outer one has as a link.
    let dir = path(&created(&grove, &["l"]));
    let nested = nest(&dir, "link");
    grove.repo.git_in(&dir, &["add", "link"]);
    grove.repo.git_in(&dir, &["commit", "-q", "-m", "link"]);
    grove.repo.git_in(&nested, &["config", "filter.x.clean", &evil]);
    fs::write(nested.join("a"), "b").unwrap();
    // A config that never ends.
    let dir = path(&created(&grove, &["p"]));
    fs::create_dir_all(dir.join("cache/n/.git")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(dir.join("cache/n/.git/config")).status().unwrap().success());
    let _ = fs::remove_file(&proof);
    for name in ["w", "l", "p"] {
        let plan = grove.grove(["worktree", "remove", name, "--dry-run", "--json"]).ok().json();
        let unknown =
            plan["checks"].as_array().unwrap().iter().find(|check| check["code"] == "nested_repository").unwrap();
        assert_eq!(unknown["answer"], "unknown", "{name}");
        assert_eq!(plan["would_remove"], false, "{name}");
        assert!(!proof.exists(), "{name}: a program was run");
    }
    grove.grove(["worktree", "list"]).ok();
    assert!(!proof.exists(), "by the list");
    for name in ["w", "l", "p"] {
        removed(&grove, &[name, "--force"]);
        assert!(!proof.exists(), "{name}: a program was run");
    }
}

#[test]
fn an_entry_that_names_another_place_is_unknown_and_comes_back_by_force() {
    let grove = sandbox(TestRepo::new());
    let dir = path(&created(&grove, &["x"]));
    fs::write(grove.repo.path().join(".git/worktrees/x/gitdir"), "/workspace/x/.git\n").unwrap();
    assert_eq!(refused(&grove, "x"), ["uncommitted_changes"]);
    let before = Picture::of(&dir);
    removed(&grove, &["x", "--force"]);
    undone(&grove, "x");
    assert_eq!(before.differences(&Picture::of(&dir)), Vec::<String>::new());
}

#[test]
fn a_disk_that_is_away_takes_nothing_with_it() {
    let grove = sandbox(TestRepo::new());
    let dir = path(&created(&grove, &["x"]));
    fs::write(dir.join("new"), "mine").unwrap();
    removed(&grove, &["x", "--force"]);
    let trash = dir.parent().unwrap().join(".grove-trash");
    let away = grove.repo.dir().join("away");
    fs::rename(&trash, &away).unwrap();
    for days in [2, 400] {
        assert_eq!(swept_after(&grove, days)["expired"], serde_json::json!([]));
    }
    fs::rename(&away, &trash).unwrap();
    undone(&grove, "x");
    assert_eq!(fs::read_to_string(dir.join("new")).unwrap(), "mine");
}

#[test]
fn whoever_stands_in_the_trash_does_not_commit_into_the_successor() {
    let grove = sandbox(TestRepo::new());
    let dir = path(&created(&grove, &["x"]));
    fs::write(dir.join("new"), "mine").unwrap();
    removed(&grove, &["x", "--force"]);
    let trash = grove.grove(["worktree", "trash", "show", "x", "--json"]).ok().json();
    created(&grove, &["x"]);
    let old = Path::new(trash["files"].as_str().unwrap());
    let commit = grove.repo.command(old, &["add", "new"]).output().unwrap();
    assert!(!commit.status.success());
    assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
}

#[test]
fn a_lock_that_somebody_set_meanwhile_stays() {
    let grove = sandbox(TestRepo::new());
    let dir = path(&created(&grove, &["x"]));
    let mut killed = grove.command(["worktree", "remove", "x"]);
    killed.env("GROVE_FAULT_AT", "removing").stderr(Stdio::null()).status().unwrap();
    grove.repo.git_in(&dir, &["worktree", "lock", "--reason", "mine", "."]);
    grove.grove(["doctor"]);
    assert!(grove.repo.git(&["worktree", "list", "--porcelain"]).contains("locked mine"));
    assert_eq!(grove.grove(["worktree", "list", "--json"]).ok().json()[0]["status"], "active");
}

#[test]
fn a_very_deep_folder_can_be_dropped() {
    let grove = with_everything();
    let dir = path(&created(&grove, &["x"]));
    let script = "import os, sys\nos.chdir(sys.argv[1])\nfor n in range(1500):\n  os.mkdir('cache' if n == 0 else 'd'); os.chdir('cache' if n == 0 else 'd')\n";
    assert!(std::process::Command::new("python3").args(["-c", script]).arg(&dir).status().unwrap().success());
    removed(&grove, &["x"]);
    grove.grove(["worktree", "trash", "drop", "x"]).ok();
    assert!(!dir.parent().unwrap().join(".grove-trash").exists());
}
