//! `grove worktree list`

use std::process::ExitCode;

use grove_environments::codebases::CodebaseError;
use grove_environments::inspect::list::View;
use grove_model::State;

use super::{Context, Done};
use crate::output::{self, Table};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this codebase; without it, the one that this directory is in, or all
    #[arg(long)]
    codebase: Option<String>,
    /// Also those that were removed
    #[arg(long)]
    all: bool,
    /// Show it again and again, until Ctrl-C
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

/// How often `--watch` looks.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(2);

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let codebases = match context.codebases(&store).meant(args.codebase.as_deref(), &context.cwd).await {
        Ok(codebase) => vec![codebase],
        Err(CodebaseError::Which(_) | CodebaseError::None) => store.codebases().await?,
        Err(error) => return Err(error.into()),
    };
    let isolation = context.isolation(&store);
    loop {
        let mut found = Vec::new();
        for codebase in &codebases {
            found.extend(isolation.views(codebase, args.all).await?);
        }
        if args.watch {
            output::clear();
        }
        show(context, &found, codebases.len() > 1);
        if !args.watch {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, found: &[View], several: bool) {
    if context.json {
        output::json(&found);
    } else if found.is_empty() {
        output::line("No worktrees. `grove worktree create NAME` makes one.");
    } else {
        table(found, several).print();
    }
}

fn table(views: &[View], several: bool) -> Table {
    let mut table = Table::new(["state", "branch", "work", "base", "changes", "size", "active", "path"]);
    for view in views {
        let mut branch = output::strong(&view.branch);
        if let Some(recorded) = &view.recorded_branch {
            branch = format!("{branch} {}", output::dim(&format!("(recorded: {recorded})")));
        }
        if several {
            branch = format!("{} {branch}", output::dim(&view.codebase));
        }
        table.row([
            state(view),
            branch,
            work(view),
            base(view),
            changes(view),
            output::size(view.size_bytes),
            output::ago(view.last_activity_at),
            output::dim(&output::short_path(&view.path)),
        ]);
    }
    table
}

/// The state, and for a merged one how that is known.
fn state(view: &View) -> String {
    let word = output::state(view.state);
    match view.merged_by.filter(|_| view.state == State::Merged) {
        Some(method) => format!("{word} {}", output::dim(&format!("({method})"))),
        None => word,
    }
}

fn work(view: &View) -> String {
    match view.workflow_type.as_str() {
        kind @ ("issue" | "pr" | "review") => format!("{kind} #{}", view.workflow_id),
        kind => {
            let short: String = view.workflow_id.chars().take(30).collect();
            let dots = if short.len() < view.workflow_id.len() { "…" } else { "" };
            format!("{kind} {short}{dots}")
        }
    }
}

/// `origin/main +2 -1, 3 days old`: two commits ahead of it, one behind; the commit that the work
/// began from was made three days ago.
fn base(view: &View) -> String {
    let Some(base) = &view.base else { return String::new() };
    let count =
        |sign: char, count: Option<u64>| count.filter(|n| *n > 0).map(|n| format!(" {sign}{n}")).unwrap_or_default();
    let age = view.base_at.map(|at| format!(", {}", output::old(at))).unwrap_or_default();
    format!("{base}{}{}{age}", count('+', view.ahead), count('-', view.behind))
}

fn changes(view: &View) -> String {
    match (&view.error, view.dirty, view.untracked) {
        (Some(error), ..) => error.clone(),
        (None, false, _) => String::new(),
        (None, true, 0) => "changed".to_owned(),
        (None, true, untracked) => format!("{untracked} untracked"),
    }
}
