//! Which environment a work gets.

use std::fs;
use std::path::PathBuf;

use grove_testkit::{Sandbox, TestRepo, on_sqlite};
use serde_json::Value;

use crate::{create_worktree, expect_create_refused, new_sandbox, run_create, sandbox_on, worktree_path};

/// Every candidate's outcome, as `why` tells it.
fn candidate_outcomes(grove: &Sandbox, name: &str) -> Vec<(String, String)> {
    let told = grove.grove(["worktree", "why", name, "--json"]).assert_success().json();
    let text = |step: &Value, key: &str| step[key].as_str().unwrap().to_owned();
    told["steps"].as_array().unwrap().iter().map(|step| (text(step, "outcome"), text(step, "reason"))).collect()
}

on_sqlite! {
    fn a_pull_request_shares_its_issues_worktree_when_its_head_is_there(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let issue = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        let dir = worktree_path(&issue);
        grove.repo.git_in(&dir, &["commit", "-q", "--allow-empty", "-m", "work"]);
        let head = grove.repo.git_in(&dir, &["rev-parse", "HEAD"]);
        grove.repo.git_in(&dir, &["push", "-q", "origin", "issue-42"]);
        // On the same branch.
        let args = ["issue-42", "--kind", "pr", "--id", "99", "--linked-issue", "42"];
        let pr = run_create(&grove, &args).assert_success().json();
        assert_eq!(pr["id"], issue["id"]);
        assert_eq!(pr["metadata"]["related_prs"], serde_json::json!([99]));
        let text = grove.grove(["worktree", "create"].iter().chain(&args)).assert_success().stdout;
        assert!(text.starts_with("Reusing worktree from issue #42\n") || text.contains("pr #99"), "{text}");
        // On another branch whose head the issue's worktree contains.
        grove.repo.git_in(&dir, &["push", "-q", "origin", "HEAD:refs/heads/other-name"]);
        let pr = run_create(&grove, &["other-name", "--kind", "pr", "--id", "100", "--sha", &head, "--linked-issue", "42"]).assert_success().json();
        assert_eq!(pr["id"], issue["id"]);
        assert_eq!(candidate_outcomes(&grove, "issue-42").last().unwrap().0, "chosen");
        // Its review is served by the same one.
        let review = run_create(&grove, &["--kind", "review", "--id", "100", "--sha", &head]).assert_success().json();
        assert_eq!(review["id"], issue["id"]);
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 2);
    }

    fn a_pull_request_whose_head_is_elsewhere_gets_its_own_linked(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let issue = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        let head = grove.repo.push_commit("refs/heads/feature", "origin/main", "theirs");
        let ran = run_create(&grove, &["feature", "--kind", "pr", "--id", "99", "--sha", &head, "--linked-issue", "42"]).assert_success();
        let pr = ran.json();
        assert_ne!(pr["id"], issue["id"]);
        assert_eq!((pr["branch"].as_str(), &pr["metadata"]["related_issues"]), (Some("feature"), &serde_json::json!([42])));
        assert!(ran.stderr.contains("issue #42 does not have this pull request's head"), "{}", ran.stderr);
        let steps = candidate_outcomes(&grove, "feature");
        assert_eq!(steps[0], ("skipped".into(), "the pull request's head is not there".into()));
        // Issue 43, which has none, finds the one that is related to it.
        let ran = run_create(&grove, &["feature", "--kind", "pr", "--id", "99", "--linked-issue", "43"]).assert_success().json();
        assert_eq!(ran["id"], pr["id"]);
    }

    fn a_pull_request_whose_head_is_not_known_shares_its_issues_worktree(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let issue = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        let args = ["--kind", "pr", "--id", "99", "--linked-issue", "42"];
        let text = grove.grove(["worktree", "create"].iter().chain(&args)).assert_success().stdout;
        assert!(text.starts_with("Reusing worktree from issue #42\n"), "{text}");
        assert_eq!(run_create(&grove, &args).assert_success().json()["id"], issue["id"]);
        assert_eq!(candidate_outcomes(&grove, "issue-42").last().unwrap(), &("chosen".into(), "it is linked".into()));
        // Without a link it gets its own, from the forge's ref.
        let head = grove.repo.push_commit("refs/pull/7/head", "origin/main", "theirs");
        let own = run_create(&grove, &["--kind", "pr", "--id", "7"]).assert_success().json();
        assert_eq!((own["branch"].as_str(), own["head_sha"].as_str()), (Some("pr-7-review"), Some(head.as_str())));
    }

    fn a_fork_never_shares_and_never_adopts(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let issue = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        let head = grove.repo.push_commit("refs/pull/7/head", "origin/main", "fork");
        let theirs = grove.repo.temp_dir().join("theirs");
        grove.repo.git(&["worktree", "add", "-q", "-b", "feature", theirs.to_str().unwrap()]);
        let pr = run_create(&grove, &["--kind", "pr", "--id", "7", "--fork", "--sha", &head, "--linked-issue", "42", "--suggested-branch", "feature"]).assert_success().json();
        assert_ne!(pr["id"], issue["id"]);
        assert_eq!((pr["branch"].as_str(), pr["adopted"].as_bool()), (Some("pr-7-review"), Some(false)));
        assert_eq!(pr["metadata"]["related_issues"], serde_json::json!([]), "a fork never links");
    }

    fn a_linked_worktree_that_is_gone_is_passed_over(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let first = create_worktree(&grove, &["--kind", "issue", "--id", "41"]);
        let second = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        fs::remove_dir_all(worktree_path(&first)).unwrap();
        let ran = run_create(&grove, &["--kind", "thread", "--id", "C1:2", "--linked-issue", "41", "--linked-issue", "42"]).assert_success().json();
        assert_eq!(ran["id"], second["id"]);
        let all = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().json();
        assert_eq!(all[0]["status"], "destroyed");
        // A reopened issue gets a new one for the same number.
        let again = create_worktree(&grove, &["--kind", "issue", "--id", "41"]);
        assert_ne!(again["id"], first["id"]);
        assert_eq!(again["branch"], "issue-41");
    }

    fn an_issue_shares_the_worktree_that_is_related_to_it(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let pr = create_worktree(&grove, &["--kind", "task", "--id", "big", "--linked-issue", "42", "--linked-issue", "43"]);
        let ran = run_create(&grove, &["--kind", "issue", "--id", "43"]).assert_success().json();
        assert_eq!(ran["id"], pr["id"]);
        let ran = run_create(&grove, &["--kind", "issue", "--id", "44"]).assert_success().json();
        assert_ne!(ran["id"], pr["id"]);
    }

    fn a_persons_own_worktree_is_adopted_not_duplicated(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let head = grove.repo.push_commit("refs/heads/feature/auth", "origin/main", "auth");
        grove.repo.git(&["fetch", "-q"]);
        let dir = |name: &str| grove.repo.temp_dir().join(name);
        let add = |args: &[&str]| { grove.repo.git(&[&["worktree", "add", "-q", "--no-track"], args].concat()); };
        // On the pull request's branch.
        let theirs = dir("theirs");
        add(&["-b", "feature/auth", theirs.to_str().unwrap(), "origin/feature/auth"]);
        fs::write(theirs.join("notes"), "mine").unwrap();
        let pr = run_create(&grove, &["feature/auth", "--kind", "pr", "--id", "8"]).assert_success().json();
        assert_eq!((worktree_path(&pr), pr["adopted"].as_bool(), pr["metadata"]["adopted_from"].as_str()), (theirs.clone(), Some(true), Some("branch")));
        assert_eq!(fs::read_to_string(theirs.join("notes")).unwrap(), "mine");
        // On its name with dashes, with a history that meets it; one that does not is left alone.
        let related = grove.repo.push_commit("refs/heads/fix/a", "origin/main", "a");
        grove.repo.git(&["fetch", "-q"]);
        add(&["-b", "fix-a", dir("dashes").to_str().unwrap(), &related]);
        let pr = run_create(&grove, &["fix/a", "--kind", "pr", "--id", "9", "--sha", &related]).assert_success().json();
        assert_eq!((worktree_path(&pr), pr["branch"].as_str()), (dir("dashes"), Some("fix-a")));
        let unrelated = grove.repo.push_commit("refs/heads/fix/b", "origin/main", "b");
        add(&["-b", "fix-b", dir("unrelated").to_str().unwrap(), &head]);
        let pr = run_create(&grove, &["fix/b", "--kind", "pr", "--id", "10", "--sha", &unrelated]).assert_success().json();
        assert_eq!((pr["branch"].as_str(), pr["adopted"].as_bool()), (Some("fix/b"), Some(false)));
        // The same without a commit: the branch as it was last seen on the remote tells.
        grove.repo.push_commit("refs/heads/fix/c", "origin/main", "c");
        grove.repo.git(&["fetch", "-q"]);
        add(&["-b", "fix-c", dir("dashes-c").to_str().unwrap(), "origin/fix/c"]);
        assert_eq!(worktree_path(&run_create(&grove, &["fix/c", "--kind", "pr", "--id", "11"]).assert_success().json()), dir("dashes-c"));
        // By suggestion.
        let ran = run_create(&grove, &["--kind", "thread", "--id", "t", "--suggested-branch", "fix-b"]).assert_success().json();
        assert_eq!(worktree_path(&ran), dir("unrelated"));
        // At the expected path, on the expected branch.
        let parent = worktree_path(&create_worktree(&grove, &["first"])).parent().unwrap().to_owned();
        add(&["-b", "issue-5", parent.join("issue-5").to_str().unwrap()]);
        let ran = run_create(&grove, &["--kind", "issue", "--id", "5"]).assert_success().json();
        assert_eq!(ran["metadata"]["adopted_from"], "path");
        assert!(candidate_outcomes(&grove, "issue-5").iter().any(|(outcome, reason)| outcome == "chosen" && reason.contains("path")));
    }

    fn the_main_checkout_and_other_clones_are_never_adopted(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        grove.repo.push_commit("refs/heads/feature", "origin/main", "x");
        grove.repo.git(&["fetch", "-q"]);
        grove.repo.git(&["checkout", "-q", "--no-track", "-b", "feature", "origin/feature"]);
        let (code, message) = expect_create_refused(&grove, &["feature", "--kind", "pr", "--id", "3"]);
        assert_eq!(code, "branch_held", "{message}");
        // Another clone's worktree at the wanted path.
        let parent = worktree_path(&create_worktree(&grove, &["first"])).parent().unwrap().to_owned();
        let other = grove.repo.temp_dir().join("other");
        grove.repo.git(&["clone", "-q", grove.repo.origin_path().to_str().unwrap(), other.to_str().unwrap()]);
        let theirs = parent.join("issue-9");
        grove.repo.git_in(&other, &["worktree", "add", "-q", "-b", "issue-9", theirs.to_str().unwrap()]);
        let (code, message) = expect_create_refused(&grove, &["--kind", "issue", "--id", "9"]);
        assert_eq!(code, "path_taken");
        assert!(message.contains("worktree of another repository"), "{message}");
        assert_eq!(grove.repo.git_in(&theirs, &["status", "--porcelain"]), "");
    }

    fn a_pull_request_goes_where_its_branch_is_checked_out(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let issue = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        grove.repo.git_in(&worktree_path(&issue), &["push", "-q", "origin", "issue-42"]);
        // The request does not link them; the branch does.
        let pr = run_create(&grove, &["issue-42", "--kind", "pr", "--id", "99"]).assert_success().json();
        assert_eq!(pr["id"], issue["id"]);
        // Found by the name of either work from then on.
        for name in ["issue-42", "pr-99"] {
            assert_eq!(grove.grove(["worktree", "show", name, "--json"]).assert_success().json()["id"], issue["id"]);
        }
        let (code, _) = expect_create_refused(&grove, &["issue-42"]);
        assert_eq!(code, "branch_held", "a task of that name is another work");
    }
}

