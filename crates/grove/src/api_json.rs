//! Answers as scripts see them: the same for `--json` and for the API.

use std::collections::BTreeMap;

use grove_environments::remove::{Plan, Removable, Removed, TrashedFolder};
use grove_environments::{Isolation, Problem, words};
use grove_model::{Answer, Codebase, Environment};
use grove_store::Store;
use serde::Serialize;
use serde_json::{Value, json};

/// A codebase as scripts see it.
pub fn codebase_json(codebase: &Codebase) -> Value {
    json!({
        "id": codebase.id,
        "name": codebase.name,
        "default_cwd": codebase.default_cwd,
        "repository_url": codebase.repository_url,
        "default_branch": codebase.default_branch,
    })
}

/// What a removal did.
pub fn removed_json(removed: &Removed) -> Value {
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

pub fn removable_of(plan: &Plan) -> Option<&Removable> {
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

/// States that are counted one by one.
pub const COUNTED: [&str; 8] = ["fresh", "active", "dirty", "merged", "stale", "missing", "hibernated", "failed"];

/// What `grove status` tells.
pub async fn status_json(store: &Store, isolation: &Isolation) -> Result<Value, Problem> {
    let codebases = store.codebases().await?;
    let mut counts: BTreeMap<&str, usize> = COUNTED.iter().map(|state| (*state, 0)).collect();
    let mut total = 0;
    for codebase in &codebases {
        for view in isolation.views(codebase, false).await? {
            total += 1;
            if let Some(count) = counts.get_mut(view.state.as_str()) {
                *count += 1;
            }
        }
    }
    let mut worktrees = json!(counts);
    worktrees["total"] = json!(total);
    // In the order in which words go through, so that nothing is overlooked on its way.
    let states = store.states().await?;
    let mut behind = Vec::new();
    for (platform, _) in &states {
        behind.push(store.unread_count(platform).await?);
    }
    let (running, waiting) = store.queue().await?;
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
