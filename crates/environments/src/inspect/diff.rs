//! The changes in an environment since its work began.

use grove_model::{Codebase, Environment};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::provider::disk::{DiskFacts, PathState};

/// The longest patch that is shown.
const MAX_PATCH_LENGTH: usize = 60_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentDiff {
    pub patch: String,
    /// The patch was longer and was cut.
    pub cut: bool,
    pub untracked: usize,
}

impl Environments {
    /// Returns the changes, committed or not, against the commit where the work began.
    pub async fn diff_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<EnvironmentDiff, EnvironmentError> {
        let broken = |why: String| EnvironmentError::Broken { path: environment.path.clone(), why };
        let entry = match self.provider.path_state(codebase, environment) {
            PathState::Worktree(entry) => entry,
            other => return Err(broken(format!("it is not there ({other:?})"))),
        };
        let untracked = match self.provider.inspect(codebase, std::slice::from_ref(environment)).await.pop() {
            Some(Ok(DiskFacts::Present(present))) => present.status.counts.untracked,
            Some(Err(why)) => return Err(broken(why)),
            _ => return Err(broken("it is not there".to_owned())),
        };
        let began = environment.base_sha.as_ref().map_or("HEAD", |sha| sha.as_str());
        let bytes = self.provider.diff_since(codebase, environment, &entry, began).await?;
        let text = String::from_utf8_lossy(&bytes);
        let cut = text.len() > MAX_PATCH_LENGTH;
        let end = (0..=MAX_PATCH_LENGTH.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        Ok(EnvironmentDiff { patch: text[..end].to_owned(), cut, untracked })
    }
}
