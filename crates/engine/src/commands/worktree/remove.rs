//! `/worktree remove [NAME] [--force]`

use super::{Line, meant};
use crate::Problem;
use crate::removal::{Asker, RemovalWish};
use crate::talk::Desk;
use crate::words::done;

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
