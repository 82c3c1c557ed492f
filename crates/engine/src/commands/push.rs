//! `/push` and `/pr [TITLE]`

use super::Line;
use super::worktree::own;
use crate::Problem;
use crate::reply_text;
use crate::talk::Desk;
use crate::words::done;

pub async fn push(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let (codebase, environment) = own(desk, &mut line).await?;
    let pushed = desk.talks.isolation.push(&codebase, &environment).await?;
    Ok(reply_text::for_chat(&done::pushed(environment.branch.as_str(), &pushed)))
}

pub async fn pull_request(desk: &Desk<'_>, mut line: Line) -> Result<String, Problem> {
    let title = line.next_word();
    let (codebase, environment) = own(desk, &mut line).await?;
    let opened = desk.talks.isolation.open_pull_request(&codebase, &environment, title.as_deref()).await?;
    let (pushed, opened) = opened;
    Ok([done::pushed(environment.branch.as_str(), &pushed), done::opened(&opened)].join("\n"))
}
