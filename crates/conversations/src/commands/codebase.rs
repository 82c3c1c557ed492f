//! `/codebases`, `/codebase NAME`, `/register PATH`, `/clone URL`

use std::path::Path;

use grove_environments::problem::Problem;
use grove_model::is_of_this_machine;

use crate::commands::slash_command::{CloneArgs, RegisterArgs};
use crate::turn_context::TurnContext;
use crate::words;

pub async fn list_codebases(context: &TurnContext<'_>) -> Result<String, Problem> {
    let codebases = context.conversations.store.list_codebases().await?;
    if codebases.is_empty() {
        return Ok("No codebase is registered. `/register PATH` or `/clone URL` adds one.".to_owned());
    }
    let current = context.conversations.codebase_of(context.conversation).await?.map(|codebase| codebase.id);
    let lines = codebases.iter().map(|codebase| {
        let mark = if Some(codebase.id) == current { " ← active" } else { "" };
        format!("- `{}` at {}{mark}", codebase.name, codebase.default_cwd.display())
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

pub async fn choose_codebase(context: &TurnContext<'_>, name: &str) -> Result<String, Problem> {
    let codebase = context.conversations.codebases.find_codebase(name).await?;
    if context.conversation.codebase != Some(codebase.id) {
        context.conversations.store.choose_codebase(context.conversation.id, codebase.id).await?;
        context.conversations.store.end_sessions(&context.conversation_ref()).await?;
    }
    Ok(format!("This conversation is about `{}` from now on.", codebase.name))
}

/// Registers a repository of this machine.
pub async fn register_repository(
    context: &TurnContext<'_>,
    RegisterArgs { path }: &RegisterArgs,
) -> Result<String, Problem> {
    let folder = context.named_folder(Path::new(path))?;
    add_codebase(context, &folder.display().to_string()).await
}

/// Clones a remote repository. Paths belong to `/register`, which checks whether they may be used.
pub async fn clone_repository(
    context: &TurnContext<'_>,
    CloneArgs { url: address }: &CloneArgs,
) -> Result<String, Problem> {
    let local = address.starts_with("file:") || Path::new(address).exists();
    if local && !is_of_this_machine(&context.message.via) {
        return Err(words::clone_of_local_path(address));
    }
    if address.contains("://***@") {
        return Err(words::clone_with_credentials());
    }
    add_codebase(context, address).await
}

/// Registers a repository and makes it the codebase of the conversation.
async fn add_codebase(context: &TurnContext<'_>, place: &str) -> Result<String, Problem> {
    let codebase = context.codebases_with_notices().add_codebase(place, None, Path::new("/")).await?;
    choose_codebase(context, &codebase.name).await?;
    Ok(format!("Registered `{}` at {}. This conversation is about it.", codebase.name, codebase.default_cwd.display()))
}
