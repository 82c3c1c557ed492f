//! `grove worktree trash …`

use std::process::ExitCode;

use clap::Subcommand;
use grove_environments::remove::trash::{TrashItem, find_latest};
use grove_environments::words::done;
use grove_model::{Moment, human_size};
use serde_json::{Value, json};

use super::{Context, Done, Named};
use crate::api_json::folders_json;
use crate::output::{self, Table};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List what can be brought back
    List(Which),
    /// Show one of them
    Show(Named),
    /// Delete one of them for good
    Drop(Named),
    /// Delete what need not be kept any longer
    #[command(hide = true)]
    Sweep(Which),
}

#[derive(Debug, clap::Args)]
pub struct Which {
    /// The codebase; without it, the one that this directory is in
    #[arg(long)]
    codebase: Option<String>,
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::List(which) => list(context, &which).await,
        Command::Show(named) => show(context, &named).await,
        Command::Drop(named) => drop_one(context, &named).await,
        Command::Sweep(which) => sweep(context, &which).await,
    }
}

async fn list(context: &Context, which: &Which) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(which.codebase.as_deref(), &context.cwd).await?;
    let items = context.isolation(&store).trash(&codebase).await?;
    if context.json {
        output::json(&items.iter().map(in_json).collect::<Vec<_>>());
    } else if items.is_empty() {
        output::line("The trash is empty.");
    } else {
        let mut table = Table::new(["branch", "work", "removed", "kept until", "size", "path"]);
        for item in &items {
            table.row([
                output::strong(item.environment.branch.as_str()),
                item.environment.work.to_string(),
                output::ago(item.removed_at),
                item.undo_until.map(day).unwrap_or_default(),
                human_size(item.bytes),
                output::dim(&output::short_path(&item.environment.path)),
            ]);
        }
        table.print();
        output::line("`grove worktree undo NAME` brings one back.");
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn show(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(named.codebase.as_deref(), &context.cwd).await?;
    let items = context.isolation(&store).trash(&codebase).await?;
    let item = find_latest(Some(&named.name), &items)?;
    if context.json {
        output::json(&in_json(item));
    } else {
        output::line(&output::strong(item.environment.branch.as_str()));
        let head = item.manifest.head.as_ref().map(|head| head.short().to_owned());
        output::fields(&[
            ("work", item.environment.work.to_string()),
            ("path", item.environment.path.display().to_string()),
            ("files", item.manifest.files.display().to_string()),
            ("checked out", item.manifest.head_branch.clone().unwrap_or_else(|| "no branch".to_owned())),
            ("commit", head.unwrap_or_default()),
            ("branch", if item.manifest.fate.is_kept() { "stayed" } else { "comes back with it" }.to_owned()),
            ("removed", output::ago(item.removed_at)),
            ("kept until", item.undo_until.map(|until| until.to_string()).unwrap_or_default()),
            ("size", human_size(item.bytes)),
            ("id", item.environment.id.to_string()),
        ]);
        if !item.regenerable.is_empty() {
            output::line("Folders that can be made again:");
        }
        for folder in &item.regenerable {
            let words = done::folder_words(&folder.path, folder.bytes);
            let until = done::minute(folder.kept_until);
            let state = if folder.gone { "gone".to_owned() } else { format!("kept until {until}") };
            output::words(&format!("  - {words}: {state}"));
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

async fn drop_one(context: &Context, named: &Named) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(named.codebase.as_deref(), &context.cwd).await?;
    let isolation = context.isolation(&store);
    let items = isolation.trash(&codebase).await?;
    let item = find_latest(Some(&named.name), &items)?;
    let waiting = output::spinner("Deleting", context.json);
    let dropped = isolation.drop_from_trash(&codebase, item).await;
    waiting.finish_and_clear();
    dropped?;
    if context.json {
        output::json(&json!({ "dropped": item.environment.id, "branch": item.environment.branch.to_string() }));
    } else {
        output::line(&format!("`{}` is gone for good.", item.environment.branch));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// As the server will do on its schedule; nobody waits for it.
async fn sweep(context: &Context, which: &Which) -> Done {
    let store = context.store().await?;
    let codebase = context.codebases(&store).meant(which.codebase.as_deref(), &context.cwd).await?;
    let (isolation, now) = (context.isolation(&store), Moment::now());
    if !isolation.clock_is_steady(now).await? {
        return Ok(ExitCode::SUCCESS);
    }
    let swept = isolation.sweep_trash(&codebase, now).await?;
    if context.json {
        output::json(&json!({ "shed": swept.shed, "compacted": swept.compacted, "expired": swept.expired }));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn in_json(item: &TrashItem) -> Value {
    json!({
        "id": item.environment.id,
        "workflow_type": item.environment.work.kind().as_str(),
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
        "regenerable": folders_json(&item.regenerable),
    })
}

fn day(moment: Moment) -> String {
    moment.to_string().chars().take(10).collect()
}
