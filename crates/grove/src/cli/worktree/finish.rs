//! `grove worktree finish NAME` and `grove worktree abort NAME`

use std::process::ExitCode;

use clap::ValueEnum;
use grove_environments::remove::Asker;
use grove_environments::words::done;
use grove_git::finish::Method;
use grove_model::BranchName;
use serde_json::json;

use super::{Context, Done, Named, remove};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// How to merge; without it, what `cleanup.finish_method` says
    #[arg(long)]
    method: Option<How>,
    /// The branch to merge, where another one than the recorded one is checked out
    #[arg(long, value_parser = BranchName::parse)]
    branch: Option<BranchName>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// A merge commit with both histories
    Merge,
    /// One commit with everything
    Squash,
}

pub async fn finish(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, args.named.codebase.as_deref(), &args.named.name).await?;
    let method = match args.method {
        Some(How::Merge) => Method::Merge,
        Some(How::Squash) => Method::Squash,
        None => context.settings.finish_method(),
    };
    let waiting = output::spinner("Merging", context.json);
    let finished = context.isolation(&store);
    let branch = args.branch.as_ref();
    let finished = finished.finish(&codebase, &environment, method, branch, Asker::Person).await;
    waiting.finish_and_clear();
    let (finished, removed) = finished?;
    let words = done::finished(branch.unwrap_or(&environment.branch).as_str(), &finished);
    let removed = removed.inspect_err(|_| {
        output::warning(&format!("`{}` is merged into `{}`, but stays", environment.branch, finished.base));
    })?;
    if context.json {
        let mut answer = crate::api_json::removed_json(&removed);
        answer["merged_into"] = json!(finished.base.to_string());
        answer["commit"] = json!(finished.commit);
        answer["updated_checkouts"] = json!(finished.updated);
        output::json(&answer);
    } else {
        words.iter().for_each(|line| output::words(line));
        remove::say(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub async fn abort(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, named.codebase.as_deref(), &named.name).await?;
    let waiting = output::spinner("Removing the worktree", context.json);
    let removed = context.isolation(&store).abort(&codebase, &environment).await;
    waiting.finish_and_clear();
    let removed = removed?;
    if context.json {
        output::json(&crate::api_json::removed_json(&removed));
    } else {
        remove::say(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
