//! Parses a message as a command. What clap finds wrong becomes a refusal of ours; none of its text is shown.

use std::error::Error;
use std::slice;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use grove_environments::problem::Problem;

use crate::command_line::{split_command, split_first_word, split_words};
use crate::commands::slash_command::{HelpArgs, SlashCommand};
use crate::commands::syntax::{CommandSyntax, possible_values, value_name};
use crate::words;

const HELP_FLAG: &str = "--help";

/// Parses a message; `None` if it is no command, so that it is for the agent. A message that begins like a
/// command but is not one is refused with the most similar name.
pub fn parse_message(text: &str) -> Result<Option<SlashCommand>, Problem> {
    let Some((name, rest)) = split_command(text) else { return Ok(None) };
    let args = split_arguments(name, rest)?;
    let error = match SlashCommand::try_parse_from(&args) {
        Ok(command) => return Ok(Some(command)),
        Err(error) => error,
    };
    let (command, behind) = CommandSyntax::find_command(&args);
    match error.kind() {
        ErrorKind::DisplayHelp => {}
        // A group was named without one of its commands.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if !command.is_root() => {}
        _ => return Err(to_problem(&error, &command, &args)),
    }
    let command = args[..args.len() - behind.len()].to_vec();
    Ok(Some(SlashCommand::Help(HelpArgs { command })))
}

/// Splits a command into the words that clap parses.
fn split_arguments(name: &str, mut rest: &str) -> Result<Vec<String>, Problem> {
    let mut args = vec![name.to_owned()];
    let (command, _) = CommandSyntax::find_command(&args);
    if command.is_root() {
        // There is no such command, whatever stands behind it.
        return Ok(args);
    }
    if !command.takes_rest_of_message() || [HELP_FLAG, "-h"].contains(&rest.trim()) {
        let first_line = split_words(rest.lines().next().unwrap_or_default());
        let line: Option<Vec<String>> = first_line.map(|words| args.iter().cloned().chain(words).collect());
        if let Some(line) = line
            && !CommandSyntax::find_command(&line).0.takes_arguments()
        {
            // Further lines are not about the command: a greeting, a signature.
            return Ok(line);
        }
        args.extend(split_words(rest).ok_or_else(words::unclosed_quote)?);
        return Ok(help_as_flag(args));
    }
    // Nothing behind it is a flag.
    args.push("--".to_owned());
    for _ in command.positionals().skip(1) {
        if rest.trim().is_empty() {
            break;
        }
        let (word, behind) = split_first_word(rest).ok_or_else(words::unclosed_quote)?;
        args.push(word);
        rest = behind;
    }
    if !rest.trim().is_empty() {
        args.push(rest.to_owned());
    }
    Ok(args)
}

/// Turns `help COMMAND` and `worktree help COMMAND` into `COMMAND --help`.
fn help_as_flag(args: Vec<String>) -> Vec<String> {
    let (group, command) = match args.as_slice() {
        [help, command @ ..] if help == "help" && !command.is_empty() => (None, command),
        [group, help, command @ ..] if help == "help" && CommandSyntax::find_command(&[group]).0.has_subcommands() => {
            (Some(group.clone()), command)
        }
        _ => return args,
    };
    let command = command.iter().map(|word| word.trim_start_matches('/').to_owned());
    group.into_iter().chain(command).chain([HELP_FLAG.to_owned()]).collect()
}

/// Converts the error of a command line into a refusal.
fn to_problem(error: &clap::Error, command: &CommandSyntax, args: &[String]) -> Problem {
    let (typed, hint) = (command.typed(), command.usage_hint());
    let first = |kind| context_texts(error, kind).first().map_or("", String::as_str);
    let (subject, value) = (first(ContextKind::InvalidArg), first(ContextKind::InvalidValue));
    let argument = command.find_argument(subject);
    let choices = argument.map(possible_values).unwrap_or_default();
    // Of an option, clap names the flag and the value.
    let flag = subject.split(' ').next().unwrap_or_default();
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = command.type_subcommand(first(ContextKind::InvalidSubcommand));
            // The most similar one is the last.
            let near = context_texts(error, ContextKind::SuggestedSubcommand).last();
            words::unknown_command(&name, near.map(|near| command.type_subcommand(near)).as_deref())
        }
        // The first word is nothing but the name of a command.
        _ if command.is_root() => words::unknown_command(&command.type_subcommand(&args[0]), None),
        ErrorKind::MissingRequiredArgument if !choices.is_empty() => words::missing_choice(&choices, &hint),
        ErrorKind::MissingRequiredArgument => {
            words::missing_argument(&argument.map(value_name).unwrap_or_default(), &hint)
        }
        ErrorKind::UnknownArgument if subject.starts_with('-') => {
            // Of several short flags in one word, clap names the unknown one.
            let word = args.iter().find(|word| !subject.starts_with("--") && word.starts_with(subject));
            let near = context_texts(error, ContextKind::SuggestedArg).first();
            words::unknown_flag(typed, word.map_or(subject, String::as_str), near.map(String::as_str), &hint)
        }
        ErrorKind::UnknownArgument => words::extra_word(typed, subject, command.positionals().count() > 0, &hint),
        ErrorKind::InvalidValue if choices.is_empty() => {
            words::missing_value(flag, &argument.map(value_name).unwrap_or_default(), &hint)
        }
        ErrorKind::InvalidValue => words::unknown_choice(value, &choices, &hint),
        ErrorKind::TooManyValues => words::unwanted_value(flag, &hint),
        ErrorKind::ArgumentConflict => words::repeated_flag(flag, &hint),
        _ => match error.source() {
            Some(why) => words::bad_value(&why.to_string(), &hint),
            None => words::wrong_usage(typed, &hint),
        },
    }
}

/// Returns the texts that an error has of one kind.
fn context_texts(error: &clap::Error, kind: ContextKind) -> &[String] {
    match error.get(kind) {
        Some(ContextValue::String(text)) => slice::from_ref(text),
        Some(ContextValue::Strings(texts)) => texts,
        _ => &[],
    }
}
