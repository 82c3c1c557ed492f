//! `/worktree create NAME [--from REF]`

use std::path::Path;

use grove_agents::agent::Memory;
use grove_environments::create::{CreatedBy, Wish};
use grove_environments::error::IsolationError;
use grove_environments::problem::Problem;
use grove_model::{BranchName, Hints, Work};

use crate::commands::worktree::{Line, codebase};
use crate::replies;
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let from = match line.value("--from")? {
        Some(from) => Some(from),
        None => line.value("--base")?,
    };
    let name = line.one("NAME")?;
    let branch = BranchName::parse(&name)?;
    let codebase = codebase(desk).await?;
    let wish = Wish {
        work: Work::task(branch.as_str())?,
        branch: Some(branch),
        from,
        hints: grove_environments::create::Hints::default(),
        // Bound afterwards: otherwise the one that it has would be chosen.
        conversation: None,
        by: CreatedBy { platform: Some(desk.conversation.platform.clone()), user: desk.message.user.clone() },
    };
    let outcome = desk.isolation().create(&codebase, &wish).await?;
    let store = &desk.talks.store;
    if !store.bind_conversation(&desk.reference(), codebase.id, outcome.environment.id).await? {
        return Err(IsolationError::InTheMaking { work: outcome.environment.work.to_string() }.into());
    }
    take_session_along(desk, &outcome.environment.path).await?;
    Ok(replies::place(&outcome, &Hints::default(), true).join("\n"))
}

/// Whoever makes a worktree in the middle of a conversation goes on with what was said, where the agent
/// can take its session to another directory. Where it cannot, its next session is told.
async fn take_session_along(desk: &Desk<'_>, to: &Path) -> Result<(), Problem> {
    let (store, agents) = (&desk.talks.store, &desk.talks.agents);
    let Some(mut session) = store.session(desk.conversation.id).await? else { return Ok(()) };
    let agent = agents.choose(Some(&session.agent), &desk.message.via);
    if agent.is_ok_and(|agent| agent.memory() == Memory::Travels) {
        session.facts.cwd = Some(to.display().to_string());
        store.keep_session(&session).await?;
    }
    Ok(())
}
