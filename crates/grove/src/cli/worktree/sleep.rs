//! `grove worktree hibernate NAME` and `grove worktree wake NAME`

use std::process::ExitCode;

use grove_environments::remove::Restored;
use grove_environments::words::done;

use super::{Context, Done, Named, view_of};
use crate::api_json::with_folders;
use crate::output;

pub async fn hibernate(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::spinner("Putting the worktree to sleep", context.json);
    let slept = context.isolation(&store).hibernate(&codebase, &environment).await;
    waiting.finish_and_clear();
    let slept = slept?;
    let words = done::hibernated(&slept);
    let view = view_of(context, &store, &codebase, slept.environment).await?;
    if context.json {
        output::json(&with_folders(&view, "regenerable", &slept.regenerable)?);
    } else {
        words.iter().for_each(|line| output::words(line));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub async fn wake(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::spinner("Waking the worktree", context.json);
    let woken = context.isolation(&store).wake(&codebase, &environment).await;
    waiting.finish_and_clear();
    let Restored { environment, gone } = woken?;
    let view = view_of(context, &store, &codebase, environment).await?;
    if context.json {
        output::json(&with_folders(&view, "regenerable_gone", &gone)?);
    } else {
        output::line(&format!("`{}` is awake.", view.branch));
        output::fields(&[("path", view.path.display().to_string())]);
        done::folders_gone(&gone).iter().for_each(|line| output::words(line));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
