//! `grove codebase show [NAME]`

use std::process::ExitCode;

use grove_environments::paths;

use super::{CliContext, CommandResult};
use crate::api_json::{CodebaseDetailsJson, CodebaseJson};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct CodebaseShowArgs {
    /// Its name; without it, the one that this directory is in
    name: Option<String>,
}

pub async fn run(context: &CliContext, args: &CodebaseShowArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = context.codebases_in(&store).resolve_codebase(args.name.as_deref(), &context.cwd).await?;
    let worktrees = paths::worktrees_of(&codebase, &context.settings);
    let environments = store.list_environments(codebase.id, false).await?.len();
    if context.json {
        output::print_json(&CodebaseDetailsJson {
            codebase: CodebaseJson::from(&codebase),
            worktrees_path: worktrees,
            worktrees: environments,
            created_at: codebase.created_at,
        });
    } else {
        output::print_fields(&[
            ("name", codebase.name),
            ("id", codebase.id.to_string()),
            ("checkout", codebase.default_cwd.display().to_string()),
            ("remote", codebase.repository_url.unwrap_or_default()),
            (
                "default branch",
                codebase
                    .default_branch
                    .unwrap_or_else(|| "not known; `--from` or `worktree.base_branch` says it".to_owned()),
            ),
            ("worktrees", format!("{environments} in {}", worktrees.display())),
            ("registered", output::format_ago(codebase.created_at)),
        ]);
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
