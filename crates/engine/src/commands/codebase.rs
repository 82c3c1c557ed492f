//! `/codebases`, `/codebase NAME`, `/register PATH`, `/clone URL`

use std::path::Path;

use crate::Problem;
use crate::talk::Desk;

pub async fn list(desk: &Desk<'_>) -> Result<String, Problem> {
    let codebases = desk.talks.store.codebases().await?;
    if codebases.is_empty() {
        return Ok("No codebase is registered. `/register PATH` or `/clone URL` adds one.".to_owned());
    }
    let current = desk.talks.codebase_of(desk.conversation).await?.map(|codebase| codebase.id);
    let lines = codebases.iter().map(|codebase| {
        let mark = if Some(codebase.id) == current { " ← active" } else { "" };
        format!("- `{}` at {}{mark}", codebase.name, codebase.default_cwd.display())
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

pub async fn choose(desk: &Desk<'_>, name: &str) -> Result<String, Problem> {
    let codebase = desk.talks.codebases.named(name).await?;
    if desk.conversation.codebase != Some(codebase.id) {
        desk.talks.store.choose_codebase(desk.conversation.id, codebase.id).await?;
        desk.talks.store.end_sessions(&desk.reference()).await?;
    }
    Ok(format!("This conversation is about `{}` from now on.", codebase.name))
}

/// A path or an address; the conversation is about it from then on.
pub async fn add(desk: &Desk<'_>, place: &str) -> Result<String, Problem> {
    let codebase = desk.talks.codebases.add(place, None, Path::new("/")).await?;
    choose(desk, &codebase.name).await?;
    Ok(format!("Registered `{}` at {}. This conversation is about it.", codebase.name, codebase.default_cwd.display()))
}
