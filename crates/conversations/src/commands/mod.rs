//! Slash commands, one file each. They do the same as the subcommands of the terminal, but answer in a
//! conversation.

mod agent;
mod codebase;
mod custom;
mod cwd;
mod help;
mod push;
mod reset;
mod status;
pub mod worktree;

use grove_environments::problem::Problem;
use grove_model::Codebase;

use crate::command_line::{self, CommandLine, CustomCommandCall, nearest_name};
use crate::turn_context::TurnContext;

/// One command: its name, its arguments, and its description.
pub struct CommandEntry {
    pub name: &'static str,
    pub usage: &'static str,
    pub about: &'static str,
}

const fn new_entry(name: &'static str, usage: &'static str, about: &'static str) -> CommandEntry {
    CommandEntry { name, usage, about }
}

/// All commands, as `/help` shows them.
pub const SLASH_COMMANDS: &[CommandEntry] = &[
    new_entry("help", "", "show the commands"),
    new_entry("status", "", "show codebase, worktree, branch and agent of this conversation"),
    new_entry("retry", "", "run the last message again that was cut short"),
    new_entry("stop", "", "stop what runs in this conversation"),
    new_entry("reset", "", "begin a new agent session"),
    new_entry("codebases", "", "list the codebases"),
    new_entry("codebase", "NAME", "choose the codebase of this conversation"),
    new_entry("register", "PATH", "register a repository of this machine"),
    new_entry("clone", "URL", "clone a repository and register it"),
    new_entry("cwd", "[PATH]", "show or choose the directory of a conversation without a codebase"),
    new_entry("agent", "[NAME]", "show or choose the agent"),
    new_entry("worktree", "…", "make, find and remove worktrees; `/worktree help` shows how"),
    new_entry("commands", "", "list custom commands"),
    new_entry("run", "NAME [ARGS]", "run a custom command"),
    new_entry("trust", "", "approve scripts of the repository"),
    new_entry("push", "", "push the worktree's branch"),
    new_entry("pr", "[TITLE]", "push the worktree's branch and open its pull request"),
];

/// Commands that are planned for a later version.
const PLANNED_COMMANDS: [&str; 1] = ["trust"];

/// A message, parsed as a command.
#[derive(Debug)]
pub enum ParsedMessage {
    /// Runs the last message again.
    Retry,
    Do(Action),
}

#[derive(Debug)]
pub enum Action {
    /// No command: a message for the agent.
    Words,
    /// A custom command, whose text also goes to the agent.
    Custom(CustomCommandCall),
    Command(CommandLine),
}

/// Parses a message. A message that begins like a command but is not one is refused with the most similar
/// name.
pub fn parse_message(text: &str) -> Result<ParsedMessage, Problem> {
    let Some(name) = command_line::command_name(text) else { return Ok(ParsedMessage::Do(Action::Words)) };
    if !SLASH_COMMANDS.iter().any(|entry| entry.name == name) {
        let names = SLASH_COMMANDS.iter().map(|entry| entry.name);
        return Err(unknown_command(&format!("/{name}"), "", nearest_name(name, names).map(|near| format!("/{near}"))));
    }
    Ok(match name {
        "retry" => ParsedMessage::Retry,
        "run" => ParsedMessage::Do(Action::Custom(CustomCommandCall::parse_call(text)?)),
        "pr" => ParsedMessage::Do(Action::Command(CommandLine::parse_whole_line(text))),
        _ => ParsedMessage::Do(Action::Command(CommandLine::parse_words(text)?)),
    })
}

/// Runs a command and returns its reply.
pub async fn run_command(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let name = line.name.clone();
    match name.as_str() {
        "help" => Ok(help::help_text()),
        "status" => status::show_status(context).await,
        "reset" => reset::reset_session(context).await,
        "codebases" => codebase::list_codebases(context).await,
        "codebase" => codebase::choose_codebase(context, &line.take_one_word("NAME")?).await,
        "register" => codebase::register_repository(context, &line.take_one_word("PATH")?).await,
        "clone" => codebase::clone_repository(context, &line.take_one_word("URL")?).await,
        "cwd" => cwd::show_or_choose_cwd(context, line.at_most_one()?).await,
        "agent" => agent::show_or_choose_agent(context, line.at_most_one()?).await,
        "push" => Box::pin(push::push_branch(context, line)).await,
        "pr" => Box::pin(push::pull_request(context, line)).await,
        "worktree" => Box::pin(worktree::run_worktree_command(context, line)).await,
        "commands" => custom::list_custom_commands(context).await,
        later if PLANNED_COMMANDS.contains(&later) => Err(not_yet(&format!("/{later}"))),
        other => Err(unknown_command(&format!("/{other}"), "", None)),
    }
}

/// Returns the conversation's codebase.
pub(crate) async fn codebase_of(context: &TurnContext<'_>) -> Result<Codebase, Problem> {
    let codebase = context.conversations.codebase_of(context.conversation).await?;
    codebase.ok_or_else(|| {
        let hint = "Choose one with `/codebase NAME`; `/codebases` lists them.";
        Problem::new("no_codebase", "This conversation has no codebase.", hint)
    })
}

fn not_yet(name: &str) -> Problem {
    Problem::new("not_yet", format!("`{name}` comes with a later version."), "`/help` shows what there is.")
}

fn unknown_command(name: &str, behind: &str, near: Option<String>) -> Problem {
    let hint = match near {
        Some(near) => format!("Did you mean `{near}`? `/help` shows all commands."),
        None => "`/help` shows all commands.".to_owned(),
    };
    Problem::new("unknown_command", format!("There is no command `{name}`{behind}."), hint)
}
