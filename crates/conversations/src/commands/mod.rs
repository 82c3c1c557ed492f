//! Slash commands: a file each. What they do is what the terminal's subcommands do; only the words
//! go to a conversation.

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

use crate::command_line::{self, Call, Line, nearest};
use crate::turn_context::Desk;

/// One command: its name, what goes behind it, and what it does.
pub struct Entry {
    pub name: &'static str,
    pub usage: &'static str,
    pub about: &'static str,
}

const fn entry(name: &'static str, usage: &'static str, about: &'static str) -> Entry {
    Entry { name, usage, about }
}

/// All commands, as `/help` shows them.
pub const COMMANDS: &[Entry] = &[
    entry("help", "", "show the commands"),
    entry("status", "", "show codebase, worktree, branch and agent of this conversation"),
    entry("retry", "", "run the last message again that was cut short"),
    entry("stop", "", "stop what runs in this conversation"),
    entry("reset", "", "begin a new agent session"),
    entry("codebases", "", "list the codebases"),
    entry("codebase", "NAME", "choose the codebase of this conversation"),
    entry("register", "PATH", "register a repository of this machine"),
    entry("clone", "URL", "clone a repository and register it"),
    entry("cwd", "[PATH]", "show or choose the directory of a conversation without a codebase"),
    entry("agent", "[NAME]", "show or choose the agent"),
    entry("worktree", "…", "make, find and remove worktrees; `/worktree help` shows how"),
    entry("commands", "", "list custom commands"),
    entry("run", "NAME [ARGS]", "run a custom command"),
    entry("trust", "", "approve scripts of the repository"),
    entry("push", "", "push the worktree's branch"),
    entry("pr", "[TITLE]", "push the worktree's branch and open its pull request"),
];

/// Commands that a later version brings.
const LATER: [&str; 1] = ["trust"];

/// What somebody said, as far as commands go.
#[derive(Debug)]
pub enum Parsed {
    /// The last message once more.
    Retry,
    Do(Deed),
}

#[derive(Debug)]
pub enum Deed {
    /// No command: words for the agent.
    Words,
    /// A custom command, whose words are for the agent too.
    Custom(Call),
    Command(Line),
}

/// Reads a message. What begins like a command and is none is refused with the nearest name.
pub fn parse(text: &str) -> Result<Parsed, Problem> {
    let Some(name) = command_line::name(text) else { return Ok(Parsed::Do(Deed::Words)) };
    if !COMMANDS.iter().any(|entry| entry.name == name) {
        let names = COMMANDS.iter().map(|entry| entry.name);
        return Err(unknown(&format!("/{name}"), "", nearest(name, names).map(|near| format!("/{near}"))));
    }
    Ok(match name {
        "retry" => Parsed::Retry,
        "run" => Parsed::Do(Deed::Custom(Call::read(text)?)),
        "pr" => Parsed::Do(Deed::Command(Line::whole(text))),
        _ => Parsed::Do(Deed::Command(Line::read(text)?)),
    })
}

/// Does what a command says; the answer in words.
pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let name = line.name.clone();
    match name.as_str() {
        "help" => Ok(help::run()),
        "status" => status::run(desk).await,
        "reset" => reset::run(desk).await,
        "codebases" => codebase::list(desk).await,
        "codebase" => codebase::choose(desk, &line.one("NAME")?).await,
        "register" => codebase::register(desk, &line.one("PATH")?).await,
        "clone" => codebase::clone(desk, &line.one("URL")?).await,
        "cwd" => cwd::run(desk, line.at_most_one()?).await,
        "agent" => agent::run(desk, line.at_most_one()?).await,
        "push" => Box::pin(push::push(desk, line)).await,
        "pr" => Box::pin(push::pull_request(desk, line)).await,
        "worktree" => Box::pin(worktree::run(desk, line)).await,
        "commands" => custom::list(desk).await,
        later if LATER.contains(&later) => Err(not_yet(&format!("/{later}"))),
        other => Err(unknown(&format!("/{other}"), "", None)),
    }
}

/// The conversation's codebase.
pub(crate) async fn codebase_of(desk: &Desk<'_>) -> Result<Codebase, Problem> {
    let codebase = desk.talks.codebase_of(desk.conversation).await?;
    codebase.ok_or_else(|| {
        let hint = "Choose one with `/codebase NAME`; `/codebases` lists them.";
        Problem::new("no_codebase", "This conversation has no codebase.", hint)
    })
}

fn not_yet(name: &str) -> Problem {
    Problem::new("not_yet", format!("`{name}` comes with a later version."), "`/help` shows what there is.")
}

fn unknown(name: &str, behind: &str, near: Option<String>) -> Problem {
    let hint = match near {
        Some(near) => format!("Did you mean `{near}`? `/help` shows all commands."),
        None => "`/help` shows all commands.".to_owned(),
    };
    Problem::new("unknown_command", format!("There is no command `{name}`{behind}."), hint)
}
