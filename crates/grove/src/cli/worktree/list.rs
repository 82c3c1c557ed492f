//! `grove worktree list`

use std::path::Path;
use std::process::ExitCode;

use grove_environments::codebases::CodebaseError;
use grove_environments::inspect::list::EnvironmentView;
use grove_environments::words::state::{describe_changes, describe_distance, describe_upstream};
use grove_model::State;

use super::{CliContext, CommandResult};
use crate::api_json::WorktreeJson;
use crate::columns::{Cell, CellStyle, Column, ColumnTable, TableWidth};
use crate::output;

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
    /// Show every column in full, also where it is wider than the terminal
    #[arg(long)]
    full: bool,
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
        print_worktrees(context, found, codebases.len() > 1, args.full);
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

fn print_worktrees(context: &CliContext, found: Vec<EnvironmentView>, several: bool, full: bool) {
    if context.json {
        output::print_json(&found.into_iter().map(WorktreeJson::from).collect::<Vec<_>>());
    } else if found.is_empty() {
        output::print_text(&"No worktrees. `grove worktree create NAME` makes one.".into());
    } else {
        let width = if full { TableWidth::Unlimited } else { output::table_width() };
        for line in worktree_table(&found, several, &context.cwd).render(width, output::on_terminal()) {
            output::print_line(&line);
        }
    }
}

/// The columns, and the order in which they give way on a narrow terminal.
const WORKTREE_COLUMNS: [Column; 11] = [
    Column { name: "", rank: 1, min_width: 1 },
    Column { name: "codebase", rank: 2, min_width: 8 },
    Column { name: "state", rank: 0, min_width: 8 },
    Column { name: "branch", rank: 0, min_width: 16 },
    Column { name: "title", rank: 4, min_width: 20 },
    Column { name: "work", rank: 7, min_width: 14 },
    Column { name: "changes", rank: 3, min_width: 12 },
    Column { name: "base", rank: 6, min_width: 18 },
    Column { name: "active", rank: 5, min_width: 18 },
    Column { name: "size", rank: 8, min_width: 12 },
    Column { name: "path", rank: 9, min_width: 36 },
];

/// Builds the table. Its first column marks the worktree that `cwd` is in, if there is one.
fn worktree_table(views: &[EnvironmentView], several: bool, cwd: &Path) -> ColumnTable {
    let is_here = |view: &EnvironmentView| cwd.starts_with(&view.path);
    let is_shown = |column: &Column| match column.name {
        "" => views.iter().any(is_here),
        "codebase" => several,
        _ => true,
    };
    let mut table = ColumnTable::new(WORKTREE_COLUMNS.into_iter().filter(is_shown).collect());
    for view in views {
        let cells = WORKTREE_COLUMNS.iter().filter(|column| is_shown(column));
        table.add_row(cells.map(|column| worktree_cell(column.name, view, is_here(view))).collect());
    }
    table
}

fn worktree_cell(column: &str, view: &EnvironmentView, is_here: bool) -> Cell {
    match column {
        "" => Cell::new(if is_here { "*" } else { "" }, CellStyle::Green),
        "codebase" => Cell::new(&view.codebase, CellStyle::Dim),
        "state" => Cell::new(state_text(view), output::state_style(view.state)),
        "branch" => match &view.recorded_branch {
            Some(recorded) => Cell::new(format!("{} (recorded: {recorded})", view.branch), CellStyle::Strong),
            None => Cell::new(&view.branch, CellStyle::Strong),
        },
        "title" => Cell::plain(view.title.as_deref().unwrap_or_default()),
        "work" => Cell::plain(work_text(view)),
        "changes" => match &view.error {
            Some(error) => Cell::new(error, CellStyle::Red),
            None => Cell::plain(describe_changes(view)),
        },
        "base" => Cell::plain(base_text(view)),
        "active" => Cell::plain(output::format_ago(view.last_activity_at)),
        "size" => Cell::plain(output::format_optional_size(view.size_bytes)),
        _ => Cell::new(output::short_path(&view.path), CellStyle::Dim),
    }
}