#[test]
fn tools_that_left_word_of_their_worktrees_are_recognised() {
    let grove = new_sandbox(TestRepo::new());
    let repo = grove.repo.path().to_owned();
    let skills = grove.repo.temp_dir().join("skills");
    grove.repo.git(&["worktree", "add", "-q", "-b", "by-skill", skills.to_str().unwrap()]);
    let automakers = grove.repo.temp_dir().join("repo-worktrees/by-automaker");
    grove.repo.git(&["worktree", "add", "-q", "-b", "by-automaker", automakers.to_str().unwrap()]);
    let registry = grove.repo.home_dir().join(".claude/worktree-registry.json");
    fs::create_dir_all(registry.parent().unwrap()).unwrap();
    let adopt = |branch: &str| {
        run_create(&grove, &["--kind", "thread", "--id", branch, "--suggested-branch", branch]).assert_success().json()
            ["metadata"]["adopted_from"]
            .clone()
    };
    fs::write(&registry, "{ broken").unwrap();
    grove.repo.git(&["worktree", "add", "-q", "-b", "plain", grove.repo.temp_dir().join("plain").to_str().unwrap()]);
    assert_eq!(adopt("plain"), "branch", "a broken registry is harmless");
    let entry = serde_json::json!({"repoPath": repo, "branch": "by-skill", "worktreePath": skills, "unknown": 1});
    fs::write(
        &registry,
        serde_json::json!({"worktrees": ["nonsense", {"repoPath": 3}, entry], "version": 9}).to_string(),
    )
    .unwrap();
    assert_eq!(adopt("by-skill"), "skill");
    let mirror = repo.join(".automaker/worktrees/by-automaker");
    fs::create_dir_all(&mirror).unwrap();
    fs::write(mirror.join("worktree.json"), r#"{"branch":"by-automaker","createdAt":"2026-01-01T00:00:00Z"}"#).unwrap();
    assert_eq!(adopt("by-automaker"), "automaker");
}

#[test]
fn adopt_and_orphans() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["ours"]);
    let theirs = grove.repo.temp_dir().join("theirs");
    grove.repo.git(&["worktree", "add", "-q", "-b", "mine", theirs.to_str().unwrap()]);
    let detached = grove.repo.temp_dir().join("detached");
    grove.repo.git(&["worktree", "add", "-q", "--detach", detached.to_str().unwrap()]);
    let orphans = grove.grove(["worktree", "orphans", "--json"]).assert_success().json();
    let paths: Vec<PathBuf> = orphans.as_array().unwrap().iter().map(worktree_path).collect();
    assert_eq!(paths, [detached.clone(), theirs.clone()]);
    assert_eq!((&orphans[0]["branch"], &orphans[1]["branch"]), (&Value::Null, &"mine".into()));
    assert_eq!(orphans[1]["head_sha"].as_str(), Some(grove.repo.resolve_sha("mine").as_str()));
    let adopted = grove.grove(["worktree", "adopt", theirs.to_str().unwrap(), "--json"]).assert_success().json();
    assert_eq!(
        (adopted["adopted"].as_bool(), adopted["status"].as_str(), adopted["workflow_id"].as_str()),
        (Some(true), Some("active"), Some("mine"))
    );
    let again = grove.grove(["worktree", "adopt", theirs.to_str().unwrap(), "--json"]).assert_success().json();
    assert_eq!(again["id"], adopted["id"]);
    let text = grove.grove(["worktree", "orphans"]).assert_success().stdout;
    assert!(text.contains("no branch") && text.contains("left alone"), "{text}");
    let refuse = |place: &std::path::Path| {
        grove.grove(["worktree", "adopt", place.to_str().unwrap(), "--json"]).assert_exit_code(1).json_error().0
    };
    assert_eq!(refuse(&detached), "not_adoptable");
    assert_eq!(refuse(grove.repo.path()), "not_adoptable", "never the main checkout");
    // The folder of another clone belongs to another codebase, whatever we ask.
    grove.repo.git(&["clone", "-q", ".", "../other"]);
    let other = grove.repo.temp_dir().join("other-wt");
    grove
        .repo
        .git_in(&grove.repo.temp_dir().join("other"), &["worktree", "add", "-q", "-b", "x", other.to_str().unwrap()]);
    let (code, _) = grove
        .grove(["worktree", "adopt", other.to_str().unwrap(), "--codebase", "repo", "--json"])
        .assert_exit_code(1)
        .json_error();
    assert_eq!(code, "not_adoptable");
}

