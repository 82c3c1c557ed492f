//! `grove worktree cleanup merged|stale` and `grove cleanup run`

use std::process::ExitCode;

use grove_environments::cleanup::CleanupReport;
use grove_environments::cleanup::select::CleanupScope;
use grove_environments::words::done;
use grove_model::Codebase;

use crate::cli::{CliContext, CommandResult};
use crate::output;

#[derive(Debug, clap::Subcommand)]
pub enum WorktreeCleanupCommand {
    /// Remove the worktrees whose work is in its base
    Merged(CleanupArgs),
    /// Remove the worktrees that have been inactive for a long time
    Stale(CleanupArgs),
}

#[derive(Debug, clap::Args)]
pub struct CleanupArgs {
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
    /// Only say what would be removed
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub async fn run(context: &CliContext, command: WorktreeCleanupCommand) -> CommandResult {
    match command {
        WorktreeCleanupCommand::Merged(args) => clean_scope(context, &args, CleanupScope::Merged).await,
        WorktreeCleanupCommand::Stale(args) => clean_scope(context, &args, CleanupScope::Stale).await,
    }
}

async fn clean_scope(context: &CliContext, args: &CleanupArgs, scope: CleanupScope) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(args.codebase.as_deref(), &context.cwd).await?;
    let report = report_of(context, &store, &[codebase], scope, args.dry_run).await?;
    print_report(context, &report, args.dry_run);
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Does everything that the scheduler does, for one codebase or all of them.
pub async fn clean_everything(context: &CliContext, args: &CleanupArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebases = match &args.codebase {
        Some(name) => vec![context.codebases_in(&store).find_codebase(name).await?],
        None => store.list_codebases().await?,
    };
    let report = report_of(context, &store, &codebases, CleanupScope::Everything, args.dry_run).await?;
    print_report(context, &report, args.dry_run);
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn report_of(
    context: &CliContext,
    store: &grove_store::Store,
    codebases: &[Codebase],
    scope: CleanupScope,
    dry_run: bool,
) -> Result<CleanupReport, grove_environments::problem::Problem> {
    let environments = context.environments_in(store);
    let mut report = CleanupReport::default();
    for codebase in codebases {
        let bar = output::start_progress_bar("Cleaning up", context.json);
        let progress = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        };
        let cleaned = match scope {
            CleanupScope::Everything => environments.run_scheduled(codebase, dry_run, &progress).await,
            _ => environments.clean_up(codebase, scope, dry_run, &progress).await.map(Some),
        };
        bar.finish_and_clear();
        match cleaned? {
            Some(cleaned) => report.append_report(cleaned),
            None => output::print_warning(&format!("`{}` is being cleaned up by another process", codebase.name)),
        }
    }
    Ok(report)
}

fn print_report(context: &CliContext, report: &CleanupReport, dry_run: bool) {
    if context.json {
        return output::print_json(report);
    }
    done::describe_cleanup(report, dry_run).iter().for_each(output::print_text);
}
