//! `/worktree …`

mod adopt;
mod cleanup;
mod create;
mod diff;
mod finish;
mod link;
mod list;
mod orphans;
mod remove;
mod sleep;
mod sync;
mod undo;
mod why;

use grove_environments::problem::Problem;
use grove_model::{BranchName, Codebase, Environment};

use crate::command_line::{CommandLine, nearest_name};
use crate::commands::help::list_commands;
use crate::commands::{CommandEntry, codebase_of as codebase, new_entry, not_yet, unknown_command};
use crate::replies;
use crate::turn_context::TurnContext;

/// The subcommands of `/worktree`.
pub const WORKTREE_COMMANDS: &[CommandEntry] = &[
    new_entry("create", "NAME [--from REF]", "make a worktree and work there"),
    new_entry("list", "", "list the worktrees"),
    new_entry("remove", "[NAME] [--force]", "remove a worktree; it can be brought back"),
    new_entry("undo", "[NAME]", "bring back what was removed"),
    new_entry("link", "KIND-ID|BRANCH", "work in the worktree of other work"),
    new_entry("sync", "", "bring what is new in the base into the worktree"),
    new_entry("finish", "", "merge the work into its base and remove the worktree"),
    new_entry("abort", "", "give the work up; it can be brought back"),
    new_entry("diff", "", "show what was changed"),
    new_entry("hibernate", "[NAME]", "put a worktree away until it is needed"),
    new_entry("wake", "[NAME]", "bring a hibernated worktree back"),
    new_entry("cleanup", "merged|stale [--dry-run]", "remove what is merged or stale"),
    new_entry("orphans", "", "list worktrees that grove did not make"),
    new_entry("adopt", "PATH", "take one of them over"),
    new_entry("why", "[NAME]", "say why the work is where it is"),
    new_entry("init", "", "run the worktree's init script again"),
];

pub(super) async fn run_worktree_command(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let Some(word) = line.next_word() else { return Ok(worktree_help()) };
    line.name = format!("worktree {word}");
    if word == "help" {
        return Ok(worktree_help());
    }
    if !WORKTREE_COMMANDS.iter().any(|entry| entry.name == word) {
        let near = nearest_name(&word, WORKTREE_COMMANDS.iter().map(|entry| entry.name));
        return Err(unknown_command(&format!("/worktree {word}"), "", near.map(|near| format!("/worktree {near}"))));
    }
    let words = match word.as_str() {
        "create" => create::create_worktree(context, line).await,
        "list" => list::list_worktrees(context).await,
        "remove" => remove::remove_worktree(context, line).await,
        "undo" => undo::undo_removal(context, line).await,
        "link" => link::link_worktree(context, line).await,
        "sync" => sync::sync_worktree(context, line).await,
        "finish" => finish::finish_worktree(context, line).await,
        "abort" => finish::abort_worktree(context, line).await,
        "diff" => diff::show_diff(context, line).await,
        "hibernate" => sleep::hibernate_worktree(context, line).await,
        "wake" => sleep::wake_worktree(context, line).await,
        "cleanup" => cleanup::clean_up_worktrees(context, line).await,
        "orphans" => orphans::list_orphans(context).await,
        "adopt" => adopt::adopt_worktree(context, line).await,
        "why" => why::explain_worktree(context, line).await,
        _ => Err(not_yet(&format!("/worktree {word}"))),
    };
    // A patch is shown unchanged.
    if word == "diff" { words } else { words.map(|text| replies::for_chat(&text)) }
}

fn worktree_help() -> String {
    list_commands("/worktree ", WORKTREE_COMMANDS)
}

/// Returns the conversation's own environment.
pub(super) async fn own_environment(
    context: &TurnContext<'_>,
    line: &mut CommandLine,
) -> Result<(Codebase, Environment), Problem> {
    if let Some(word) = line.at_most_one()? {
        let message = format!("`/{}` does not know what to do with `{word}`.", line.name);
        return Err(Problem::new("usage", message, "It is about the worktree of this conversation."));
    }
    let codebase = codebase(context).await?;
    let environment = match context.conversation.environment {
        Some(id) => context.conversations.store.find_environment(id).await?,
        None => None,
    };
    let hint = "Say what should be done, or go to a worktree with `/worktree link NAME`.";
    let nowhere = || Problem::new("no_worktree", "This conversation works in no worktree.", hint);
    Ok((codebase, environment.ok_or_else(nowhere)?))
}

/// Returns the named environment, or the conversation's own.
async fn named_environment(
    context: &TurnContext<'_>,
    line: &mut CommandLine,
) -> Result<(Codebase, Environment), Problem> {
    let codebase = codebase(context).await?;
    let environment = match (line.at_most_one()?, context.conversation.environment) {
        (Some(name), _) => context.conversations.environments.find_environment(&codebase, &name).await?,
        (None, Some(id)) => match context.conversations.store.find_environment(id).await? {
            Some(environment) => environment,
            None => return Err(unknown_worktree(&line.name)),
        },
        (None, None) => return Err(unknown_worktree(&line.name)),
    };
    Ok((codebase, environment))
}

/// Returns the value of `--branch NAME`, which selects one of several possible branches.
pub(super) fn named_branch(line: &mut CommandLine) -> Result<Option<BranchName>, Problem> {
    let wrong = |error: grove_model::BranchNameError| {
        Problem::new("usage", format!("{error}."), "Write `--branch NAME` with the name of a branch.")
    };
    line.take_flag_value("--branch")?.as_deref().map(BranchName::parse).transpose().map_err(wrong)
}

fn unknown_worktree(name: &str) -> Problem {
    let hint = format!("Name one, as in `/{name} NAME`; `/worktree list` shows them.");
    Problem::new("no_worktree", "This conversation works in no worktree.", hint)
}
