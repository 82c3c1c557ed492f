//! Texts that people read on a terminal, in a conversation or on the page.
//!
//! A text is written once, in a small markup: `` `code` ``, and `**a name**` where the seeds' messages have one.
//! Code that begins with `grove ` or with `/` is a command. Each surface spells commands and marks in its own
//! way, so a sentence never has to be patched for another surface.

use std::fmt;

use serde::Serialize;

/// The subcommands of `grove worktree` that conversations do not have.
const TERMINAL_ONLY: [&str; 4] = ["exec", "path", "show", "trash"];

/// The subcommands of `/worktree` that the terminal does not have.
const CHAT_ONLY: [&str; 1] = ["link"];

/// A text with marked code and commands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct UserText(String);

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span<'a> {
    Plain(&'a str),
    Code(&'a str),
    Command(CommandHint<'a>),
    /// A name that stands out.
    Strong(&'a str),
}

/// A command to run next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandHint<'a> {
    /// `worktree undo issue-42`: a subcommand of the terminal and a slash command.
    Both(&'a str),
    /// The terminal and conversations have other words for it.
    Renamed {
        terminal: &'static str,
        chat: &'static str,
    },
    TerminalOnly(&'a str),
    ChatOnly(&'a str),
}

impl<'a> CommandHint<'a> {
    /// Parses the text of a code span; `None` if it is not a command.
    fn parse(code: &'a str) -> Option<Self> {
        if let Some(line) = code.strip_prefix("grove ") {
            return Some(match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["worktree", subcommand, ..] if TERMINAL_ONLY.contains(&subcommand) => Self::TerminalOnly(line),
                ["worktree", ..] => Self::Both(line),
                ["codebase", "add", "PATH"] => Self::Renamed { terminal: "codebase add PATH", chat: "register PATH" },
                ["codebase", "list"] => Self::Renamed { terminal: "codebase list", chat: "codebases" },
                _ => Self::TerminalOnly(line),
            });
        }
        let line = code.strip_prefix('/').filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))?;
        // A path such as `/usr/bin` is not a command.
        if line.split(' ').next().is_some_and(|name| name.contains('/')) {
            return None;
        }
        Some(match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["worktree", subcommand, ..] if CHAT_ONLY.contains(&subcommand) => Self::ChatOnly(line),
            ["worktree", _, ..] => Self::Both(line),
            _ => Self::ChatOnly(line),
        })
    }

    pub fn for_terminal(self) -> String {
        match self {
            Self::Both(line) | Self::TerminalOnly(line) => format!("grove {line}"),
            Self::Renamed { terminal, .. } => format!("grove {terminal}"),
            Self::ChatOnly(line) => format!("/{line}"),
        }
    }

    pub fn for_chat(self) -> String {
        match self {
            Self::Both(line) | Self::ChatOnly(line) => format!("/{line}"),
            Self::Renamed { chat, .. } => format!("/{chat}"),
            Self::TerminalOnly(line) => format!("grove {line}"),
        }
    }
}

impl UserText {
    /// Returns the text with its marks, as scripts get it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the parts of the text, in order. A mark without its counterpart is plain text.
    pub fn spans(&self) -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        let mut rest = self.0.as_str();
        while let Some((before, inner, after, mark)) = next_marked(rest) {
            if !before.is_empty() {
                spans.push(Span::Plain(before));
            }
            spans.push(match (mark, CommandHint::parse(inner)) {
                ("**", _) => Span::Strong(inner),
                (_, Some(command)) => Span::Command(command),
                (_, None) => Span::Code(inner),
            });
            rest = after;
        }
        if !rest.is_empty() {
            spans.push(Span::Plain(rest));
        }
        spans
    }

    /// Returns the text for a terminal: the terminal's commands, and code in backticks as compilers quote it.
    pub fn for_terminal(&self) -> String {
        self.render(|span| match span {
            Span::Plain(text) | Span::Strong(text) => text.to_owned(),
            Span::Code(code) => format!("`{code}`"),
            Span::Command(command) => format!("`{}`", command.for_terminal()),
        })
    }

    /// Returns the text for a conversation: Markdown, and slash commands.
    pub fn for_chat(&self) -> String {
        self.render(|span| match span {
            Span::Plain(text) => text.to_owned(),
            Span::Strong(text) => format!("**{text}**"),
            Span::Code(code) => format!("`{code}`"),
            Span::Command(command) => format!("`{}`", command.for_chat()),
        })
    }

    fn render(&self, render_span: impl Fn(Span<'_>) -> String) -> String {
        self.spans().into_iter().map(render_span).collect()
    }
}

/// Splits at the first marked part: before it, inside, behind it, and its mark.
fn next_marked(text: &str) -> Option<(&str, &str, &str, &'static str)> {
    let marked = |mark: &'static str| {
        let (before, rest) = text.split_once(mark)?;
        let (inner, after) = rest.split_once(mark)?;
        (!inner.is_empty() && !inner.contains('\n')).then_some((before, inner, after, mark))
    };
    [marked("`"), marked("**")].into_iter().flatten().min_by_key(|(before, ..)| before.len())
}

impl From<String> for UserText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for UserText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl PartialEq<&str> for UserText {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

/// Writes the text with its marks.
impl fmt::Display for UserText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_both_surfaces_is_spelled_for_each() {
        let text = UserText::from("Run `/worktree init` again.");
        assert_eq!(text.for_terminal(), "Run `grove worktree init` again.");
        assert!(text.for_chat().contains("/worktree init"));
    }

    #[test]
    fn each_surface_has_its_own_commands_and_marks() {
        let cases = [
            (
                "Plain, with 2 ** 3 and a ` alone.",
                "Plain, with 2 ** 3 and a ` alone.",
                "Plain, with 2 ** 3 and a ` alone.",
            ),
            (
                "`grove worktree undo a/b` brings it back.",
                "`grove worktree undo a/b` brings it back.",
                "`/worktree undo a/b` brings it back.",
            ),
            (
                "See `grove worktree exec x -- git status`.",
                "See `grove worktree exec x -- git status`.",
                "See `grove worktree exec x -- git status`.",
            ),
            ("Use `/worktree create NAME`.", "Use `grove worktree create NAME`.", "Use `/worktree create NAME`."),
            ("Use `/worktree link issue-42`.", "Use `/worktree link issue-42`.", "Use `/worktree link issue-42`."),
            ("Run `grove codebase add PATH`.", "Run `grove codebase add PATH`.", "Run `/register PATH`."),
            (
                "`grove doctor` says more about `/usr/bin`.",
                "`grove doctor` says more about `/usr/bin`.",
                "`grove doctor` says more about `/usr/bin`.",
            ),
            (
                "You have 3 for **shop**, on `main`.",
                "You have 3 for shop, on `main`.",
                "You have 3 for **shop**, on `main`.",
            ),
            (
                "`grove worktree trash list` shows it.",
                "`grove worktree trash list` shows it.",
                "`grove worktree trash list` shows it.",
            ),
        ];
        for (text, terminal, chat) in cases {
            let text = UserText::from(text);
            assert_eq!(text.for_terminal(), terminal);
            assert_eq!(text.for_chat(), chat);
        }
    }
}
