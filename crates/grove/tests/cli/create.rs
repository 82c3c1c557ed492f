use std::fs;
use std::os::unix::fs::PermissionsExt;

use grove_testkit::{TestRepo, on_sqlite};

use crate::{create_worktree, expect_create_refused, new_sandbox, run_create, sandbox_on, worktree_path};

on_sqlite! {
    fn an_issue_gets_its_own_worktree(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let tip = grove.repo.push_commit("refs/heads/main", "origin/main", "later");
        let made = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        assert_eq!((made["branch"].as_str(), made["status"].as_str(), made["state"].as_str()), (Some("issue-42"), Some("active"), Some("fresh")));
        assert_eq!((made["workflow_type"].as_str(), made["workflow_id"].as_str()), (Some("issue"), Some("42")));
        assert_eq!((made["base"].as_str(), made["base_sha"].as_str(), made["head_sha"].as_str()), (Some("origin/main"), Some(tip.as_str()), Some(tip.as_str())));
        assert!(worktree_path(&made).starts_with(grove.worktrees_dir()) && worktree_path(&made).ends_with("issue-42"));
        // The mirror for people and tools that look at files.
        let mirror = grove.repo.path().join(".grove/worktrees/issue-42/worktree.json");
        let mirror: serde_json::Value = serde_json::from_slice(&fs::read(mirror).unwrap()).unwrap();
        assert_eq!((mirror["branch"].as_str(), &mirror["createdAt"]), (Some("issue-42"), &made["created_at"]));
        assert_eq!(grove.repo.git(&["status", "--porcelain"]), "", "the mirror is ignored");
    }

    fn the_same_work_again_is_the_same_worktree(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let first = create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
        let again = create_worktree(&grove, &["--kind", "issue", "--id", "#42"]);
        assert_eq!(first["id"], again["id"]);
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 2);
        let (code, _) = expect_create_refused(&grove, &["--kind", "issue", "--id", "42", "--from", "main"]);
        assert_eq!(code, "branch_exists");
    }

    fn every_kind_of_work_has_its_branch(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let head = grove.repo.push_commit("refs/pull/7/head", "origin/main", "fork");
        let auth = grove.repo.push_commit("refs/heads/feature/auth", "origin/main", "auth");
        for (args, branch) in [
            (&["my-feature"][..], "my-feature"),
            (&["--kind", "task", "--id", "Fix the $(id) \"login\" ünïcode page"], "task-fix-the-id-login-n-code-page"),
            (&["--kind", "task", "--id", "fix the id login n code page"], "task-fix-the-id-login-n-code-page-9d4a6b64"),
            (&["--kind", "thread", "--id", "C123:1700000000.000100"], "thread-61a290a5"),
            (&["--kind", "review", "--id", "7", "--sha", &head], "pr-7-review"),
            (&["named", "--kind", "issue", "--id", "9"], "named"),
        ] {
            let made = create_worktree(&grove, args);
            assert!(made["branch"].as_str().unwrap().starts_with(&branch[..branch.len().min(33)]), "{made}");
        }
        let made = create_worktree(&grove, &["feature/auth", "--kind", "pr", "--id", "8"]);
        assert_eq!((made["branch"].as_str(), made["head_sha"].as_str()), (Some("feature/auth"), Some(auth.as_str())));
        assert_eq!(grove.repo.git_in(&worktree_path(&made), &["rev-parse", "--abbrev-ref", "@{u}"]), "origin/feature/auth");
        assert!(worktree_path(&made).ends_with("feature-auth"));
    }

    fn a_forks_pull_request_is_at_exactly_its_commit(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        let first = grove.repo.push_commit("refs/pull/7/head", "origin/main", "one");
        grove.repo.push_commit("refs/pull/7/head", &first, "two");
        let made = create_worktree(&grove, &["--kind", "pr", "--id", "7", "--fork", "--sha", &first]);
        assert_eq!((made["branch"].as_str(), made["head_sha"].as_str()), (Some("pr-7-review"), Some(first.as_str())));
        let (code, _) = expect_create_refused(&grove, &["--kind", "pr", "--id", "99", "--fork"]);
        assert_eq!(code, "no_pull_request");
        let (code, _) = expect_create_refused(&grove, &["gone", "--kind", "pr", "--id", "98"]);
        assert_eq!(code, "no_branch");
    }

    fn two_branches_of_one_folder_name_get_two_folders(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let first = create_worktree(&grove, &["a/b"]);
        let second = create_worktree(&grove, &["a-b"]);
        assert!(worktree_path(&first).ends_with("a-b"));
        assert!(second["path"].as_str().unwrap().contains("/a-b-"), "{second}");
        let (code, message) = expect_create_refused(&grove, &["a"]);
        assert_eq!(code, "branch_in_the_way");
        assert!(message.contains("`a/b`"), "{message}");
        let (code, _) = expect_create_refused(&grove, &["a-b/c"]);
        assert_eq!(code, "branch_in_the_way");
    }

    fn a_worktree_that_was_deleted_by_hand_is_made_again(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let first = create_worktree(&grove, &["task-x"]);
        fs::remove_dir_all(worktree_path(&first)).unwrap();
        let second = create_worktree(&grove, &["task-x"]);
        let mirror = grove.repo.path().join(".grove/worktrees/task-x/worktree.json");
        assert!(fs::read_to_string(mirror).unwrap().contains(second["created_at"].as_str().unwrap()));
        assert_ne!(first["id"], second["id"]);
        let all = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().json();
        let statuses: Vec<_> = all.as_array().unwrap().iter().map(|e| e["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["destroyed", "active"]);
    }
}

#[test]
fn an_existing_branch_is_used_as_it_is() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.git(&["checkout", "-q", "-b", "issue-1"]);
    let tip = grove.repo.commit_all("work");
    grove.repo.git(&["checkout", "-q", "main"]);
    let (code, _) = expect_create_refused(&grove, &["--kind", "issue", "--id", "1", "--from", "main"]);
    assert_eq!(code, "branch_exists");
    let made = create_worktree(&grove, &["--kind", "issue", "--id", "1"]);
    assert_eq!(made["head_sha"].as_str(), Some(tip.as_str()));
    assert_eq!(made["state"].as_str(), Some("active"), "it has a commit of its own");
    assert_eq!((made["ahead"].as_u64(), made["behind"].as_u64()), (Some(1), Some(0)));
}

