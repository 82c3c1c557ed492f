//! The line editor: history, editing, Tab.

use std::borrow::Cow;
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::mpsc;

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

use super::ChatInput;
use super::complete::{self, CompletionNames};
use crate::{output, words};

const EDITOR_PROMPT: &str = "› ";

pub struct ChatEditor {
    asks: mpsc::Sender<oneshot::Sender<ChatInput>>,
    _terminal: TerminalGuard,
}

/// The saved terminal settings, to restore: the program may end while a line is being written.
struct TerminalGuard(Option<Termios>);

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        if let Some(before) = &self.0
            && let Err(error) = tcsetattr(std::io::stdin(), OptionalActions::Now, before)
        {
            tracing::warn!(%error, "terminal settings not restored");
        }
    }
}

impl ChatEditor {
    /// Starts a thread of its own: reading from a terminal blocks.
    pub fn start_thread(history: PathBuf, names: CompletionNames) -> Self {
        let terminal = TerminalGuard(tcgetattr(std::io::stdin()).ok());
        let (asks, asked) = mpsc::channel::<oneshot::Sender<ChatInput>>();
        let runtime = Handle::current();
        std::thread::spawn(move || {
            let mut lines = ChatLineReader::new(history, EditorHelper { names, runtime, written: Cell::new(false) });
            for answer in asked {
                // The receiver may be gone already.
                let _ = answer.send(lines.read_input());
            }
        });
        Self { asks, _terminal: terminal }
    }

    pub async fn next_input(&mut self) -> ChatInput {
        let (answer, answered) = oneshot::channel();
        let gone = || ChatInput::Failed(words::no_terminal());
        match self.asks.send(answer) {
            Ok(()) => answered.await.unwrap_or_else(|_| gone()),
            Err(_) => gone(),
        }
    }
}

/// Everything except the editor itself: an editor captures Ctrl-C as long as it exists, so it exists only
/// while a line is written.
struct ChatLineReader {
    config: Config,
    /// Moved into the editor and back.
    kept: Option<(EditorHelper, FileHistory)>,
    history: PathBuf,
    warned: bool,
}

impl ChatLineReader {
    fn new(history: PathBuf, aid: EditorHelper) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .color_mode(if plain { ColorMode::Disabled } else { ColorMode::Enabled })
            .build();
        let mut before = FileHistory::with_config(&config);
        let loaded = if history.exists() { before.load(&history) } else { Ok(()) };
        let mut lines = Self { config, kept: Some((aid, before)), history, warned: false };
        lines.warn_history_once(loaded);
        lines
    }

    fn read_input(&mut self) -> ChatInput {
        let failed = |error: ReadlineError| ChatInput::Failed(words::terminal_failed(&error));
        let Some((aid, history)) = self.kept.take() else { return ChatInput::End };
        let mut editor = match rustyline::Editor::with_history(self.config.clone(), history) {
            Ok(editor) => editor,
            Err(error) => return failed(error),
        };
        aid.written.set(false);
        editor.set_helper(Some(aid));
        let line = editor.readline(EDITOR_PROMPT);
        if let Ok(line) = &line
            && editor.add_history_entry(line.as_str()).is_ok_and(|new| new)
        {
            let kept = editor.append_history(&self.history);
            self.warn_history_once(kept);
        }
        let history = std::mem::take(editor.history_mut());
        let written = editor.helper().is_some_and(|aid| aid.written.get());
        self.kept = editor.helper().cloned().map(|aid| (aid, history));
        match line {
            Ok(line) if line.trim().is_empty() => ChatInput::Nothing,
            Ok(line) => ChatInput::Message(join_continued_lines(&line)),
            // The first Ctrl-C discards the written text; the second one ends the conversation.
            Err(ReadlineError::Interrupted) if written => ChatInput::Nothing,
            Err(ReadlineError::Interrupted | ReadlineError::Eof) => ChatInput::End,
            Err(error) => failed(error),
        }
    }

    /// Warns once about a history that cannot be saved.
    fn warn_history_once(&mut self, result: Result<(), ReadlineError>) {
        if let Err(error) = result
            && !self.warned
        {
            self.warned = true;
            output::print_warning(&format!("{} cannot be used: {error}.", self.history.display()));
        }
    }
}

/// Joins continued lines: a backslash at the end of a line only means that the message goes on.
fn join_continued_lines(line: &str) -> String {
    line.replace("\\\n", "\n")
}

/// The helper that the editor calls while a line is written.
#[derive(Clone)]
struct EditorHelper {
    names: CompletionNames,
    runtime: Handle,
    /// The line is not empty.
    written: Cell<bool>,
}

impl Helper for EditorHelper {}

impl Completer for EditorHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, wanted) = complete::completion_at_end(&line[..at]);
        // If the store or git fails, Tab offers nothing; the command itself will report the error.
        let names = self.runtime.block_on(self.names.completion_names(wanted)).unwrap_or_default();
        let fitting = names.into_iter().filter(|name| name.starts_with(&line[start..at]));
        Ok((start, fitting.map(|name| Pair { replacement: format!("{name} "), display: name }).collect()))
    }
}

impl Hinter for EditorHelper {
    type Hint = String;

    fn hint(&self, line: &str, at: usize, _: &rustyline::Context<'_>) -> Option<String> {
        self.written.set(!line.is_empty());
        if at < line.len() { None } else { complete::command_usage(line) }
    }
}

impl Highlighter for EditorHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        Cow::Owned(prompt.cyan().to_string())
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        Cow::Owned(hint.dimmed().to_string())
    }
}

impl Validator for EditorHelper {
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
        assert_eq!(join_continued_lines("one\\\ntwo\\\n\\\nthree"), "one\ntwo\n\nthree");
        assert_eq!(join_continued_lines("a\\b"), "a\\b");
    }
}
