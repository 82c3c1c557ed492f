//! Worktrees: environments as scripts see them.

use std::path::PathBuf;

use grove_environments::inspect::list::EnvironmentView;
use grove_environments::remove::TrashedFolder;
use grove_model::{
    AdoptedFrom, CommitSha, GitOperation, InitScript, InitStatus, MergeMethod, Moment, PullRequestInfo, State, Status,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::removal::TrashedFolderJson;
use super::schema;

/// The isolated environment of one piece of work.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Worktree)]
pub struct WorktreeJson {
    #[schema(format = "uuid")]
    id: String,
    /// The name of its codebase.
    codebase: String,
    workflow_type: String,
    workflow_id: String,
    /// The branch that is checked out; if none is, the recorded one.
    branch: String,
    /// The recorded branch, if another one is checked out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    recorded_branch: Option<String>,
    #[schema(value_type = String)]
    path: PathBuf,
    provider: String,
    #[schema(schema_with = schema::statuses)]
    status: Status,
    #[schema(schema_with = schema::states)]
    state: State,
    #[schema(required, schema_with = schema::merge_methods)]
    merged_by: Option<MergeMethod>,
    /// The number of commits that the base lacks.
    #[schema(required)]
    ahead: Option<u64>,
    /// The number of commits of the base that it lacks.
    #[schema(required)]
    behind: Option<u64>,
    /// The branch of the remote that the checked-out branch follows.
    #[schema(required)]
    upstream: Option<String>,
    /// The number of commits that the upstream lacks.
    #[schema(required)]
    upstream_ahead: Option<u64>,
    /// The number of commits of the upstream that it lacks.
    #[schema(required)]
    upstream_behind: Option<u64>,
    dirty: bool,
    /// The number of untracked files.
    untracked: usize,
    /// The number of files with changes that are not staged.
    changed: usize,
    /// The number of files with staged changes.
    staged: usize,
    /// The number of files with conflicts.
    conflicted: usize,
    /// The operation of git that waits to be finished.
    #[schema(required, schema_with = schema::git_operations)]
    operation: Option<GitOperation>,
    /// A commit is checked out, and no branch.
    detached: bool,
    adopted: bool,
    #[schema(required)]
    base: Option<String>,
    #[schema(required)]
    base_sha: Option<String>,
    /// The time of the commit that the work began from.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    base_at: Option<Moment>,
    #[schema(required)]
    head_sha: Option<String>,
    /// The work in a few words: the title of its issue or pull request, or the beginning of the first message.
    #[schema(required)]
    title: Option<String>,
    conversations: Vec<String>,
    #[schema(required)]
    created_by_platform: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Moment,
    #[schema(value_type = String, format = DateTime)]
    last_activity_at: Moment,
    #[schema(required)]
    size_bytes: Option<i64>,
    metadata: WorktreeMetadataJson,
    /// The reason why nothing is known, or the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
}

/// Further facts of the record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorktreeMetadata)]
struct WorktreeMetadataJson {
    adopted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = schema::adoptions, required = false)]
    adopted_from: Option<AdoptedFrom>,
    migrated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    migrated_at: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pr: Option<PullRequestJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    init_script: Option<InitScriptJson>,
    related_issues: Vec<u64>,
    related_prs: Vec<u64>,
}

/// The pull request of the work.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PullRequest)]
#[serde(rename_all = "camelCase")]
struct PullRequestJson {
    number: u64,
    url: String,
    title: String,
    /// `open`, `closed` or `merged`.
    state: String,
    created_at: String,
    /// The head that the platform last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    head: Option<CommitSha>,
    /// The time at which the pull request was as described here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    updated_at: Option<Moment>,
}

impl From<PullRequestInfo> for PullRequestJson {
    fn from(info: PullRequestInfo) -> Self {
        let PullRequestInfo { number, url, title, state, created_at, head, updated_at } = info;
        Self { number, url, title, state, created_at, head, updated_at }
    }
}

/// The progress of the init script.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = InitScript)]
struct InitScriptJson {
    ran: bool,
    #[schema(required, schema_with = schema::init_statuses)]
    status: Option<InitStatus>,
    #[schema(required)]
    error: Option<String>,
}

impl From<InitScript> for InitScriptJson {
    fn from(InitScript { ran, status, error }: InitScript) -> Self {
        Self { ran, status, error }
    }
}

impl From<EnvironmentView> for WorktreeJson {
    fn from(view: EnvironmentView) -> Self {
        let metadata = WorktreeMetadataJson {
            adopted: view.adopted,
            adopted_from: view.metadata.adopted_from,
            migrated: view.metadata.migrated_at.is_some(),
            migrated_at: view.metadata.migrated_at,
            pr: view.metadata.pr.map(Into::into),
            init_script: view.metadata.init_script.map(Into::into),
            related_issues: view.related_issues,
            related_prs: view.related_prs,
        };
        Self {
            id: view.id,
            codebase: view.codebase,
            workflow_type: view.workflow_type,
            workflow_id: view.workflow_id,
            branch: view.branch,
            recorded_branch: view.recorded_branch,
            path: view.path,
            provider: view.provider,
            status: view.status,
            state: view.state,
            merged_by: view.merged_by,
            ahead: view.ahead,
            behind: view.behind,
            upstream: view.upstream,
            upstream_ahead: view.upstream_ahead,
            upstream_behind: view.upstream_behind,
            dirty: view.dirty,
            untracked: view.untracked,
            changed: view.changed,
            staged: view.staged,
            conflicted: view.conflicted,
            operation: view.operation,
            detached: view.detached,
            adopted: view.adopted,
            base: view.base,
            base_sha: view.base_sha,
            base_at: view.base_at,
            head_sha: view.head_sha,
            title: view.title,
            conversations: view.conversations,
            created_by_platform: view.created_by_platform,
            created_at: view.created_at,
            last_activity_at: view.last_activity_at,
            size_bytes: view.size_bytes,
            metadata,
            error: view.error,
        }
    }
}

/// A worktree that came back from the trash or from hibernation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RestoredWorktree)]
pub struct RestoredWorktreeJson {
    #[serde(flatten)]
    worktree: WorktreeJson,
    /// Folders that did not come back, since their tools can recreate them.
    regenerable_gone: Vec<TrashedFolderJson>,
}

impl RestoredWorktreeJson {
    pub fn new(view: EnvironmentView, gone: &[TrashedFolder]) -> Self {
        Self { worktree: view.into(), regenerable_gone: TrashedFolderJson::list(gone) }
    }
}

/// A worktree that was put away until it is needed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HibernatedWorktree)]
pub struct HibernatedWorktreeJson {
    #[serde(flatten)]
    worktree: WorktreeJson,
    /// Folders that do not stay as long, since their tools can recreate them.
    regenerable: Vec<TrashedFolderJson>,
}

impl HibernatedWorktreeJson {
    pub fn new(view: EnvironmentView, folders: &[TrashedFolder]) -> Self {
        Self { worktree: view.into(), regenerable: TrashedFolderJson::list(folders) }
    }
}
