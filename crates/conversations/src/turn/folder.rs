//! Folders that people name in a conversation.

use std::path::{Path, PathBuf};

use grove_environments::problem::Problem;
use grove_model::is_of_this_machine;

use crate::turn_context::TurnContext;
use crate::words;

impl TurnContext<'_> {
    /// Returns a folder that an agent may work in without a codebase: below the allowed root and unused,
    /// that is not a main checkout, not a worktree, and not our own home.
    pub async fn allowed_folder(&self, path: &Path) -> Result<PathBuf, Problem> {
        let folder = self.named_folder(path)?;
        let store = &self.conversations.store;
        for codebase in store.list_codebases().await? {
            let inside = |place: &Path| folder.starts_with(place) || place.starts_with(&folder);
            if inside(&codebase.default_cwd) || inside(&codebase.git_common_dir) {
                return Err(words::folder_in_main_checkout(&folder, &codebase.name));
            }
            let environments = store.list_environments(codebase.id, false).await?;
            if let Some(environment) = environments.iter().find(|environment| inside(&environment.path)) {
                return Err(words::folder_in_worktree(&folder, &codebase.name, environment));
            }
        }
        let settings = self.conversations.settings.current();
        let home = settings.home_path();
        let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
        if (folder.starts_with(&home) || home.starts_with(&folder)) && !folder.starts_with(home.join("scratch")) {
            return Err(words::folder_of_grove(&folder));
        }
        Ok(folder)
    }

    /// Returns a folder that exists and that the sender may name.
    pub fn named_folder(&self, path: &Path) -> Result<PathBuf, Problem> {
        if !path.is_absolute() {
            return Err(words::relative_folder(path));
        }
        let folder = path.canonicalize().ok().filter(|folder| folder.is_dir());
        let folder = folder.ok_or_else(|| words::no_folder(path))?;
        let allowed = match self.conversations.settings.current().allowed_root() {
            Some(root) => root.canonicalize().is_ok_and(|root| folder.starts_with(root)),
            None => is_of_this_machine(&self.message.via),
        };
        if !allowed {
            return Err(words::folder_outside_root(&folder));
        }
        Ok(folder)
    }
}
