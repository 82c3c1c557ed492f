//! GitHub's JSON, as its webhooks and its API write it: only the fields that we use, and only those that we
//! need are required.

use grove_model::{BranchName, CommitSha, PullRequestInfo};
use serde::{Deserialize, Deserializer};

use crate::github::inbound::event::ReviewedLines;

/// The payload of a webhook.
#[derive(Debug, Deserialize)]
pub struct WebhookPayload {
    pub action: Option<String>,
    pub repository: Option<RepositoryPayload>,
    pub installation: Option<IdPayload>,
    /// The account that caused the event.
    #[serde(default, deserialize_with = "or_nothing")]
    pub sender: Option<GithubUser>,
    /// Not GitHub's: we set it for events that were found by polling, which have no sender.
    #[serde(default)]
    pub found_by_asking: bool,
    pub issue: Option<IssuePayload>,
    pub pull_request: Option<PullRequestPayload>,
    pub comment: Option<CommentPayload>,
    pub review: Option<CommentPayload>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub changes: ChangesPayload,
}

/// The parts that an edit changed; unchanged parts are absent.
#[derive(Debug, Default, Deserialize)]
pub struct ChangesPayload {
    pub body: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct IdPayload {
    pub id: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RepositoryPayload {
    pub id: Option<u64>,
    pub full_name: String,
    pub html_url: Option<String>,
    pub clone_url: Option<String>,
    pub default_branch: Option<String>,
}

/// An account of a person, an App, or an organisation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct GithubUser {
    pub id: u64,
    pub login: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct IssuePayload {
    pub number: u64,
    pub node_id: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub user: Option<GithubUser>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub labels: Vec<LabelPayload>,
    pub state: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub closed_at: Option<String>,
    /// Present, whatever it contains, if the issue is a pull request.
    pub pull_request: Option<MergePayload>,
}

/// The pull request data of an issue.
#[derive(Clone, Debug, Deserialize)]
pub struct MergePayload {
    pub merged_at: Option<String>,
}

/// A name, or an object that has one.
#[derive(Clone, Debug)]
pub struct LabelPayload {
    pub name: Option<String>,
}

/// A comment, a comment on lines, or a review.
#[derive(Clone, Debug, Deserialize)]
pub struct CommentPayload {
    pub id: u64,
    pub node_id: Option<String>,
    pub body: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub user: Option<GithubUser>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub submitted_at: Option<String>,
    pub html_url: Option<String>,
    path: Option<String>,
    line: Option<u64>,
    start_line: Option<u64>,
    original_line: Option<u64>,
    original_start_line: Option<u64>,
    diff_hunk: Option<String>,
}

impl CommentPayload {
    /// Tells whether its times say that it was never changed. A review has no such times.
    pub fn looks_unchanged(&self) -> bool {
        is_unchanged(self.created_at.as_deref(), self.updated_at.as_deref())
    }

    /// Returns the lines that it is about; if they are gone, those of the commit that it was written on.
    pub fn commented_lines(&self) -> ReviewedLines {
        let to = self.line.or(self.original_line);
        let from = if self.line.is_some() { self.start_line } else { self.original_start_line };
        ReviewedLines {
            path: self.path.clone().unwrap_or_default(),
            from: from.or(to),
            to,
            hunk: self.diff_hunk.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct PullRequestPayload {
    pub number: u64,
    pub node_id: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub user: Option<GithubUser>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub labels: Vec<LabelPayload>,
    pub state: Option<String>,
    pub merged: Option<bool>,
    pub merged_at: Option<String>,
    pub html_url: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub closed_at: Option<String>,
    head: Option<PullBranch>,
    base: Option<PullBranch>,
}

/// One of the two branches of a pull request.
#[derive(Clone, Debug, Deserialize)]
struct PullBranch {
    #[serde(rename = "ref")]
    branch: Option<String>,
    sha: Option<String>,
    repo: Option<PullBranchRepository>,
}

#[derive(Clone, Debug, Deserialize)]
struct PullBranchRepository {
    id: Option<u64>,
    full_name: Option<String>,
}

impl PullRequestPayload {
    pub fn is_merged(&self) -> bool {
        self.merged == Some(true) || self.merged_at.is_some()
    }

    /// Returns the data for the environment's record; `None` without the address.
    pub fn pull_request_info(&self) -> Option<PullRequestInfo> {
        let state = if self.is_merged() { "merged" } else { self.state.as_deref().unwrap_or("open") };
        Some(PullRequestInfo {
            number: self.number,
            url: self.html_url.clone()?,
            title: crate::clean::one_line(self.title.as_deref().unwrap_or_default(), 300),
            state: state.to_owned(),
            created_at: self.created_at.clone().unwrap_or_default(),
            head: self.head_sha(),
            updated_at: self.updated_at.as_deref().and_then(|at| at.parse().ok()),
        })
    }

    /// Returns the branch; `None` if git would not accept the name.
    pub fn head_branch(&self) -> Option<BranchName> {
        BranchName::parse(self.head.as_ref()?.branch.as_deref()?).ok()
    }

    pub fn head_sha(&self) -> Option<CommitSha> {
        self.head.as_ref()?.sha.as_deref()?.parse().ok()
    }

    pub fn base_branch(&self) -> Option<BranchName> {
        BranchName::parse(self.base.as_ref()?.branch.as_deref()?).ok()
    }

    /// Tells whether the branch is in another repository, or in one that is gone. If that is unknown it
    /// counts as such: a branch of the same name here may be the work of another person.
    pub fn is_from_fork(&self) -> bool {
        let repository = |end: &Option<PullBranch>| end.as_ref().and_then(|end| end.repo.clone());
        let (Some(head), Some(base)) = (repository(&self.head), repository(&self.base)) else { return true };
        match (head.id, base.id) {
            (Some(head), Some(base)) => head != base,
            _ => match (head.full_name, base.full_name) {
                (Some(head), Some(base)) => !head.eq_ignore_ascii_case(&base),
                _ => true,
            },
        }
    }
}

impl<'de> Deserialize<'de> for LabelPayload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let name = value.as_str().or_else(|| value.get("name").and_then(serde_json::Value::as_str));
        Ok(Self { name: name.map(str::to_owned) })
    }
}

/// Tells whether a text with these times was never changed. GitHub's times are in seconds.
pub fn is_unchanged(created_at: Option<&str>, updated_at: Option<&str>) -> bool {
    created_at.is_some() && created_at == updated_at
}

/// Reads a value that does not have the expected form as the default.
fn or_nothing<'de, D: Deserializer<'de>, T: Default + serde::de::DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