#[test]
fn a_dirty_checkout_with_hooks_is_left_alone_and_its_hooks_do_not_run() {
    let grove = new_sandbox(TestRepo::new());
    let marker = grove.repo.temp_dir().join("ran");
    let hook = grove.repo.path().join(".git/hooks/post-checkout");
    fs::write(&hook, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    grove.repo.write_file("README.md", "dirty\n");
    grove.repo.write_file("staged", "x\n");
    grove.repo.git(&["add", "staged"]);
    grove.repo.write_file("untracked", "x\n");
    create_worktree(&grove, &["x"]);
    assert!(!marker.exists());
}

#[test]
fn ignored_files_come_along() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.write_file(".gitignore", ".env\n*.local\n");
    grove.repo.commit_all("ignore");
    grove.repo.write_file(".env", "KEY=1\n");
    grove.repo.write_file("a.local", "a\n");
    fs::write(grove.repo.temp_dir().join("secret"), "s3cret").unwrap();
    grove.repo.git(&["config", "--local", "grove.x", "y"]);
    let absent = create_worktree(&grove, &["absent"]);
    assert!(!worktree_path(&absent).join(".env").exists());
    grove.repo.write_file(".worktreeinclude", ".env\n../secret\n");
    let ran = run_create(&grove, &["present"]).assert_success();
    let made = worktree_path(&ran.json());
    assert_eq!(fs::read_to_string(made.join(".env")).unwrap(), "KEY=1\n");
    assert!(!made.join("a.local").exists());
    assert!(ran.stderr.contains("`../secret` leaves the repository"), "{}", ran.stderr);
    // The repository's own settings, from the base branch and not from the checkout.
    grove.repo.write_file(".grove/config.toml", "[worktree]\ncopy = [\"*.local\"]\nbranch_prefix = \"bot/\"\n");
    assert!(!worktree_path(&create_worktree(&grove, &["uncommitted"])).join("a.local").exists());
    grove.repo.git(&["add", ".grove/config.toml"]);
    grove.repo.git(&["commit", "-qm", "settings"]);
    let made = create_worktree(&grove, &["--kind", "issue", "--id", "5"]);
    assert_eq!(made["branch"].as_str(), Some("bot/issue-5"));
    assert!(worktree_path(&made).join("a.local").exists());
}

