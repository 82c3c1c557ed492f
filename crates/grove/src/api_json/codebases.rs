//! Codebases.

use std::path::PathBuf;

use grove_model::{Codebase, CodebaseId, Moment};
use serde::Serialize;
use utoipa::ToSchema;

/// A registered repository.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Codebase)]
pub struct CodebaseJson {
    #[schema(value_type = String, format = "uuid")]
    id: CodebaseId,
    name: String,
    /// The canonical checkout.
    #[schema(value_type = String)]
    default_cwd: PathBuf,
    /// The remote's address, without credentials.
    #[schema(required)]
    repository_url: Option<String>,
    #[schema(required)]
    default_branch: Option<String>,
}

impl From<&Codebase> for CodebaseJson {
    fn from(codebase: &Codebase) -> Self {
        Self {
            id: codebase.id,
            name: codebase.name.clone(),
            default_cwd: codebase.default_cwd.clone(),
            repository_url: codebase.repository_url.clone(),
            default_branch: codebase.default_branch.clone(),
        }
    }
}

/// A codebase with its worktrees, for `grove codebase show`.
#[derive(Debug, Serialize)]
pub struct CodebaseDetailsJson {
    #[serde(flatten)]
    pub codebase: CodebaseJson,
    pub worktrees_path: PathBuf,
    pub worktrees: usize,
    pub created_at: Moment,
}
