//! `/worktree cleanup merged|stale [--dry-run]`

use grove_environments::cleanup::select::CleanupScope;
use grove_environments::problem::Problem;
use grove_environments::remove::RemovalRequester;
use grove_environments::words::done;

use crate::commands::slash_command::{CleanupArgs, CleanupKind};
use crate::commands::worktree::codebase;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn clean_up_worktrees(
    context: &TurnContext<'_>,
    &CleanupArgs { kind, dry_run }: &CleanupArgs,
) -> Result<String, Problem> {
    let scope = match kind {
        CleanupKind::Merged => CleanupScope::Merged,
        CleanupKind::Stale => CleanupScope::Stale,
    };
    let codebase = codebase(context).await?;
    let requester = RemovalRequester::PersonIn(context.conversation_ref());
    let report =
        context.conversations.environments.clean_up_for(&requester, &codebase, scope, dry_run, &|_, _| {}).await?;
    Ok(replies::join_lines(done::describe_cleanup(&report, dry_run)))
}
