//! What a person or a script sees.
//!
//! On a terminal: colours, tables that fit, times as "3 min ago". Anywhere else: plain text and
//! full times, so that what is piped never depends on a window.

use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anstream::eprintln;
use comfy_table::{ContentArrangement, presets};
use grove_environments::problem::Problem;
use grove_model::{Moment, State, human_size};
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use serde::Serialize;

fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

pub fn line(text: &str) {
    let mut out = anstream::stdout();
    written(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// A sentence; what stands in `quotes` is strong on a terminal.
pub fn words(text: &str) {
    let styled = |(index, part): (usize, &str)| match index % 2 {
        0 => part.to_owned(),
        _ => strong(&format!("`{part}`")),
    };
    line(&text.split('`').enumerate().map(styled).collect::<String>());
}

pub fn raw(bytes: &[u8]) {
    let mut out = std::io::stdout();
    written(out.write_all(bytes).and_then(|()| out.flush()));
}

/// An answer that nobody can read is a failure; a reader that has gone away (`| head`) is not.
fn written(result: std::io::Result<()>) {
    if let Err(error) = result {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("{} The answer could not be written: {error}.", "error:".red().bold());
        std::process::exit(1);
    }
}

/// Begins a terminal's page anew.
pub fn clear() {
    if on_terminal() {
        raw(b"\x1b[2J\x1b[H");
    }
}

/// A path exactly as it is, also when it is not text.
pub fn path(path: &Path) {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.push(b'\n');
    raw(&bytes);
}

pub fn json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => line(&text),
        Err(error) => eprintln!("error: the answer could not be printed: {error}"),
    }
}

/// Says what went wrong and gives the exit code: 2 for wrong usage, 1 for all else.
pub fn problem(problem: &Problem, json_wanted: bool) -> ExitCode {
    if json_wanted {
        json(&serde_json::json!({ "error": problem }));
    } else {
        eprintln!("{} {}", "error:".red().bold(), problem.message);
        for reason in &problem.reasons {
            eprintln!("  {} {} {}", "-".red(), reason.message, reason.hint.dimmed());
        }
        if !problem.hint.is_empty() {
            eprintln!("{} {}", "help:".cyan(), problem.hint);
        }
    }
    let usage = matches!(problem.code, "usage" | "bad_branch_name" | "bad_work" | "bad_name");
    ExitCode::from(match problem.code {
        "interrupted" => 130,
        _ if usage => 2,
        _ => 1,
    })
}

pub fn warning(text: &str) {
    eprintln!("{} {text}", "warning:".yellow().bold());
}

pub fn strong(text: &str) -> String {
    if on_terminal() { text.bold().to_string() } else { text.to_owned() }
}

pub fn dim(text: &str) -> String {
    if on_terminal() { text.dimmed().to_string() } else { text.to_owned() }
}

pub fn state(state: State) -> String {
    let word = state.as_str();
    if !on_terminal() {
        return word.to_owned();
    }
    match state {
        State::Failed | State::Broken | State::Missing => word.red().to_string(),
        State::Dirty => word.yellow().to_string(),
        State::Creating | State::Merging => word.cyan().to_string(),
        State::Merged | State::Active => word.green().to_string(),
        State::Fresh => word.blue().to_string(),
        State::Stale | State::Hibernated => word.dimmed().to_string(),
    }
}

/// `3 min ago` on a terminal, the full time anywhere else.
pub fn ago(moment: Moment) -> String {
    if on_terminal() { format!("{} ago", Moment::now().age_since(moment)) } else { moment.to_string() }
}

/// `3 days old` on a terminal, the full time anywhere else.
pub fn old(moment: Moment) -> String {
    if on_terminal() { format!("{} old", Moment::now().age_since(moment)) } else { format!("of {moment}") }
}

/// `1.2 MiB`, or nothing where nothing is known.
pub fn size(bytes: Option<i64>) -> String {
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(human_size).unwrap_or_default()
}

/// With `~` for the person's home, on a terminal.
pub fn short_path(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|_| on_terminal());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Names and values below each other; what is empty is left out.
pub fn fields(fields: &[(&str, String)]) {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        line(&format!("  {}  {value}", dim(&format!("{name:width$}"))));
    }
}

pub struct Table(comfy_table::Table);

impl Table {
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        if on_terminal() {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) {
                table.set_width(size.ws_col.max(60));
            }
        }
        table.set_header(header.map(|name| dim(&name.to_uppercase())));
        Self(table)
    }

    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells);
    }

    pub fn print(mut self) {
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in self.0.lines() {
            self::line(line.trim_end());
        }
    }
}

/// Something turns while a person waits; scripts and short waits see nothing.
pub fn spinner(message: &'static str, json_wanted: bool) -> ProgressBar {
    if json_wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.set_style(ProgressStyle::default_spinner());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Says what is waited for: beside the spinner, or in a line of its own where none turns.
pub fn waiting(spinner: &ProgressBar, text: String) {
    if spinner.is_hidden() {
        eprintln!("{text}");
    } else {
        spinner.set_message(text);
    }
}

/// How far something has come, where a person waits for it.
pub fn bar(message: &'static str, json_wanted: bool) -> ProgressBar {
    if json_wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(message);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
