//! `grove shell-init`, `grove cd` and completion, in the real shells of this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use grove_testkit::{ProgramOutput, Sandbox, TestRepo, TestTerminal, bare_env};

use crate::{create_worktree, new_sandbox, worktree_path};

/// A shell that a person uses, with `grove shell-init` in its startup file.
fn shell_command(grove: &Sandbox, shell: &str, args: &[&str]) -> Command {
    let mut command = Command::new(shell);
    command.env_clear().envs(bare_env(&grove.repo.home_dir())).env("GROVE_HOME", grove.grove_home());
    command.current_dir(grove.repo.path()).args(args);
    command
}

/// Runs a script in a shell in which `grove` is the function.
fn run_in_shell(grove: &Sandbox, shell: &str, script: &str) -> ProgramOutput {
    let program = env!("CARGO_BIN_EXE_grove");
    let init = match shell {
        "fish" => format!("{program} shell-init fish | source"),
        _ => format!("eval \"$({program} shell-init {shell})\""),
    };
    ProgramOutput::from(&mut shell_command(grove, shell, &["-c", &format!("{init}\n{script}")]))
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn init_file(grove: &Sandbox) -> PathBuf {
    let file = grove.repo.temp_dir().join("bashrc");
    let program = env!("CARGO_BIN_EXE_grove");
    fs::write(&file, format!("PS1='ready> '\neval \"$({program} shell-init bash)\"\n")).unwrap();
    file
}

/// A person at an interactive bash.
fn start_bash(grove: &Sandbox) -> TestTerminal {
    let file = init_file(grove);
    let args = ["--noprofile", "--rcfile", file.to_str().unwrap(), "-i"];
    let mut terminal = TestTerminal::start(shell_command(grove, "bash", &args).env("NO_COLOR", "1"));
    terminal.wait_for_text("ready> ");
    terminal
}

#[track_caller]
fn assert_at(terminal: &mut TestTerminal, dir: &Path) {
    terminal.type_keys("echo \"at:$PWD:\"\r");
    terminal.wait_for_text(&format!("at:{}:", dir.display()));
    terminal.wait_for_text("ready> ");
}

#[test]
fn every_installed_shell_changes_its_directory() {
    let grove = new_sandbox(TestRepo::new());
    let dir = worktree_path(&create_worktree(&grove, &["feature/login"]));
    let here = dir.display();
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| is_installed(shell)) {
        let ran = run_in_shell(&grove, shell, "grove cd feature/login; pwd").assert_success();
        assert_eq!(ran.stdout, format!("{here}\n"), "{shell}");
        let ran = run_in_shell(&grove, shell, "gcd feature/login; pwd").assert_success();
        assert_eq!(ran.stdout, format!("{here}\n"), "{shell}");
        // Everything else is the program's.
        let ran = run_in_shell(&grove, shell, "grove worktree path feature/login").assert_success();
        assert_eq!(ran.stdout, format!("{here}\n"), "{shell}");
        assert!(run_in_shell(&grove, shell, "grove cd --help").assert_success().stdout.contains("Usage: grove cd"));
        // A refusal leaves the shell where it is, and its exit code tells.
        let code = if shell == "fish" { "$status" } else { "$?" };
        let refused = run_in_shell(&grove, shell, &format!("grove cd nope; echo {code}; pwd")).assert_success();
        assert!(refused.stderr.contains("nope"), "{shell}: {refused:?}");
        assert!(refused.stdout.starts_with("1\n") && refused.stdout.ends_with("/repo\n"), "{shell}: {refused:?}");
    }
}

#[test]
fn without_the_function_grove_cd_says_how_to_get_it() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["x"]);
    let (code, text) = grove.grove(["cd", "x", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "no_shell_function");
    assert!(text.contains("eval \"$(grove shell-init bash)\"") && text.contains("~/.zshrc"), "{text}");
    // A script without a terminal cannot choose.
    let (code, _) = grove.grove(["cd", "--print-path", "--json"]).assert_exit_code(2).json_error();
    assert_eq!(code, "usage");
    grove.grove(["worktree", "hibernate", "x"]).assert_success();
    let (_, text) = grove.grove(["cd", "--print-path", "x", "--json"]).assert_exit_code(1).json_error();
    assert!(text.contains("grove worktree wake x"), "{text}");
}

