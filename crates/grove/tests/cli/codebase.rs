use std::fs;

use grove_testkit::{Ran, TestRepo, both_engines};

use crate::{created, on, path, sandbox};

both_engines! {
    fn a_repository_is_registered_from_anywhere_inside(store: TestStore) {
        let grove = on(store, TestRepo::with_origin());
        let added = grove.grove(["codebase", "add", "src", "--json"]).ok().json();
        assert_eq!(added["default_cwd"].as_str(), grove.repo.path().to_str());
        assert_eq!((added["name"].as_str(), added["default_branch"].as_str()), (Some("repo"), Some("main")));
        for key in ["id", "name", "default_cwd", "repository_url", "default_branch"] {
            assert!(added.get(key).is_some(), "{key}: {added}");
        }
        let worktree = path(&created(&grove, &["x"]));
        let again = Ran::from(grove.command(["codebase", "add", "--json"]).current_dir(&worktree)).ok().json();
        assert_eq!(added, again, "a worktree is its codebase's, never one of its own");
        assert_eq!(grove.grove(["codebase", "add", "--name", "other", "--json"]).fails(1).error().0, "already_registered");
        assert_eq!(grove.grove(["codebase", "list", "--json"]).ok().json(), serde_json::json!([added]));
    }

    fn a_removal_is_refused_while_work_is_unsaved(store: TestStore) {
        let grove = on(store, TestRepo::new());
        let worktree = path(&created(&grove, &["x"]));
        let other = path(&created(&grove, &["y"]));
        fs::write(worktree.join("README.md"), "changed").unwrap();
        fs::write(worktree.join("new"), "new").unwrap();
        let admin = grove.repo.git_in(&other, &["rev-parse", "--absolute-git-dir"]);
        let head = fs::read(format!("{admin}/HEAD")).unwrap();
        fs::remove_file(format!("{admin}/HEAD")).unwrap();
        let ran = grove.grove(["codebase", "remove", "repo", "--json"]).fails(1);
        let json = ran.json();
        let codes: Vec<_> = json["error"]["reasons"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap()).collect();
        assert_eq!((ran.error().0.as_str(), codes), ("unsaved_work", vec!["uncommitted_changes", "untracked_files", "unknown"]));
        assert_eq!(grove.grove(["codebase", "list", "--json"]).ok().json().as_array().unwrap().len(), 1);
        fs::write(format!("{admin}/HEAD"), head).unwrap();
        grove.repo.git_in(&worktree, &["checkout", "-q", "--", "README.md"]);
        fs::remove_file(worktree.join("new")).unwrap();
        let removed = grove.grove(["codebase", "remove", "repo", "--json"]).ok().json();
        assert_eq!(removed["left"].as_array().unwrap().len(), 2);
        assert!(worktree.exists() && other.exists() && grove.repo.path().exists(), "nothing is deleted");
        assert_eq!(grove.grove(["codebase", "list", "--json"]).ok().json(), serde_json::json!([]));
    }
}

#[test]
fn a_repository_is_cloned_from_an_address() {
    let grove = sandbox(TestRepo::with_origin());
    let url = format!("file://{}", grove.repo.origin().display());
    let added = grove.grove(["codebase", "add", &url, "--name", "mine", "--json"]).ok().json();
    let checkout = added["default_cwd"].as_str().unwrap();
    assert!(
        checkout.starts_with(grove.grove_home().to_str().unwrap()) && checkout.ends_with("/repos/_local/origin"),
        "{added}"
    );
    assert_eq!(added["name"], "mine");
    let made = grove.grove(["worktree", "create", "x", "--codebase", "mine", "--json"]).ok().json();
    assert!(path(&made).join("README.md").exists());
    let (code, _) = grove.grove(["codebase", "add", &url, "--json"]).fails(1).error();
    assert_eq!(code, "path_taken");
    let (code, message) =
        grove.grove(["codebase", "add", "https://me:s3cret@127.0.0.1:1/a/b.git", "--json"]).fails(1).error();
    assert_eq!(code, "clone_failed");
    assert!(!message.contains("s3cret"), "{message}");
    assert!(!grove.grove_home().join("repos/a/b").exists(), "a failed clone leaves nothing");
}

