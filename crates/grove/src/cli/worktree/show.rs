//! `grove worktree show NAME`

use std::process::ExitCode;

use super::{Context, Done, Named, view_of};
use crate::output;

pub async fn run(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    let view = view_of(context, &store, &codebase, environment).await?;
    if context.json {
        output::json(&view);
    } else {
        let count = |name: &str, count: Option<u64>| count.map(|n| format!("{n} {name}")).unwrap_or_default();
        let short = |sha: &Option<String>| sha.as_deref().map(|sha| sha[..7].to_owned()).unwrap_or_default();
        output::fields(&[
            ("branch", view.branch.clone()),
            ("state", output::state(view.state)),
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
                    view.base_at.map(output::old).unwrap_or_default(),
                ]
                .join(" ")
                .trim()
                .to_owned(),
            ),
            ("changes", if view.dirty { format!("yes, {} untracked", view.untracked) } else { "none".to_owned() }),
            ("size", output::size(view.size_bytes)),
            ("conversations", view.conversations.join(", ")),
            ("created", output::ago(view.created_at)),
            ("last active", output::ago(view.last_activity_at)),
            ("id", view.id.clone()),
            ("error", view.error.clone().unwrap_or_default()),
        ]);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
