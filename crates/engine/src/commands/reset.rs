//! `/reset`

use crate::Problem;
use crate::talk::Desk;

pub async fn run(desk: &Desk<'_>) -> Result<String, Problem> {
    desk.talks.store.end_sessions(&desk.reference()).await?;
    Ok("The next message begins a new agent session.".to_owned())
}
