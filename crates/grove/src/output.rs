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
use grove_environments::words::done;
use grove_git::{GitProgress, ProgressCallback};
use grove_model::{Moment, Span, State, UserText, human_size};
use indicatif::{ProgressBar, ProgressStyle};
use owo_colors::OwoColorize;
use serde::Serialize;

use crate::api_json::ErrorJson;
use crate::columns::{CellStyle, TableWidth};

pub fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Tells whether the standard output shows colours: on a terminal, unless the person switched them off.
pub fn colours_wanted() -> bool {
    on_terminal() && anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
}

pub fn print_line(text: &str) {
    let mut out = anstream::stdout();
    exit_if_write_failed(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Prints a text; code and commands are emphasized on a terminal.
pub fn print_text(text: &UserText) {
    let styled = |span: Span<'_>| match span {
        Span::Plain(text) | Span::Strong(text) => text.to_owned(),
        Span::Code(code) => style_strong(&format!("`{code}`")),
        Span::Command(command) => style_strong(&format!("`{}`", command.for_terminal())),
    };
    print_line(&text.spans().into_iter().map(styled).collect::<String>());
}

/// Returns the room for a table: the width of the terminal, or all that it needs anywhere else.
pub fn table_width() -> TableWidth {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0);
    match size.filter(|_| on_terminal()) {
        Some(size) => TableWidth::Terminal(usize::from(size.ws_col)),
        None => TableWidth::Unlimited,
    }
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
        print_json(&ErrorJson::from(problem.clone()));
    } else {
        eprintln!("{} {}", "error:".red().bold(), problem.message.for_terminal());
        for reason in &problem.reasons {
            let (message, hint) = (reason.message.for_terminal(), reason.hint.for_terminal());
            eprintln!("  {} {message} {}", "-".red(), hint.dimmed());
        }
        if !problem.hint.is_empty() {
            eprintln!("{} {}", "help:".cyan(), problem.hint.for_terminal());
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
    eprintln!("{} {}", "warning:".yellow().bold(), UserText::from(text).for_terminal());
}

/// Prints a piece of a script's output to the standard error, without codes that steer the terminal.
pub fn print_script_output(text: &str) {
    let plain = anstream::adapter::strip_str(text).to_string();
    let plain: String = plain.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    anstream::eprint!("{}", plain.dimmed());
}

/// Prints a remark to the standard error.
pub fn print_note(text: &str) {
    eprintln!("{}", UserText::from(text).for_terminal().dimmed());
}

pub fn style_strong(text: &str) -> String {
    if on_terminal() { text.bold().to_string() } else { text.to_owned() }
}

pub fn style_dim(text: &str) -> String {
    if on_terminal() { text.dimmed().to_string() } else { text.to_owned() }
}

pub fn style_state(state: State) -> String {
    let cell = state_style(state);
    if on_terminal() { cell.apply(state.as_str()) } else { state.to_string() }
}

/// Returns the colour of a state.
pub fn state_style(state: State) -> CellStyle {
    match state {
        State::Failed | State::Broken | State::Missing => CellStyle::Red,
        State::Dirty => CellStyle::Yellow,
        State::Creating | State::Merging => CellStyle::Cyan,
        State::Merged | State::Active => CellStyle::Green,
        State::Fresh => CellStyle::Blue,
        State::Stale | State::Hibernated => CellStyle::Dim,
    }
}

/// Formats a time: `3 min ago` on a terminal, `2026-11-17T09:30Z` anywhere else.
pub fn format_ago(moment: Moment) -> String {
    if on_terminal() { format!("{} ago", Moment::now().age_since(moment)) } else { format_minute(moment) }
}

/// Formats an age: `3 days old` on a terminal, `of 2026-11-17T09:30Z` anywhere else.
pub fn format_age(moment: Moment) -> String {
    if on_terminal() {
        format!("{} old", Moment::now().age_since(moment))
    } else {
        format!("of {}", format_minute(moment))
    }
}

/// Formats a time to the minute, without spaces, so that a script can split the columns.
fn format_minute(moment: Moment) -> String {
    format!("{}Z", moment.to_string().chars().take(16).collect::<String>())
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
pub fn show_wait_reason(spinner: &ProgressBar, text: &UserText) {
    if spinner.is_hidden() {
        eprintln!("{}", text.for_terminal());
    } else {
        spinner.set_message(text.for_terminal());
    }
}

/// Shows the progress of clones, fetches and checkouts in the place of the spinner.
pub fn progress_callback(spinner: &ProgressBar) -> ProgressCallback {
    let spinner = spinner.clone();
    ProgressCallback::new(move |progress| match progress {
        GitProgress::WaitingFor { remote } => show_wait_reason(&spinner, &done::waiting_for_remote(&remote)),
        GitProgress::Step(step) => {
            if spinner.length().is_none() {
                let style = ProgressStyle::with_template("{bar:24} {msg}");
                spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
                spinner.set_length(100);
            }
            spinner.set_position(step.percent.into());
            spinner.set_message(done::progress_text(&step));
        }
    })
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