#[test]
fn what_is_no_repository_is_refused() {
    let grove = sandbox(TestRepo::new());
    let elsewhere = tempfile::tempdir().unwrap();
    for (place, code) in [(elsewhere.path().to_str().unwrap(), "not_a_repository"), ("/nonexistent", "not_found")] {
        assert_eq!(grove.grove(["codebase", "add", place, "--json"]).fails(1).error().0, code);
    }
    for name in ["", "a b", "-x", "a\nb"] {
        assert_eq!(
            grove.grove(["codebase", "add", "--json", &format!("--name={name}")]).fails(2).error().0,
            "bad_name"
        );
    }
    assert_eq!(grove.grove(["codebase", "show", "nope", "--json"]).fails(1).error().0, "unknown_codebase");
    assert_eq!(grove.grove(["codebase", "remove", "nope", "--json"]).fails(1).error().0, "unknown_codebase");
    assert_eq!(grove.grove(["codebase", "list", "--json"]).ok().json(), serde_json::json!([]));
}

#[test]
fn a_repository_of_another_user_is_not_trusted() {
    let grove = sandbox(TestRepo::new());
    if !grove_testkit::is_root() {
        eprintln!("skipped: only root can give a repository away");
        return;
    }
    let config = grove.repo.home().join(".gitconfig");
    let text = fs::read_to_string(&config).unwrap().replace("[safe]\n\tdirectory = *\n", "");
    fs::write(config, text).unwrap();
    for name in ["", ".git"] {
        std::os::unix::fs::chown(grove.repo.path().join(name), Some(12345), None).unwrap();
    }
    let (code, message) = grove.grove(["worktree", "create", "x", "--json"]).fails(1).error();
    assert_eq!(code, "not_trusted");
    assert!(message.contains("safe.directory"), "{message}");
}

both_engines! {
    fn a_checkout_that_was_moved_is_recognised_and_goes_on(store: TestStore) {
        let grove = on(store, TestRepo::with_origin());
        let dir = path(&created(&grove, &["x"]));
        fs::write(dir.join("work"), "work").unwrap();
        created(&grove, &["y"]);
        grove.grove(["worktree", "remove", "y"]).ok();
        let moved = grove.repo.dir().join("moved");
        fs::rename(grove.repo.path(), &moved).unwrap();
        let grove_in = |args: &[&str]| Ran::from(grove.command(args).current_dir(&moved));
        // Nothing is registered a second time; the answer says what to do.
        for command in [&["worktree", "create", "z", "--json"][..], &["codebase", "add", "--json"]] {
            let (code, text) = grove_in(command).fails(1).error();
            assert_eq!(code, "checkout_moved", "{text}");
            assert!(text.contains(&format!("grove codebase move repo {}", moved.display())), "{text}");
        }
        assert!(grove_in(&["doctor"]).stdout.contains("grove codebase move repo"));
        // Another clone of the same remote is not it.
        grove.repo.git_in(&grove.repo.dir(), &["clone", "-q", "origin.git", "clone"]);
        let clone = grove.repo.dir().join("clone");
        let refused = grove_in(&["codebase", "move", "repo", clone.to_str().unwrap(), "--json"]).fails(1).error();
        assert_eq!(refused.0, "another_repository", "{}", refused.1);

        let answer = grove_in(&["codebase", "move", "repo", moved.to_str().unwrap(), "--json"]).ok().json();
        assert_eq!((answer["name"].as_str(), answer["default_cwd"].as_str()), (Some("repo"), moved.to_str()));
        let list = grove_in(&["worktree", "list", "--json"]).ok().json();
        assert_eq!((list.as_array().unwrap().len(), list[0]["state"].as_str()), (1, Some("dirty")), "{list}");
        assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "?? work", "its links are right");
        grove_in(&["worktree", "undo", "y"]).ok();
        grove_in(&["worktree", "create", "z"]).ok();
        fs::remove_file(dir.join("work")).unwrap();
        grove_in(&["worktree", "remove", "x"]).ok();
        assert_eq!(grove_in(&["codebase", "list", "--json"]).ok().json().as_array().unwrap().len(), 1);
        // What is where it was recorded is not moved.
        assert_eq!(grove_in(&["codebase", "move", "repo", clone.to_str().unwrap(), "--json"]).fails(1).error().0, "not_moved");
        grove_in(&["codebase", "remove", "repo"]).ok();
    }
}