/// Returns the state, and for a merged one the evidence.
fn state_text(view: &EnvironmentView) -> String {
    match view.merged_by.filter(|_| view.state == State::Merged) {
        Some(method) => format!("{} ({method})", view.state),
        None => view.state.to_string(),
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

/// Returns for example `main +2 -1, 3 days old, origin/x +1`: two commits ahead of the base, one behind; the
/// commit that the work began from was made three days ago; one commit is not pushed.
fn base_text(view: &EnvironmentView) -> String {
    let base = view.base.as_ref().map(|base| {
        let age = view.base_at.map(|at| format!(", {}", output::format_age(at))).unwrap_or_default();
        format!("{base}{}{age}", describe_distance(view.ahead, view.behind))
    });
    base.into_iter().chain(describe_upstream(view)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use grove_model::{EnvironmentMetadata, GitOperation, MergeMethod, Status};

    use super::*;

    fn sample_view(branch: &str, state: State) -> EnvironmentView {
        let at: grove_model::Moment = "2026-11-17T09:30:12.000000Z".parse().unwrap();
        EnvironmentView {
            id: "018f".into(),
            codebase: "acme/app".into(),
            workflow_type: "task".into(),
            workflow_id: branch.into(),
            branch: branch.into(),
            recorded_branch: None,
            path: format!("/home/me/.grove/worktrees/acme/app/{}", branch.replace('/', "-")).into(),
            provider: "worktree".into(),
            status: Status::Active,
            state,
            merged_by: None,
            ahead: Some(0),
            behind: Some(0),
            upstream: None,
            upstream_ahead: None,
            upstream_behind: None,
            dirty: state == State::Dirty,
            untracked: 0,
            changed: 0,
            staged: 0,
            conflicted: 0,
            operation: None,
            detached: false,
            adopted: false,
            base: Some("origin/main".into()),
            base_sha: None,
            base_at: Some(at),
            head_sha: Some("0123456789abcdef0123456789abcdef01234567".into()),
            conversations: Vec::new(),
            created_by_platform: None,
            created_at: at,
            last_activity_at: at,
            size_bytes: Some(12_582_912),
            metadata: EnvironmentMetadata::default(),
            related_issues: Vec::new(),
            related_prs: Vec::new(),
            title: None,
            error: None,
        }
    }

    fn sample_views() -> Vec<EnvironmentView> {
        let mut issue = sample_view("issue-42", State::Dirty);
        (issue.workflow_type, issue.workflow_id) = ("issue".into(), "42".into());
        issue.title = Some("Redirect after the login".into());
        (issue.ahead, issue.changed, issue.staged, issue.untracked) = (Some(2), 1, 3, 1);
        (issue.upstream, issue.upstream_ahead) = (Some("origin/issue-42".into()), Some(1));
        let mut conflict = sample_view("feature/a-rather-long-name-for-a-branch", State::Dirty);
        (conflict.conflicted, conflict.operation) = (2, Some(GitOperation::Rebase));
        let mut detached = sample_view("spike", State::Active);
        detached.detached = true;
        let mut merged = sample_view("done", State::Merged);
        merged.merged_by = Some(MergeMethod::PatchId);
        vec![issue, conflict, detached, merged, sample_view("fresh", State::Fresh)]
    }

    #[test]
    fn the_list_fits_terminals_of_60_80_120_and_200_columns() {
        let table = worktree_table(&sample_views(), false, Path::new("/home/me/.grove/worktrees/acme/app/spike/src"));
        for columns in [60, 80, 120, 200] {
            let lines = table.render(TableWidth::Terminal(columns), false);
            insta::assert_snapshot!(format!("list_{columns}_columns"), lines.join("\n"));
        }
    }
}
