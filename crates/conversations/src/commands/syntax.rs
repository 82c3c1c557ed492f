//! How a command is written, as its declaration says.

use std::any::TypeId;

use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::commands::slash_command::{RestOfMessage, SlashCommand};
use crate::words;

/// A command of the declaration, or all of them.
#[derive(Clone, Debug)]
pub struct CommandSyntax {
    /// The command as it is typed: `/worktree create`; `/` for all commands.
    typed: String,
    command: Command,
}

impl CommandSyntax {
    /// Returns all commands.
    pub fn all() -> Self {
        let mut command = SlashCommand::command();
        // Arguments of a command that is not built have no names.
        command.build();
        Self { typed: "/".to_owned(), command }
    }

    /// Returns the command that words begin with, and the words behind it.
    pub fn find_command<W: AsRef<str>>(words: &[W]) -> (Self, &[W]) {
        let (mut found, mut rest) = (Self::all(), words);
        while let [word, behind @ ..] = rest
            && let Some(command) = found.command.find_subcommand(word.as_ref())
        {
            found = Self { typed: found.type_subcommand(command.get_name()), command: command.clone() };
            rest = behind;
        }
        (found, rest)
    }

    /// Returns the command as it is typed.
    pub fn typed(&self) -> &str {
        &self.typed
    }

    /// Tells whether this is all commands, not one of them.
    pub fn is_root(&self) -> bool {
        self.typed == "/"
    }

    /// Returns a command below this one as it is typed.
    pub fn type_subcommand(&self, name: &str) -> String {
        if self.is_root() { format!("/{name}") } else { format!("{} {name}", self.typed) }
    }

    /// Tells whether this is a group of commands.
    pub fn has_subcommands(&self) -> bool {
        self.command.has_subcommands()
    }

    /// Tells whether anything is expected behind the command.
    pub fn takes_arguments(&self) -> bool {
        self.has_subcommands() || self.arguments().next().is_some()
    }

    /// Returns the names of the commands below this one.
    pub fn subcommand_names(&self) -> impl Iterator<Item = &str> {
        self.command.get_subcommands().map(Command::get_name)
    }

    /// Returns the arguments without a flag, in their order.
    pub fn positionals(&self) -> impl Iterator<Item = &Arg> {
        self.command.get_positionals()
    }

    /// Returns the flags as they are typed.
    pub fn flags(&self) -> impl Iterator<Item = String> {
        self.command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
    }

    /// Tells whether the last argument is the rest of the message, unsplit.
    pub fn takes_rest_of_message(&self) -> bool {
        let last = self.positionals().last();
        last.is_some_and(|arg| arg.get_value_parser().type_id() == TypeId::of::<RestOfMessage>())
    }

    /// Finds an argument by the name that clap gives it in an error.
    pub fn find_argument(&self, name: &str) -> Option<&Arg> {
        self.command.get_arguments().find(|arg| arg.to_string() == name)
    }

    /// Returns the arguments as they are written: `NAME [--from REF]`.
    pub fn arguments_usage(&self) -> String {
        self.join_arguments(|_| true)
    }

    fn join_arguments(&self, is_shown: impl Fn(&Arg) -> bool) -> String {
        if self.has_subcommands() {
            return "…".to_owned();
        }
        self.arguments().filter(|arg| is_shown(arg)).map(argument_usage).collect::<Vec<_>>().join(" ")
    }

    /// Returns the arguments that are shown, flags last; `--help` is the same everywhere.
    fn arguments(&self) -> impl Iterator<Item = &Arg> {
        let flags = self.command.get_arguments().filter(|arg| !arg.is_positional());
        let is_shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_action(), ArgAction::Help);
        self.positionals().chain(flags).filter(is_shown)
    }

    /// Returns the command with all its arguments.
    pub fn usage(&self) -> String {
        format!("{} {}", self.typed, self.arguments_usage()).trim_end().to_owned()
    }

    /// Returns how the command is written, for a refusal.
    pub fn usage_hint(&self) -> String {
        match self.command.get_after_help() {
            Some(examples) => self.fill_in_usage(examples),
            None if self.has_subcommands() => words::list_hint(&self.typed),
            None => words::usage_hint(&self.usage()),
        }
    }

    /// Lists the commands below this one, one per line.
    pub fn list_subcommands(&self) -> String {
        let line = |command: &Command| {
            let below = Self { typed: self.type_subcommand(command.get_name()), command: command.clone() };
            let arguments = below.join_arguments(|arg| !arg.is_hide_short_help_set());
            let usage = format!("{} {arguments}", below.typed);
            format!("- `{}`: {}", usage.trim_end(), below.description())
        };
        self.command.get_subcommands().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Describes the command and its arguments.
    pub fn describe(&self) -> String {
        let mut lines = vec![format!("`{}`: {}", self.usage(), self.description())];
        for arg in self.arguments() {
            let help = arg.get_help().map(|help| lower_first(&help.to_string())).unwrap_or_default();
            lines.push(format!("- `{}`: {help}", flag_and_value(arg)));
        }
        lines.extend(self.command.get_after_help().map(|examples| self.fill_in_usage(examples)));
        lines.join("\n")
    }

    fn fill_in_usage(&self, text: &StyledStr) -> String {
        text.to_string().replace("{usage}", &format!("`{}`", self.usage()))
    }

    fn description(&self) -> String {
        self.command.get_about().map(|about| lower_first(&about.to_string())).unwrap_or_default()
    }
}

/// Returns the words that an argument accepts; none if it accepts any.
pub fn possible_values(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect()
}

/// Returns the words that an argument accepts, or the name of its value.
pub fn value_name(arg: &Arg) -> String {
    match (possible_values(arg).as_slice(), arg.get_value_names()) {
        ([], Some([name, ..])) => name.to_string(),
        (values, _) => values.join("|"),
    }
}

fn flag_and_value(arg: &Arg) -> String {
    let flag = arg.get_long().map(|long| format!("--{long}")).unwrap_or_default();
    let value = if arg.get_action().takes_values() { value_name(arg) } else { String::new() };
    format!("{flag} {value}").trim().to_owned()
}

fn argument_usage(arg: &Arg) -> String {
    if arg.is_required_set() { flag_and_value(arg) } else { format!("[{}]", flag_and_value(arg)) }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect()
}
