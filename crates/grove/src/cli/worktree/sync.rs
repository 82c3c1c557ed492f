//! `grove worktree sync NAME`

use std::process::ExitCode;

use serde_json::json;

use super::{Context, Done, Named};
use crate::output;

pub async fn run(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::spinner("Bringing it up to date", context.json);
    let synced = context.isolation(&store).sync(&codebase, &environment).await;
    waiting.finish_and_clear();
    let synced = synced?;
    if context.json {
        output::json(&json!({ "from": synced.from, "at": synced.at, "changed": synced.changed }));
    } else if synced.changed {
        output::line(&format!("Brought {} at {} into `{}`.", synced.from, synced.at.short(), environment.branch));
    } else {
        output::line(&format!("`{}` has everything of {} already.", environment.branch, synced.from));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
