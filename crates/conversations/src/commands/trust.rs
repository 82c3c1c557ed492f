//! `/trust [--yes]`

use grove_environments::problem::Problem;

use crate::commands::codebase_of;
use crate::commands::slash_command::TrustArgs;
use crate::replies;
use crate::turn_context::TurnContext;

/// Shows the scripts that wait for approval, or approves them.
pub async fn show_or_approve(context: &TurnContext<'_>, TrustArgs { yes }: &TrustArgs) -> Result<String, Problem> {
    let codebase = codebase_of(context).await?;
    let environments = &context.conversations.environments;
    let pending = environments.pending_approvals(&codebase).await?;
    if *yes {
        for waiting in &pending {
            environments.approve_script(&codebase, &waiting.script, context.message.user.as_deref()).await?;
        }
    }
    Ok(replies::approvals_reply(&pending, *yes, "/trust --yes"))
}
