//! What is checked out now counts, not what was recorded.

use std::fs;
use std::path::Path;

use grove_testkit::{Sandbox, TestRepo, TestServer, on_sqlite};
use serde_json::Value;

use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

fn commit_file(grove: &Sandbox, dir: &Path, name: &str) {
    fs::write(dir.join(name), format!("{name}\n")).unwrap();
    grove.repo.git_in(dir, &["add", name]);
    grove.repo.git_in(dir, &["commit", "-q", "-m", name]);
}

fn list_worktrees(grove: &Sandbox) -> Value {
    grove.grove(["worktree", "list", "--json"]).assert_success().json()
}

on_sqlite! {
    fn finish_merges_nothing_while_another_branch_is_checked_out(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["d"]));
        grove.repo.git_in(&dir, &["checkout", "-q", "-b", "topic"]);
        commit_file(&grove, &dir, "work");
        let main = grove.repo.resolve_sha("main");
        let (code, text) = grove.grove(["worktree", "finish", "d", "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, "other_branch");
        assert!(text.contains("`topic`") && text.contains("`d`") && text.contains("--branch"), "{text}");
        assert_eq!(grove.repo.resolve_sha("main"), main);
        assert!(dir.exists());
        assert_eq!(grove.grove(["worktree", "finish", "d", "--branch", "else", "--json"]).assert_exit_code(1).json_error().0, "other_branch");
        let answer = grove.grove(["worktree", "finish", "d", "--branch", "topic", "--json"]).assert_success().json();
        assert_eq!(answer["merged_into"], "main");
        assert_eq!(grove.repo.git(&["show", "main:work"]), "work");
        assert!(!dir.exists());
    }

    fn work_on_another_branch_is_not_called_merged(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["m3"]));
        commit_file(&grove, &dir, "merged");
        grove.repo.git(&["merge", "-q", "--no-ff", "--no-edit", "m3"]);
        assert_eq!(list_worktrees(&grove)[0]["state"], "merged");
        grove.repo.git_in(&dir, &["checkout", "-q", "-b", "agent/own"]);
        commit_file(&grove, &dir, "own");
        let view = list_worktrees(&grove)[0].clone();
        assert_eq!((&view["branch"], &view["recorded_branch"]), (&"agent/own".into(), &"m3".into()), "{view}");
        assert_eq!((&view["state"], &view["merged_by"], &view["ahead"]), (&"active".into(), &Value::Null, &1.into()));
        let text = grove.grove(["worktree", "list"]).assert_success().stdout;
        assert!(text.contains("agent/own (recorded: m3)"), "{text}");
        for command in [&["worktree", "cleanup", "merged", "--json"][..], &["cleanup", "run", "--json"]] {
            let report = grove.grove(command).assert_success().json();
            assert_eq!(report["removed"], serde_json::json!([]), "{report}");
        }
        assert!(dir.join("own").exists());
        // Both are merged: it is, but it is not cleaned up by itself.
        grove.repo.git(&["merge", "-q", "--no-ff", "--no-edit", "agent/own"]);
        assert_eq!(list_worktrees(&grove)[0]["state"], "merged");
        let report = grove.grove(["worktree", "cleanup", "merged", "--json"]).assert_success().json();
        assert_eq!(report["removed"], serde_json::json!([]), "{report}");
        assert!(report["skipped"][0]["reason"].as_str().unwrap().contains("another branch"), "{report}");
        // A detached HEAD counts as well.
        grove.repo.git_in(&dir, &["checkout", "-q", "m3"]);
        assert_eq!(list_worktrees(&grove)[0]["state"], "merged");
        grove.repo.git_in(&dir, &["checkout", "-q", "--detach"]);
        commit_file(&grove, &dir, "detached");
        assert_ne!(list_worktrees(&grove)[0]["state"], "merged");
        // By either name.
        grove.repo.git_in(&dir, &["checkout", "-q", "agent/own"]);
        for name in ["m3", "agent/own"] {
            assert_eq!(grove.grove(["worktree", "path", name]).assert_success().stdout.trim(), dir.to_str().unwrap());
        }
    }

    fn a_renamed_branch_is_followed(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["before"]));
        commit_file(&grove, &dir, "work");
        grove.repo.git_in(&dir, &["branch", "-m", "between"]);
        grove.repo.git_in(&dir, &["branch", "-m", "after"]);
        // Another branch with the old name changes nothing.
        grove.repo.git(&["branch", "before"]);
        let view = list_worktrees(&grove)[0].clone();
        assert_eq!((&view["branch"], &view["ahead"], &view["recorded_branch"]), (&"after".into(), &1.into(), &Value::Null), "{view}");
        assert_eq!(grove.grove(["worktree", "path", "after"]).assert_success().stdout.trim(), dir.to_str().unwrap());
        grove.grove(["worktree", "path", "before"]).assert_exit_code(1);
        let mirror = fs::read_to_string(grove.repo.path().join(".grove/worktrees/before/worktree.json")).unwrap();
        assert!(mirror.contains("\"after\""), "{mirror}");
        grove.grove(["worktree", "finish", "after"]).assert_success();
        assert_eq!(grove.repo.git(&["show", "main:work"]), "work");
        assert_eq!(grove.repo.git(&["branch", "--list", "after"]), "");
        assert_eq!(grove.repo.git(&["branch", "--list", "before", "--format=%(refname:short)"]), "before");
    }

    fn a_conflict_that_was_resolved_is_no_failure_any_more(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let dir = worktree_path(&create_worktree(&grove, &["x"]));
        fs::write(dir.join("README.md"), "theirs\n").unwrap();
        grove.repo.git_in(&dir, &["commit", "-q", "-a", "-m", "theirs"]);
        grove.repo.write_file("README.md", "ours\n");
        grove.repo.commit_all("ours");
        grove.grove(["worktree", "finish", "x", "--json"]).assert_exit_code(1);
        assert_eq!(list_worktrees(&grove)[0]["state"], "failed");
        let doctor = grove.grove(["doctor", "--json"]).stdout;
        assert!(doctor.contains("git merge main") && !doctor.contains("init script"), "{doctor}");
        assert!(!grove.repo.git_command(&dir, &["merge", "-q", "main"]).output().unwrap().status.success());
        assert_eq!(list_worktrees(&grove)[0]["state"], "failed", "it is not resolved yet");
        fs::write(dir.join("README.md"), "both\n").unwrap();
        grove.repo.git_in(&dir, &["commit", "-q", "-a", "-m", "resolved"]);
        let view = list_worktrees(&grove)[0].clone();
        assert_eq!((&view["state"], &view["status"], view.get("error")), (&"active".into(), &"active".into(), None), "{view}");
    }
}

#[test]
fn another_branch_is_not_pushed_in_place_of_the_recorded_one() {
    let grove = new_sandbox(TestRepo::with_origin());
    grove.grove(["codebase", "add", "--json"]).assert_success();
    let server = TestServer::start(&grove);
    let identity = "-c user.name=a -c user.email=a@b";
    server.ask("c", &format!("git checkout -q -b topic; echo x > x; git add x; git {identity} commit -qm x"));
    let refused = server.ask("c", "/push").remove(0);
    assert!(refused.contains("`topic`") && refused.contains("--branch"), "{refused}");
    assert_eq!(grove.repo.git(&["ls-remote", "origin", "refs/heads/topic", "refs/heads/thread-*"]), "");
    let pushed = server.ask("c", "/push --branch topic").remove(0);
    assert!(pushed.starts_with("Pushed `topic` to `origin`"), "{pushed}");
    assert!(grove.repo.git(&["ls-remote", "origin", "refs/heads/topic"]).ends_with("refs/heads/topic"));
}
