//! A clone over a slow line shows how far it is: at a terminal, and to watchers of a conversation.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use grove_testkit::{Sandbox, TestRepo, TestServer, TestTerminal};

use crate::new_sandbox;

/// Runs what git would run at the other end of an ssh connection, with about 1 MiB per second.
const SLOW_SSH: &str = r#"#!/bin/sh
for command; do :; done
sh -c "$command" | perl -e 'while (sysread(STDIN, $piece, 65536)) { syswrite(STDOUT, $piece); select(undef, undef, undef, 0.06); }'
"#;

/// A sandbox, and the address of a repository with 2 MiB in 64 files behind a slow line.
fn behind_a_slow_line() -> (Sandbox, String) {
    let grove = new_sandbox(TestRepo::new());
    let far = grove.repo.temp_dir().join("far");
    let run = |args: &[&str]| grove.repo.git(args);
    run(&["init", "--quiet", "--initial-branch=main", far.to_str().unwrap()]);
    let mut noise: u64 = 1;
    for file in 0..64 {
        let mut bytes = Vec::new();
        while bytes.len() < 32 * 1024 {
            noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bytes.extend_from_slice(&(noise >> 16).to_le_bytes()[..6]);
        }
        fs::write(far.join(format!("noise-{file}")), bytes).unwrap();
    }
    grove.repo.git_in(&far, &["add", "."]);
    grove.repo.git_in(&far, &["commit", "--quiet", "-m", "Noise"]);
    let ssh = grove.repo.temp_dir().join("slow-ssh");
    fs::write(&ssh, SLOW_SSH).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    // The person's own settings hold for remotes.
    let config = grove.repo.home_dir().join(".gitconfig");
    let mut text = fs::read_to_string(&config).unwrap_or_default();
    text.push_str(&format!("[core]\n\tsshCommand = {}\n[ssh]\n\tvariant = simple\n", ssh.display()));
    fs::write(config, text).unwrap();
    let url = format!("ssh://far.example{}", far.display());
    (grove, url)
}

#[test]
fn a_clone_shows_percent_and_rate_at_a_terminal_and_nothing_in_a_pipe() {
    let (grove, url) = behind_a_slow_line();
    let mut terminal = TestTerminal::start(&grove.grove_command(["codebase", "add", &url]));
    terminal.wait_for_text("Receiving objects: ");
    terminal.wait_for_text("% (");
    terminal.wait_for_text("iB/s)");
    terminal.wait_for_text("Registered ");
    assert_eq!(terminal.wait_for_exit(), Some(0));

    grove.grove(["codebase", "remove", "_local/far"]);
    let (grove, url) = behind_a_slow_line();
    let ran = grove.grove(["codebase", "add", &url]).assert_success();
    assert_eq!(ran.stderr, "");
}

#[test]
fn watchers_of_a_conversation_are_told_how_far_a_clone_is() {
    let (grove, url) = behind_a_slow_line();
    let server = TestServer::start(&grove);
    let events = server.subscribe_events();
    server.say("c", &format!("/clone {url}"));
    let mut told = Vec::new();
    loop {
        let event = events.recv_timeout(Duration::from_secs(60)).expect("an event");
        match event["type"].as_str() {
            Some("progress") => {
                assert_eq!((event["platform"].as_str(), event["conversation"].as_str()), (Some("test"), Some("c")));
                told.push(event["text"].as_str().unwrap().to_owned());
            }
            Some("said") => break,
            _ => {}
        }
    }
    let percent = |text: &String| text.strip_prefix("Receiving objects: ")?.split_once('%')?.0.parse::<u8>().ok();
    let percents: Vec<u8> = told.iter().filter_map(percent).collect();
    assert!(percents.len() > 1 && percents.is_sorted(), "{told:?}");
    assert!(told.iter().any(|text| text.ends_with("iB/s)")), "{told:?}");
    // Two seconds of work: the reports are throttled.
    assert!(told.len() < 12, "{told:?}");
    assert!(server.ask("c", "ls | wc -l").last().is_some_and(|text| text == "64"));
}
