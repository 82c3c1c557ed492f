//! Real git against the fake: what the rest of the tests rely on.

use std::path::Path;
use std::process::Command;

use grove_testkit::github::{BOT, FakeGithub};
use grove_testkit::{bare_env, gits};

fn git(github: &FakeGithub, dir: &Path, args: &[&str]) -> (bool, String) {
    let home = github.dir().join("home");
    let mut command = Command::new(&gits()[0]);
    command.env_clear().envs(bare_env(&home)).env("GIT_TERMINAL_PROMPT", "0").current_dir(dir).args(args);
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).trim().to_owned())
}

#[test]
fn git_clones_fetches_and_pushes_with_a_token() {
    let github = FakeGithub::start("octo/shop");
    github.user("alice", "write");
    let dir = tempfile::tempdir().unwrap();
    let with = |token: &str| github.clone_url().replace("http://", &format!("http://x-access-token:{token}@"));
    let ok = |args: &[&str]| {
        let (ok, text) = git(&github, dir.path(), args);
        assert!(ok, "{args:?}: {text}");
        text
    };
    assert!(!git(&github, dir.path(), &["clone", "-q", &github.clone_url(), "x"]).0, "not without one");
    assert!(!git(&github, dir.path(), &["clone", "-q", &with("wrong"), "x"]).0);
    let url = with(&github.token(BOT));
    ok(&["clone", "-q", &url, "shop"]);
    std::fs::write(dir.path().join("shop/new.c"), "int x;\n".repeat(200_000)).unwrap();
    ok(&["-C", "shop", "checkout", "-q", "-b", "issue-42"]);
    ok(&["-C", "shop", "add", "."]);
    ok(&["-C", "shop", "commit", "-q", "-m", "work"]);
    ok(&["-C", "shop", "push", "-q", "origin", "issue-42"]);
    let pushed = ok(&["-C", "shop", "rev-parse", "HEAD"]);
    assert_eq!(github.sha("issue-42"), Some(pushed.clone()));
    let number = github.pull("alice", "issue-42", "Work", "");
    ok(&["-C", "shop", "fetch", "-q", "origin", &format!("pull/{number}/head")]);
    assert_eq!(ok(&["-C", "shop", "rev-parse", "FETCH_HEAD"]), pushed);
    // A push moves the pull request.
    ok(&["-C", "shop", "commit", "-q", "--allow-empty", "-m", "more"]);
    ok(&["-C", "shop", "push", "-q", "origin", "issue-42"]);
    assert_eq!(Some(github.head(number)), github.sha("issue-42"));
    assert_ne!(github.head(number), pushed);
    assert_eq!(github.sha(&format!("refs/pull/{number}/head")), Some(github.head(number)));

    github.user("rita", "read");
    let reader = with(&github.token("rita"));
    assert!(git(&github, dir.path(), &["ls-remote", "-q", &reader]).0);
    assert!(!git(&github, dir.path(), &["-C", "shop", "push", "-q", &reader, "HEAD:refs/heads/evil"]).0);
    assert_eq!(github.sha("evil"), None);
}

#[test]
fn a_squash_is_one_commit() {
    let github = FakeGithub::start("octo/shop");
    github.push("alice", "x", "a.c", "a");
    github.push("alice", "x", "b.c", "b");
    let number = github.pull("alice", "x", "Both", "");
    let before = github.sha("main").unwrap();
    let merged = github.squash("alice", number);
    assert_eq!(github.sha("main"), Some(merged));
    assert_eq!(github.sha("main^"), Some(before));
    assert_eq!(github.sha("main^2"), None);
}
