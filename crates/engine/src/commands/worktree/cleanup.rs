//! `/worktree cleanup merged|stale [--dry-run]`

use super::{Line, codebase};
use crate::Problem;
use crate::cleanup::Scope;
use crate::removal::Asker;
use crate::talk::Desk;
use crate::words::done;

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
