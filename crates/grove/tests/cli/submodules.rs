//! Submodules come from the author of the commit, so only harmless ones are fetched.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grove_testkit::{Sandbox, TestRepo};

use crate::{new_sandbox, run_create, worktree_path};

/// A repository beside ours, with one file.
fn make_library(grove: &Sandbox, name: &str) -> String {
    let dir = grove.repo.temp_dir().join(name);
    fs::create_dir(&dir).unwrap();
    grove.repo.git_in(&dir, &["init", "-q"]);
    fs::write(dir.join("lib.c"), "int x;\n").unwrap();
    grove.repo.git_in(&dir, &["add", "."]);
    grove.repo.git_in(&dir, &["commit", "-q", "-m", "library"]);
    grove.repo.git_in(&dir, &["rev-parse", "HEAD"])
}

/// Pushes a commit on top of main with this `.gitmodules` and these gitlinks, as `name`.
fn push_with_submodules(grove: &Sandbox, name: &str, gitmodules: &str, links: &[(&str, &str)]) -> String {
    let work = grove.repo.temp_dir().join(format!("work-{}", name.replace('/', "-")));
    grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "origin.git", work.to_str().unwrap()]);
    fs::write(work.join(".gitmodules"), gitmodules).unwrap();
    grove.repo.git_in(&work, &["add", ".gitmodules"]);
    for (path, id) in links {
        grove.repo.git_in(&work, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},{path}")]);
    }
    grove.repo.git_in(&work, &["commit", "-q", "-m", "submodules"]);
    grove.repo.git_in(&work, &["push", "-q", "origin", &format!("HEAD:{name}")]);
    grove.repo.git_in(&work, &["rev-parse", "HEAD"])
}

fn submodule_section(name: &str, path: &str, url: &str) -> String {
    format!("[submodule \"{name}\"]\n\tpath = {path}\n\turl = {url}\n")
}

#[test]
fn a_forks_submodules_are_never_fetched() {
    let grove = new_sandbox(TestRepo::with_origin());
    let id = make_library(&grove, "private");
    let marker = grove.repo.temp_dir().join("ran");
    let url = grove.repo.temp_dir().join("private").display().to_string();
    // A repository of the person's, in which git must not run.
    let victim = grove.repo.temp_dir().join("victim");
    grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "origin.git", "victim"]);
    fs::write(victim.join(".gitmodules"), submodule_section("v", "v", &url)).unwrap();
    grove.repo.git_in(&victim, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},v")]);
    let gitmodules = submodule_section("lib", "lib", &url)
        + &submodule_section("out", victim.to_str().unwrap(), &url)
        + &format!("\tupdate = !touch {}\n", marker.display());
    push_with_submodules(&grove, "refs/pull/8/head", &gitmodules, &[("lib", &id)]);
    let made = run_create(&grove, &["--kind", "pr", "--id", "8", "--fork"]).assert_success();
    let dir = worktree_path(&made.json());
    assert!(dir.join(".gitmodules").exists(), "the review works");
    assert!(!dir.join("lib/lib.c").exists(), "fetched for a fork");
    assert!(!victim.join("v/lib.c").exists(), "git ran in another repository");
    assert!(!marker.exists());
    assert!(made.stderr.contains("fork"), "it is said: {}", made.stderr);
}

/// Counts who calls at a port.
fn count_calls() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        // Each connection is counted and closed.
        for _ in listener.incoming().take(100) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    (address, calls)
}

