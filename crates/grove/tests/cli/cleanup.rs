//! What goes by itself, and what was touched too recently for that.

use grove_testkit::{Sandbox, TestRepo, TestServer, on_sqlite, run_command, wait_for};
use serde_json::{Value, json};

use crate::{run_create, sandbox_on, worktree_path};

/// The report of `grove cleanup run`, with another grace than the default one if given.
fn run_cleanup(grove: &Sandbox, grace: Option<&str>) -> Value {
    let mut command = grove.grove_command(["cleanup", "run", "--json"]);
    command.envs(grace.map(|grace| ("GROVE_CLEANUP_GRACE", grace)));
    grove_testkit::ProgramOutput::from(&mut command).assert_success().json()
}

fn branches_in_part(report: &Value, part: &str) -> Vec<String> {
    report[part].as_array().unwrap().iter().map(|one| one["branch"].as_str().unwrap().to_owned()).collect()
}

on_sqlite! {
    fn a_pull_request_that_was_just_made_outlives_the_scheduler_though_the_base_has_its_head(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let head = grove.repo.push_commit("refs/heads/feature", "origin/main", "feature");
        let made = run_create(&grove, &["feature", "--kind", "pr", "--id", "7"]).assert_success().json();
        assert_eq!((made["state"].as_str(), made["merged_by"].as_str()), (Some("active"), None));
        // Merged a moment later.
        grove.repo.push_commit("refs/heads/main", &head, "later");
        grove.repo.git(&["fetch", "-q"]);

        // The cycle by hand, said and done.
        for report in [grove.grove(["cleanup", "run", "--dry-run", "--json"]).assert_success().json(), run_cleanup(&grove, None)] {
            assert_eq!(report["removed"], json!([]));
            assert_eq!(branches_in_part(&report, "skipped"), ["feature"]);
            let reason = report["skipped"][0]["reason"].as_str().unwrap();
            assert_eq!(reason, "It was created, spoken to or changed less than 1h ago.");
        }
        // The server's own.
        let mut command = grove.grove_command(["serve", "--listen", "127.0.0.1:0"]);
        command.env("GROVE_LOG", "info");
        let mut server = TestServer::start_command(command, &grove);
        let mut logged = Vec::new();
        let ended = std::cell::RefCell::new(&mut logged);
        wait_for(|| {
            let mut logged = ended.borrow_mut();
            logged.extend(server.take_log_lines());
            logged.iter().any(|line| line.contains(" cleaned up"))
        });
        assert!(logged.iter().any(|line| line.contains("removed=0") && line.contains("skipped=1")), "{logged:#?}");
        assert!(server.terminate().success());
        assert!(worktree_path(&made).join("feature").exists());

        // A cleanup that is asked for explicitly removes it.
        let listed = grove.grove(["worktree", "cleanup", "merged", "--dry-run", "--json"]).assert_success().json();
        assert_eq!(branches_in_part(&listed, "removed"), ["feature"]);
        let removed = grove.grove(["worktree", "cleanup", "merged", "--json"]).assert_success().json();
        assert_eq!(branches_in_part(&removed, "removed"), ["feature"]);
        assert!(!worktree_path(&made).exists());
        grove.grove(["worktree", "undo", "feature"]).assert_success();
        assert_eq!(branches_in_part(&run_cleanup(&grove, Some("2h")), "skipped"), ["feature"]);
        assert_eq!(branches_in_part(&run_cleanup(&grove, Some("0")), "removed"), ["feature"], "without a grace it goes at once");
    }

    fn a_pull_request_whose_head_was_in_the_base_before_is_fresh(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let head = grove.repo.push_commit("refs/heads/feature", "origin/main", "feature");
        grove.repo.push_commit("refs/heads/main", &head, "later");
        let made = run_create(&grove, &["feature", "--kind", "pr", "--id", "7"]).assert_success().json();
        assert_eq!((made["state"].as_str(), made["merged_by"].as_str()), (Some("fresh"), None));
        let report = grove.grove(["worktree", "cleanup", "merged", "--json"]).assert_success().json();
        assert_eq!(report["removed"], json!([]));
        // A commit since then counts: first as work, then as merged.
        std::fs::write(worktree_path(&made).join("more"), "more").unwrap();
        grove.repo.git_in(&worktree_path(&made), &["add", "more"]);
        grove.repo.git_in(&worktree_path(&made), &["commit", "-q", "-m", "more"]);
        let state = || grove.grove(["worktree", "list", "--json"]).assert_success().json()[0]["state"].clone();
        assert_eq!(state(), "active");
        grove.repo.git_in(&worktree_path(&made), &["rebase", "-q", "origin/main"]);
        grove.repo.git_in(&worktree_path(&made), &["push", "-q", "origin", "HEAD:refs/heads/main"]);
        assert_eq!(state(), "merged");
    }

    fn an_upstream_merge_is_fetched_before_the_clean_up_judges(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let made = run_create(&grove, &["x"]).assert_success().json();
        std::fs::write(worktree_path(&made).join("own"), "own").unwrap();
        grove.repo.git_in(&worktree_path(&made), &["add", "own"]);
        grove.repo.git_in(&worktree_path(&made), &["commit", "-q", "-m", "own"]);
        grove.repo.git_in(&worktree_path(&made), &["push", "-q", "origin", "x:refs/heads/main"]);
        grove.repo.git(&["update-ref", "refs/remotes/origin/main", made["base_sha"].as_str().unwrap()]);
        let clean = |fetch: &str, more: &[&str]| {
            let mut command = grove.grove_command(["worktree", "cleanup", "merged"].iter().chain(more));
            command.env("GROVE_WORKTREE_FETCH", fetch);
            run_command(&mut command).assert_success()
        };
        let removed = |fetch: &str, more: &[&str]| {
            branches_in_part(&clean(fetch, &[&["--json"], more].concat()).json(), "removed")
        };
        assert_eq!(removed("never", &[]), [""; 0], "as it was last seen");
        // A remote that is away: said, with the age of what is known.
        let origin = grove.repo.temp_dir().join("origin.git");
        let away = grove.repo.temp_dir().join("away.git");
        std::fs::rename(&origin, &away).unwrap();
        let said = clean("always", &[]).stdout;
        assert!(said.contains("`origin/main` could not be fetched (") && said.contains(" old."), "{said}");
        assert!(said.contains("Nothing to clean up."), "{said}");
        std::fs::rename(&away, &origin).unwrap();
        // What would go is found out the same way.
        assert_eq!(removed("always", &["--dry-run"]), ["x"]);
        grove.repo.git(&["update-ref", "refs/remotes/origin/main", made["base_sha"].as_str().unwrap()]);
        assert_eq!(removed("auto", &[]), [""; 0], "asked less than a minute ago");
        assert_eq!(removed("always", &[]), ["x"]);
        assert!(!worktree_path(&made).exists());
    }

    fn what_is_gone_is_ended_however_young_it_is(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = run_create(&grove, &["x"]).assert_success().json();
        std::fs::remove_dir_all(worktree_path(&made)).unwrap();
        assert_eq!(branches_in_part(&run_cleanup(&grove, None), "removed"), ["x"]);
    }
}
