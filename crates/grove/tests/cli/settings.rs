use std::fs;

use grove_testkit::{ProgramOutput, TestRepo};

use crate::new_sandbox;

#[test]
fn a_bad_setting_stops_the_start_and_changes_nothing() {
    let grove = new_sandbox(TestRepo::new());
    fs::create_dir_all(grove.grove_home()).unwrap();
    let config = grove.grove_home().join("config.toml");
    fs::write(&config, "# mine\n\n[cleanup]\nstale_dayz = 3\n").unwrap();
    for args in [
        &["worktree", "create", "x", "--json"][..],
        &["worktree", "list", "--json"],
        &["codebase", "list", "--json"],
        &["config", "show", "--json"],
    ] {
        let (code, message) = grove.grove(args).assert_exit_code(1).json_error();
        assert_eq!(code, "bad_setting");
        assert!(
            message.contains(&format!("{}:4: `cleanup.stale_dayz` is not a setting", config.display())),
            "{message}"
        );
        assert!(message.contains("Did you mean `cleanup.stale_days`?"), "{message}");
    }
    assert_eq!(fs::read_dir(grove.grove_home()).unwrap().count(), 1, "no store was made");
    fs::write(&config, "").unwrap();
    let mut command = grove.grove_command(["worktree", "list", "--json"]);
    let (code, message) =
        ProgramOutput::from(command.env("STALE_THRESHOLD_DAYS", "abc")).assert_exit_code(1).json_error();
    assert_eq!(code, "bad_setting");
    assert!(
        message.contains("STALE_THRESHOLD_DAYS") && message.contains("cleanup.stale_days") && message.contains("`abc`"),
        "{message}"
    );
    let ran = ProgramOutput::from(grove.grove_command(["worktree", "list"]).env("STALE_THRESHOLD_DAYS", "abc"))
        .assert_exit_code(1);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error: $STALE_THRESHOLD_DAYS: "), "{}", ran.stderr);
}

#[test]
fn a_bad_setting_of_the_repository_is_named_with_its_line_and_branch() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.write_file(".grove/config.toml", "[worktree]\nremote = \"x\"\n");
    grove.repo.commit_all("settings");
    let (code, message) = crate::expect_create_refused(&grove, &["x"]);
    assert_eq!(code, "bad_setting");
    assert!(
        message.contains(".grove/config.toml:2 on main: `worktree.remote` cannot be set by a repository"),
        "{message}"
    );
}

#[test]
fn the_effective_settings_say_where_they_come_from() {
    let grove = new_sandbox(TestRepo::new());
    fs::create_dir_all(grove.grove_home()).unwrap();
    let config = grove.grove_home().join("config.toml");
    fs::write(&config, "[worktree]\nlayout = \"project\"\n[server]\ntoken = \"s3cret\"\n").unwrap();
    grove.repo.write_file(".grove/config.toml", "worktree.base_branch = \"main\"\n");
    grove.repo.commit_all("settings");
    let mut command = grove.grove_command(["config", "show", "--json"]);
    command.env("DATABASE_URL", "postgres://me:pa55@localhost/grove").env("GROVE_PUSH", "never");
    let ran = ProgramOutput::from(&mut command).assert_success();
    assert!(!ran.stdout.contains("s3cret") && !ran.stdout.contains("pa55"), "{}", ran.stdout);
    let shown = ran.json();
    let entry =
        |key: &str| shown["settings"].as_array().unwrap().iter().find(|entry| entry["key"] == key).unwrap().clone();
    assert_eq!(
        (entry("worktree.layout")["value"].as_str(), entry("worktree.layout")["origin"].as_str()),
        (Some("project"), Some(format!("{}:2", config.display()).as_str()))
    );
    assert_eq!(entry("worktree.base_branch")["origin"], ".grove/config.toml:1 on main");
    assert_eq!((&entry("push")["value"], &entry("push")["origin"]), (&"never".into(), &"$GROVE_PUSH".into()));
    assert_eq!(entry("store.url")["value"], "postgres://***@localhost/grove");
    assert_eq!(entry("server.token")["value"], "***");
    for unset in ["adapters.github.token", "adapters.github.webhook_secret"] {
        assert_eq!(entry(unset)["value"], serde_json::Value::Null, "{unset}");
    }
    let table = grove.grove(["config", "show"]).assert_success().stdout;
    let masked: Vec<&str> = table.lines().filter(|line| line.contains("***")).collect();
    assert!(matches!(masked[..], [line] if line.starts_with("server.token ")), "{masked:?}");
    assert_eq!(
        (&entry("limits.min_free_disk")["value"], &entry("limits.min_free_disk")["origin"]),
        (&"1GiB".into(), &"default".into())
    );
    let text = grove.grove(["config", "show"]).assert_success().stdout;
    assert!(text.lines().any(|line| line.starts_with("worktree.layout") && line.contains("project")), "{text}");
}

#[test]
fn wrong_usage_is_exit_code_2_and_json_when_asked_for() {
    let grove = new_sandbox(TestRepo::new());
    for args in [
        &["worktree"][..],
        &["frobnicate"],
        &["worktree", "create"],
        &["worktree", "create", "--kind", "issue"],
        &["worktree", "exec", "x"],
        &["worktree", "create", "--kind", "bug", "--id", "1"],
    ] {
        let ran = grove.grove(args).assert_exit_code(2);
        assert_eq!(ran.stdout, "", "{args:?}");
        assert!(!ran.stderr.is_empty());
        let ran = grove.grove(args.iter().copied().chain(["--json"])).assert_exit_code(2);
        assert_eq!(ran.json_error().0, "usage", "{args:?}");
    }
    assert!(!grove.grove_home().exists());
    assert!(grove.grove(["--help"]).assert_success().stdout.contains("worktree"));
    assert!(grove.grove(["--version"]).assert_success().stdout.starts_with("grove "));
}

#[test]
fn completions_name_the_commands() {
    let grove = new_sandbox(TestRepo::new());
    for shell in ["bash", "zsh", "fish"] {
        let text = grove.grove(["completions", shell]).assert_success().stdout;
        assert!(text.contains("worktree") && text.contains("codebase"), "{shell}");
    }
    grove.grove(["completions", "abacus"]).assert_exit_code(2);
}
