//! Configuration that an agent could write into a repository names programs; none of them runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use grove_testkit::{Sandbox, TestRepo};

use crate::{create_worktree, new_sandbox, worktree_path};

/// A program that notes that it ran, and what it could see.
fn plant_program(grove: &Sandbox, name: &str) -> (PathBuf, PathBuf) {
    let (program, marker) =
        (grove.repo.temp_dir().join(format!("evil-{name}")), grove.repo.temp_dir().join(format!("ran-{name}")));
    fs::write(&program, format!("#!/bin/sh\nenv >> {}\ncat\nexit 1\n", marker.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    (program, marker)
}

/// Makes git read a file again: its bytes are the same, its time is another.
fn touch_file(file: &Path) {
    let later = SystemTime::now() + Duration::from_secs(5);
    fs::File::open(file).unwrap().set_modified(later).unwrap();
}

fn commit_file(grove: &Sandbox, dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).unwrap();
    grove.repo.git_in(dir, &["add", name]);
    grove.repo.git_in(dir, &["commit", "-q", "-m", name]);
}

#[test]
fn a_planted_filter_does_not_run_where_grove_only_looks() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    commit_file(&grove, &dir, ".gitattributes", "* filter=evil\n");
    let (program, marker) = plant_program(&grove, "filter");
    for key in ["clean", "smudge", "process"] {
        grove.repo.git(&["config", &format!("filter.evil.{key}"), program.to_str().unwrap()]);
    }
    grove.repo.git(&["config", "filter.evil.required", "true"]);
    // In a file that the repository's config includes, too.
    let more = grove.repo.temp_dir().join("more");
    fs::write(&more, format!("[filter \"other\"]\n\tclean = {}\n", program.display())).unwrap();
    grove.repo.git(&["config", "include.path", more.to_str().unwrap()]);
    fs::write(grove.repo.path().join(".git/info/attributes"), "*.md filter=other\n").unwrap();
    let commands: [&[&str]; 7] = [
        &["worktree", "list", "--json"],
        &["worktree", "show", "x", "--json"],
        &["worktree", "diff", "x"],
        &["worktree", "remove", "x", "--dry-run", "--json"],
        &["worktree", "cleanup", "merged", "--dry-run", "--json"],
        &["doctor", "--json"],
        &["worktree", "remove", "x", "--force", "--json"],
    ];
    for command in commands {
        for name in ["README.md", "src/main.c"] {
            touch_file(&dir.join(name));
        }
        grove.grove(command);
        assert!(!marker.exists(), "{command:?} ran it: {}", fs::read_to_string(&marker).unwrap_or_default());
    }
}

#[test]
fn planted_drivers_and_signers_do_not_run_when_work_is_merged() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    grove.repo.write_file(".gitattributes", "* merge=evil diff=evil\n");
    grove.repo.commit_all("attributes");
    fs::write(grove.repo.path().join(".git/info/attributes"), "* merge=evil diff=evil\n").unwrap();
    let (program, marker) = plant_program(&grove, "driver");
    let evil = program.to_str().unwrap();
    for key in
        ["merge.evil.driver", "diff.evil.command", "diff.evil.textconv", "gpg.program", "core.editor", "core.pager"]
    {
        grove.repo.git(&["config", key, &format!("{evil} %A")]);
    }
    grove.repo.git(&["config", "gpg.program", evil]);
    for key in ["commit.gpgSign", "tag.gpgSign", "push.gpgSign", "log.showSignature"] {
        grove.repo.git(&["config", key, "true"]);
    }
    let plainly = ["-c", "commit.gpgSign=false"];
    let both = |at: &Path, text: &str| {
        fs::write(at.join("src/main.c"), text).unwrap();
        let mut args = plainly.to_vec();
        args.extend(["commit", "-q", "-a", "-m", "change"]);
        grove.repo.git_in(at, &args);
    };
    both(&dir, "int main(void) { return 1; }\n");
    both(grove.repo.path(), "int main(void) { return 2; }\n");
    let commands: [&[&str]; 6] = [
        &["worktree", "list", "--json"],
        &["worktree", "diff", "x"],
        &["worktree", "cleanup", "merged", "--dry-run", "--json"],
        &["worktree", "sync", "x", "--json"],
        &["worktree", "finish", "x", "--json"],
        &["worktree", "finish", "x", "--method", "squash", "--json"],
    ];
    for command in commands {
        grove.grove(command);
        assert!(!marker.exists(), "{command:?} ran it: {}", fs::read_to_string(&marker).unwrap_or_default());
    }
}

#[test]
fn a_planted_way_to_the_remote_is_not_taken() {
    let grove = new_sandbox(TestRepo::with_origin());
    let (program, marker) = plant_program(&grove, "remote");
    let evil = program.to_str().unwrap();
    for key in ["remote.origin.uploadpack", "remote.origin.receivepack", "core.gitProxy", "core.alternateRefsCommand"] {
        grove.repo.git(&["config", key, evil]);
    }
    let new = grove.repo.push_commit("refs/heads/main", "origin/main", "new");
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    assert!(!marker.exists(), "creation ran it");
    assert_eq!(grove.repo.git_in(&dir, &["rev-parse", "HEAD"]), new, "fetched all the same");
    // By ssh, and through a helper for another protocol.
    for (key, value) in [("core.sshCommand", evil), ("remote.origin.vcs", "evil")] {
        grove.repo.git(&["config", key, value]);
    }
    grove.repo.git(&["config", "remote.origin.url", "ssh://git@127.0.0.1:1/x.git"]);
    grove.grove(["worktree", "create", "y", "--json"]);
    grove.grove(["worktree", "sync", "x", "--json"]);
    assert!(!marker.exists(), "{}", fs::read_to_string(&marker).unwrap_or_default());
}
