use std::fs;

use grove_testkit::{ProgramOutput, TestRepo, on_sqlite};

use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

on_sqlite! {
    fn a_repository_is_registered_from_anywhere_inside(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let added = grove.grove(["codebase", "add", "src", "--json"]).assert_success().json();
        assert_eq!(added["default_cwd"].as_str(), grove.repo.path().to_str());
        assert_eq!((added["name"].as_str(), added["default_branch"].as_str()), (Some("repo"), Some("main")));
        for key in ["id", "name", "default_cwd", "repository_url", "default_branch"] {
            assert!(added.get(key).is_some(), "{key}: {added}");
        }
        let worktree = worktree_path(&create_worktree(&grove, &["x"]));
        let again = ProgramOutput::from(grove.grove_command(["codebase", "add", "--json"]).current_dir(&worktree)).assert_success().json();
        assert_eq!(added, again, "a worktree is its codebase's, never one of its own");
        assert_eq!(grove.grove(["codebase", "add", "--name", "other", "--json"]).assert_exit_code(1).json_error().0, "already_registered");
        assert_eq!(grove.grove(["codebase", "list", "--json"]).assert_success().json(), serde_json::json!([added]));
    }

    fn a_removal_is_refused_while_work_is_unsaved(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let worktree = worktree_path(&create_worktree(&grove, &["x"]));
        let other = worktree_path(&create_worktree(&grove, &["y"]));
        fs::write(worktree.join("README.md"), "changed").unwrap();
        fs::write(worktree.join("new"), "new").unwrap();
        let admin = grove.repo.git_in(&other, &["rev-parse", "--absolute-git-dir"]);
        let head = fs::read(format!("{admin}/HEAD")).unwrap();
        fs::remove_file(format!("{admin}/HEAD")).unwrap();
        let ran = grove.grove(["codebase", "remove", "repo", "--json"]).assert_exit_code(1);
        let json = ran.json();
        let codes: Vec<_> = json["error"]["reasons"].as_array().unwrap().iter().map(|r| r["code"].as_str().unwrap()).collect();
        assert_eq!((ran.json_error().0.as_str(), codes), ("unsaved_work", vec!["uncommitted_changes", "untracked_files", "unknown"]));
        assert_eq!(grove.grove(["codebase", "list", "--json"]).assert_success().json().as_array().unwrap().len(), 1);
        fs::write(format!("{admin}/HEAD"), head).unwrap();
        grove.repo.git_in(&worktree, &["checkout", "-q", "--", "README.md"]);
        fs::remove_file(worktree.join("new")).unwrap();
        let removed = grove.grove(["codebase", "remove", "repo", "--json"]).assert_success().json();
        assert_eq!(removed["left"].as_array().unwrap().len(), 2);
        assert!(worktree.exists() && other.exists() && grove.repo.path().exists(), "nothing is deleted");
        assert_eq!(grove.grove(["codebase", "list", "--json"]).assert_success().json(), serde_json::json!([]));
    }
}

