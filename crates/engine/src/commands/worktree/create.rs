//! `/worktree create NAME [--from REF]`

use grove_model::{BranchName, Hints, Work};

use super::{Line, codebase};
use crate::Problem;
use crate::isolation::{self, CreatedBy, IsolationError, Wish};
use crate::reply_text;
use crate::talk::Desk;

pub async fn run(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let from = match line.value("--from")? {
        Some(from) => Some(from),
        None => line.value("--base")?,
    };
    let name = line.one("NAME")?;
    let branch = BranchName::parse(&name)?;
    let codebase = codebase(desk).await?;
    let wish = Wish {
        work: Work::task(branch.as_str())?,
        branch: Some(branch),
        from,
        hints: isolation::Hints::default(),
        // Bound afterwards: otherwise the one that it has would be chosen.
        conversation: None,
        by: CreatedBy { platform: Some(desk.conversation.platform.clone()), user: desk.message.user.clone() },
    };
    let outcome = desk.talks.isolation.create(&codebase, &wish).await?;
    let store = &desk.talks.store;
    if !store.bind_conversation(&desk.reference(), codebase.id, outcome.environment.id).await? {
        return Err(IsolationError::InTheMaking { work: outcome.environment.work.to_string() }.into());
    }
    Ok(reply_text::place(&outcome, &Hints::default(), true).join("\n"))
}
