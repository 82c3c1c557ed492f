//! What a refusal says: what the command cannot do, and what helps.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use grove_testkit::{Sandbox, TestRepo};
use serde_json::Value;

use crate::{create_worktree, new_sandbox, worktree_path};

/// Runs a command that is refused, and gives its message and all that it says to do.
#[track_caller]
fn refused_words(grove: &Sandbox, args: &[&str]) -> (String, String) {
    let ran = grove.grove(["worktree"].iter().chain(args).chain(&["--json"])).assert_exit_code(1);
    let error = ran.json()["error"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let reasons = error["reasons"].as_array().cloned().unwrap_or_default();
    let hints: Vec<String> =
        std::iter::once(text(&error["hint"])).chain(reasons.iter().map(|reason| text(&reason["hint"]))).collect();
    (text(&error["message"]), hints.join("\n"))
}

#[test]
fn each_command_words_its_own_refusal() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("README.md"), "changed\n").unwrap();
    let (message, hint) = refused_words(&grove, &["remove", "x"]);
    assert_eq!(message, "Cannot remove worktree - you have uncommitted changes.");
    assert!(hint.contains("`--force`"), "{hint}");
    let (message, hint) = refused_words(&grove, &["finish", "x"]);
    assert_eq!(message, "Cannot finish worktree - you have uncommitted changes.");
    assert!(hint.contains("Commit the changes") && hint.contains("finish again"), "{hint}");
    assert!(!hint.contains("--force"), "{hint}");
    let (message, hint) = refused_words(&grove, &["sync", "x"]);
    assert_eq!(message, "Cannot sync worktree - you have uncommitted changes.");
    assert!(!hint.contains("--force"), "{hint}");
    let inner = dir.join("inner");
    grove.repo.git(&["worktree", "add", "-q", "-b", "inner", inner.to_str().unwrap()]);
    let (message, hint) = refused_words(&grove, &["hibernate", "x"]);
    assert!(message.starts_with("Cannot hibernate worktree - another worktree lies inside it"), "{message}");
    assert!(!hint.contains("--force") && hint.contains("Remove that one first"), "{hint}");
}

#[test]
fn a_refusal_without_force_does_not_mention_it() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let inner = dir.join("inner");
    grove.repo.git(&["worktree", "add", "-q", "-b", "inner", inner.to_str().unwrap()]);
    // `abort` forces by itself and has no such flag.
    let (message, hint) = refused_words(&grove, &["abort", "x"]);
    assert!(message.contains("another worktree lies inside it"), "{message}");
    assert!(hint.contains("Remove that one first") && !hint.contains("--force"), "{hint}");
}

/// All files of product code below a folder.
fn source_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => source_files(&path, into),
            false => into.extend(path.extension().is_some_and(|kind| kind == "rs").then_some(path)),
        }
    }
}

/// The help of `grove WORDS`, or nothing if there is no such command.
fn command_help(grove: &Sandbox, words: &[&str], known: &mut BTreeMap<String, Option<String>>) -> Option<String> {
    let ask = || {
        let ran = grove.grove(words.iter().chain(&["--help"]));
        (ran.code == 0).then_some(ran.stdout)
    };
    known.entry(words.join(" ")).or_insert_with(ask).clone()
}

#[test]
fn every_command_that_is_named_exists() {
    let grove = new_sandbox(TestRepo::new());
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in ["agents", "conversations", "environments", "git", "grove", "model", "platforms", "store"] {
        source_files(&crates.join(name).join("src"), &mut files);
    }
    let (mut known, mut named) = (BTreeMap::new(), 0);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Comments may also name internal commands.
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for command in line.split("`grove ").skip(1).filter_map(|rest| rest.split_once('`')) {
                let words: Vec<&str> = command.0.split_whitespace().take_while(|word| *word != "--").collect();
                let mut path: Vec<&str> = Vec::new();
                let mut help = command_help(&grove, &path, &mut known).unwrap();
                let is_name =
                    |word: &&str| !word.starts_with('-') && word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                for word in words.iter().copied().take_while(is_name) {
                    if !help.contains("\nCommands:\n") {
                        break;
                    }
                    path.push(word);
                    help = command_help(&grove, &path, &mut known)
                        .unwrap_or_else(|| panic!("`grove {}` does not exist: {}", path.join(" "), file.display()));
                }
                for flag in words.iter().filter(|word| word.starts_with('-')) {
                    assert!(help.contains(flag), "`grove {}` has no {flag}: {}", path.join(" "), file.display());
                }
                named += 1;
            }
        }
    }
    assert!(named > 30, "{named}");
}

#[test]
fn counts_have_the_right_plural() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    let untracked = || {
        let ran = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
        let checks = ran["checks"].as_array().unwrap().clone();
        let check = checks.iter().find(|check| check["code"] == "untracked_files").unwrap().clone();
        check["detail"].as_str().unwrap().to_owned()
    };
    fs::write(dir.join("new"), "x").unwrap();
    assert_eq!(untracked(), "1 untracked file or folder");
    for n in 1..7 {
        fs::write(dir.join(format!("new{n}")), "x").unwrap();
    }
    assert_eq!(untracked(), "7 untracked files or folders");
}

