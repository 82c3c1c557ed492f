//! Plans and outcomes of removals.

use std::path::PathBuf;

use grove_environments::problem::Problem;
use grove_environments::remove::{RemovableEnvironment, RemovalPlan, RemoveOutcome, TrashedFolder};
use grove_environments::words;
use grove_git::finish::FinishOutcome;
use grove_git::removal::{BranchFate, RegenerableFolder, WorktreeFingerprint};
use grove_model::{CommitSha, Environment, EnvironmentId, Moment, Question, RemovalAnswer};
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::{ProblemJson, ReasonJson};
use super::schema;

/// The outcome of a removal.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Removed)]
pub struct RemovedJson {
    removed: bool,
    /// Its record ended; the folder stays, since another tool made it.
    released: bool,
    branch_kept: bool,
    /// The time until which an undo is possible.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    undo_until: Option<Moment>,
    /// Folders that leave the trash earlier; only if something is in the trash.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    regenerable: Option<Vec<TrashedFolderJson>>,
}

impl From<&RemoveOutcome> for RemovedJson {
    fn from(removed: &RemoveOutcome) -> Self {
        let ended = Self { removed: true, released: false, branch_kept: true, undo_until: None, regenerable: None };
        match removed {
            RemoveOutcome::Gone => ended,
            RemoveOutcome::Released(_) => Self { removed: false, released: true, ..ended },
            RemoveOutcome::Trashed { branch_kept, undo_until, regenerable, .. } => Self {
                branch_kept: *branch_kept,
                undo_until: Some(*undo_until),
                regenerable: Some(TrashedFolderJson::list(regenerable)),
                ..ended
            },
        }
    }
}

/// A folder in the trash that its tool can recreate, so that it leaves early.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TrashedFolder)]
pub struct TrashedFolderJson {
    /// Relative to the worktree.
    #[schema(value_type = String)]
    path: PathBuf,
    size_bytes: u64,
    /// It may be deleted any time after this.
    #[schema(value_type = String, format = DateTime)]
    kept_until: Moment,
    gone: bool,
}

impl TrashedFolderJson {
    pub fn list(folders: &[TrashedFolder]) -> Vec<Self> {
        folders.iter().map(Self::from).collect()
    }
}

impl From<&TrashedFolder> for TrashedFolderJson {
    fn from(folder: &TrashedFolder) -> Self {
        let TrashedFolder { path, bytes, kept_until, gone } = folder;
        Self { path: path.clone(), size_bytes: *bytes, kept_until: *kept_until, gone: *gone }
    }
}

/// The outcome of a merge into the base. The merge counts, also if the worktree has to stay.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Finished)]
pub struct FinishedJson {
    #[serde(flatten)]
    removal: FinishRemovalJson,
    merged_into: String,
    #[schema(value_type = String)]
    commit: CommitSha,
    /// Checkouts that are on the base and were updated with it.
    #[schema(value_type = Vec<String>)]
    updated_checkouts: Vec<PathBuf>,
}

/// The removal that follows a merge.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FinishRemoval)]
#[serde(untagged)]
enum FinishRemovalJson {
    Removed(RemovedJson),
    Stays { removed: bool, branch_kept: bool, error: ProblemJson },
}

impl FinishedJson {
    pub fn new(finished: FinishOutcome, removed: Result<RemoveOutcome, Problem>) -> Self {
        let removal = match removed {
            Ok(removed) => FinishRemovalJson::Removed(RemovedJson::from(&removed)),
            Err(problem) => FinishRemovalJson::Stays { removed: false, branch_kept: true, error: problem.into() },
        };
        let FinishOutcome { base, commit, updated } = finished;
        Self { removal, merged_into: base.to_string(), commit, updated_checkouts: updated }
    }
}

/// The effects of a removal, and the reasons against it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RemovalPlan)]
pub struct RemovalPlanJson {
    #[schema(value_type = String, format = "uuid")]
    id: EnvironmentId,
    branch: String,
    #[schema(value_type = String)]
    path: PathBuf,
    action: PlannedAction,
    would_remove: bool,
    reasons: Vec<ReasonJson>,
    /// Every question that was asked, with its answer.
    checks: Vec<RemovalCheckJson>,
    branch_kept: bool,
    #[schema(required)]
    branch_fate: Option<BranchFateJson>,
    /// Identifies the state that this plan is for.
    #[schema(required, value_type = Option<String>)]
    fingerprint: Option<WorktreeFingerprint>,
    /// Folders that would leave the trash early.
    regenerable: Vec<RegenerableFolderJson>,
}