#[test]
fn a_repository_is_cloned_from_an_address() {
    let grove = new_sandbox(TestRepo::with_origin());
    let url = format!("file://{}", grove.repo.origin_path().display());
    let added = grove.grove(["codebase", "add", &url, "--name", "mine", "--json"]).assert_success().json();
    let checkout = added["default_cwd"].as_str().unwrap();
    assert!(
        checkout.starts_with(grove.grove_home().to_str().unwrap()) && checkout.ends_with("/repos/_local/origin"),
        "{added}"
    );
    assert_eq!(added["name"], "mine");
    let made = grove.grove(["worktree", "create", "x", "--codebase", "mine", "--json"]).assert_success().json();
    assert!(worktree_path(&made).join("README.md").exists());
    let (code, _) = grove.grove(["codebase", "add", &url, "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "path_taken");
    let (code, message) = grove
        .grove(["codebase", "add", "https://me:s3cret@127.0.0.1:1/a/b.git", "--json"])
        .assert_exit_code(1)
        .json_error();
    assert_eq!(code, "clone_failed");
    assert!(!message.contains("s3cret"), "{message}");
    assert!(!grove.grove_home().join("repos/a/b").exists(), "a failed clone leaves nothing");
}

#[test]
fn a_failed_clone_says_why() {
    let grove = new_sandbox(TestRepo::new());
    let ssh = grove.repo.temp_dir().join("ssh");
    let config = grove.repo.home_dir().join(".gitconfig");
    let before = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{before}[core]\n\tsshCommand = sh {}\n", ssh.display())).unwrap();
    for (said, reason, help) in [
        ("git@host.invalid: Permission denied (publickey).", "Permission denied (publickey)", "SSH key"),
        ("Host key verification failed.", "Host key verification failed", "ssh -T"),
        ("ERROR: Repository not found.", "Repository not found", "Check the address"),
        ("ssh: Could not resolve hostname host.invalid: No address", "Could not resolve hostname", "host's name"),
        ("ssh: cannot use https://me:s3cret@proxy", "https://***@proxy", "Check the address"),
    ] {
        fs::write(&ssh, format!("echo '{said}' >&2\nexit 255\n")).unwrap();
        let ran = grove.grove(["codebase", "add", "git@host.invalid:x/y.git", "--json"]).assert_exit_code(1);
        let (code, text) = ran.json_error();
        assert_eq!(code, "clone_failed");
        assert!(text.contains(reason) && text.contains(help), "{text}");
        assert!(!text.contains("Could not read from remote repository") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn the_only_codebase_is_named_where_it_was_chosen() {
    let grove = new_sandbox(TestRepo::new());
    grove.grove(["codebase", "add"]).assert_success();
    let note = "Using codebase repo.\n";
    let elsewhere = |args: &[&str]| {
        let mut command = grove.grove_command(["worktree", "create"].iter().chain(args));
        ProgramOutput::from(command.current_dir(grove.repo.temp_dir())).assert_success().stderr
    };
    assert_eq!(elsewhere(&["x"]), note);
    assert_eq!(elsewhere(&["y", "--json"]), "");
    assert_eq!(elsewhere(&["z", "--codebase", "repo"]), "");
    assert_eq!(grove.grove(["worktree", "create", "w"]).assert_success().stderr, "");
}

#[test]
fn what_is_no_repository_is_refused() {
    let grove = new_sandbox(TestRepo::new());
    let elsewhere = tempfile::tempdir().unwrap();
    for (place, code) in [(elsewhere.path().to_str().unwrap(), "not_a_repository"), ("/nonexistent", "not_found")] {
        assert_eq!(grove.grove(["codebase", "add", place, "--json"]).assert_exit_code(1).json_error().0, code);
    }
    for name in ["", "a b", "-x", "a\nb"] {
        assert_eq!(
            grove.grove(["codebase", "add", "--json", &format!("--name={name}")]).assert_exit_code(2).json_error().0,
            "bad_name"
        );
    }
    assert_eq!(
        grove.grove(["codebase", "show", "nope", "--json"]).assert_exit_code(1).json_error().0,
        "unknown_codebase"
    );
    assert_eq!(
        grove.grove(["codebase", "remove", "nope", "--json"]).assert_exit_code(1).json_error().0,
        "unknown_codebase"
    );
    assert_eq!(grove.grove(["codebase", "list", "--json"]).assert_success().json(), serde_json::json!([]));
}

#[test]
fn a_repository_of_another_user_is_not_trusted() {
    let grove = new_sandbox(TestRepo::new());
    if !grove_testkit::is_root() {
        eprintln!("skipped: only root can give a repository away");
        return;
    }
    let config = grove.repo.home_dir().join(".gitconfig");
    let text = fs::read_to_string(&config).unwrap().replace("[safe]\n\tdirectory = *\n", "");
    fs::write(config, text).unwrap();
    for name in ["", ".git"] {
        std::os::unix::fs::chown(grove.repo.path().join(name), Some(12345), None).unwrap();
    }
    let (code, message) = grove.grove(["worktree", "create", "x", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "not_trusted");
    assert!(message.contains("safe.directory"), "{message}");
}

on_sqlite! {
    fn a_checkout_that_was_moved_is_recognised_and_goes_on(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let dir = worktree_path(&create_worktree(&grove, &["x"]));
        fs::write(dir.join("work"), "work").unwrap();
        create_worktree(&grove, &["y"]);
        grove.grove(["worktree", "remove", "y"]).assert_success();
        let moved = grove.repo.temp_dir().join("moved");
        fs::rename(grove.repo.path(), &moved).unwrap();
        let grove_in = |args: &[&str]| ProgramOutput::from(grove.grove_command(args).current_dir(&moved));
        // Nothing is registered a second time; the answer says what to do.
        for command in [&["worktree", "create", "z", "--json"][..], &["codebase", "add", "--json"]] {
            let (code, text) = grove_in(command).assert_exit_code(1).json_error();
            assert_eq!(code, "checkout_moved", "{text}");
            assert!(text.contains(&format!("grove codebase move repo {}", moved.display())), "{text}");
        }
        assert!(grove_in(&["doctor"]).stdout.contains("grove codebase move repo"));
        // Another clone of the same remote is not it.
        grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "origin.git", "clone"]);
        let clone = grove.repo.temp_dir().join("clone");
        let refused = grove_in(&["codebase", "move", "repo", clone.to_str().unwrap(), "--json"]).assert_exit_code(1).json_error();
        assert_eq!(refused.0, "another_repository", "{}", refused.1);

        let answer = grove_in(&["codebase", "move", "repo", moved.to_str().unwrap(), "--json"]).assert_success().json();
        assert_eq!((answer["name"].as_str(), answer["default_cwd"].as_str()), (Some("repo"), moved.to_str()));
        let list = grove_in(&["worktree", "list", "--json"]).assert_success().json();
        assert_eq!((list.as_array().unwrap().len(), list[0]["state"].as_str()), (1, Some("dirty")), "{list}");
        assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "?? work", "its links are right");
        grove_in(&["worktree", "undo", "y"]).assert_success();
        grove_in(&["worktree", "create", "z"]).assert_success();
        fs::remove_file(dir.join("work")).unwrap();
        grove_in(&["worktree", "remove", "x"]).assert_success();
        assert_eq!(grove_in(&["codebase", "list", "--json"]).assert_success().json().as_array().unwrap().len(), 1);
        // What is where it was recorded is not moved.
        assert_eq!(grove_in(&["codebase", "move", "repo", clone.to_str().unwrap(), "--json"]).assert_exit_code(1).json_error().0, "not_moved");
        grove_in(&["codebase", "remove", "repo"]).assert_success();
    }
}
