//! `/codebases`, `/codebase NAME`, `/register PATH`, `/clone URL`

use std::path::Path;

use grove_environments::problem::Problem;
use grove_model::{Codebase, is_of_this_machine};

use crate::commands::slash_command::{CloneArgs, RegisterArgs};
use crate::replies;
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
    choose_for_conversation(context, &codebase).await?;
    let answer = format!("This conversation is about `{}` from now on.", codebase.name);
    Ok(answer + replies::channel_note(context.opened_channel().is_some()))
}

/// Makes a codebase that of the conversation, and of the channel if the message opens a thread there.
async fn choose_for_conversation(context: &TurnContext<'_>, codebase: &Codebase) -> Result<(), Problem> {
    let store = &context.conversations.store;
    if context.conversation.codebase != Some(codebase.id) {
        store.choose_codebase(context.conversation.id, codebase.id).await?;
        store.end_sessions(&context.conversation_ref()).await?;
    }
    if let Some(channel) = context.opened_channel() {
        store.choose_channel_codebase(&channel, codebase.id).await?;
    }
    Ok(())
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
    choose_for_conversation(context, &codebase).await?;
    let (name, place) = (&codebase.name, codebase.default_cwd.display());
    let note = replies::channel_note(context.opened_channel().is_some());
    Ok(format!("Registered `{name}` at {place}. This conversation is about it.{note}"))
}
