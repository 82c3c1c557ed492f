//! `/reset`

use grove_environments::problem::Problem;

use crate::turn_context::TurnContext;

pub async fn reset_session(context: &TurnContext<'_>) -> Result<String, Problem> {
    context.conversations.store.end_sessions(&context.conversation_ref()).await?;
    Ok("The next message begins a new agent session.".to_owned())
}
