//! `grove worktree list`

use std::process::ExitCode;

use grove_environments::codebases::CodebaseError;
use grove_environments::inspect::list::EnvironmentView;
use grove_model::State;

use super::{CliContext, CommandResult};
use crate::output::{self, OutputTable};

#[derive(Debug, clap::Args)]
pub struct WorktreeListArgs {
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

/// The refresh interval of `--watch`.
const WATCH_INTERVAL: std::time::Duration = std::time::Duration::from_secs(2);

pub async fn run(context: &CliContext, args: &WorktreeListArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebases = match context.codebases_in(&store).resolve_codebase(args.codebase.as_deref(), &context.cwd).await {
        Ok(codebase) => vec![codebase],
        Err(CodebaseError::Which(_) | CodebaseError::None) => store.list_codebases().await?,
        Err(error) => return Err(error.into()),
    };
    let environments = context.environments_in(&store);
    loop {
        let mut found = Vec::new();
        for codebase in &codebases {
            found.extend(environments.environment_views(codebase, args.all).await?);
        }
        if args.watch {
            output::clear_screen();
        }
        print_worktrees(context, &found, codebases.len() > 1);
        if !args.watch {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn print_worktrees(context: &CliContext, found: &[EnvironmentView], several: bool) {
    if context.json {
        output::print_json(&found);
    } else if found.is_empty() {
        output::print_line("No worktrees. `grove worktree create NAME` makes one.");
    } else {
        worktree_table(found, several).print_table();
    }
}

fn worktree_table(views: &[EnvironmentView], several: bool) -> OutputTable {
    let mut table = OutputTable::new(["state", "branch", "work", "base", "changes", "size", "active", "path"]);
    for view in views {
        let mut branch = output::style_strong(&view.branch);
        if let Some(recorded) = &view.recorded_branch {
            branch = format!("{branch} {}", output::style_dim(&format!("(recorded: {recorded})")));
        }
        if several {
            branch = format!("{} {branch}", output::style_dim(&view.codebase));
        }
        table.add_row([
            state_text(view),
            branch,
            work_text(view),
            base_text(view),
            changes_text(view),
            output::format_optional_size(view.size_bytes),
            output::format_ago(view.last_activity_at),
            output::style_dim(&output::short_path(&view.path)),
        ]);
    }
    table
}

/// Returns the state, and for a merged one the evidence.
fn state_text(view: &EnvironmentView) -> String {
    let word = output::style_state(view.state);
    match view.merged_by.filter(|_| view.state == State::Merged) {
        Some(method) => format!("{word} {}", output::style_dim(&format!("({method})"))),
        None => word,
    }
}

fn work_text(view: &EnvironmentView) -> String {
    match view.workflow_type.as_str() {
        kind @ ("issue" | "pr" | "review") => format!("{kind} #{}", view.workflow_id),
        kind => {
            let short: String = view.workflow_id.chars().take(30).collect();
            let dots = if short.len() < view.workflow_id.len() { "…" } else { "" };
            format!("{kind} {short}{dots}")
        }
    }
}

/// Returns for example `origin/main +2 -1, 3 days old`: two commits ahead of the base, one behind; the commit
/// that the work began from was made three days ago.
fn base_text(view: &EnvironmentView) -> String {
    let Some(base) = &view.base else { return String::new() };
    let count =
        |sign: char, count: Option<u64>| count.filter(|n| *n > 0).map(|n| format!(" {sign}{n}")).unwrap_or_default();
    let age = view.base_at.map(|at| format!(", {}", output::format_age(at))).unwrap_or_default();
    format!("{base}{}{}{age}", count('+', view.ahead), count('-', view.behind))
}

fn changes_text(view: &EnvironmentView) -> String {
    match (&view.error, view.dirty, view.untracked) {
        (Some(error), ..) => error.clone(),
        (None, false, _) => String::new(),
        (None, true, 0) => "changed".to_owned(),
        (None, true, untracked) => format!("{untracked} untracked"),
    }
}
