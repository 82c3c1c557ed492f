//! `grove worktree adopt PATH`

use std::path::PathBuf;
use std::process::ExitCode;

use grove_environments::create::{CreateMethod, EnvironmentCreator};
use grove_model::{PullRequestHead, Work, WorkKind};

use super::{CliContext, CommandResult, view_of};
use crate::api_json::WorktreeJson;
use crate::output;

#[derive(Debug, clap::Args)]
pub struct AdoptArgs {
    /// The worktree
    path: PathBuf,
    /// The codebase; without it, the one that the worktree or this directory is in
    #[arg(long)]
    codebase: Option<String>,
    /// What kind of work it is for; without it, a task named after its branch
    #[arg(long, requires = "id", value_parser = |text: &str| text.parse::<WorkKind>())]
    kind: Option<WorkKind>,
    /// The number of the issue or pull request, or the text of the thread or task
    #[arg(long, requires = "kind")]
    id: Option<String>,
}

pub async fn run(context: &CliContext, args: &AdoptArgs) -> CommandResult {
    let work = match (args.kind, args.id.as_deref()) {
        (Some(kind), Some(id)) => Some(Work::from_kind(kind, id, PullRequestHead::NotKnown { at: None })?),
        _ => None,
    };
    let store = context.open_store().await?;
    let path = context.cwd.join(&args.path);
    let (codebase, _) = context.codebases_in(&store).meant_or_registered(args.codebase.as_deref(), &path).await?;
    let by = EnvironmentCreator { platform: Some("cli".to_owned()), user: std::env::var("USER").ok() };
    let outcome = context.environments_in(&store).adopt_worktree(&codebase, &path, work, by).await?;
    let view = view_of(context, &store, &codebase, outcome.environment).await?;
    if context.json {
        output::print_json(&WorktreeJson::from(view));
    } else {
        let already = if matches!(outcome.how, CreateMethod::Used) { " already" } else { "" };
        output::print_line(&format!(
            "Adopted{already}: {} at {}",
            output::style_strong(&view.branch),
            view.path.display()
        ));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
