//! `grove up`, at a terminal.

use std::fs;

use grove_testkit::{TestRepo, TestTerminal, wait_for};

use crate::new_sandbox;

#[test]
fn the_log_goes_to_a_file_and_the_terminal_shows_only_what_people_read() {
    let grove = new_sandbox(TestRepo::new());
    let mut terminal = TestTerminal::start(&grove.grove_command(["up", "--no-open", "--listen", "127.0.0.1:0"]));
    let shown = terminal.sees_after("Ctrl-C stops the server. Conversations and worktrees are kept.");
    let log = grove.grove_home().join("grove.log");
    wait_for(|| fs::read_to_string(&log).is_ok_and(|text| text.contains("cleaned up")));
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    assert!(!shown.contains("INFO"), "{shown}");
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("INFO") && text.contains("codebase="), "{text}");
    assert!(!text.contains('\x1b'), "no colours in a file: {text}");

    let verbose = ["up", "--no-open", "--verbose", "--listen", "127.0.0.1:0"];
    let mut terminal = TestTerminal::start(&grove.grove_command(verbose));
    terminal.wait_for_text("cleaned up");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    assert_eq!(fs::read_to_string(&log).unwrap(), text, "the log is at the terminal this time");
}
