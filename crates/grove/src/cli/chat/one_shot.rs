//! Removes the worktree of a one-shot chat in which nothing was done.

use grove_environments::problem::Problem;
use grove_environments::remove::RemovalRequester;
use grove_model::WorkKind;
use grove_store::{Conversation, ConversationRef, Store};

use super::{CliContext, TERMINAL_PLATFORM};

/// Removes the worktree that a conversation got for itself, if it is as it was created. The session stays: the
/// next message gets the same path again.
pub async fn remove_untouched_worktree(context: &CliContext, store: &Store, conversation_id: &str) {
    if let Err(problem) = try_remove(context, store, conversation_id).await {
        tracing::warn!(conversation = conversation_id, error = %problem, "worktree of a one-shot chat not removed");
    }
}

async fn try_remove(context: &CliContext, store: &Store, conversation_id: &str) -> Result<(), Problem> {
    let all = store.conversations_called(conversation_id).await?;
    let Some(conversation) = all.into_iter().find(|one| one.platform == TERMINAL_PLATFORM) else { return Ok(()) };
    let Conversation { id, name, platform, environment: Some(environment), .. } = conversation else { return Ok(()) };
    let Some(environment) = store.find_environment(environment).await? else { return Ok(()) };
    if (environment.work.work_kind(), environment.work.id()) != (WorkKind::Thread, name.as_str()) {
        return Ok(());
    }
    let codebases = store.list_codebases().await?;
    let Some(codebase) = codebases.iter().find(|one| one.id == environment.codebase_id) else { return Ok(()) };
    let requester = RemovalRequester::Conversation(ConversationRef { platform, id: name });
    if context.environments_in(store).remove_untouched(codebase, &environment, requester).await?.is_some() {
        // There is nothing to tell at the next message.
        store.told_of_removal(id).await?;
    }
    Ok(())
}
