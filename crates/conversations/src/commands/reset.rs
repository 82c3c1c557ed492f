//! `/reset`

use grove_environments::problem::Problem;

use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>) -> Result<String, Problem> {
    desk.talks.store.end_sessions(&desk.reference()).await?;
    Ok("The next message begins a new agent session.".to_owned())
}
