//! `/push [--branch NAME]` and `/pr [TITLE]`

use grove_environments::problem::Problem;
use grove_environments::words::done;
use grove_git::push::PushOutcome;
use grove_model::{Codebase, Environment};

use crate::command_line::CommandLine;
use crate::commands::worktree::{named_branch, own_environment};
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn push_branch(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let named = named_branch(&mut line)?;
    let (codebase, mut environment) = own_environment(context, &mut line).await?;
    let pushed = context.conversations.environments.push_branch(&codebase, &environment, named.as_ref()).await?;
    environment.branch = named.unwrap_or(environment.branch);
    Ok(replies::for_chat(&in_words(context, &codebase, &environment, &pushed).await))
}

pub async fn pull_request(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let title = line.next_word();
    let (codebase, environment) = own_environment(context, &mut line).await?;
    let opened =
        context.conversations.environments.open_pull_request(&codebase, &environment, title.as_deref()).await?;
    let (pushed, opened) = opened;
    Ok([in_words(context, &codebase, &environment, &pushed).await, done::describe_pull_request(&opened)].join("\n"))
}

/// Describes what was pushed and what was not.
async fn in_words(
    context: &TurnContext<'_>,
    codebase: &Codebase,
    environment: &Environment,
    pushed: &PushOutcome,
) -> String {
    let uncommitted = context.conversations.environments.count_uncommitted_files(codebase, environment).await;
    let left = uncommitted.and_then(done::left_behind);
    [Some(done::describe_pushed(environment.branch.as_str(), pushed)), left]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("\n")
}
