//! A scripted agent for tests, which uses the output format of a real one.
//!
//!     scripted_agent --as claude|codex|acp [--load] THE ARGUMENTS OF THE REAL PROGRAM
//!
//! The last paragraph of a prompt is a list of directives (see [`script`]). Sessions are files under
//! `$HOME`, so that a restart keeps them, and an unknown one is refused as the real program refuses
//! it: same lines, same error messages, same exit codes.

mod acp;
mod claude;
mod codex;
mod script;
mod session;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::process::ExitCode;

use serde_json::Value;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.len() < 2 || arguments.remove(0) != "--as" {
        eprintln!("usage: scripted_agent --as claude|codex|acp ARGUMENTS");
        return ExitCode::from(2);
    }
    let kind = arguments.remove(0);
    let code = match kind.as_str() {
        "claude" => claude::run(&arguments),
        "codex" => codex::run(&arguments),
        "acp" => acp::run(&arguments),
        _ => 2,
    };
    ExitCode::from(code)
}

thread_local! {
    static RECORDED_OUTPUT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Returns the output of `say` instead of writing it, for a caller that writes it a thousand times.
fn record_output(say: impl FnOnce()) -> String {
    RECORDED_OUTPUT.set(Some(String::new()));
    say();
    RECORDED_OUTPUT.take().unwrap_or_default()
}

/// Writes a line, at once. A client that has closed the pipe ends this process, as SIGPIPE would.
fn write_line(value: &Value) {
    write_raw(&format!("{value}\n"));
}

fn write_raw(text: &str) {
    let kept = RECORDED_OUTPUT.with_borrow_mut(|record| record.as_mut().map(|record| record.push_str(text)).is_some());
    if kept {
        return;
    }
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        std::process::exit(141);
    }
}

fn fail_with(code: u8, words: &str) -> u8 {
    eprintln!("{words}");
    code
}

/// Reads the whole prompt.
fn read_prompt() -> String {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map(|_| text).unwrap_or_default()
}

fn new_id() -> String {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).expect("random bytes");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{}-7{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

fn is_uuid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
}
