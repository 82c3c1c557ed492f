//! The end of a piece of work: merged into its base, or given up.

use std::fs;
use std::path::PathBuf;

use grove_testkit::{DirectorySnapshot, Sandbox, TestRepo, on_sqlite};

use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

/// A worktree with one commit of its own.
fn with_work(grove: &Sandbox, name: &str) -> PathBuf {
    let dir = worktree_path(&create_worktree(grove, &[name]));
    fs::write(dir.join(name), "work\n").unwrap();
    grove.repo.git_in(&dir, &["add", "."]);
    grove.repo.git_in(&dir, &["commit", "-q", "-m", "work"]);
    dir
}

on_sqlite! {
    fn a_clean_checkout_on_the_base_follows(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = with_work(&grove, "x");
        let head = grove.repo.resolve_sha("x");
        let answer = grove.grove(["worktree", "finish", "x", "--json"]).assert_success().json();
        assert_eq!((answer["removed"].as_bool(), answer["branch_kept"].as_bool(), answer["merged_into"].as_str()), (Some(true), Some(false), Some("main")));
        assert_eq!(answer["updated_checkouts"], serde_json::json!([grove.repo.path()]));
        assert!(!dir.exists() && !grove.repo.path().join(".grove/worktrees/x").exists());
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "");
        assert_eq!(grove.repo.git(&["status", "--porcelain"]), "");
        assert_eq!(fs::read_to_string(grove.repo.path().join("x")).unwrap(), "work\n");
        assert_eq!(grove.repo.resolve_sha("HEAD^2"), head, "with its history");
        assert_eq!(grove.repo.git(&["log", "-1", "--format=%an"]), "Test Person");
        grove.grove(["worktree", "undo", "x"]).assert_success();
        assert_eq!(grove.repo.resolve_sha("x"), head);
    }

    fn an_abort_takes_the_branch_too_and_an_undo_brings_both_back(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = with_work(&grove, "x");
        fs::write(dir.join("unsaved"), "x").unwrap();
        let (before, head) = (DirectorySnapshot::from_directory(&dir), grove.repo.resolve_sha("x"));
        let answer = grove.grove(["worktree", "abort", "x", "--json"]).assert_success().json();
        assert_eq!((answer["removed"].as_bool(), answer["branch_kept"].as_bool()), (Some(true), Some(false)));
        assert_eq!(grove.repo.git(&["branch", "--list", "x"]), "");
        grove.repo.git(&["reflog", "expire", "--expire=now", "--all"]);
        grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        grove.grove(["worktree", "undo", "x"]).assert_success();
        assert_eq!(grove.repo.resolve_sha("x"), head);
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
    }

    fn a_conflict_changes_nothing_and_names_the_files(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["x"]));
        fs::write(dir.join("README.md"), "theirs\n").unwrap();
        grove.repo.git_in(&dir, &["commit", "-q", "-a", "-m", "theirs"]);
        grove.repo.write_file("README.md", "ours\n");
        grove.repo.commit_all("ours");
        let (canonical, files, refs) = (grove.repo.snapshot_checkout(), DirectorySnapshot::from_directory(&dir), grove.repo.list_branches());
        let (code, text) = grove.grove(["worktree", "finish", "x", "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, "conflict");
        assert!(text.contains("README.md"), "{text}");
        canonical.assert_untouched();
        assert_eq!(files.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
        assert_eq!(grove.repo.list_branches(), refs);
        let list = grove.grove(["worktree", "list", "--json"]).assert_success().json();
        assert_eq!(list[0]["state"], "failed");
        assert!(list[0]["error"].as_str().unwrap().contains("README.md"));
        // Resolved there, it can be finished.
        let merge = grove.repo.git_command(&dir, &["merge", "-q", "main"]).output().unwrap();
        assert!(!merge.status.success());
        fs::write(dir.join("README.md"), "both\n").unwrap();
        grove.repo.git_in(&dir, &["commit", "-q", "-a", "-m", "resolved"]);
        grove.grove(["worktree", "finish", "x"]).assert_success();
        assert_eq!(fs::read_to_string(grove.repo.path().join("README.md")).unwrap(), "both\n");
    }
}

#[test]
fn a_checkout_on_another_branch_is_not_touched() {
    let grove = new_sandbox(TestRepo::new());
    with_work(&grove, "x");
    grove.repo.git(&["checkout", "-q", "-b", "elsewhere"]);
    grove.repo.write_file("README.md", "dirty\n");
    let file = |name: &str| fs::read(grove.repo.path().join(name)).ok();
    let before = (file("README.md"), file(".git/index"), file(".git/HEAD"), file("x"));
    grove.grove(["worktree", "finish", "x", "--method", "squash", "--json"]).assert_success();
    assert_eq!((file("README.md"), file(".git/index"), file(".git/HEAD"), file("x")), before);
    assert_eq!(grove.repo.git(&["show", "main:x"]), "work");
    assert_eq!(grove.repo.git(&["rev-list", "--count", "main"]), "2", "one commit with everything");
}

/// Makes a checkout unclean.
type CheckoutChange = fn(&Sandbox, &std::path::Path);

/// Moved under a dirty checkout, the base would show the finished files as deleted there, and the next
/// `git commit -a` would remove them.
#[test]
fn a_base_that_a_dirty_checkout_is_on_is_not_moved() {
    let changes: [(&str, CheckoutChange); 5] = [
        ("edited", |_, dir| fs::write(dir.join("README.md"), "dirty\n").unwrap()),
        ("staged", |grove, dir| {
            fs::write(dir.join("new"), "new\n").unwrap();
            grove.repo.git_in(dir, &["add", "new"]);
        }),
        ("hidden", |grove, dir| {
            grove.repo.git_in(dir, &["update-index", "--assume-unchanged", "README.md"]);
            fs::write(dir.join("README.md"), "dirty\n").unwrap();
        }),
        ("in the way", |_, dir| fs::write(dir.join("x"), "mine\n").unwrap()),
        ("bisecting", |grove, dir| drop(grove.repo.git_in(dir, &["bisect", "start"]))),
    ];
    for in_worktree in [false, true] {
        for (what, change) in changes {
            let grove = new_sandbox(TestRepo::new());
            let dir = with_work(&grove, "x");
            let checkout = if in_worktree {
                let theirs = grove.repo.temp_dir().join("theirs");
                grove.repo.git(&["checkout", "-q", "-b", "elsewhere"]);
                grove.repo.git(&["worktree", "add", "-q", theirs.to_str().unwrap(), "main"]);
                theirs
            } else {
                grove.repo.path().to_owned()
            };
            change(&grove, &checkout);
            let (main, files) = (grove.repo.resolve_sha("main"), DirectorySnapshot::from_directory(&checkout));
            let status = grove.repo.git_in(&checkout, &["status", "--porcelain"]);
            let (code, text) = grove.grove(["worktree", "finish", "x", "--json"]).assert_exit_code(1).json_error();
            assert_eq!(code, "dirty_checkout", "{what}");
            assert!(text.contains(checkout.to_str().unwrap()) && text.contains("`main`"), "{what}: {text}");
            assert_eq!(grove.repo.resolve_sha("main"), main, "{what}");
            assert_eq!(grove.repo.git_in(&checkout, &["status", "--porcelain"]), status, "{what}");
            let mut changed = files.describe_differences(&DirectorySnapshot::from_directory(&checkout));
            changed.retain(|line| !line.starts_with(".git/") && !line.starts_with(".git:"));
            assert_eq!(changed, Vec::<String>::new(), "{what}");
            assert!(dir.exists());
            let view = grove.grove(["worktree", "list", "--json"]).assert_success().json()[0].clone();
            assert_eq!((&view["status"], view.get("error")), (&"active".into(), None), "{what}");
        }
    }
}

#[test]
fn every_clean_checkout_on_the_base_is_updated_and_that_is_said() {
    let grove = new_sandbox(TestRepo::new());
    with_work(&grove, "x");
    let theirs = grove.repo.temp_dir().join("theirs");
    grove.repo.git(&["worktree", "add", "-q", "--force", theirs.to_str().unwrap(), "main"]);
    fs::write(theirs.join("untracked"), "mine\n").unwrap();
    let said = grove.grove(["worktree", "finish", "x"]).assert_success();
    let said = format!("{}{}", said.stdout, said.stderr);
    for checkout in [grove.repo.path(), &theirs] {
        assert!(said.contains(&format!("The checkout at {} was updated", checkout.display())), "{said}");
        assert_eq!(fs::read_to_string(checkout.join("x")).unwrap(), "work\n");
        assert_eq!(grove.repo.git_in(checkout, &["status", "--porcelain", "--untracked-files=no"]), "");
    }
    assert_eq!(fs::read_to_string(theirs.join("untracked")).unwrap(), "mine\n");
}

/// Killed after the checkout was updated and before the branch was moved, it is taken back and finished.
#[test]
fn a_checkout_that_was_updated_by_an_unfinished_merge_is_no_obstacle() {
    let grove = new_sandbox(TestRepo::new());
    with_work(&grove, "x");
    let (main, head) = (grove.repo.resolve_sha("main"), grove.repo.resolve_sha("x"));
    let tree = grove.repo.resolve_sha("x^{tree}");
    let commit = grove.repo.git(&["commit-tree", &tree, "-p", &main, "-p", &head, "-m", "Merge branch 'x'"]);
    grove.repo.git(&["update-ref", "refs/grove/finish/x", &commit]);
    grove.repo.git(&["read-tree", "-m", "-u", &main, &commit]);
    assert_eq!(grove.repo.git(&["status", "--porcelain"]), "A  x");
    grove.grove(["worktree", "finish", "x"]).assert_success();
    assert_eq!(grove.repo.git(&["status", "--porcelain"]), "");
    assert_eq!(grove.repo.git(&["show", "main:x"]), "work");
    assert_eq!(grove.repo.git(&["for-each-ref", "refs/grove/finish"]), "");
    // What a person changed since then is theirs.
    with_work(&grove, "y");
    let (main, head) = (grove.repo.resolve_sha("main"), grove.repo.resolve_sha("y"));
    let tree = grove.repo.resolve_sha("y^{tree}");
    let commit = grove.repo.git(&["commit-tree", &tree, "-p", &main, "-p", &head, "-m", "Merge branch 'y'"]);
    grove.repo.git(&["update-ref", "refs/grove/finish/y", &commit]);
    grove.repo.git(&["read-tree", "-m", "-u", &main, &commit]);
    grove.repo.write_file("y", "mine\n");
    assert_eq!(grove.grove(["worktree", "finish", "y", "--json"]).assert_exit_code(1).json_error().0, "dirty_checkout");
    assert_eq!(fs::read_to_string(grove.repo.path().join("y")).unwrap(), "mine\n");
}

#[test]
fn unsaved_work_is_not_finished() {
    let grove = new_sandbox(TestRepo::new());
    let dir = with_work(&grove, "x");
    fs::write(dir.join("unsaved"), "x").unwrap();
    let main = grove.repo.resolve_sha("main");
    assert_eq!(grove.grove(["worktree", "finish", "x", "--json"]).assert_exit_code(1).json_error().0, "refused");
    assert_eq!(grove.repo.resolve_sha("main"), main);
    assert!(dir.join("unsaved").exists());
    assert_eq!(grove.grove(["worktree", "list", "--json"]).assert_success().json()[0]["status"], "active");
}

#[test]
fn a_sync_brings_the_base_in_and_takes_a_conflict_back() {
    let grove = new_sandbox(TestRepo::with_origin());
    let dir = with_work(&grove, "x");
    let new = grove.repo.push_commit("refs/heads/main", "origin/main", "upstream");
    let answer = grove.grove(["worktree", "sync", "x", "--json"]).assert_success().json();
    assert_eq!((answer["changed"].as_bool(), answer["at"].as_str()), (Some(true), Some(new.as_str())));
    assert!(dir.join("upstream").exists() && dir.join("x").exists());
    assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
    assert_eq!(grove.grove(["worktree", "sync", "x", "--json"]).assert_success().json()["changed"], false);
    // The same file on both sides.
    grove.repo.push_commit("refs/heads/main", &new, "both");
    fs::write(dir.join("both"), "mine\n").unwrap();
    assert_eq!(
        grove.grove(["worktree", "sync", "x", "--json"]).assert_exit_code(1).json_error().0,
        "git_failed",
        "it would be overwritten"
    );
    grove.repo.git_in(&dir, &["add", "both"]);
    assert_eq!(grove.grove(["worktree", "sync", "x", "--json"]).assert_exit_code(1).json_error().0, "refused");
    grove.repo.git_in(&dir, &["commit", "-q", "-m", "both"]);
    let (head, files) = (grove.repo.resolve_sha("x"), DirectorySnapshot::from_directory(&dir));
    let (code, text) = grove.grove(["worktree", "sync", "x", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "conflict");
    assert!(text.contains("both"), "{text}");
    assert_eq!(grove.repo.resolve_sha("x"), head);
    let after = DirectorySnapshot::from_directory(&dir);
    let moved: Vec<String> =
        files.describe_differences(&after).into_iter().filter(|line| !line.contains("time")).collect();
    assert_eq!(moved, Vec::<String>::new());
    assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
    // A pull request follows its own branch.
    let first = grove.repo.push_commit("refs/heads/feature", "origin/main", "one");
    let made = crate::run_create(&grove, &["feature", "--kind", "pr", "--id", "7"]).assert_success().json();
    let second = grove.repo.push_commit("refs/heads/feature", &first, "two");
    grove.grove(["worktree", "sync", "pr-7"]).assert_success();
    assert_eq!(grove.repo.git_in(&worktree_path(&made), &["rev-parse", "HEAD"]), second);
}
