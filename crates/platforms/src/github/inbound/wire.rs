//! GitHub's JSON, as its webhooks and its API write it: only what we look at, and of that only what
//! cannot be missing is required.

use grove_model::{BranchName, CommitSha, PullRequestInfo};
use serde::{Deserialize, Deserializer};

use crate::github::inbound::event::Spot;

/// The payload of a webhook.
#[derive(Debug, Deserialize)]
pub struct Delivery {
    pub action: Option<String>,
    pub repository: Option<Repository>,
    pub installation: Option<Id>,
    /// The account that did what the webhook tells of.
    #[serde(default, deserialize_with = "or_nothing")]
    pub sender: Option<User>,
    /// Not GitHub's: set by us in what was found by asking, which tells of no sender.
    #[serde(default)]
    pub found_by_asking: bool,
    pub issue: Option<Issue>,
    pub pull_request: Option<Pull>,
    pub comment: Option<Comment>,
    pub review: Option<Comment>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub changes: Changes,
}

/// What an edit changed; a part that it did not change is not there.
#[derive(Debug, Default, Deserialize)]
pub struct Changes {
    pub body: Option<serde::de::IgnoredAny>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Id {
    pub id: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Repository {
    pub id: Option<u64>,
    pub full_name: String,
    pub html_url: Option<String>,
    pub clone_url: Option<String>,
    pub default_branch: Option<String>,
}

/// An account: a person's, an App's, an organisation's.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct User {
    pub id: u64,
    pub login: String,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Issue {
    pub number: u64,
    pub node_id: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub user: Option<User>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub labels: Vec<Label>,
    pub state: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub closed_at: Option<String>,
    /// There, whatever it holds, if the issue is a pull request.
    pub pull_request: Option<Merged>,
}

/// What an issue that is a pull request says about that.
#[derive(Clone, Debug, Deserialize)]
pub struct Merged {
    pub merged_at: Option<String>,
}

/// A name, or something that has one.
#[derive(Clone, Debug)]
pub struct Label {
    pub name: Option<String>,
}

/// A comment, a comment on lines, or a review.
#[derive(Clone, Debug, Deserialize)]
pub struct Comment {
    pub id: u64,
    pub node_id: Option<String>,
    pub body: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub user: Option<User>,
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

impl Comment {
    /// Tells whether its times say that it was never changed. A review has no such times.
    pub fn looks_unchanged(&self) -> bool {
        is_unchanged(self.created_at.as_deref(), self.updated_at.as_deref())
    }

    /// The lines that it is about; those of the commit that it was written on if they are gone.
    pub fn spot(&self) -> Spot {
        let to = self.line.or(self.original_line);
        let from = if self.line.is_some() { self.start_line } else { self.original_start_line };
        Spot {
            path: self.path.clone().unwrap_or_default(),
            from: from.or(to),
            to,
            hunk: self.diff_hunk.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Pull {
    pub number: u64,
    pub node_id: Option<String>,
    pub title: Option<String>,
    pub body: Option<String>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub user: Option<User>,
    #[serde(default, deserialize_with = "or_nothing")]
    pub labels: Vec<Label>,
    pub state: Option<String>,
    pub merged: Option<bool>,
    pub merged_at: Option<String>,
    pub html_url: Option<String>,
    pub created_at: Option<String>,
    pub updated_at: Option<String>,
    pub closed_at: Option<String>,
    head: Option<End>,
    base: Option<End>,
}

/// One of the two branches of a pull request.
#[derive(Clone, Debug, Deserialize)]
struct End {
    #[serde(rename = "ref")]
    branch: Option<String>,
    sha: Option<String>,
    repo: Option<EndRepository>,
}

#[derive(Clone, Debug, Deserialize)]
struct EndRepository {
    id: Option<u64>,
    full_name: Option<String>,
}

impl Pull {
    pub fn is_merged(&self) -> bool {
        self.merged == Some(true) || self.merged_at.is_some()
    }

    /// What the record keeps of it; `None` without its address.
    pub fn info(&self) -> Option<PullRequestInfo> {
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

    /// `None` for what git would not take.
    pub fn branch(&self) -> Option<BranchName> {
        BranchName::parse(self.head.as_ref()?.branch.as_deref()?).ok()
    }

    pub fn head_sha(&self) -> Option<CommitSha> {
        self.head.as_ref()?.sha.as_deref()?.parse().ok()
    }

    pub fn base_branch(&self) -> Option<BranchName> {
        BranchName::parse(self.base.as_ref()?.branch.as_deref()?).ok()
    }

    /// Whether its branch is in another repository, or in one that is gone. Where that is not said
    /// it counts as such: a branch of the same name here may be somebody else's work.
    pub fn is_from_fork(&self) -> bool {
        let repository = |end: &Option<End>| end.as_ref().and_then(|end| end.repo.clone());
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

impl<'de> Deserialize<'de> for Label {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let name = value.as_str().or_else(|| value.get("name").and_then(serde_json::Value::as_str));
        Ok(Self { name: name.map(str::to_owned) })
    }
}

/// Tells whether a text that was written then and updated then was never changed. GitHub's times are in seconds.
pub fn is_unchanged(created_at: Option<&str>, updated_at: Option<&str>) -> bool {
    created_at.is_some() && created_at == updated_at
}

/// What is not as we know it counts as nothing.
fn or_nothing<'de, D: Deserializer<'de>, T: Default + serde::de::DeserializeOwned>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}
