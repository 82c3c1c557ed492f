//! Shows long texts in the person's pager.

use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::output;

/// The pager of a person who chose none.
const DEFAULT_PAGER: &str = "less -FRX";

/// Prints a text: through the pager on a terminal, as it is anywhere else.
pub fn print_paged(text: &[u8]) {
    let chosen = ["GIT_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
    match chosen_pager(chosen, || is_program("less")).filter(|_| output::on_terminal() && !text.is_empty()) {
        Some(pager) if run_pager(&pager, text).is_ok() => {}
        _ => output::print_bytes(text),
    }
}

/// Chooses the pager; an empty one or `cat` means none, as for git.
fn chosen_pager(chosen: Option<OsString>, has_default: impl Fn() -> bool) -> Option<OsString> {
    match chosen {
        Some(pager) => Some(pager).filter(|pager| !pager.is_empty() && pager != "cat"),
        None => has_default().then(|| DEFAULT_PAGER.into()),
    }
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Runs the pager; an error means that it did not start. A person who quits early does not read to the end.
fn run_pager(pager: &OsString, text: &[u8]) -> std::io::Result<()> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    // As git does it, so that `PAGER=less` shows colours and ends by itself after a short text.
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text);
    }
    child.wait().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persons_choice_counts() {
        let chosen = |pager: Option<&str>, has_less: bool| {
            chosen_pager(pager.map(OsString::from), || has_less).and_then(|pager| pager.into_string().ok())
        };
        assert_eq!(chosen(Some("delta --dark"), true).as_deref(), Some("delta --dark"));
        assert_eq!(chosen(None, true).as_deref(), Some("less -FRX"));
        for (pager, has_less) in [(Some(""), true), (Some("cat"), true), (None, false)] {
            assert_eq!(chosen(pager, has_less), None);
        }
    }
}