#[test]
fn submodules_are_initialised_unless_turned_off() {
    let grove = new_sandbox(TestRepo::with_origin());
    grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "--bare", "repo", "lib.git"]);
    let lib = grove.repo.temp_dir().join("lib.git");
    grove.repo.git(&["submodule", "--quiet", "add", lib.to_str().unwrap(), "lib"]);
    grove.repo.commit_all("a submodule");
    let made = create_worktree(&grove, &["with", "--from", "main"]);
    assert!(worktree_path(&made).join("lib/README.md").exists());
    let mut without = grove.grove_command(["worktree", "create", "without", "--from", "main", "--json"]);
    let ran = grove_testkit::ProgramOutput::from(without.env("GROVE_WORKTREE_SUBMODULES", "false")).assert_success();
    assert!(!worktree_path(&ran.json()).join("lib/README.md").exists());
    fs::rename(&lib, grove.repo.temp_dir().join("moved.git")).unwrap();
    fs::remove_dir_all(grove.repo.path().join(".git/modules")).unwrap();
    let broken = crate::run_create(&grove, &["broken", "--from", "main"]).assert_success();
    assert!(broken.stderr.contains("The submodule `lib` was not checked out: "), "{}", broken.stderr);
    assert!(!worktree_path(&broken.json()).join("lib/README.md").exists());
}

#[test]
fn what_a_person_sees() {
    let grove = new_sandbox(TestRepo::new());
    let ran = grove.grove(["worktree", "create", "fix-login"]).assert_success();
    let home = grove.grove_home().display().to_string();
    let text = ran.stdout.replace(&home, "GROVE_HOME");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Working in isolated branch `fix-login`");
    assert!(
        lines[1].starts_with("  path  GROVE_HOME/worktrees/_local/repo-") && lines[1].ends_with("/fix-login"),
        "{text}"
    );
    assert!(lines[2].starts_with("  base  main at "), "{text}");
    assert_eq!(ran.stderr, "");
    let ran = grove.grove(["worktree", "create", "main"]).assert_exit_code(1);
    assert_eq!(ran.stdout, "");
    let text = ran.stderr.replace(&grove.repo.temp_dir().display().to_string(), "DIR");
    assert_eq!(
        text,
        "error: The worktree for `main` was not made: the branch `main` is checked out at DIR/repo.\n\
         help: Work there, check out another branch there, or choose another name.\n"
    );
}

#[test]
fn a_bare_repository_can_be_a_codebase() {
    let grove = new_sandbox(TestRepo::with_origin());
    let origin = grove.repo.origin_path();
    grove.grove(["codebase", "add", origin.to_str().unwrap(), "--name", "bare"]).assert_success();
    let ran = grove.grove(["worktree", "create", "x", "--codebase", "bare", "--json"]).assert_success();
    assert_eq!(grove.repo.git_in(&worktree_path(&ran.json()), &["status", "--porcelain"]), "");
    assert_eq!(grove.repo.git_in(&origin, &["worktree", "list"]).lines().count(), 2);
}

