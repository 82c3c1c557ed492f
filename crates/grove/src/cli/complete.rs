//! Completes names that only the store or the settings know, when a shell asks for them.
//!
//! The script of `grove shell-init` calls this program with [`COMPLETE_VARIABLE`] set and the words so far.

use std::ffi::OsStr;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use grove_agents::registry::AgentRegistry;

use super::chat::TERMINAL_PLATFORM;
use super::chat::complete::{CompletionKind, CompletionNames};
use super::{CliContext, GroveCli};

/// The variable that says which shell asks.
pub const COMPLETE_VARIABLE: &str = "GROVE_COMPLETE";

/// The time that a person waits for names after pressing Tab.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);

/// The kinds of names that an argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameKind {
    Worktree,
    RemovedWorktree,
    Codebase,
    Agent,
    Conversation,
}

/// Answers a shell that asks for completions, and ends the program; does nothing for any other call.
pub fn answer_shell() {
    CompleteEnv::with_factory(|| add_completers(GroveCli::command(), "")).var(COMPLETE_VARIABLE).complete();
}

/// Adds the completion of names to a command and everything below it; `path` is the command's own.
fn add_completers(command: Command, path: &str) -> Command {
    let command = command.mut_args(|arg| match name_kind(path, &arg) {
        Some(kind) => arg.add(ArgValueCompleter::new(move |word: &OsStr| candidates(kind, word))),
        None => arg,
    });
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        add_completers(below, path.trim_start())
    })
}

fn name_kind(path: &str, arg: &Arg) -> Option<NameKind> {
    let words: Vec<&str> = path.split_whitespace().collect();
    match (&words[..], arg.get_id().as_str()) {
        (_, "codebase") => Some(NameKind::Codebase),
        (["worktree", "undo"] | ["worktree", "trash", _], "name") => Some(NameKind::RemovedWorktree),
        // A new name.
        (["worktree", "create"] | ["codebase", "add"], _) => None,
        (["worktree", ..] | ["cd"], "name") => Some(NameKind::Worktree),
        (["codebase", ..], "name") => Some(NameKind::Codebase),
        (["agent", ..], "name") => Some(NameKind::Agent),
        (["chat"], "conversation") => Some(NameKind::Conversation),
        _ => None,
    }
}

fn candidates(kind: NameKind, word: &OsStr) -> Vec<CompletionCandidate> {
    let word = word.to_string_lossy();
    let names = load_names(kind).unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with(&*word)).map(CompletionCandidate::new).collect()
}

/// Returns the known names; none if they cannot be read soon. Nothing is created.
fn load_names(kind: NameKind) -> Option<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime
        .block_on(async { tokio::time::timeout(COMPLETION_TIMEOUT, load_names_from_store(kind)).await.ok().flatten() })
}

async fn load_names_from_store(kind: NameKind) -> Option<Vec<String>> {
    let context = CliContext::new(false).ok()?;
    let wanted = match kind {
        NameKind::Agent => return Some(AgentRegistry::new(&context.settings).agent_names()),
        NameKind::Worktree => CompletionKind::Worktree,
        NameKind::RemovedWorktree => CompletionKind::RemovedWorktree,
        NameKind::Codebase => CompletionKind::Codebase,
        NameKind::Conversation => CompletionKind::Nothing,
    };
    if !context.settings.home_path().exists() {
        return None;
    }
    let store = context.open_store().await.ok()?;
    if kind == NameKind::Conversation {
        let recent = store.recent_conversations(TERMINAL_PLATFORM).await.ok()?;
        return Some(recent.into_iter().map(|conversation| conversation.name).collect());
    }
    let codebase = context.codebases_in(&store).resolve_codebase(None, &context.cwd).await.ok();
    let environments = context.environments_in(&store);
    CompletionNames { store, environments, codebase }.completion_names(wanted).await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_completed_with_the_names_that_they_take() {
        let kind = |path: &str, id: &'static str| name_kind(path, &Arg::new(id));
        assert_eq!(kind("worktree remove", "name"), Some(NameKind::Worktree));
        assert_eq!(kind("worktree undo", "name"), Some(NameKind::RemovedWorktree));
        assert_eq!(kind("worktree trash show", "name"), Some(NameKind::RemovedWorktree));
        assert_eq!(kind("worktree create", "name"), None);
        assert_eq!(kind("worktree create", "codebase"), Some(NameKind::Codebase));
        assert_eq!(kind("codebase show", "name"), Some(NameKind::Codebase));
        assert_eq!(kind("codebase add", "name"), None);
        assert_eq!(kind("agent test", "name"), Some(NameKind::Agent));
        assert_eq!(kind("cd", "name"), Some(NameKind::Worktree));
        assert_eq!(kind("worktree remove", "force"), None);
    }
}
