//! `grove worktree cleanup merged|stale` and `grove cleanup run`

use std::process::ExitCode;

use grove_environments::cleanup::Report;
use grove_environments::cleanup::select::Scope;
use grove_environments::words::done;
use grove_model::Codebase;

use crate::cli::{Context, Done};
use crate::output;

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Remove the worktrees whose work is in its base
    Merged(Args),
    /// Remove the worktrees that nobody has worked in for long
    Stale(Args),
}

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
    /// Only say what would be removed
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::Merged(args) => clean(context, &args, Scope::Merged).await,
        Command::Stale(args) => clean(context, &args, Scope::Stale).await,
    }
}

async fn clean(context: &Context, args: &Args, scope: Scope) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(args.codebase.as_deref(), &context.cwd).await?;
    let report = report_of(context, &store, &[codebase], scope, args.dry_run).await?;
    show(context, &report, args.dry_run);
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Everything that the scheduler does, over one codebase or all of them.
pub async fn everything(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let codebases = match &args.codebase {
        Some(name) => vec![context.codebases(&store).named(name).await?],
        None => store.codebases().await?,
    };
    let report = report_of(context, &store, &codebases, Scope::Everything, args.dry_run).await?;
    show(context, &report, args.dry_run);
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn report_of(
    context: &Context,
    store: &grove_store::Store,
    codebases: &[Codebase],
    scope: Scope,
    dry_run: bool,
) -> Result<Report, grove_environments::problem::Problem> {
    let isolation = context.isolation(store);
    let mut report = Report::default();
    for codebase in codebases {
        let bar = output::bar("Cleaning up", context.json);
        let progress = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        };
        let cleaned = match scope {
            Scope::Everything => isolation.run_scheduled(codebase, dry_run, &progress).await,
            _ => isolation.clean_up(codebase, scope, dry_run, &progress).await.map(Some),
        };
        bar.finish_and_clear();
        match cleaned? {
            Some(cleaned) => report.append(cleaned),
            None => output::warning(&format!("`{}` is being cleaned up by another process", codebase.name)),
        }
    }
    Ok(report)
}

fn show(context: &Context, report: &Report, dry_run: bool) {
    if context.json {
        return output::json(report);
    }
    done::cleaned(report, dry_run).iter().for_each(|line| output::words(line));
}
