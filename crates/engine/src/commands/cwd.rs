//! `/cwd [PATH]`

use std::path::{Path, PathBuf};

use crate::Problem;
use crate::talk::Desk;

/// Where the people of this machine talk: they may go anywhere that the program may.
const OF_THIS_MACHINE: [&str; 3] = ["web", "cli", "test"];

pub async fn run(desk: &Desk<'_>, path: Option<String>) -> Result<String, Problem> {
    let (store, conversation) = (&desk.talks.store, desk.conversation);
    let codebase = desk.talks.codebase_of(conversation).await?;
    let Some(path) = path else {
        let environment = match conversation.environment {
            Some(id) => store.environment(id).await?,
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
    let folder = allowed(desk, Path::new(&path)).await?;
    store.choose_cwd(conversation.id, Some(&folder.display().to_string())).await?;
    store.end_sessions(&desk.reference()).await?;
    Ok(format!("Working in {} from now on.", folder.display()))
}

/// The directory that is meant, if an agent may work there: below the allowed root, and never in the
/// main checkout of a codebase.
async fn allowed(desk: &Desk<'_>, path: &Path) -> Result<PathBuf, Problem> {
    let choose = "Choose a directory that is there, by its whole path.";
    if !path.is_absolute() {
        return Err(Problem::new("bad_path", format!("`{}` is not a whole path.", path.display()), choose));
    }
    let folder = path.canonicalize().ok().filter(|folder| folder.is_dir());
    let folder =
        folder.ok_or_else(|| Problem::new("not_found", format!("{} is not a directory.", path.display()), choose))?;
    for codebase in desk.talks.store.codebases().await? {
        if folder.starts_with(&codebase.default_cwd) {
            let message = format!("{} is in the main checkout of `{}`.", folder.display(), codebase.name);
            let hint = format!("Use `/codebase {}`, and get a worktree of your own.", codebase.name);
            return Err(Problem::new("main_checkout", message, hint));
        }
    }
    let settings = &desk.talks.settings;
    let allowed = match settings.allowed_root() {
        Some(root) => root.canonicalize().is_ok_and(|root| folder.starts_with(root)),
        None => OF_THIS_MACHINE.contains(&desk.message.via.as_str()) || folder.starts_with(settings.home()),
    };
    if !allowed {
        let message = format!("{} is outside of where agents may work.", folder.display());
        return Err(Problem::new("outside_root", message, "Ask for `security.allowed_root` to be changed."));
    }
    Ok(folder)
}
