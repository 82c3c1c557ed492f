//! `grove worktree diff`: for people at a terminal, and for scripts.

use std::fs;

use grove_testkit::{ProgramOutput, TestRepo, TestTerminal};
use serde_json::json;

use crate::{create_worktree, new_sandbox, worktree_path};

#[test]
fn a_worktree_shows_what_was_changed() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("new file"), "new\n").unwrap();
    fs::write(dir.join("README.md"), "# Another\n").unwrap();
    // Inside, the name may be left away.
    let here = |args: &[&str]| {
        let mut command = grove.grove_command(["worktree", "diff"].iter().chain(args));
        ProgramOutput::from(command.current_dir(dir.join("src"))).assert_success().stdout
    };
    let patch = grove.grove(["worktree", "diff", "x"]).assert_success().stdout;
    assert!(patch.starts_with("diff --git a/README.md b/README.md\n") && patch.contains("+++ b/new file"), "{patch}");
    assert_eq!(here(&[]), patch);
    assert_eq!(here(&["--name-only"]), "README.md\nnew file\n");
    assert!(here(&["--stat"]).contains(" new file  | 1 +\n"), "{}", here(&["--stat"]));
    let json = |args: &[&str]| serde_json::from_str::<serde_json::Value>(&here(args)).unwrap();
    assert_eq!(json(&["--json"]), json!({ "branch": "x", "patch": patch }));
    assert_eq!(json(&["--json", "--name-only"]), json!({ "branch": "x", "files": ["README.md", "new file"] }));
    let (code, text) = grove.grove(["worktree", "diff", "--json"]).assert_exit_code(2).json_error();
    assert_eq!(code, "usage");
    assert!(text.contains("in no worktree"), "{text}");
    // What cannot be looked at says so.
    fs::remove_file(dir.join("new file")).unwrap();
    grove.repo.git_in(&dir, &["checkout", "-q", "."]);
    assert_eq!(here(&[]), "");
    grove.grove(["worktree", "hibernate", "x"]).assert_success();
    let (_, text) = grove.grove(["worktree", "diff", "x", "--json"]).assert_exit_code(1).json_error();
    assert!(text.contains("it hibernates"), "{text}");
}

#[test]
fn a_terminal_gets_colours_and_the_pager_and_a_pipe_does_not() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    fs::write(dir.join("new"), "new\n").unwrap();
    let command = |pager: &str| {
        let mut command = grove.grove_command(["worktree", "diff", "x"]);
        command.env("GIT_PAGER", pager).env("PAGER", "false");
        command
    };
    let mut terminal = TestTerminal::start(&command("sed 's/^/paged: /'"));
    terminal.wait_for_text("paged: \u{1b}[1mdiff --git a/new b/new");
    terminal.wait_for_text("\u{1b}[32mnew\u{1b}[m");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    // Without a pager, and without colours.
    let mut terminal = TestTerminal::start(command("cat").env("NO_COLOR", "1"));
    terminal.wait_for_text("diff --git a/new b/new");
    let rest = terminal.sees_after("+new\r\n");
    assert!(!rest.contains('\u{1b}'), "{rest:?}");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    let piped = ProgramOutput::from(&mut command("sed 's/^/paged: /'")).assert_success().stdout;
    assert!(piped.starts_with("diff --git a/new b/new\n") && !piped.contains('\u{1b}'), "{piped}");
}
