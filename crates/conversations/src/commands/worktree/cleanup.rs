//! `/worktree cleanup merged|stale [--dry-run]`

use grove_environments::cleanup::select::Scope;
use grove_environments::problem::Problem;
use grove_environments::remove::Asker;
use grove_environments::words::done;

use crate::commands::worktree::{Line, codebase};
use crate::turn_context::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let dry_run = line.flag("--dry-run") || line.flag("-n");
    let scope = match line.at_most_one()?.as_deref() {
        Some("merged") => Scope::Merged,
        Some("stale") => Scope::Stale,
        _ => {
            let hint = "Write `/worktree cleanup merged` or `/worktree cleanup stale`.";
            return Err(Problem::new("usage", "It has to be said what is to go.", hint));
        }
    };
    let codebase = codebase(desk).await?;
    let asker = Asker::PersonIn(desk.reference());
    let report = desk.talks.isolation.clean_up_for(&asker, &codebase, scope, dry_run, &|_, _| {}).await?;
    Ok(done::cleaned(&report, dry_run).join("\n"))
}
