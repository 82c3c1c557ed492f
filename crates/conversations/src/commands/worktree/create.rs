//! `/worktree create NAME [--from REF]`

use std::path::Path;

use grove_agents::agent::SessionMemory;
use grove_environments::create::{CreateRequest, EnvironmentCreator};
use grove_environments::error::EnvironmentError;
use grove_environments::problem::Problem;
use grove_model::{Work, WorkHints};

use crate::commands::slash_command::CreateArgs;
use crate::commands::worktree::codebase;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn create_worktree(
    context: &TurnContext<'_>,
    CreateArgs { name, from }: &CreateArgs,
) -> Result<String, Problem> {
    let codebase = codebase(context).await?;
    let request = CreateRequest {
        work: Work::for_task(name.as_str())?,
        branch: Some(name.clone()),
        from: from.clone(),
        hints: grove_environments::create::CreateHints::default(),
        // Bound afterwards: with the conversation, its present environment would be chosen.
        conversation: None,
        by: EnvironmentCreator {
            platform: Some(context.conversation.platform.clone()),
            user: context.message.user.clone(),
        },
    };
    let outcome = context.environments_with_notices().create_environment(&codebase, &request).await?;
    let store = &context.conversations.store;
    if !store.bind_conversation(&context.conversation_ref(), codebase.id, outcome.environment.id).await? {
        return Err(EnvironmentError::InTheMaking { work: outcome.environment.work.to_string() }.into());
    }
    take_session_along(context, &outcome.environment.path).await?;
    Ok(replies::place_notices(&outcome, &WorkHints::default(), true).join("\n"))
}

/// Moves the conversation's session to a worktree that is created in the middle of the conversation, if the
/// agent can take its session to another directory. If it cannot, its next session gets the recent messages.
async fn take_session_along(context: &TurnContext<'_>, to: &Path) -> Result<(), Problem> {
    let (store, agents) = (&context.conversations.store, &context.conversations.agents);
    let Some(mut session) = store.active_session(context.conversation.id).await? else { return Ok(()) };
    let agent = agents.choose_agent(Some(&session.agent), &context.message.via);
    if agent.is_ok_and(|agent| agent.session_memory() == SessionMemory::Travels) {
        session.facts.cwd = Some(to.display().to_string());
        store.keep_session(&session).await?;
    }
    Ok(())
}
