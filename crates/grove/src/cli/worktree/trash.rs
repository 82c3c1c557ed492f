//! `grove worktree trash …`

use std::process::ExitCode;

use clap::Subcommand;
use grove_environments::remove::trash::{TrashItem, find_latest};
use grove_environments::words::done;
use grove_model::{Moment, human_size};
use serde_json::{Value, json};

use super::{CliContext, CommandResult, WorktreeSelector};
use crate::api_json::TrashedFolderJson;
use crate::output::{self, OutputTable};

#[derive(Debug, Subcommand)]
pub enum TrashCommand {
    /// List what can be brought back
    List(TrashArgs),
    /// Show one of them
    Show(WorktreeSelector),
    /// Delete one of them for good
    Drop(WorktreeSelector),
    /// Delete what need not be kept any longer
    #[command(hide = true)]
    Sweep(TrashArgs),
}

#[derive(Debug, clap::Args)]
pub struct TrashArgs {
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &CliContext, command: TrashCommand) -> CommandResult {
    match command {
        TrashCommand::List(which) => list_trash(context, &which).await,
        TrashCommand::Show(named) => show_trashed(context, &named).await,
        TrashCommand::Drop(named) => drop_one(context, &named).await,
        TrashCommand::Sweep(which) => run_trash_sweep(context, &which).await,
    }
}

async fn list_trash(context: &CliContext, which: &TrashArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(which.codebase.as_deref(), &context.cwd).await?;
    let items = context.environments_in(&store).list_trash(&codebase).await?;
    if context.json {
        output::print_json(&items.iter().map(in_json).collect::<Vec<_>>());
    } else if items.is_empty() {
        output::print_line("The trash is empty.");
    } else {
        let mut table = OutputTable::new(["branch", "work", "removed", "kept until", "size", "path"]);
        for item in &items {
            table.add_row([
                output::style_strong(item.environment.branch.as_str()),
                item.environment.work.to_string(),
                output::format_ago(item.removed_at),
                item.undo_until.map(format_day).unwrap_or_default(),
                human_size(item.bytes),
                output::style_dim(&output::short_path(&item.environment.path)),
            ]);
        }
        table.print_table();
        output::print_text(&"`grove worktree undo NAME` brings one back.".into());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn show_trashed(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(named.codebase.as_deref(), &context.cwd).await?;
    let items = context.environments_in(&store).list_trash(&codebase).await?;
    let item = find_latest(Some(&named.name), &items)?;
    if context.json {
        output::print_json(&in_json(item));
    } else {
        output::print_line(&output::style_strong(item.environment.branch.as_str()));
        let head = item.manifest.head.as_ref().map(|head| head.short_sha().to_owned());
        output::print_fields(&[
            ("work", item.environment.work.to_string()),
            ("path", item.environment.path.display().to_string()),
            ("files", item.manifest.files.display().to_string()),
            ("checked out", item.manifest.head_branch.clone().unwrap_or_else(|| "no branch".to_owned())),
            ("commit", head.unwrap_or_default()),
            ("branch", if item.manifest.fate.is_kept() { "stayed" } else { "comes back with it" }.to_owned()),
            ("removed", output::format_ago(item.removed_at)),
            ("kept until", item.undo_until.map(|until| until.to_string()).unwrap_or_default()),
            ("size", human_size(item.bytes)),
            ("id", item.environment.id.to_string()),
        ]);
        if !item.regenerable.is_empty() {
            output::print_line("Folders that can be made again:");
        }
        for folder in &item.regenerable {
            let words = done::folder_words(&folder.path, folder.bytes);
            let until = done::format_to_minute(folder.kept_until);
            let state = if folder.gone { "gone".to_owned() } else { format!("kept until {until}") };
            output::print_text(&format!("  - {words}: {state}").into());
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn drop_one(context: &CliContext, named: &WorktreeSelector) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(named.codebase.as_deref(), &context.cwd).await?;
    let environments = context.environments_in(&store);
    let items = environments.list_trash(&codebase).await?;
    let item = find_latest(Some(&named.name), &items)?;
    let waiting = output::start_spinner("Deleting", context.json);
    let dropped = environments.drop_from_trash(&codebase, item).await;
    waiting.finish_and_clear();
    dropped?;
    if context.json {
        output::print_json(&json!({ "dropped": item.environment.id, "branch": item.environment.branch.to_string() }));
    } else {
        output::print_text(&format!("`{}` is gone for good.", item.environment.branch).into());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Sweeps the trash, as the server does on its schedule; no process waits for the result.
async fn run_trash_sweep(context: &CliContext, which: &TrashArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(which.codebase.as_deref(), &context.cwd).await?;
    let (environments, now) = (context.environments_in(&store), Moment::now());
    if !environments.clock_is_steady(now).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let swept = environments.sweep_trash(&codebase, now).await?;
    if context.json {
        output::print_json(&json!({ "shed": swept.shed, "compacted": swept.compacted, "expired": swept.expired }));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn in_json(item: &TrashItem) -> Value {
    json!({
        "id": item.environment.id,
        "workflow_type": item.environment.work.work_kind().as_str(),
        "workflow_id": item.environment.work.id(),
        "branch": item.environment.branch.to_string(),
        "path": item.environment.path,
        "files": item.manifest.files,
        "head_sha": item.manifest.head,
        "branch_kept": item.manifest.fate.is_kept(),
        "removed_at": item.removed_at,
        "undo_until": item.undo_until,
        "compacted": item.compacted,
        "size_bytes": item.bytes,
        "regenerable": TrashedFolderJson::list(&item.regenerable),
    })
}

fn format_day(moment: Moment) -> String {
    moment.to_string().chars().take(10).collect()
}
