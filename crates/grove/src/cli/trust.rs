//! `grove trust [--yes]`

use std::process::ExitCode;

use grove_conversations::replies::approvals_reply;
use grove_environments::init::trust::PendingApproval;
use grove_model::Codebase;
use serde_json::json;

use super::{CliContext, CommandResult};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct TrustArgs {
    /// Approve what waits
    #[arg(long, short)]
    yes: bool,
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &CliContext, args: &TrustArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(args.codebase.as_deref(), &context.cwd).await?;
    let environments = context.environments_in(&store);
    let pending = environments.pending_approvals(&codebase).await?;
    if args.yes {
        let user = std::env::var("USER").ok();
        for waiting in &pending {
            environments.approve_script(&codebase, &waiting.script, user.as_deref()).await?;
        }
    }
    store.close().await;
    if context.json {
        output::print_json(&pending.iter().map(|one| to_json(&codebase, one, args.yes)).collect::<Vec<_>>());
    } else {
        output::print_line(&approvals_reply(&pending, args.yes, "grove trust --yes"));
    }
    Ok(ExitCode::SUCCESS)
}

fn to_json(codebase: &Codebase, waiting: &PendingApproval, approved: bool) -> serde_json::Value {
    json!({
        "codebase": codebase.name,
        "path": waiting.script.path,
        "hash": waiting.script.hash,
        "content": String::from_utf8_lossy(&waiting.script.content),
        "changed": waiting.approved_before.is_some(),
        "approved": approved,
        "worktrees": waiting.environments.iter().map(|environment| environment.branch.as_str()).collect::<Vec<_>>(),
    })
}
