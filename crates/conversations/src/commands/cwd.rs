//! `/cwd [PATH]`

use std::path::Path;

use grove_environments::problem::Problem;

use crate::commands::environment_of;
use crate::commands::slash_command::CwdArgs;
use crate::turn_context::TurnContext;
use crate::words;

pub async fn show_or_choose_cwd(context: &TurnContext<'_>, CwdArgs { path }: &CwdArgs) -> Result<String, Problem> {
    let (store, conversation) = (&context.conversations.store, context.conversation);
    let codebase = context.conversations.codebase_of(conversation).await?;
    let Some(path) = path else {
        return Ok(match (environment_of(context).await?, &conversation.cwd, codebase) {
            (Some(environment), ..) => format!("Working in {}", environment.path.display()),
            (None, _, Some(codebase)) => format!("The next message chooses a worktree of `{}`.", codebase.name),
            (None, Some(cwd), None) => format!("Working in {cwd}"),
            (None, None, None) => "Working in a folder of this conversation's own.".to_owned(),
        });
    };
    if let Some(codebase) = codebase {
        return Err(words::cwd_with_codebase(&codebase.name));
    }
    let folder = context.allowed_folder(Path::new(path)).await?;
    store.choose_cwd(conversation.id, Some(&folder.display().to_string())).await?;
    store.end_sessions(&context.conversation_ref()).await?;
    Ok(format!("Working in {} from now on.", folder.display()))
}
