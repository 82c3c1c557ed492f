//! The changes in an environment since its work began.

use grove_git::diff::{DiffOptions, WorktreeDiff};
use grove_model::{Codebase, Environment, Status};

use crate::environments::Environments;
use crate::error::EnvironmentError;
use crate::provider::disk::PathState;

/// The longest text that is shown in a conversation.
const MAX_DIFF_LENGTH: usize = 60_000;

/// The beginning of the changes in an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffExcerpt {
    pub text: String,
    /// The text was longer and was cut.
    pub cut: bool,
    /// The number of repositories inside, whose files are not shown.
    pub nested_repositories: usize,
}

impl Environments {
    /// Returns the changes, committed or not, against the commit where the work began.
    pub async fn diff_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        options: DiffOptions,
    ) -> Result<WorktreeDiff, EnvironmentError> {
        let broken = |why: String| EnvironmentError::Broken { path: environment.path.clone(), why };
        let entry = match self.provider.path_state(codebase, environment) {
            PathState::Worktree(entry) => entry,
            PathState::NotMounted => return Err(EnvironmentError::NotMounted(environment.path.clone())),
            PathState::Gone if environment.status == Status::Hibernated => {
                return Err(broken("it hibernates".to_owned()));
            }
            PathState::Gone => return Err(broken("it is not there".to_owned())),
            PathState::Elsewhere(node) => return Err(broken(format!("it is on another machine ({node})"))),
            PathState::Unknown(why) => return Err(broken(why)),
        };
        let began = environment.base_sha.as_ref().map_or("HEAD", |sha| sha.as_str());
        Ok(self.provider.diff_since(codebase, environment, &entry, began, options).await?)
    }

    /// Returns the same, cut to the length that a conversation can show.
    pub async fn diff_excerpt(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        options: DiffOptions,
    ) -> Result<DiffExcerpt, EnvironmentError> {
        let diff = self.diff_environment(codebase, environment, options).await?;
        let text = String::from_utf8_lossy(&diff.text);
        let cut = text.len() > MAX_DIFF_LENGTH;
        let end = (0..=MAX_DIFF_LENGTH.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        Ok(DiffExcerpt { text: text[..end].to_owned(), cut, nested_repositories: diff.nested_repositories })
    }
}
