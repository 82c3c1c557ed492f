//! `/push [--branch NAME]` and `/pr [TITLE]`

use grove_environments::problem::Problem;
use grove_environments::words::done;
use grove_git::push::Pushed;
use grove_model::{Codebase, Environment};

use crate::command_line::Line;
use crate::commands::worktree::{named_branch, own};
use crate::replies;
use crate::turn_context::Desk;

pub async fn push(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let named = named_branch(&mut line)?;
    let (codebase, mut environment) = own(desk, &mut line).await?;
    let pushed = desk.talks.isolation.push(&codebase, &environment, named.as_ref()).await?;
    environment.branch = named.unwrap_or(environment.branch);
    Ok(replies::for_chat(&in_words(desk, &codebase, &environment, &pushed).await))
}

pub async fn pull_request(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let title = line.next_word();
    let (codebase, environment) = own(desk, &mut line).await?;
    let opened = desk.talks.isolation.open_pull_request(&codebase, &environment, title.as_deref()).await?;
    let (pushed, opened) = opened;
    Ok([in_words(desk, &codebase, &environment, &pushed).await, done::opened(&opened)].join("\n"))
}

/// What was pushed, and what was not.
async fn in_words(desk: &Desk<'_>, codebase: &Codebase, environment: &Environment, pushed: &Pushed) -> String {
    let uncommitted = desk.talks.isolation.uncommitted(codebase, environment).await;
    let left = uncommitted.and_then(done::left_behind);
    [Some(done::pushed(environment.branch.as_str(), pushed)), left].into_iter().flatten().collect::<Vec<_>>().join("\n")
}
