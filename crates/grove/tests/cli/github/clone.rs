//! A repository is heard of for the first time.

use std::fs;

use super::world::World;

#[test]
fn a_listed_repository_is_cloned_for_its_first_work() {
    let world = World::start("");
    let issue = world.github.issue("alice", "Login fails", "It does.");
    let said = world.ask_until(issue, "echo hello", |said| said == "hello");
    assert_eq!(said, ["Cloning `octo/shop`…", "Working in isolated branch `issue-1`", "hello"]);
    let codebases = world.grove.grove(["codebase", "list", "--json"]).ok().json();
    assert_eq!(codebases[0]["name"], "shop");
    assert_eq!(codebases[0]["repository_url"], world.github.clone_url());
    assert_eq!(codebases[0]["default_branch"], "main");
    assert_eq!(codebases[0]["default_cwd"], world.workspace().canonicalize().unwrap().display().to_string());
    // The second time there is nothing to clone.
    assert_eq!(world.ask(issue, "echo again"), "again");
    assert_eq!(world.calls().lines().filter(|call| call.contains(" clone ")).count(), 1);
    world.assert_secret_kept();
}

#[test]
fn two_at_once_clone_once() {
    let world = World::start("");
    let issues = ["One", "Two", "Three"].map(|title| world.github.issue("alice", title, "@grove echo hello"));
    for issue in issues {
        world.wait(|| world.said(issue).iter().any(|said| said == "hello"), || format!("{:#?}", world.said(issue)));
    }
    assert_eq!(world.calls().lines().filter(|call| call.contains(" clone ")).count(), 1);
    let codebases = world.grove.grove(["codebase", "list", "--json"]).ok().json();
    assert_eq!(codebases.as_array().unwrap().len(), 1);
}

#[test]
fn what_cannot_be_cloned_is_said_and_the_next_try_is_free() {
    let world = World::start("");
    let issue = world.github.issue("alice", "Login fails", "It does.");
    // Somebody's own folder stands there; and something that a crash left.
    fs::create_dir_all(world.workspace().join("mine")).unwrap();
    let leftover = world.workspace().with_file_name(".shop.cloning-0");
    fs::create_dir_all(leftover.join("objects")).unwrap();
    let said = world.ask_until(issue, "echo hello", |said| said.contains("not started"));
    assert_eq!(said[0], "Cloning `octo/shop`…");
    assert!(said[1].contains("exists already, so nothing was cloned."), "{said:?}");
    assert!(world.workspace().join("mine").is_dir());
    fs::remove_dir_all(world.workspace()).unwrap();
    let said = world.ask_until(issue, "echo hello", |said| said == "hello");
    assert_eq!(said.first().map(String::as_str), Some("Cloning `octo/shop`…"));
    assert!(!leftover.exists());
    let left: Vec<_> =
        fs::read_dir(world.workspace().parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "shop" || name == ".shop.lock"), "{left:?}");
}

#[test]
fn a_clone_that_was_not_registered_yet_is_used() {
    let world = World::start("");
    let issue = world.github.issue("alice", "Login fails", "It does.");
    let url = world.github.clone_url();
    fs::create_dir_all(world.workspace().parent().unwrap()).unwrap();
    let (bare, target) = (world.github.bare().display().to_string(), world.workspace().display().to_string());
    world.grove.repo.git(&["clone", "--quiet", &bare, &target]);
    world.grove.repo.git_in(&world.workspace(), &["remote", "set-url", "origin", &url]);
    world.ask_until(issue, "echo hello", |said| said == "hello");
    assert!(!world.calls().contains(" clone "));
}

#[test]
fn other_repositories_are_refused() {
    let world = World::start("");
    let other = world.github.another("octo/other");
    other.user("alice", "write");
    let elsewhere = other.issue("alice", "Hello", "@grove echo hello");
    let issue = world.github.issue("alice", "Login fails", "It does.");
    world.ask_until(issue, "echo hello", |said| said == "hello");
    assert!(other.comments(elsewhere).is_empty());
    assert!(!world.workspace().with_file_name("other").exists());
}