#[test]
fn only_the_remotes_own_host_is_asked_and_a_broken_submodule_blocks_nothing() {
    let grove = new_sandbox(TestRepo::with_origin());
    let id = make_library(&grove, "library");
    let (address, calls) = count_calls();
    let url = |name: &str| grove.repo.temp_dir().join(name).display().to_string();
    let outside = grove.repo.temp_dir().join("outside");
    let gitmodules = submodule_section("elsewhere", "elsewhere", &format!("http://{address}/x.git"))
        + &submodule_section("by ssh", "by-ssh", "ssh://git@127.0.0.1:1/x.git")
        + &submodule_section("gone", "gone", &url("nothing-there"))
        + &submodule_section("unlinked", "unlinked", &url("library"))
        + &submodule_section("absolute", outside.to_str().unwrap(), &url("library"))
        + &submodule_section("upwards", "../upwards", &url("library"))
        + &submodule_section("good", "deep/good", "../library");
    let links = ["elsewhere", "by-ssh", "gone", "deep/good"].map(|path| (path, id.as_str()));
    push_with_submodules(&grove, "refs/heads/main", &gitmodules, &links);
    let made = run_create(&grove, &["x"]).assert_success();
    let dir = worktree_path(&made.json());
    assert_eq!(fs::read_to_string(dir.join("deep/good/lib.c")).ok().as_deref(), Some("int x;\n"), "{}", made.stderr);
    assert_eq!(calls.load(Ordering::SeqCst), 0, "another host was asked");
    for name in ["elsewhere", "by-ssh", "gone"] {
        assert!(made.stderr.contains(&format!("`{name}`")), "{name} is reported: {}", made.stderr);
        assert!(!dir.join(name).join("lib.c").exists());
    }
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    assert!(!exists(&outside) && !exists(&dir.join("../upwards")) && !exists(&dir.join("unlinked/lib.c")));
}

#[test]
fn a_broken_submodule_refuses_the_creation_where_all_are_required() {
    let grove = new_sandbox(TestRepo::with_origin());
    let id = make_library(&grove, "library");
    let url = |name: &str| grove.repo.temp_dir().join(name).display().to_string();
    let gitmodules =
        submodule_section("gone", "gone", &url("nothing-there")) + &submodule_section("good", "good", "../library");
    push_with_submodules(&grove, "refs/heads/main", &gitmodules, &[("gone", &id), ("good", &id)]);
    let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
    let refused = grove_testkit::run_command(command.env("GROVE_WORKTREE_SUBMODULES", "require"));
    let error = refused.assert_exit_code(1).json()["error"].clone();
    assert_eq!(error["code"], "submodules_failed");
    assert!(error["message"].as_str().unwrap().contains("`gone`"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("worktree.submodules"), "{error}");
    assert!(!grove.repo.list_branches().contains('x'));
    let made = run_create(&grove, &["x"]).assert_success();
    assert!(worktree_path(&made.json()).join("good/lib.c").exists());
    assert!(made.stderr.contains("`gone`"), "{}", made.stderr);
}

/// The rules hold for submodules of submodules, which other people may have written.
#[test]
fn submodules_of_submodules_go_by_the_same_rules() {
    let grove = new_sandbox(TestRepo::with_origin());
    let inner = make_library(&grove, "inner");
    let (address, calls) = count_calls();
    let middle = grove.repo.temp_dir().join("middle");
    grove.repo.git_in(&grove.repo.temp_dir(), &["clone", "-q", "inner", "middle"]);
    let gitmodules = submodule_section("good", "good", "../inner")
        + &submodule_section("elsewhere", "elsewhere", &format!("http://{address}/x.git"));
    fs::write(middle.join(".gitmodules"), gitmodules).unwrap();
    grove.repo.git_in(&middle, &["add", ".gitmodules"]);
    for name in ["good", "elsewhere"] {
        grove.repo.git_in(&middle, &["update-index", "--add", "--cacheinfo", &format!("160000,{inner},{name}")]);
    }
    grove.repo.git_in(&middle, &["commit", "-q", "-m", "inner"]);
    let id = grove.repo.git_in(&middle, &["rev-parse", "HEAD"]);
    let top = submodule_section("middle", "middle", "../middle");
    push_with_submodules(&grove, "refs/heads/main", &top, &[("middle", &id)]);
    let made = run_create(&grove, &["x"]).assert_success();
    let dir = worktree_path(&made.json());
    assert!(dir.join("middle/good/lib.c").exists());
    assert_eq!(calls.load(Ordering::SeqCst), 0, "another host was asked");
    assert!(made.stderr.contains("`middle/elsewhere`"), "{}", made.stderr);
}