#[test]
fn layouts_put_worktrees_where_they_say() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.git(&["remote", "add", "origin", "https://example.com/acme/app.git"]);
    let dir = grove.repo.temp_dir();
    let run = |layout: &str, name: &str| {
        let mut command = grove.grove_command(["worktree", "create", name, "--from", "HEAD", "--json"]);
        command.env("GROVE_WORKTREE_LAYOUT", layout).env("GROVE_WORKTREE_FETCH", "never");
        worktree_path(&grove_testkit::ProgramOutput::from(&mut command).assert_success().json())
    };
    assert_eq!(run("owner", "a"), dir.join("grove/worktrees/acme/app/a"));
    assert_eq!(run("project", "b"), dir.join("grove/worktrees/app/b"));
    assert_eq!(run("sibling", "c"), dir.join("repo-worktrees/c"));
    let mut command = grove.grove_command(["worktree", "create", "d", "--from", "HEAD", "--json"]);
    command.env("WORKTREE_BASE", dir.join("elsewhere")).env("GROVE_WORKTREE_FETCH", "never");
    assert_eq!(
        worktree_path(&grove_testkit::ProgramOutput::from(&mut command).assert_success().json()),
        dir.join("elsewhere/acme/app/d")
    );
}

#[test]
fn a_base_of_another_remote_is_fetched_from_there() {
    let grove = new_sandbox(TestRepo::with_origin());
    grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "--bare", "origin.git", "upstream.git"]);
    grove.repo.git(&["remote", "add", "upstream", grove.repo.temp_dir().join("upstream.git").to_str().unwrap()]);
    grove.repo.git(&["fetch", "-q", "upstream"]);
    grove.repo.push_commit("refs/heads/tmp", "origin/main", "new");
    let new = grove.repo.git_in(&grove.repo.origin_path(), &["rev-parse", "tmp"]);
    grove.repo.git_in(&grove.repo.origin_path(), &["push", "-q", "../upstream.git", "tmp:main"]);
    let made = create_worktree(&grove, &["x", "--from", "upstream/main"]);
    assert_eq!((made["base"].as_str(), made["head_sha"].as_str()), (Some("upstream/main"), Some(new.as_str())));
}

#[test]
fn a_branch_that_is_called_like_the_remotes_does_not_confuse_the_counts() {
    let grove = new_sandbox(TestRepo::with_origin());
    let shadow = worktree_path(&create_worktree(&grove, &["origin/main"]));
    grove.repo.git_in(&shadow, &["commit", "-q", "--allow-empty", "-m", "x"]);
    create_worktree(&grove, &["after"]);
    let list = grove.grove(["worktree", "list", "--json"]).assert_success().json();
    let counts: Vec<_> = list.as_array().unwrap().iter().map(|e| (e["ahead"].as_u64(), e["behind"].as_u64())).collect();
    assert_eq!(counts, [(Some(1), Some(0)), (Some(0), Some(0))]);
}

