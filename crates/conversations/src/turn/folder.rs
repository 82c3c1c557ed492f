//! Folders that people name in a conversation.

use std::path::{Path, PathBuf};

use grove_environments::problem::Problem;
use grove_model::is_of_this_machine;

use crate::turn_context::TurnContext;

const CHOOSE_FOLDER_HINT: &str = "Choose a directory that is there, by its whole path.";

impl TurnContext<'_> {
    /// Returns a folder that an agent may work in without a codebase: below the allowed root and unused,
    /// that is not a main checkout, not a worktree, and not our own home.
    pub async fn allowed_folder(&self, path: &Path) -> Result<PathBuf, Problem> {
        let folder = self.named_folder(path)?;
        let store = &self.conversations.store;
        for codebase in store.list_codebases().await? {
            let inside = |place: &Path| folder.starts_with(place) || place.starts_with(&folder);
            if inside(&codebase.default_cwd) || inside(&codebase.git_common_dir) {
                let message = format!("{} is in the main checkout of `{}`.", folder.display(), codebase.name);
                let hint = format!("Use `/codebase {}`, and get a worktree of your own.", codebase.name);
                return Err(Problem::new("main_checkout", message, hint));
            }
            let environments = store.list_environments(codebase.id, false).await?;
            if let Some(environment) = environments.iter().find(|environment| inside(&environment.path)) {
                let message = format!("{} is the worktree of {}.", folder.display(), environment.work);
                let hint = format!("Use `/codebase {}` and `/worktree link {}`.", codebase.name, environment.branch);
                return Err(Problem::new("has_environment", message, hint));
            }
        }
        let home = self.conversations.settings.home_path();
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        if (folder.starts_with(&home) || home.starts_with(&folder)) && !folder.starts_with(home.join("scratch")) {
            let message = format!("{} holds what belongs to grove itself.", folder.display());
            return Err(Problem::new("outside_root", message, CHOOSE_FOLDER_HINT));
        }
        Ok(folder)
    }

    /// Returns a folder that exists and that the sender may name.
    pub fn named_folder(&self, path: &Path) -> Result<PathBuf, Problem> {
        if !path.is_absolute() {
            return Err(Problem::new(
                "bad_path",
                format!("`{}` is not a whole path.", path.display()),
                CHOOSE_FOLDER_HINT,
            ));
        }
        let folder = path.canonicalize().ok().filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| {
            Problem::new("not_found", format!("{} is not a directory.", path.display()), CHOOSE_FOLDER_HINT)
        })?;
        let allowed = match self.conversations.settings.allowed_root() {
            Some(root) => root.canonicalize().is_ok_and(|root| folder.starts_with(root)),
            None => is_of_this_machine(&self.message.via),
        };
        if !allowed {
            let message = format!("{} is outside of what may be used from here.", folder.display());
            return Err(Problem::new("outside_root", message, "Ask for `security.allowed_root` to be changed."));
        }
        Ok(folder)
    }
}
