//! `/worktree init [NAME]`

use grove_environments::init::InitOutcome;
use grove_environments::problem::Problem;

use crate::commands::slash_command::WorktreeArgs;
use crate::commands::worktree::named_environment;
use crate::turn_context::TurnContext;
use crate::{replies, words};

pub async fn run_init_script(context: &TurnContext<'_>, named: &WorktreeArgs) -> Result<String, Problem> {
    let (codebase, environment) = named_environment(context, named).await?;
    let environments = context.environments_with_notices();
    match context.initialize_environment(&environments, &codebase, &environment, true).await? {
        InitOutcome::Succeeded => Ok(replies::init_succeeded(environment.branch.as_str())),
        InitOutcome::NothingToDo => Err(words::no_init_script(environment.branch.as_str())),
        InitOutcome::NotApproved { path } => Err(words::script_not_approved(path)),
    }
}
