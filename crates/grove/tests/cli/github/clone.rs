//! A repository is heard of for the first time.

use std::fs;
use std::time::Duration;

use grove_testkit::github::RequestFault;

use super::harness::GithubStoryTest;

#[test]
fn a_listed_repository_is_cloned_for_its_first_work() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    let said = world.ask_until(issue, "echo hello", |said| said == "hello");
    assert_eq!(said, ["Cloning `octo/shop`…", "Working in isolated branch `issue-1`", "hello"]);
    let codebases = world.grove.grove(["codebase", "list", "--json"]).assert_success().json();
    assert_eq!(codebases[0]["name"], "shop");
    assert_eq!(codebases[0]["repository_url"], world.github.clone_url());
    assert_eq!(codebases[0]["default_branch"], "main");
    assert_eq!(codebases[0]["default_cwd"], world.workspace_path().canonicalize().unwrap().display().to_string());
    // The second time there is nothing to clone.
    assert_eq!(world.ask_bot(issue, "echo again"), "again");
    assert_eq!(world.git_calls().lines().filter(|call| call.contains(" clone ")).count(), 1);
    world.assert_secret_kept();
}

#[test]
fn two_at_once_clone_once() {
    let world = GithubStoryTest::start("");
    let issues = ["One", "Two", "Three"].map(|title| world.github.open_issue("alice", title, "@grove echo hello"));
    for issue in issues {
        world.wait_until(
            || world.bot_replies(issue).iter().any(|said| said == "hello"),
            || format!("{:#?}", world.bot_replies(issue)),
        );
    }
    assert_eq!(world.git_calls().lines().filter(|call| call.contains(" clone ")).count(), 1);
    let codebases = world.grove.grove(["codebase", "list", "--json"]).assert_success().json();
    assert_eq!(codebases.as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_cloned_is_said_and_the_next_try_is_free() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    // A person's own folder is at the path; beside it is a folder that a crash left.
    fs::create_dir_all(world.workspace_path().join("mine")).unwrap();
    let leftover = world.workspace_path().with_file_name(".shop.cloning-0");
    fs::create_dir_all(leftover.join("objects")).unwrap();
    let said = world.ask_until(issue, "echo hello", |said| said.contains("not started"));
    assert_eq!(said[0], "Cloning `octo/shop`…");
    assert!(said[1].contains("exists already, so nothing was cloned."), "{said:?}");
    assert!(world.workspace_path().join("mine").is_dir());
    fs::remove_dir_all(world.workspace_path()).unwrap();
    let said = world.ask_until(issue, "echo hello", |said| said == "hello");
    assert_eq!(said.first().map(String::as_str), Some("Cloning `octo/shop`…"));
    assert!(!leftover.exists());
    assert_eq!(world.beside_the_workspace(), Vec::<String>::new());
}

#[test]
fn a_clone_that_fails_says_why_without_the_token() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    for fault in [RequestFault::Status(403), RequestFault::Status(500), RequestFault::DropBefore] {
        world.github.fail_next_of("", "/octo/shop.git/", 10, fault);
        let said = world.ask_until(issue, "echo hello", |said| said.contains("not started"));
        assert_eq!(said[0], "Cloning `octo/shop`…");
        assert!(said[1].contains("could not be cloned"), "{said:?}");
        assert!(said.iter().all(|said| !said.contains(&world.token)), "{said:?}");
        assert_eq!(world.beside_the_workspace(), Vec::<String>::new());
        world.github.faults_over();
    }
    let log = world.server.take_log_lines().join("\n");
    assert!(!log.contains(&world.token), "{log}");
    world.assert_secret_kept();
    world.ask_until(issue, "echo hello", |said| said == "hello");
}

