//! JSON answers for scripts: the same for `--json` and for the API.

use std::collections::BTreeMap;

use grove_environments::remove::{RemovableEnvironment, RemovalPlan, RemoveOutcome, TrashedFolder};
use grove_environments::{Environments, Problem, words};
use grove_model::{Codebase, Environment, RemovalAnswer};
use grove_store::Store;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns a codebase as JSON.
pub fn codebase_json(codebase: &Codebase) -> Value {
    json!({
        "id": codebase.id,
        "name": codebase.name,
        "default_cwd": codebase.default_cwd,
        "repository_url": codebase.repository_url,
        "default_branch": codebase.default_branch,
    })
}

/// Returns the outcome of a removal as JSON.
pub fn removed_json(removed: &RemoveOutcome) -> Value {
    match removed {
        RemoveOutcome::Gone => json!({ "removed": true, "released": false, "branch_kept": true, "undo_until": null }),
        RemoveOutcome::Released(_) => {
            json!({ "removed": false, "released": true, "branch_kept": true, "undo_until": null })
        }
        RemoveOutcome::Trashed { branch_kept, undo_until, regenerable, .. } => json!({
            "removed": true,
            "released": false,
            "branch_kept": branch_kept,
            "undo_until": undo_until,
            "regenerable": folders_json(regenerable),
        }),
    }
}

/// Returns the folders that leave the trash early as JSON.
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

/// Returns `view` as JSON, with the trashed folders under `key`.
pub fn with_folders(view: &impl Serialize, key: &str, folders: &[TrashedFolder]) -> Result<Value, Problem> {
    let unreadable = |error: serde_json::Error| Problem::new("internal", format!("{error}."), "Please report this.");
    let mut value = serde_json::to_value(view).map_err(unreadable)?;
    value[key] = json!(folders_json(folders));
    Ok(value)
}

pub fn removable_of(plan: &RemovalPlan) -> Option<&RemovableEnvironment> {
    match plan {
        RemovalPlan::Gone | RemovalPlan::Release => None,
        RemovalPlan::Remove(removable) => Some(removable),
    }
}

/// Returns the removal plan as JSON.
pub fn plan_json(environment: &Environment, plan: &RemovalPlan, force: bool) -> Value {
    let action = match plan {
        RemovalPlan::Gone => "forget",
        RemovalPlan::Release => "release",
        RemovalPlan::Remove(_) => "remove",
    };
    let removable = removable_of(plan);
    let against = removable.map(|removable| removable.blocking_reasons(force)).unwrap_or_default();
    let reason = |(question, answer): &(_, _)| words::describe_reason(*question, answer, environment.branch.as_str());
    let reasons: Vec<_> = against.iter().map(reason).collect();
    json!({
        "id": environment.id,
        "branch": environment.branch.to_string(),
        "path": environment.path,
        "action": action,
        "would_remove": reasons.is_empty(),
        "reasons": reasons,
        "checks": removable.map(checks_json).unwrap_or_default(),
        "branch_kept": removable.is_none_or(|removable| removable.branch_fate().is_kept()),
        "branch_fate": removable.map(|removable| removable.branch_fate()),
        "fingerprint": removable.map(|removable| removable.seen_fingerprint()),
        "regenerable": removable.map(|removable| removable.regenerable_folders()).unwrap_or_default().iter().map(|folder| {
            json!({ "path": folder.path, "size_bytes": folder.bytes })
        }).collect::<Vec<_>>(),
    })
}

fn checks_json(removable: &RemovableEnvironment) -> Vec<Value> {
    let word = |answer: &RemovalAnswer| match answer {
        RemovalAnswer::No => ("no", None),
        RemovalAnswer::Yes(detail) => ("yes", Some(detail.clone())),
        RemovalAnswer::Unknown(why) => ("unknown", Some(why.clone())),
    };
    let line = |(question, answer): &(grove_model::Question, RemovalAnswer)| {
        let (answer, detail) = word(answer);
        json!({ "code": question.as_str(), "answer": answer, "detail": detail })
    };
    removable.checks.iter().map(line).collect()
}

/// The states that are counted one by one.
pub const COUNTED_STATES: [&str; 8] =
    ["fresh", "active", "dirty", "merged", "stale", "missing", "hibernated", "failed"];

/// Returns the answer of `grove status`.
pub async fn status_json(store: &Store, environments: &Environments) -> Result<Value, Problem> {
    let codebases = store.list_codebases().await?;
    let mut counts: BTreeMap<&str, usize> = COUNTED_STATES.iter().map(|state| (*state, 0)).collect();
    let mut total = 0;
    for codebase in &codebases {
        for view in environments.environment_views(codebase, false).await? {
            total += 1;
            if let Some(count) = counts.get_mut(view.state.as_str()) {
                *count += 1;
            }
        }
    }
    let mut worktrees = json!(counts);
    worktrees["total"] = json!(total);
    // The counts are read in the order in which messages pass through, so that none is missed on its way.
    let states = store.adapter_states().await?;
    let mut behind = Vec::new();
    for (platform, _) in &states {
        behind.push(store.unread_count(platform).await?);
    }
    let (running, waiting) = store.queue_counts().await?;
    let mut adapters = serde_json::Map::new();
    for ((platform, state), unread) in states.into_iter().zip(behind) {
        let mut state: Value = serde_json::from_str(&state).unwrap_or_default();
        state["waiting"] = json!(unread + store.unsent_count(&platform).await?);
        adapters.insert(platform, state);
    }
    Ok(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "codebases": codebases.len(),
        "worktrees": worktrees,
        "pool": {},
        "adapters": adapters,
        "queue": { "running": running, "waiting": waiting },
    }))
}
