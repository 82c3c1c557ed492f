//! `grove worktree adopt PATH`

use std::path::PathBuf;
use std::process::ExitCode;

use grove_environments::create::{CreatedBy, How};
use grove_model::{Kind, PrHead, Work};

use super::{Context, Done, view_of};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The worktree
    path: PathBuf,
    /// The codebase; without it, the one that the worktree or this directory is in
    #[arg(long)]
    codebase: Option<String>,
    /// What kind of work it is for; without it, a task named after its branch
    #[arg(long, requires = "id", value_parser = |text: &str| text.parse::<Kind>())]
    kind: Option<Kind>,
    /// The number of the issue or pull request, or the text of the thread or task
    #[arg(long, requires = "kind")]
    id: Option<String>,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let work = match (args.kind, args.id.as_deref()) {
        (Some(kind), Some(id)) => Some(Work::of(kind, id, PrHead::NotKnown { at: None })?),
        _ => None,
    };
    let store = context.store().await?;
    let path = context.cwd.join(&args.path);
    let codebase = context.codebases(&store).meant_or_registered(args.codebase.as_deref(), &path).await?;
    let by = CreatedBy { platform: Some("cli".to_owned()), user: std::env::var("USER").ok() };
    let outcome = context.isolation(&store).adopt(&codebase, &path, work, by).await?;
    let view = view_of(context, &store, &codebase, outcome.environment).await?;
    if context.json {
        output::json(&view);
    } else {
        let already = if matches!(outcome.how, How::Used) { " already" } else { "" };
        output::line(&format!("Adopted{already}: {} at {}", output::strong(&view.branch), view.path.display()));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