#[test]
fn a_disk_that_is_away_blocks_and_changes_nothing() {
    let grove = new_sandbox(TestRepo::new());
    let made = create_worktree(&grove, &["x"]);
    let parent = worktree_path(&made).parent().unwrap().to_owned();
    let away = grove.repo.temp_dir().join("away");
    fs::rename(&parent, &away).unwrap();
    let ran = grove.grove(["worktree", "create", "x", "--json"]);
    let (code, message) = ran.assert_exit_code(1).json_error();
    assert_eq!(code, "not_mounted", "{message}");
    fs::rename(&away, &parent).unwrap();
    assert_eq!(create_worktree(&grove, &["x"])["id"], made["id"], "the record was kept");
}

#[test]
fn a_tree_that_cannot_be_looked_at_is_not_used() {
    let grove = new_sandbox(TestRepo::new());
    let made = worktree_path(&create_worktree(&grove, &["x"]));
    create_worktree(&grove, &["sibling"]);
    let link = fs::read(made.join(".git")).unwrap();
    grove.repo.git(&["clone", "-q", ".", "../other"]);
    let other = format!("gitdir: {}/.git\n", grove.repo.temp_dir().join("other").display());
    for text in ["gitdir: /nonexistent\n", "nonsense", &other] {
        fs::write(made.join(".git"), text).unwrap();
        let (code, message) = grove.grove(["worktree", "create", "x", "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, "environment_broken", "{message}");
        assert_eq!(
            grove.grove(["worktree", "create", "sibling", "--json"]).assert_success().json()["status"],
            "active"
        );
    }
    fs::write(made.join(".git"), link).unwrap();
    create_worktree(&grove, &["x"]);
}
