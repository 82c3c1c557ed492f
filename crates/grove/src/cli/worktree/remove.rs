//! `grove worktree remove NAME`

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use grove_engine::Problem;
use grove_engine::removal::{Asker, Plan, Removable, RemovalWish, Removed, TrashedFolder};
use grove_engine::words::{self, done};
use grove_git::removal::BranchFate;
use grove_model::{Answer, Codebase, Environment, Moment};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Context, Done, Named};
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
        output::json(&in_json(&removed));
    } else {
        say(&environment, &removed, context.settings.trash_keep_days());
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub fn in_json(removed: &Removed) -> Value {
    match removed {
        Removed::Gone => json!({ "removed": true, "released": false, "branch_kept": true, "undo_until": null }),
        Removed::Released(_) => json!({ "removed": false, "released": true, "branch_kept": true, "undo_until": null }),
        Removed::Trashed { branch_kept, undo_until, regenerable, .. } => json!({
            "removed": true,
            "released": false,
            "branch_kept": branch_kept,
            "undo_until": undo_until,
            "regenerable": folders_json(regenerable),
        }),
    }
}

/// Folders that leave the trash early, as scripts see them.
pub fn folders_json(folders: &[TrashedFolder]) -> Vec<Value> {
    let folder = |folder: &TrashedFolder| {
        json!({
            "path": folder.path,
            "size_bytes": folder.bytes,
            "kept_until": folder.kept_until,
            "gone": folder.gone,
        })
    };
    folders.iter().map(folder).collect()
}

/// An answer with such folders in it.
pub fn with_folders(view: &impl Serialize, key: &str, folders: &[TrashedFolder]) -> Result<Value, Problem> {
    let unreadable = |error: serde_json::Error| Problem::new("internal", format!("{error}."), "Please report this.");
    let mut value = serde_json::to_value(view).map_err(unreadable)?;
    value[key] = json!(folders_json(folders));
    Ok(value)
}

pub fn say(environment: &Environment, removed: &Removed, days: u64) {
    done::removed(environment.branch.as_str(), removed, days).iter().for_each(|line| output::words(line));
}

fn removable_of(plan: &Plan) -> Option<&Removable> {
    match plan {
        Plan::Gone | Plan::Release => None,
        Plan::Remove(removable) => Some(removable),
    }
}

/// The plan as scripts see it.
pub fn plan_json(environment: &Environment, plan: &Plan, force: bool) -> Value {
    let action = match plan {
        Plan::Gone => "forget",
        Plan::Release => "release",
        Plan::Remove(_) => "remove",
    };
    let removable = removable_of(plan);
    let against = removable.map(|removable| removable.reasons(force)).unwrap_or_default();
    let reason = |(question, answer): &(_, _)| words::reason(*question, answer, environment.branch.as_str());
    let reasons: Vec<_> = against.iter().map(reason).collect();
    json!({
        "id": environment.id,
        "branch": environment.branch.to_string(),
        "path": environment.path,
        "action": action,
        "would_remove": reasons.is_empty(),
        "reasons": reasons,
        "checks": removable.map(checks).unwrap_or_default(),
        "branch_kept": removable.is_none_or(|removable| removable.branch().is_kept()),
        "branch_fate": removable.map(|removable| removable.branch()),
        "fingerprint": removable.map(|removable| removable.fingerprint()),
        "regenerable": removable.map(|removable| removable.regenerable()).unwrap_or_default().iter().map(|folder| {
            json!({ "path": folder.path, "size_bytes": folder.bytes })
        }).collect::<Vec<_>>(),
    })
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

fn checks(removable: &Removable) -> Vec<Value> {
    let word = |answer: &Answer| match answer {
        Answer::No => ("no", None),
        Answer::Yes(detail) => ("yes", Some(detail.clone())),
        Answer::Unknown(why) => ("unknown", Some(why.clone())),
    };
    let line = |(question, answer): &(grove_model::Question, Answer)| {
        let (answer, detail) = word(answer);
        json!({ "code": question.as_str(), "answer": answer, "detail": detail })
    };
    removable.checks.iter().map(line).collect()
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
