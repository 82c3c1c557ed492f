//! `/reset`

use grove_environments::problem::Problem;

use crate::turn_context::TurnContext;

pub async fn reset_session(desk: &TurnContext<'_>) -> Result<String, Problem> {
    desk.talks.store.end_sessions(&desk.conversation_ref()).await?;
    Ok("The next message begins a new agent session.".to_owned())
}
