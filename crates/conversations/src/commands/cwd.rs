//! `/cwd [PATH]`

use std::path::Path;

use grove_environments::problem::Problem;

use crate::turn_context::TurnContext;

pub async fn show_or_choose_cwd(context: &TurnContext<'_>, path: Option<String>) -> Result<String, Problem> {
    let (store, conversation) = (&context.conversations.store, context.conversation);
    let codebase = context.conversations.codebase_of(conversation).await?;
    let Some(path) = path else {
        let environment = match conversation.environment {
            Some(id) => store.find_environment(id).await?,
            None => None,
        };
        return Ok(match (environment, &conversation.cwd, codebase) {
            (Some(environment), ..) => format!("Working in {}", environment.path.display()),
            (None, _, Some(codebase)) => format!("The next message chooses a worktree of `{}`.", codebase.name),
            (None, Some(cwd), None) => format!("Working in {cwd}"),
            (None, None, None) => "Working in a folder of this conversation's own.".to_owned(),
        });
    };
    if let Some(codebase) = codebase {
        let message = format!("This conversation is about `{}`, so it works in its worktrees.", codebase.name);
        return Err(Problem::new("has_codebase", message, "Use `/worktree create NAME` for another place."));
    }
    let folder = context.allowed_folder(Path::new(&path)).await?;
    store.choose_cwd(conversation.id, Some(&folder.display().to_string())).await?;
    store.end_sessions(&context.conversation_ref()).await?;
    Ok(format!("Working in {} from now on.", folder.display()))
}
