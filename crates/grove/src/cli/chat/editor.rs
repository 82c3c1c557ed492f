//! The line that a person writes: history, editing, Tab.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::mpsc;

use grove_environments::problem::Problem;
use owo_colors::OwoColorize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{FileHistory, History};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, CompletionType, Config, Helper};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::Input;
use super::complete::{self, Names};
use crate::output;

const PROMPT: &str = "› ";

pub struct Editor {
    asks: mpsc::Sender<oneshot::Sender<Input>>,
    _terminal: Terminal,
}

/// The terminal as it was: the program may end while a line is being written.
struct Terminal(Option<Termios>);

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(before) = &self.0
            && let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, before)
        {
            tracing::warn!("the terminal is not as it was: {error}");
        }
    }
}

impl Editor {
    /// A thread of its own: reading from a terminal blocks.
    pub fn start(history: PathBuf, names: Names) -> Self {
        let terminal = Terminal(tcgetattr(std::io::stdin()).ok());
        let (asks, asked) = mpsc::channel::<oneshot::Sender<Input>>();
        let runtime = Handle::current();
        std::thread::spawn(move || {
            let mut lines = Lines::new(history, Aid { names, runtime, written: Cell::new(false) });
            for answer in asked {
                // Nobody may wait for it any more.
                let _ = answer.send(lines.read());
            }
        });
        Self { asks, _terminal: terminal }
    }

    pub async fn next(&mut self) -> Input {
        let (answer, answered) = oneshot::channel();
        let gone =
            || Input::Failed(Problem::new("failed", "The terminal cannot be read.", "Use `grove chat MESSAGE`."));
        match self.asks.send(answer) {
            Ok(()) => answered.await.unwrap_or_else(|_| gone()),
            Err(_) => gone(),
        }
    }
}

/// Everything but the editor itself: while that exists it takes Ctrl-C for itself, so there is one
/// only while a line is written.
struct Lines {
    config: Config,
    /// Moved into the editor and back.
    kept: Option<(Aid, FileHistory)>,
    history: PathBuf,
    warned: bool,
}

impl Lines {
    fn new(history: PathBuf, aid: Aid) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .color_mode(if plain { ColorMode::Disabled } else { ColorMode::Enabled })
            .build();
        let mut before = FileHistory::with_config(&config);
        let loaded = if history.exists() { before.load(&history) } else { Ok(()) };
        let mut lines = Self { config, kept: Some((aid, before)), history, warned: false };
        lines.note(loaded);
        lines
    }

    fn read(&mut self) -> Input {
        let failed = |error: ReadlineError| {
            let message = format!("The terminal cannot be read: {error}.");
            Input::Failed(Problem::new("failed", message, "Use `grove chat MESSAGE`."))
        };
        let Some((aid, history)) = self.kept.take() else { return Input::End };
        let mut editor = match rustyline::Editor::with_history(self.config.clone(), history) {
            Ok(editor) => editor,
            Err(error) => return failed(error),
        };
        aid.written.set(false);
        editor.set_helper(Some(aid));
        let line = editor.readline(PROMPT);
        if let Ok(line) = &line
            && editor.add_history_entry(line.as_str()).is_ok_and(|new| new)
        {
            let kept = editor.append_history(&self.history);
            self.note(kept);
        }
        let history = std::mem::take(editor.history_mut());
        let written = editor.helper().is_some_and(|aid| aid.written.get());
        self.kept = editor.helper().cloned().map(|aid| (aid, history));
        match line {
            Ok(line) if line.trim().is_empty() => Input::Nothing,
            Ok(line) => Input::Message(joined(&line)),
            // What was written is given up; a second time ends the conversation.
            Err(ReadlineError::Interrupted) if written => Input::Nothing,
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => Input::End,
            Err(error) => failed(error),
        }
    }

    /// A history that cannot be kept is told once.
    fn note(&mut self, result: Result<(), ReadlineError>) {
        if let Err(error) = result
            && !self.warned
        {
            self.warned = true;
            output::warning(&format!("{} cannot be used: {error}.", self.history.display()));
        }
    }
}

/// A backslash at the end of a line only says that the message goes on.
fn joined(line: &str) -> String {
    line.replace("\\\n", "\n")
}

/// What the editor asks while a line is written.
#[derive(Clone)]
struct Aid {
    names: Names,
    runtime: Handle,
    /// Something stands on the line.
    written: Cell<bool>,
}

impl Helper for Aid {}

impl Completer for Aid {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, wanted) = complete::wanted(&line[..at]);
        // A store or a git that does not answer offers nothing; the command itself will say so.
        let names = self.runtime.block_on(self.names.of(wanted)).unwrap_or_default();
        let fitting = names.into_iter().filter(|name| name.starts_with(&line[start..at]));
        Ok((start, fitting.map(|name| Pair { replacement: format!("{name} "), display: name }).collect()))
    }
}

impl Hinter for Aid {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> Option<String> {
        self.written.set(!line.is_empty());
        if at < line.len() { None } else { complete::usage(line).map(str::to_owned) }
    }
}

impl Highlighter for Aid {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(prompt.cyan().to_string())
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(hint.dimmed().to_string())
    }
}

impl Validator for Aid {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        let goes_on = context.input().ends_with('\\');
        Ok(if goes_on { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_may_have_several_lines() {
        assert_eq!(joined("one\\\ntwo\\\n\\\nthree"), "one\ntwo\n\nthree");
        assert_eq!(joined("a\\b"), "a\\b");
    }
}
