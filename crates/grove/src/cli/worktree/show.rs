//! `grove worktree show NAME`

use std::process::ExitCode;

use super::{CliContext, CommandResult, WorktreeSelector, view_of};
use crate::api_json::WorktreeJson;
use crate::output;

pub async fn run(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let view = view_of(context, &store, &codebase, environment).await?;
    if context.json {
        output::print_json(&WorktreeJson::from(view));
    } else {
        let count = |name: &str, count: Option<u64>| count.map(|n| format!("{n} {name}")).unwrap_or_default();
        let short = |sha: &Option<String>| sha.as_deref().map(|sha| sha[..7].to_owned()).unwrap_or_default();
        output::print_fields(&[
            ("branch", view.branch.clone()),
            ("title", view.title.clone().unwrap_or_default()),
            ("state", output::style_state(view.state)),
            ("work", format!("{} {}", view.workflow_type, view.workflow_id)),
            ("codebase", view.codebase.clone()),
            ("path", view.path.display().to_string()),
            ("head", short(&view.head_sha)),
            (
                "base",
                [
                    view.base.clone().unwrap_or_default(),
                    short(&view.base_sha),
                    count("ahead", view.ahead),
                    count("behind", view.behind),
                    view.base_at.map(output::format_age).unwrap_or_default(),
                ]
                .join(" ")
                .trim()
                .to_owned(),
            ),
            ("changes", if view.dirty { format!("yes, {} untracked", view.untracked) } else { "none".to_owned() }),
            ("size", output::format_optional_size(view.size_bytes)),
            ("conversations", view.conversations.join(", ")),
            ("created", output::format_ago(view.created_at)),
            ("last active", output::format_ago(view.last_activity_at)),
            ("id", view.id.clone()),
            ("error", view.error.clone().unwrap_or_default()),
        ]);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