#[test]
fn a_worktree_of_another_codebase_is_found_from_anywhere() {
    let grove = new_sandbox(TestRepo::new());
    let other = TestRepo::new();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    grove.grove(["codebase", "add", other.path().to_str().unwrap(), "--name", "other"]).assert_success();
    let cd = |args: &[&str]| {
        let mut command = grove.grove_command(["cd", "--print-path"].iter().chain(args));
        ProgramOutput::from(command.current_dir(grove.repo.temp_dir()))
    };
    assert_eq!(cd(&["x"]).assert_success().stdout, format!("{}\n", dir.display()));
    grove.grove(["worktree", "create", "x", "--codebase", "other", "--json"]).assert_success();
    let (code, text) = cd(&["x", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "which_codebase");
    assert!(text.contains("other, repo") || text.contains("repo, other"), "{text}");
    assert_eq!(cd(&["x", "--codebase", "repo"]).assert_success().stdout, format!("{}\n", dir.display()));
}

#[test]
fn a_person_chooses_from_a_list() {
    let grove = new_sandbox(TestRepo::new());
    let login = worktree_path(&create_worktree(&grove, &["feature/login"]));
    let other = worktree_path(&create_worktree(&grove, &["other"]));
    fs::write(login.join("new"), "new\n").unwrap();
    let mut terminal = start_bash(&grove);
    terminal.type_keys("grove cd\r");
    terminal.wait_for_text("Go to");
    terminal.wait_for_text("1 untracked");
    // Some of its letters are enough.
    terminal.type_keys("fealog");
    terminal.type_keys("\r");
    terminal.wait_for_text("ready> ");
    assert_at(&mut terminal, &login);
    // Esc changes nothing.
    terminal.type_keys("gcd\r");
    terminal.wait_for_text("1 untracked");
    terminal.type_keys("\x1b");
    terminal.wait_for_text("ready> ");
    assert_at(&mut terminal, &login);
    terminal.type_keys("gcd\r");
    terminal.wait_for_text("1 untracked");
    terminal.type_keys("\x03");
    terminal.wait_for_text("ready> ");
    assert_at(&mut terminal, &login);
    terminal.type_keys("grove cd other\r");
    terminal.wait_for_text("ready> ");
    assert_at(&mut terminal, &other);
}

#[test]
fn tab_knows_the_names() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["feature/login"]);
    create_worktree(&grove, &["gone"]);
    grove.grove(["worktree", "remove", "gone"]).assert_success();
    let mut terminal = start_bash(&grove);
    for (typed, completed) in [
        ("grove worktree remove fe\t", "ature/login"),
        ("grove worktree undo g\t", "one"),
        ("grove codebase show re\t", "po"),
        ("grove worktree list --codebase r\t", "epo"),
        ("grove agent test s\t", "h"),
        ("grove cd fe\t", "ature/login"),
        ("gcd fe\t", "ature/login"),
        ("grove work\t", "tree"),
    ] {
        terminal.type_keys(typed);
        terminal.wait_for_text(&format!("{}{completed}", typed.trim_end()));
        // Erase the line.
        terminal.type_keys("\x15\r");
        terminal.wait_for_text("ready> ");
    }
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let grove = new_sandbox(TestRepo::new());
    let page = grove.grove(["man"]).assert_success().stdout;
    assert!(page.contains(".TH grove 1") && page.contains("worktree"), "{page}");
    let dir = grove.repo.temp_dir().join("man/man1");
    grove.grove(["man", "--out", dir.to_str().unwrap()]).assert_success();
    let page = fs::read_to_string(dir.join("grove-worktree-create.1")).unwrap();
    assert!(page.contains("linked\\-issue"), "{page}");
    let file = grove.repo.temp_dir().join("file");
    fs::write(&file, "").unwrap();
    let (code, _) = grove.grove(["man", "--out", file.to_str().unwrap(), "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "not_writable");
}
