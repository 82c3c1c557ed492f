//! `grove worktree path NAME`

use std::process::ExitCode;

use serde_json::json;

use super::{Context, Done, Named};
use crate::output;

pub async fn run(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (_, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    if context.json {
        output::json(&json!({ "path": environment.path }));
    } else {
        output::path(&environment.path);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
