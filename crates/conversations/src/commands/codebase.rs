//! `/codebases`, `/codebase NAME`, `/register PATH`, `/clone URL`

use std::path::Path;

use grove_environments::problem::Problem;
use grove_model::is_of_this_machine;

use crate::turn_context::TurnContext;

pub async fn list_codebases(desk: &TurnContext<'_>) -> Result<String, Problem> {
    let codebases = desk.talks.store.list_codebases().await?;
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

pub async fn choose_codebase(desk: &TurnContext<'_>, name: &str) -> Result<String, Problem> {
    let codebase = desk.talks.codebases.find_codebase(name).await?;
    if desk.conversation.codebase != Some(codebase.id) {
        desk.talks.store.choose_codebase(desk.conversation.id, codebase.id).await?;
        desk.talks.store.end_sessions(&desk.conversation_ref()).await?;
    }
    Ok(format!("This conversation is about `{}` from now on.", codebase.name))
}

/// Registers a repository of this machine.
pub async fn register_repository(desk: &TurnContext<'_>, path: &str) -> Result<String, Problem> {
    let folder = desk.named_folder(Path::new(path))?;
    add_codebase(desk, &folder.display().to_string()).await
}

/// Clones a remote repository. Paths belong to `/register`, which checks whether they may be used.
pub async fn clone_repository(desk: &TurnContext<'_>, address: &str) -> Result<String, Problem> {
    let local = address.starts_with("file:") || Path::new(address).exists();
    if local && !is_of_this_machine(&desk.message.via) {
        let message = format!("`{address}` is on this machine.");
        return Err(Problem::new("outside_root", message, "Use `/register PATH` for a repository of this machine."));
    }
    if address.contains("://***@") {
        let message = "The address came with credentials, and those of a message are never kept.";
        let hint =
            "Give it without them: git asks its own credential helper. Or run `grove codebase add URL` in a terminal.";
        return Err(Problem::new("no_credentials", message, hint));
    }
    add_codebase(desk, address).await
}

/// Registers a repository and makes it the codebase of the conversation.
async fn add_codebase(desk: &TurnContext<'_>, place: &str) -> Result<String, Problem> {
    let codebase = desk.talks.codebases.add_codebase(place, None, Path::new("/")).await?;
    choose_codebase(desk, &codebase.name).await?;
    Ok(format!("Registered `{}` at {}. This conversation is about it.", codebase.name, codebase.default_cwd.display()))
}