#[test]
fn worktrees_inside_gits_own_directory_are_refused() {
    let grove = new_sandbox(TestRepo::new());
    for place in [".git/worktrees", ".git/wts"] {
        let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
        let ran = grove_testkit::ProgramOutput::from(command.env("WORKTREE_BASE", grove.repo.path().join(place)));
        assert_eq!(ran.assert_exit_code(1).json_error().0, "bad_place");
    }
    assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_strangers_folder_of_that_name_is_not_shared() {
    let grove = new_sandbox(TestRepo::new());
    let parent = worktree_path(&create_worktree(&grove, &["first"])).parent().unwrap().to_owned();
    grove.repo.git(&["worktree", "add", "-q", "-b", "feature/x", parent.join("feature-x").to_str().unwrap()]);
    let made = create_worktree(&grove, &["feature-x"]);
    assert!(made["path"].as_str().unwrap().contains("/feature-x-"), "{made}");
}

#[test]
fn a_review_says_which_commit_it_is_at() {
    let grove = new_sandbox(TestRepo::with_origin());
    let first = grove.repo.push_commit("refs/pull/7/head", "origin/main", "one");
    let args =
        |sha: &str| ["worktree", "create", "--kind", "pr", "--id", "7", "--fork", "--sha", sha].map(str::to_owned);
    let said = format!("Reviewing PR at commit `{}` (branch: `pr-7-review`)\n", &first[..7]);
    for _ in 0..2 {
        assert!(grove.grove(args(&first)).assert_success().stdout.starts_with(&said));
    }
    let second = grove.repo.push_commit("refs/pull/7/head", &first, "two");
    let ran = grove.grove(args(&second)).assert_success();
    assert!(ran.stderr.contains(&format!("is at {}, not at {}", &first[..7], &second[..7])), "{}", ran.stderr);
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let grove = new_sandbox(TestRepo::new());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let status = grove
        .grove_command(["worktree", "list", "--json"])
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_file_behind_a_link_is_refused_and_the_rest_is_copied() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.write_file(".gitignore", "conf/\n.env\n");
    grove.repo.git(&["checkout", "-q", "-b", "linked"]);
    std::os::unix::fs::symlink("/tmp", grove.repo.path().join("conf")).unwrap();
    grove.repo.git(&["add", "--force", ".gitignore", "conf"]);
    grove.repo.git(&["commit", "-qm", "a link"]);
    grove.repo.git(&["checkout", "-q", "main"]);
    grove.repo.write_file(".gitignore", "conf/\n.env\n");
    grove.repo.commit_all("ignore");
    grove.repo.write_file("conf/secret", "s3cret");
    grove.repo.write_file(".env", "KEY=1");
    grove.repo.write_file(".worktreeinclude", "conf/\n.env\n");
    let ran = run_create(&grove, &["linked"]).assert_success();
    assert!(ran.stderr.contains("a link stands in its way"), "{}", ran.stderr);
    assert!(worktree_path(&ran.json()).join(".env").exists());
}

#[test]
fn the_repositorys_settings_are_read_from_the_only_remote_whatever_its_name() {
    let grove = new_sandbox(TestRepo::with_origin());
    grove.repo.git(&["remote", "rename", "origin", "upstream"]);
    grove.repo.write_file(".grove/config.toml", "worktree.branch_prefix = \"bot/\"\n");
    grove.repo.commit_all("settings");
    grove.repo.git(&["push", "-q", "upstream", "main"]);
    grove.repo.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(create_worktree(&grove, &["--kind", "issue", "--id", "5"])["branch"], "bot/issue-5");
}

#[test]
fn a_pull_request_in_a_shallow_clone_of_one_branch_is_made_synced_and_counted() {
    let grove = new_sandbox(TestRepo::with_origin());
    let older = grove.repo.push_commit("refs/heads/main", "origin/main", "older");
    grove.repo.push_commit("refs/heads/main", &older, "newest");
    let tip = grove.repo.push_commit("refs/heads/feat", &older, "work");
    let (url, clone) =
        (format!("file://{}", grove.repo.origin_path().display()), grove.repo.temp_dir().join("shallow"));
    grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()]);
    let run = |args: &[&str]| grove_testkit::ProgramOutput::from(grove.grove_command(args).current_dir(&clone));
    let before = grove_testkit::CheckoutSnapshot::from_checkout(&clone);
    let made = run(&["worktree", "create", "feat", "--kind", "pr", "--id", "5", "--json"]).assert_success().json();
    assert_eq!(made["head_sha"].as_str(), Some(tip.as_str()));
    before.assert_only_upstream_added("feat");
    let shown = &run(&["worktree", "list", "--json"]).assert_success().json()[0];
    // As git itself counts where the history is cut off.
    let counted = grove.repo.git_in(&clone, &["rev-list", "--left-right", "--count", "origin/main...feat"]);
    assert_eq!(format!("{}\t{}", shown["behind"], shown["ahead"]), counted, "{shown}");
    assert_eq!((shown["branch"].as_str(), shown["dirty"].as_bool()), (Some("feat"), Some(false)), "{shown}");
    let newer = grove.repo.push_commit("refs/heads/feat", &tip, "more");
    let synced = run(&["worktree", "sync", "feat", "--json"]).assert_success().json();
    assert_eq!(synced["changed"], true, "{synced}");
    assert_eq!(grove.repo.git_in(&worktree_path(&made), &["rev-parse", "HEAD"]), newer);
    // A task beside it, from the one branch that the clone has.
    run(&["worktree", "create", "task", "--json"]).assert_success();
}