/// What a removal does: end the record of a folder that is gone or that another tool made, or move the worktree
/// to the trash.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum PlannedAction {
    Forget,
    Release,
    Remove,
}

/// The answer to one question.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RemovalCheck)]
struct RemovalCheckJson {
    #[schema(schema_with = schema::questions)]
    code: Question,
    answer: CheckAnswer,
    /// The finding, or the reason why the answer is unknown.
    #[schema(required)]
    detail: Option<String>,
}

/// `unknown` counts as a reason against the removal.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum CheckAnswer {
    No,
    Yes,
    Unknown,
}

impl From<&(Question, RemovalAnswer)> for RemovalCheckJson {
    fn from((question, answer): &(Question, RemovalAnswer)) -> Self {
        let (answer, detail) = match answer {
            RemovalAnswer::No => (CheckAnswer::No, None),
            RemovalAnswer::Yes(detail) => (CheckAnswer::Yes, Some(detail.clone())),
            RemovalAnswer::Unknown(why) => (CheckAnswer::Unknown, Some(why.clone())),
        };
        Self { code: *question, answer, detail }
    }
}

/// The fate of the branch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BranchFate)]
#[serde(tag = "fate", rename_all = "snake_case")]
enum BranchFateJson {
    /// The branch does not exist.
    Absent,
    /// Everything on it is elsewhere too: it is deleted.
    Goes { tip: String },
    /// This many commits are nowhere else.
    OwnCommits { tip: String, commits: u64 },
    /// The main checkout or another worktree is on it, or new work starts from it.
    InUse { tip: String },
    /// It could not be determined.
    Unknown { why: String },
}

impl From<&BranchFate> for BranchFateJson {
    fn from(fate: &BranchFate) -> Self {
        match fate {
            BranchFate::Absent => Self::Absent,
            BranchFate::Goes { tip } => Self::Goes { tip: tip.to_string() },
            BranchFate::OwnCommits { tip, commits } => Self::OwnCommits { tip: tip.to_string(), commits: *commits },
            BranchFate::InUse { tip } => Self::InUse { tip: tip.to_string() },
            BranchFate::Unknown { why } => Self::Unknown { why: why.clone() },
        }
    }
}

/// A folder that its tool can recreate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RegenerableFolder)]
struct RegenerableFolderJson {
    /// Relative to the worktree.
    #[schema(value_type = String)]
    path: PathBuf,
    size_bytes: u64,
}

impl From<&RegenerableFolder> for RegenerableFolderJson {
    fn from(folder: &RegenerableFolder) -> Self {
        Self { path: folder.path.clone(), size_bytes: folder.bytes }
    }
}

pub fn removable_of(plan: &RemovalPlan) -> Option<&RemovableEnvironment> {
    match plan {
        RemovalPlan::Gone | RemovalPlan::Release => None,
        RemovalPlan::Remove(removable) => Some(removable),
    }
}

impl RemovalPlanJson {
    /// Builds the plan of a removal, or of a forced one.
    pub fn new(environment: &Environment, plan: &RemovalPlan, force: bool) -> Self {
        let removable = removable_of(plan);
        let against = removable.map(|removable| removable.blocking_reasons(force)).unwrap_or_default();
        let reasons = against
            .iter()
            .map(|(question, answer)| words::describe_reason(*question, answer, environment.branch.as_str()).into());
        let folders = removable.map(RemovableEnvironment::regenerable_folders).unwrap_or_default();
        Self {
            id: environment.id,
            branch: environment.branch.to_string(),
            path: environment.path.clone(),
            action: match plan {
                RemovalPlan::Gone => PlannedAction::Forget,
                RemovalPlan::Release => PlannedAction::Release,
                RemovalPlan::Remove(_) => PlannedAction::Remove,
            },
            would_remove: against.is_empty(),
            reasons: reasons.collect(),
            checks: removable.into_iter().flat_map(|removable| &removable.checks).map(Into::into).collect(),
            branch_kept: removable.is_none_or(|removable| removable.branch_fate().is_kept()),
            branch_fate: removable.map(|removable| removable.branch_fate().into()),
            fingerprint: removable.map(|removable| removable.seen_fingerprint().clone()),
            regenerable: folders.iter().map(Into::into).collect(),
        }
    }
}
