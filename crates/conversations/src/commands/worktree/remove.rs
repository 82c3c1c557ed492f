//! `/worktree remove [NAME] [--force]`

use grove_environments::problem::Problem;
use grove_environments::remove::{Asker, RemovalWish};
use grove_environments::words::done;

use crate::commands::worktree::{Line, meant};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let force = line.flag("--force") || line.flag("-f");
    let (codebase, environment) = meant(desk, &mut line).await?;
    let asker = Asker::Conversation(desk.reference());
    let wish = RemovalWish { force, asker, ..RemovalWish::default() };
    let removed = desk.talks.isolation.remove(&codebase, &environment, &wish).await?;
    if desk.conversation.environment == Some(environment.id) {
        desk.talks.store.end_sessions(&desk.reference()).await?;
        desk.talks.store.told_of_removal(desk.conversation.id).await?;
    }
    let days = desk.talks.settings.trash_keep_days();
    Ok(done::removed(environment.branch.as_str(), &removed, days).join("\n"))
}
