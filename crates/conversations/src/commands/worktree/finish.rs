//! `/worktree finish [--method merge|squash] [--branch NAME]` and `/worktree abort`

use grove_environments::problem::Problem;
use grove_environments::remove::Asker;
use grove_environments::words::done;

use crate::commands::worktree::{Line, meant};
use crate::turn_context::Desk;

pub async fn finish(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let method = line.value("--method")?.as_deref().map(str::parse).transpose()?;
    let method = method.unwrap_or(desk.talks.settings.finish_method());
    let named = super::named_branch(&mut line)?;
    let (codebase, environment) = meant(desk, &mut line).await?;
    let (isolation, asker) = (&desk.talks.isolation, Asker::Conversation(desk.reference()));
    let (finished, removed) = isolation.finish(&codebase, &environment, method, named.as_ref(), asker).await?;
    let branch = named.as_ref().unwrap_or(&environment.branch).as_str();
    let mut lines = done::finished(branch, &finished);
    match removed {
        Ok(removed) => {
            lines.extend(done::removed(branch, &removed, desk.talks.settings.trash_keep_days()));
            ended(desk, &environment).await?;
        }
        Err(error) => lines.push(format!("The worktree stays: {}", Problem::from(error).message)),
    }
    Ok(lines.join("\n"))
}

pub async fn abort(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = meant(desk, &mut line).await?;
    let removed = desk.talks.isolation.abort(&codebase, &environment).await?;
    ended(desk, &environment).await?;
    let days = desk.talks.settings.trash_keep_days();
    Ok(done::removed(environment.branch.as_str(), &removed, days).join("\n"))
}

/// The conversation's session ends with its worktree.
async fn ended(desk: &Desk<'_>, environment: &grove_model::Environment) -> Result<(), Problem> {
    if desk.conversation.environment == Some(environment.id) {
        desk.talks.store.end_sessions(&desk.reference()).await?;
        desk.talks.store.told_of_removal(desk.conversation.id).await?;
    }
    Ok(())
}
