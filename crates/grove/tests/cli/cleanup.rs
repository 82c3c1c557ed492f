//! What goes by itself, and what was touched too recently for that.

use grove_testkit::{Sandbox, TestRepo, TestServer, both_engines, wait_for};
use serde_json::{Value, json};

use crate::{create, on, path};

/// The report of `grove cleanup run`, with another grace than the default one if given.
fn cycle(grove: &Sandbox, grace: Option<&str>) -> Value {
    let mut command = grove.command(["cleanup", "run", "--json"]);
    command.envs(grace.map(|grace| ("GROVE_CLEANUP_GRACE", grace)));
    grove_testkit::Ran::from(&mut command).ok().json()
}

fn branches(report: &Value, part: &str) -> Vec<String> {
    report[part].as_array().unwrap().iter().map(|one| one["branch"].as_str().unwrap().to_owned()).collect()
}

both_engines! {
    fn a_pull_request_that_was_just_made_outlives_the_scheduler_though_the_base_has_its_head(store: TestStore) {
        let grove = on(store, TestRepo::with_origin());
        let head = grove.repo.push_commit("refs/heads/feature", "origin/main", "feature");
        grove.repo.push_commit("refs/heads/main", &head, "later");
        let made = create(&grove, &["feature", "--kind", "pr", "--id", "7"]).ok().json();
        assert_eq!((made["state"].as_str(), made["merged_by"].as_str()), (Some("merged"), Some("ancestor")));

        // The cycle by hand, said and done.
        for report in [grove.grove(["cleanup", "run", "--dry-run", "--json"]).ok().json(), cycle(&grove, None)] {
            assert_eq!(report["removed"], json!([]));
            assert_eq!(branches(&report, "skipped"), ["feature"]);
            let reason = report["skipped"][0]["reason"].as_str().unwrap();
            assert_eq!(reason, "It was created, spoken to or changed less than 1h ago.");
        }
        // The server's own.
        let mut command = grove.command(["serve", "--listen", "127.0.0.1:0"]);
        command.env("GROVE_LOG", "info");
        let mut server = TestServer::run(command, &grove);
        let mut logged = Vec::new();
        let ended = std::cell::RefCell::new(&mut logged);
        wait_for(|| {
            let mut logged = ended.borrow_mut();
            logged.extend(server.logged());
            logged.iter().any(|line| line.contains(" cleaned up"))
        });
        assert!(logged.iter().any(|line| line.contains("removed=0") && line.contains("skipped=1")), "{logged:#?}");
        assert!(server.terminate().success());
        assert!(path(&made).join("feature").exists());

        // Whoever asks for it gets it.
        let listed = grove.grove(["worktree", "cleanup", "merged", "--dry-run", "--json"]).ok().json();
        assert_eq!(branches(&listed, "removed"), ["feature"]);
        let removed = grove.grove(["worktree", "cleanup", "merged", "--json"]).ok().json();
        assert_eq!(branches(&removed, "removed"), ["feature"]);
        assert!(!path(&made).exists());
        grove.grove(["worktree", "undo", "feature"]).ok();
        assert_eq!(branches(&cycle(&grove, Some("2h")), "skipped"), ["feature"]);
        assert_eq!(branches(&cycle(&grove, Some("0")), "removed"), ["feature"], "without a grace it goes at once");
    }

    fn what_is_gone_is_ended_however_young_it_is(store: TestStore) {
        let grove = on(store, TestRepo::new());
        let made = create(&grove, &["x"]).ok().json();
        std::fs::remove_dir_all(path(&made)).unwrap();
        assert_eq!(branches(&cycle(&grove, None), "removed"), ["x"]);
    }
}
