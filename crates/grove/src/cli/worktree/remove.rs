//! `grove worktree remove NAME`

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use grove_environments::remove::{RemovalPlan, RemovalRequester, RemoveOptions, RemoveOutcome};
use grove_environments::words::{self, done};
use grove_git::removal::BranchFate;
use grove_model::{Codebase, Environment, Moment};

use super::{CliContext, CommandResult, WorktreeSelector};
use crate::api_json::{RemovalPlanJson, RemovedJson, removable_of};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct WorktreeRemoveArgs {
    #[command(flatten)]
    named: WorktreeSelector,
    /// Remove it also against the reasons; `undo` brings it back
    #[arg(long, short)]
    force: bool,
    /// Only say what would be done and what speaks against it
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub async fn run(context: &CliContext, args: &WorktreeRemoveArgs) -> CommandResult {
    let store = context.open_store().await?;
    let (codebase, environment) =
        context.resolve_environment(&store, args.named.codebase.as_deref(), &args.named.name).await?;
    let environments = context.environments_in(&store);
    if args.dry_run {
        let plan = environments.plan_removal(&codebase, &environment, &RemovalRequester::Person).await?;
        print_plan(context, &environment, &plan, args.force);
        store.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = output::start_spinner("Removing the worktree", context.json);
    let wish = RemoveOptions { force: args.force, ..RemoveOptions::default() };
    let removed = environments.remove_environment(&codebase, &environment, &wish).await;
    waiting.finish_and_clear();
    let removed = removed?;
    if environments.is_sweep_due(&codebase, Moment::now()).await? {
        sweep_in_background(&codebase);
    }
    if context.json {
        output::print_json(&RemovedJson::from(&removed));
    } else {
        print_removed(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub fn print_removed(environment: &Environment, removed: &RemoveOutcome, days: u64) {
    done::describe_removed(environment.branch.as_str(), removed, days).iter().for_each(output::print_text);
}

/// Prints the plan: every question with its answer.
fn print_plan(context: &CliContext, environment: &Environment, plan: &RemovalPlan, force: bool) {
    if context.json {
        output::print_json(&RemovalPlanJson::new(environment, plan, force));
        return;
    }
    let removable = removable_of(plan);
    let against = removable.map(|removable| removable.blocking_reasons(force)).unwrap_or_default();
    let branch = output::style_strong(&format!("`{}`", environment.branch));
    let Some(removable) = removable else {
        output::print_line(&match plan {
            RemovalPlan::Gone => format!("The folder of {branch} is gone; its record would end."),
            _ => format!("{branch} would be released: Grovekeeper did not make that worktree, so it stays."),
        });
        return;
    };
    if against.is_empty() {
        output::print_line(&format!("{branch} would be removed, and `grove worktree undo` could bring it back."));
    } else {
        output::print_line(&format!("{branch} would not be removed:"));
        for (question, answer) in &against {
            let reason = words::describe_reason(*question, answer, environment.branch.as_str());
            let hint = output::style_dim(&reason.hint.for_terminal());
            output::print_line(&format!("  - {} {hint}", reason.message.for_terminal()));
        }
    }
    output::print_text(&match removable.branch_fate() {
        BranchFate::Goes { .. } => {
            format!("The branch `{}` would go too: everything on it is elsewhere.", environment.branch).into()
        }
        fate => done::branch_words(environment.branch.as_str(), fate),
    });
    if let Some(words) = done::folders_planned(removable.regenerable_folders(), context.settings.regenerable_keep()) {
        output::print_text(&words);
        for folder in removable.regenerable_folders() {
            output::print_text(&format!("  - {}", done::folder_words(&folder.path, folder.bytes)).into());
        }
    }
}

/// Deletes trash that need not be kept any longer, in a process that this command does not wait for.
fn sweep_in_background(codebase: &Codebase) {
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(["worktree", "trash", "sweep", "--codebase", &codebase.name]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    // If this process fails, the next sweep deletes it instead.
    let _ = command.spawn();
}
