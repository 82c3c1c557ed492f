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

use crate::command_line::{Line, nearest};
use crate::commands::help::listed;
use crate::commands::{Entry, codebase_of as codebase, entry, not_yet, unknown};
use crate::replies;
use crate::turn_context::Desk;

/// What `/worktree` can do.
pub const COMMANDS: &[Entry] = &[
    entry("create", "NAME [--from REF]", "make a worktree and work there"),
    entry("list", "", "list the worktrees"),
    entry("remove", "[NAME] [--force]", "remove a worktree; it can be brought back"),
    entry("undo", "[NAME]", "bring back what was removed"),
    entry("link", "KIND-ID|BRANCH", "work in the worktree of other work"),
    entry("sync", "", "bring what is new in the base into the worktree"),
    entry("finish", "", "merge the work into its base and remove the worktree"),
    entry("abort", "", "give the work up; it can be brought back"),
    entry("diff", "", "show what was changed"),
    entry("hibernate", "[NAME]", "put a worktree away until it is needed"),
    entry("wake", "[NAME]", "bring a hibernated worktree back"),
    entry("cleanup", "merged|stale [--dry-run]", "remove what is merged or stale"),
    entry("orphans", "", "list worktrees that grove did not make"),
    entry("adopt", "PATH", "take one of them over"),
    entry("why", "[NAME]", "say why the work is where it is"),
    entry("init", "", "run the worktree's init script again"),
];

pub(super) async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let Some(word) = line.next_word() else { return Ok(help()) };
    line.name = format!("worktree {word}");
    if word == "help" {
        return Ok(help());
    }
    if !COMMANDS.iter().any(|entry| entry.name == word) {
        let near = nearest(&word, COMMANDS.iter().map(|entry| entry.name));
        return Err(unknown(&format!("/worktree {word}"), "", near.map(|near| format!("/worktree {near}"))));
    }
    let words = match word.as_str() {
        "create" => create::run(desk, line).await,
        "list" => list::run(desk).await,
        "remove" => remove::run(desk, line).await,
        "undo" => undo::run(desk, line).await,
        "link" => link::run(desk, line).await,
        "sync" => sync::run(desk, line).await,
        "finish" => finish::finish(desk, line).await,
        "abort" => finish::abort(desk, line).await,
        "diff" => diff::run(desk, line).await,
        "hibernate" => sleep::hibernate(desk, line).await,
        "wake" => sleep::wake(desk, line).await,
        "cleanup" => cleanup::run(desk, line).await,
        "orphans" => orphans::run(desk).await,
        "adopt" => adopt::run(desk, line).await,
        "why" => why::run(desk, line).await,
        _ => Err(not_yet(&format!("/worktree {word}"))),
    };
    // A patch is shown as it is.
    if word == "diff" { words } else { words.map(|text| replies::for_chat(&text)) }
}

fn help() -> String {
    listed("/worktree ", COMMANDS)
}

/// The conversation's own environment.
pub(super) async fn own(desk: &Desk<'_>, line: &mut Line) -> Result<(Codebase, Environment), Problem> {
    if let Some(word) = line.at_most_one()? {
        let message = format!("`/{}` does not know what to do with `{word}`.", line.name);
        return Err(Problem::new("usage", message, "It is about the worktree of this conversation."));
    }
    let codebase = codebase(desk).await?;
    let environment = match desk.conversation.environment {
        Some(id) => desk.talks.store.environment(id).await?,
        None => None,
    };
    let hint = "Say what should be done, or go to a worktree with `/worktree link NAME`.";
    let nowhere = || Problem::new("no_worktree", "This conversation works in no worktree.", hint);
    Ok((codebase, environment.ok_or_else(nowhere)?))
}

/// The environment that is named, or the conversation's own.
async fn meant(desk: &Desk<'_>, line: &mut Line) -> Result<(Codebase, Environment), Problem> {
    let codebase = codebase(desk).await?;
    let environment = match (line.at_most_one()?, desk.conversation.environment) {
        (Some(name), _) => desk.talks.isolation.find_environment(&codebase, &name).await?,
        (None, Some(id)) => match desk.talks.store.environment(id).await? {
            Some(environment) => environment,
            None => return Err(nowhere(&line.name)),
        },
        (None, None) => return Err(nowhere(&line.name)),
    };
    Ok((codebase, environment))
}

/// `--branch NAME`: the branch that is meant, where several can be.
pub(super) fn named_branch(line: &mut Line) -> Result<Option<BranchName>, Problem> {
    let wrong = |error: grove_model::BranchNameError| {
        Problem::new("usage", format!("{error}."), "Write `--branch NAME` with the name of a branch.")
    };
    line.value("--branch")?.as_deref().map(BranchName::parse).transpose().map_err(wrong)
}

fn nowhere(name: &str) -> Problem {
    let hint = format!("Name one, as in `/{name} NAME`; `/worktree list` shows them.");
    Problem::new("no_worktree", "This conversation works in no worktree.", hint)
}
