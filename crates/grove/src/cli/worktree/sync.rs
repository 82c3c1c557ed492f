//! `grove worktree sync NAME`

use std::process::ExitCode;

use grove_environments::words::done;
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
    } else {
        output::words(&done::synced(&synced));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
