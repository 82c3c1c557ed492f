//! `grove worktree hibernate NAME` and `grove worktree wake NAME`

use std::process::ExitCode;

use grove_environments::remove::RestoredEnvironment;
use grove_environments::words::done;

use super::{CliContext, CommandResult, WorktreeSelector, view_of};
use crate::api_json::{HibernatedWorktreeJson, RestoredWorktreeJson};
use crate::output;

pub async fn run_hibernate(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::start_spinner("Putting the worktree to sleep", context.json);
    let slept = context.environments_in(&store).hibernate_environment(&codebase, &environment).await;
    waiting.finish_and_clear();
    let slept = slept?;
    let words = done::describe_hibernated(&slept);
    let view = view_of(context, &store, &codebase, slept.environment).await?;
    if context.json {
        output::print_json(&HibernatedWorktreeJson::new(view, &slept.regenerable));
    } else {
        words.iter().for_each(output::print_text);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub async fn run_wake(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) = context.resolve_environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::start_spinner("Waking the worktree", context.json);
    let woken = context.environments_in(&store).wake_environment(&codebase, &environment).await;
    waiting.finish_and_clear();
    let RestoredEnvironment { environment, gone } = woken?;
    let view = view_of(context, &store, &codebase, environment).await?;
    if context.json {
        output::print_json(&RestoredWorktreeJson::new(view, &gone));
    } else {
        output::print_text(&format!("`{}` is awake.", view.branch).into());
        output::print_fields(&[("path", view.path.display().to_string())]);
        done::folders_gone(&gone).iter().for_each(output::print_text);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
