//! The refusals of commands that are not written as they should be.

use grove_environments::problem::{Problem, sentence};

/// Tells how a command is written.
pub fn usage_hint(usage: &str) -> String {
    format!("Write `{usage}`.")
}

/// Tells where the commands of a group are listed.
pub fn list_hint(group: &str) -> String {
    format!("`{group} help` lists the commands.")
}

pub fn unclosed_quote() -> Problem {
    let hint = "Close it, or leave it away. A `\\` at the end needs another one before it.";
    Problem::new("usage", "A quote is not closed.", hint)
}

pub fn unknown_command(name: &str, near: Option<&str>) -> Problem {
    let near = near.map(|near| format!("Did you mean `{near}`? ")).unwrap_or_default();
    let hint = format!("{near}`/help` shows all commands.");
    Problem::new("unknown_command", format!("There is no command `{name}`."), hint)
}

pub fn missing_argument(name: &str, hint: &str) -> Problem {
    Problem::new("usage", format!("{name} is missing."), hint)
}

/// One of these words is missing.
pub fn missing_choice(choices: &[String], hint: &str) -> Problem {
    Problem::new("usage", format!("{} is missing.", join_choices(choices)), hint)
}

pub fn unknown_choice(word: &str, choices: &[String], hint: &str) -> Problem {
    Problem::new("usage", format!("`{word}` is not {}.", join_choices(choices)), hint)
}

pub fn unknown_flag(command: &str, flag: &str, near: Option<&str>, hint: &str) -> Problem {
    let near = near.map(|near| format!("Did you mean `{near}`? ")).unwrap_or_default();
    Problem::new("usage", format!("`{command}` does not know `{flag}`."), format!("{near}{hint}"))
}

/// A word is too many. If the command takes words at all, several of them may belong together.
pub fn extra_word(command: &str, word: &str, takes_words: bool, hint: &str) -> Problem {
    let quote = if takes_words { "Quote words that belong together. " } else { "" };
    let message = format!("`{command}` does not know what to do with `{word}`.");
    Problem::new("usage", message, format!("{quote}{hint}"))
}

/// A flag needs a value.
pub fn missing_value(flag: &str, value: &str, hint: &str) -> Problem {
    Problem::new("usage", format!("{value} is missing behind `{flag}`."), hint)
}

/// A flag takes no value.
pub fn unwanted_value(flag: &str, hint: &str) -> Problem {
    Problem::new("usage", format!("`{flag}` takes no value."), hint)
}

pub fn repeated_flag(flag: &str, hint: &str) -> Problem {
    Problem::new("usage", format!("`{flag}` is given more than once."), hint)
}

/// The value of an argument cannot be what it should be.
pub fn bad_value(why: &str, hint: &str) -> Problem {
    Problem::new("usage", sentence(why), hint)
}

pub fn wrong_usage(command: &str, hint: &str) -> Problem {
    Problem::new("usage", format!("`{command}` is not written like this."), hint)
}

fn join_choices(choices: &[String]) -> String {
    choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(" or ")
}
