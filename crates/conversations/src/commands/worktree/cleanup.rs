//! `/worktree cleanup merged|stale [--dry-run]`

use grove_environments::cleanup::select::CleanupScope;
use grove_environments::problem::Problem;
use grove_environments::remove::RemovalRequester;
use grove_environments::words::done;

use crate::commands::worktree::{CommandLine, codebase};
use crate::turn_context::TurnContext;

pub async fn clean_up_worktrees(context: &TurnContext<'_>, mut line: CommandLine) -> Result<String, Problem> {
    let dry_run = line.take_flag("--dry-run") || line.take_flag("-n");
    let scope = match line.at_most_one()?.as_deref() {
        Some("merged") => CleanupScope::Merged,
        Some("stale") => CleanupScope::Stale,
        _ => {
            let hint = "Write `/worktree cleanup merged` or `/worktree cleanup stale`.";
            return Err(Problem::new("usage", "It has to be said what is to go.", hint));
        }
    };
    let codebase = codebase(context).await?;
    let requester = RemovalRequester::PersonIn(context.conversation_ref());
    let report =
        context.conversations.environments.clean_up_for(&requester, &codebase, scope, dry_run, &|_, _| {}).await?;
    Ok(done::describe_cleanup(&report, dry_run).join("\n"))
}
