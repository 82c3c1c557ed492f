//! `grove worktree remove NAME`

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use grove_environments::remove::{Asker, Plan, RemovalWish, Removed};
use grove_environments::words::{self, done};
use grove_git::removal::BranchFate;
use grove_model::{Codebase, Environment, Moment};

use super::{Context, Done, Named};
use crate::api_json::{plan_json, removable_of, removed_json};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    named: Named,
    /// Remove it also against the reasons; `undo` brings it back
    #[arg(long, short)]
    force: bool,
    /// Only say what would be done and what speaks against it
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let (codebase, environment) = context.environment(&store, args.named.codebase.as_deref(), &args.named.name).await?;
    let isolation = context.isolation(&store);
    if args.dry_run {
        let plan = isolation.plan_removal(&codebase, &environment, &Asker::Person).await?;
        show(context, &environment, &plan, args.force);
        store.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let waiting = output::spinner("Removing the worktree", context.json);
    let wish = RemovalWish { force: args.force, ..RemovalWish::default() };
    let removed = isolation.remove(&codebase, &environment, &wish).await;
    waiting.finish_and_clear();
    let removed = removed?;
    if isolation.is_sweep_due(&codebase, Moment::now()).await? {
        sweep_in_background(&codebase);
    }
    if context.json {
        output::json(&removed_json(&removed));
    } else {
        say(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub fn say(environment: &Environment, removed: &Removed, days: u64) {
    done::removed(environment.branch.as_str(), removed, days).iter().for_each(|line| output::words(line));
}

/// The plan: every question with its answer.
fn show(context: &Context, environment: &Environment, plan: &Plan, force: bool) {
    if context.json {
        output::json(&plan_json(environment, plan, force));
        return;
    }
    let removable = removable_of(plan);
    let against = removable.map(|removable| removable.reasons(force)).unwrap_or_default();
    let branch = output::strong(&format!("`{}`", environment.branch));
    let Some(removable) = removable else {
        output::line(&match plan {
            Plan::Gone => format!("The folder of {branch} is gone; its record would end."),
            _ => format!("{branch} would be released: somebody else made that worktree, so it stays."),
        });
        return;
    };
    if against.is_empty() {
        output::line(&format!("{branch} would be removed, and `grove worktree undo` could bring it back."));
    } else {
        output::line(&format!("{branch} would not be removed:"));
        for (question, answer) in &against {
            let reason = words::reason(*question, answer, environment.branch.as_str());
            output::line(&format!("  - {} {}", reason.message, output::dim(&reason.hint)));
        }
    }
    output::words(&match removable.branch() {
        BranchFate::Goes { .. } => {
            format!("The branch `{}` would go too: everything on it is elsewhere.", environment.branch)
        }
        fate => done::branch_words(environment.branch.as_str(), fate),
    });
    if let Some(words) = done::folders_planned(removable.regenerable(), context.settings.regenerable_keep()) {
        output::line(&words);
        for folder in removable.regenerable() {
            output::words(&format!("  - {}", done::folder_words(&folder.path, folder.bytes)));
        }
    }
}

/// Deletes what need not be kept any longer, without anybody waiting for it.
fn sweep_in_background(codebase: &Codebase) {
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.args(["worktree", "trash", "sweep", "--codebase", &codebase.name]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    // Whoever sweeps next does it instead.
    let _ = command.spawn();
}
