//! Output for people and scripts.
//!
//! On a terminal: colours, tables that fit, times as "3 min ago". Anywhere else: plain text and full times,
//! so that piped output never depends on a window.

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

pub fn print_line(text: &str) {
    let mut out = anstream::stdout();
    exit_if_write_failed(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Prints a sentence; text in `backticks` is emphasized on a terminal.
pub fn print_sentence(text: &str) {
    let styled = |(index, part): (usize, &str)| match index % 2 {
        0 => part.to_owned(),
        _ => style_strong(&format!("`{part}`")),
    };
    print_line(&text.split('`').enumerate().map(styled).collect::<String>());
}

pub fn print_bytes(bytes: &[u8]) {
    let mut out = std::io::stdout();
    exit_if_write_failed(out.write_all(bytes).and_then(|()| out.flush()));
}

/// Ends the program if the output could not be written. That is a failure, unless the reader has gone away
/// (`| head`).
fn exit_if_write_failed(result: std::io::Result<()>) {
    if let Err(error) = result {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        eprintln!("{} The answer could not be written: {error}.", "error:".red().bold());
        std::process::exit(1);
    }
}

/// Clears the terminal.
pub fn clear_screen() {
    if on_terminal() {
        print_bytes(b"\x1b[2J\x1b[H");
    }
}

/// Prints a path exactly as it is, also when it is not valid text.
pub fn print_path(path: &Path) {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.push(b'\n');
    print_bytes(&bytes);
}

pub fn print_json(value: &impl Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print_line(&text),
        Err(error) => eprintln!("error: the answer could not be printed: {error}"),
    }
}

/// Prints a problem and returns the exit code: 2 for wrong usage, 1 for everything else.
pub fn report_problem(problem: &Problem, json_wanted: bool) -> ExitCode {
    if json_wanted {
        print_json(&serde_json::json!({ "error": problem }));
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

pub fn print_warning(text: &str) {
    eprintln!("{} {text}", "warning:".yellow().bold());
}

pub fn style_strong(text: &str) -> String {
    if on_terminal() { text.bold().to_string() } else { text.to_owned() }
}

pub fn style_dim(text: &str) -> String {
    if on_terminal() { text.dimmed().to_string() } else { text.to_owned() }
}

pub fn style_state(state: State) -> String {
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

/// Formats a time: `3 min ago` on a terminal, the full time anywhere else.
pub fn format_ago(moment: Moment) -> String {
    if on_terminal() { format!("{} ago", Moment::now().age_since(moment)) } else { moment.to_string() }
}

/// Formats an age: `3 days old` on a terminal, the full time anywhere else.
pub fn format_age(moment: Moment) -> String {
    if on_terminal() { format!("{} old", Moment::now().age_since(moment)) } else { format!("of {moment}") }
}

/// Formats a size: `1.2 MiB`, or nothing if it is unknown.
pub fn format_optional_size(bytes: Option<i64>) -> String {
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(human_size).unwrap_or_default()
}

/// Shortens a path on a terminal: `~` for the user's home.
pub fn short_path(path: &Path) -> String {
    let home = std::env::var_os("HOME").filter(|_| on_terminal());
    match home.and_then(|home| path.strip_prefix(home).ok().map(Path::to_owned)) {
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Prints names and values, one pair per line; leaves empty values out.
pub fn print_fields(fields: &[(&str, String)]) {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        print_line(&format!("  {}  {value}", style_dim(&format!("{name:width$}"))));
    }
}

pub struct OutputTable(comfy_table::Table);

impl OutputTable {
    pub fn new<const N: usize>(header: [&str; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        if on_terminal() {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) {
                table.set_width(size.ws_col.max(60));
            }
        }
        table.set_header(header.map(|name| style_dim(&name.to_uppercase())));
        Self(table)
    }

    pub fn add_row<const N: usize>(&mut self, cells: [String; N]) {
        self.0.add_row(cells);
    }

    pub fn print_table(mut self) {
        for column in self.0.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in self.0.lines() {
            self::print_line(line.trim_end());
        }
    }
}

/// Shows a spinner while a person waits; scripts and short waits see nothing.
pub fn start_spinner(message: &'static str, json_wanted: bool) -> ProgressBar {
    if json_wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(message);
    bar.set_style(ProgressStyle::default_spinner());
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// Shows the reason for a wait: beside the spinner, or in a line of its own where there is no spinner.
pub fn show_wait_reason(spinner: &ProgressBar, text: String) {
    if spinner.is_hidden() {
        eprintln!("{text}");
    } else {
        spinner.set_message(text);
    }
}

/// Shows a progress bar while a person waits.
pub fn start_progress_bar(message: &'static str, json_wanted: bool) -> ProgressBar {
    if json_wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(message);
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