#[test]
fn killed_in_the_middle_of_a_clone_it_is_cloned_again() {
    let mut world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    // It asks which branches there are, and then for the commits.
    for fault in [RequestFault::Spared, RequestFault::HoldAfter] {
        world.github.fail_next_of("POST", "git-upload-pack", 1, fault);
    }
    world.github.comment("alice", issue, "@grove echo hello");
    assert!(world.github.holds_soon(Duration::from_secs(60)));
    let begun = world.beside_the_workspace();
    assert!(begun.len() == 1 && begun[0].starts_with(".shop.cloning-"), "{begun:?}");
    world.restart_server();
    world.wait_until(
        || world.bot_replies(issue).iter().any(|said| said == "hello"),
        || format!("{:#?}", world.bot_replies(issue)),
    );
    world.at_rest();
    assert_eq!(world.clones_running(), Vec::<String>::new(), "what was cut short goes on no longer");
    world.github.let_go();
    let said = world.bot_replies(issue);
    assert_eq!(said.iter().filter(|said| *said == "hello").count(), 1, "{said:?}");
    assert_eq!(world.beside_the_workspace(), Vec::<String>::new());
    let codebases = world.grove.grove(["codebase", "list", "--json"]).assert_success().json();
    assert_eq!(codebases.as_array().unwrap().len(), 1);
    assert_eq!(world.list_environments().len(), 1);
    world.grove.repo.git_in(&world.workspace_path(), &["fsck", "--connectivity-only"]);
    world.assert_secret_kept();
}

#[test]
fn a_clone_that_was_not_registered_yet_is_used() {
    let world = GithubStoryTest::start("");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    let url = world.github.clone_url();
    fs::create_dir_all(world.workspace_path().parent().unwrap()).unwrap();
    let (bare, target) = (world.github.bare_path().display().to_string(), world.workspace_path().display().to_string());
    world.grove.repo.git(&["clone", "--quiet", &bare, &target]);
    world.grove.repo.git_in(&world.workspace_path(), &["remote", "set-url", "origin", &url]);
    world.ask_until(issue, "echo hello", |said| said == "hello");
    assert!(!world.git_calls().contains(" clone "));
}

#[test]
fn a_thread_whose_clone_failed_goes_to_the_one_that_came_later() {
    let world = GithubStoryTest::start("");
    let (first, second) = (world.github.open_issue("alice", "One", ""), world.github.open_issue("alice", "Two", ""));
    fs::create_dir_all(world.workspace_path().join("mine")).unwrap();
    world.ask_until(first, "echo hello", |said| said.contains("not started"));
    fs::remove_dir_all(world.workspace_path()).unwrap();
    world.ask_until(second, "echo hello", |said| said == "hello");
    // Of several, it is not the only one.
    world.grove.grove(["codebase", "add", "--json"]).assert_success();
    world.ask_until(first, "pwd", |said| said.ends_with("/worktrees/octo/shop/issue-1"));
}

#[test]
fn the_same_name_on_another_host_is_another_repository() {
    let world = GithubStoryTest::start("");
    let other = "https://gitlab.com/octo/shop.git";
    world.grove.repo.git(&["remote", "add", "origin", other]);
    world.grove.repo.git(&["config", "remote.origin.skipDefaultUpdate", "true"]);
    world.grove.grove(["codebase", "add", "--json"]).assert_success();
    let issue = world.github.open_issue("alice", "One", "");
    let said = world.ask_until(issue, "echo hello", |said| said == "hello");
    assert_eq!(said[0], "Cloning `octo/shop`…");
}

#[test]
fn other_repositories_are_refused() {
    let world = GithubStoryTest::start("");
    let other = world.github.another_repo("octo/other");
    other.add_user("alice", "write");
    let elsewhere = other.open_issue("alice", "Hello", "@grove echo hello");
    let issue = world.github.open_issue("alice", "Login fails", "It does.");
    world.ask_until(issue, "echo hello", |said| said == "hello");
    assert!(other.comments(elsewhere).is_empty());
    assert!(!world.workspace_path().with_file_name("other").exists());
}
