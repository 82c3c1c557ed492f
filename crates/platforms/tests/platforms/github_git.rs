//! Real git against the fake: what the rest of the tests rely on.

use std::path::Path;
use std::process::Command;

use grove_testkit::github::{BOT_LOGIN, FakeGithub};
use grove_testkit::{bare_env, first_git};

fn run_git(github: &FakeGithub, dir: &Path, args: &[&str]) -> (bool, String) {
    let home = github.temp_dir().join("home");
    let mut command = Command::new(first_git());
    command.env_clear().envs(bare_env(&home)).env("GIT_TERMINAL_PROMPT", "0").current_dir(dir).args(args);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

#[test]
fn git_clones_fetches_and_pushes_with_a_token() {
    let github = FakeGithub::start("octo/shop");
    github.add_user("alice", "write");
    let dir = tempfile::tempdir().unwrap();
    let with = |token: &str| github.clone_url().replace("http://", &format!("http://x-access-token:{token}@"));
    let ok = |args: &[&str]| {
        let (ok, text) = run_git(&github, dir.path(), args);
        assert!(ok, "{args:?}: {text}");
        text
    };
    assert!(!run_git(&github, dir.path(), &["clone", "-q", &github.clone_url(), "x"]).0, "not without one");
    assert!(!run_git(&github, dir.path(), &["clone", "-q", &with("wrong"), "x"]).0);
    let url = with(&github.create_token(BOT_LOGIN));
    ok(&["clone", "-q", &url, "shop"]);
    std::fs::write(dir.path().join("shop/new.c"), "int x;\n".repeat(200_000)).unwrap();
    ok(&["-C", "shop", "checkout", "-q", "-b", "issue-42"]);
    ok(&["-C", "shop", "add", "."]);
    ok(&["-C", "shop", "commit", "-q", "-m", "work"]);
    ok(&["-C", "shop", "push", "-q", "origin", "issue-42"]);
    let pushed = ok(&["-C", "shop", "rev-parse", "HEAD"]);
    assert_eq!(github.resolve_sha("issue-42"), Some(pushed.clone()));
    let number = github.open_pull("alice", "issue-42", "Work", "");
    ok(&["-C", "shop", "fetch", "-q", "origin", &format!("pull/{number}/head")]);
    assert_eq!(ok(&["-C", "shop", "rev-parse", "FETCH_HEAD"]), pushed);
    // A push moves the pull request.
    ok(&["-C", "shop", "commit", "-q", "--allow-empty", "-m", "more"]);
    ok(&["-C", "shop", "push", "-q", "origin", "issue-42"]);
    assert_eq!(Some(github.pull_head(number)), github.resolve_sha("issue-42"));
    assert_ne!(github.pull_head(number), pushed);
    assert_eq!(github.resolve_sha(&format!("refs/pull/{number}/head")), Some(github.pull_head(number)));

    github.add_user("rita", "read");
    let reader = with(&github.create_token("rita"));
    assert!(run_git(&github, dir.path(), &["ls-remote", "-q", &reader]).0);
    assert!(!run_git(&github, dir.path(), &["-C", "shop", "push", "-q", &reader, "HEAD:refs/heads/evil"]).0);
    assert_eq!(github.resolve_sha("evil"), None);
}

#[test]
fn a_squash_is_one_commit() {
    let github = FakeGithub::start("octo/shop");
    github.push("alice", "x", "a.c", "a");
    github.push("alice", "x", "b.c", "b");
    let number = github.open_pull("alice", "x", "Both", "");
    let before = github.resolve_sha("main").unwrap();
    let merged = github.squash("alice", number);
    assert_eq!(github.resolve_sha("main"), Some(merged));
    assert_eq!(github.resolve_sha("main^"), Some(before));
    assert_eq!(github.resolve_sha("main^2"), None);
}