#[test]
fn a_branch_that_a_worktree_holds_says_how_to_get_it() {
    let grove = new_sandbox(TestRepo::new());
    let add = |name: &str| {
        let dir = grove.repo.temp_dir().join(name);
        grove.repo.git(&["worktree", "add", "-q", "-b", name, dir.to_str().unwrap()]);
        dir
    };
    // Its folder was deleted by hand.
    fs::remove_dir_all(add("deleted")).unwrap();
    let (message, hint) = refused_words(&grove, &["create", "deleted"]);
    assert!(message.contains("deleted") && hint.contains("`git worktree prune`"), "{message} {hint}");
    assert!(!hint.contains("Work there"), "{hint}");
    grove.repo.git(&["worktree", "prune"]);
    let made = worktree_path(&create_worktree(&grove, &["deleted"]));
    // The same on the way back.
    grove.repo.git_in(&made, &["commit", "-q", "--allow-empty", "-m", "own"]);
    grove.grove(["worktree", "remove", "deleted"]).assert_success();
    let other = grove.repo.temp_dir().join("other");
    grove.repo.git(&["worktree", "add", "-q", other.to_str().unwrap(), "deleted"]);
    fs::remove_dir_all(other).unwrap();
    let (_, hint) = refused_words(&grove, &["undo", "deleted"]);
    assert!(hint.contains("`git worktree prune`") && !hint.contains("check out"), "{hint}");
    grove.repo.git(&["worktree", "prune"]);
    grove.grove(["worktree", "undo", "deleted"]).assert_success();
    // The same, locked: it may be on a disk that is away.
    let dir = add("locked");
    grove.repo.git(&["worktree", "lock", dir.to_str().unwrap()]);
    fs::remove_dir_all(&dir).unwrap();
    let (_, hint) = refused_words(&grove, &["create", "locked"]);
    assert!(hint.contains(&format!("git worktree unlock {}", dir.display())) && !hint.contains("Work there"), "{hint}");
    // A person's own worktree.
    let dir = add("theirs");
    let (_, hint) = refused_words(&grove, &["create", "theirs"]);
    assert!(hint.contains(&format!("`grove worktree adopt {}`", dir.display())), "{hint}");
    grove.grove(["worktree", "adopt", dir.to_str().unwrap()]).assert_success();
    // The main checkout is never adopted.
    let (_, hint) = refused_words(&grove, &["create", "main"]);
    assert!(!hint.contains("adopt"), "{hint}");
}

#[test]
fn a_remote_without_commits_asks_for_a_first_push() {
    let grove = new_sandbox(TestRepo::new());
    let empty = grove.repo.temp_dir().join("empty.git");
    grove.repo.git(&["init", "-q", "--bare", empty.to_str().unwrap()]);
    grove.repo.git(&["remote", "add", "origin", empty.to_str().unwrap()]);
    let (message, hint) = refused_words(&grove, &["create", "x"]);
    assert!(message.contains("`origin` has no branches yet"), "{message}");
    assert!(hint.contains("git push -u origin HEAD"), "{hint}");
    // As the words say, and the next ones as well.
    grove.repo.git(&["push", "-q", "-u", "origin", "HEAD"]);
    let (_, hint) = refused_words(&grove, &["create", "x"]);
    assert!(hint.contains("git remote set-head origin --auto"), "{hint}");
    grove.repo.git_in(&empty, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    grove.repo.git(&["remote", "set-head", "origin", "--auto"]);
    create_worktree(&grove, &["x"]);
}

/// Breaks the signature at the start of a worktree's index.
fn damage_index(grove: &Sandbox, dir: &Path) {
    let index = grove.repo.git_in(dir, &["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    let mut file = fs::File::options().write(true).open(index).unwrap();
    file.rewind().unwrap();
    file.write_all(b"XXXX").unwrap();
}

#[test]
fn a_damaged_index_says_what_repairs_it() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("README.md"), "changed\n").unwrap();
    damage_index(&grove, &dir);
    for command in ["remove", "finish", "sync", "hibernate"] {
        let (message, hint) = refused_words(&grove, &[command, "x"]);
        assert!(hint.contains("--git-path index") && hint.contains("git reset"), "{command}: {message} {hint}");
    }
    let doctor = grove.grove(["doctor"]).stdout;
    assert!(doctor.contains("git reset") && !doctor.contains("git worktree repair"), "{doctor}");
    // As the words say.
    let repair = "rm \"$(git rev-parse --git-path index)\" && git reset -q";
    grove.grove(["worktree", "exec", "x", "--", "sh", "-c", repair]).assert_success();
    let (message, _) = refused_words(&grove, &["remove", "x"]);
    assert_eq!(message, "Cannot remove worktree - you have uncommitted changes.");
    assert_eq!(fs::read_to_string(dir.join("README.md")).unwrap(), "changed\n");
}

#[test]
fn an_index_that_git_itself_cannot_read_names_the_settings() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.git(&["config", "core.splitIndex", "true"]);
    grove.repo.git(&["config", "index.skipHash", "true"]);
    let (message, hint) = refused_words(&grove, &["create", "x"]);
    assert!(message.contains("core.splitIndex") && message.contains("index.skipHash"), "{message}");
    assert!(hint.contains("git config core.splitIndex false") && !hint.contains("disk"), "{hint}");
    grove.repo.git(&["config", "core.splitIndex", "false"]);
    create_worktree(&grove, &["x"]);
}
