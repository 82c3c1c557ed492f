//! Events that come in from a platform. Nothing here knows a platform's own formats.

use serde::{Deserialize, Serialize};

use crate::{BranchName, CommitSha, PullRequestHead, PullRequestInfo, Work, WorkError, WorkKind};

/// An event that came in from a platform.
#[derive(Clone, Debug)]
pub struct IncomingEvent {
    /// The adapter that received it; the shell answers only the adapters of this machine.
    pub via: String,
    pub platform: String,
    /// The platform's id of the conversation.
    pub conversation: String,
    /// The platform's id of the channel that contains the thread.
    pub parent: Option<String>,
    pub user: Option<String>,
    /// Identifies this delivery; a delivery is accepted only once.
    pub delivery: Option<String>,
    pub event: IncomingPayload,
}

/// Tells whether an adapter serves only users of this machine, who may do everything that the program may do.
pub fn is_of_this_machine(adapter: &str) -> bool {
    ["web", "cli", "test"].contains(&adapter)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum IncomingPayload {
    Message {
        text: String,
        /// Earlier or surrounding messages; the agent gets them first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        #[serde(default)]
        hints: Box<WorkHints>,
    },
    /// The issue, pull request or thread was closed.
    Closed { merged: bool },
    /// The pull request of this work has this head now.
    Pushed { head: CommitSha },
}

/// A repository that may be cloned when work for it comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryHint {
    /// The name that people use: `owner/name`.
    pub name: String,
    /// The address to clone from, without credentials.
    pub url: String,
}

/// The facts that an adapter knows about the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkHints {
    pub workflow_type: Option<WorkKind>,
    #[serde(deserialize_with = "text_or_number")]
    pub workflow_id: Option<String>,
    pub pr_branch: Option<BranchName>,
    pub pr_sha: Option<CommitSha>,
    #[serde(rename = "isForkPR", deserialize_with = "or_null")]
    pub is_fork_pr: bool,
    #[serde(deserialize_with = "or_null")]
    pub linked_issues: Vec<u64>,
    #[serde(rename = "linkedPRs", deserialize_with = "or_null")]
    pub linked_prs: Vec<u64>,
    pub suggested_branch: Option<BranchName>,
    /// The title of the issue or pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The known facts about the pull request itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<Box<PullRequestInfo>>,
    /// The repository of the work, which is not registered yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Box<RepositoryHint>>,
}

impl WorkHints {
    /// Returns the work that the hints describe; without hints, the thread that the conversation is.
    pub fn to_work(&self, conversation: &str) -> Result<Work, WorkError> {
        let (Some(kind), Some(id)) = (self.workflow_type, self.workflow_id.as_deref()) else {
            return Work::for_thread(self.workflow_id.as_deref().unwrap_or(conversation));
        };
        let head = PullRequestHead::known_by(self.pr_branch.as_ref(), self.pr_sha.as_ref(), self.is_fork_pr);
        Work::from_kind(kind, id, head)
    }
}

/// Reads `null` as the default value.
fn or_null<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads `42` and `"42"` as the same id.
fn text_or_number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum TextOrNumber {
        Text(String),
        Number(u64),
    }
    Ok(Option::<TextOrNumber>::deserialize(deserializer)?.map(|either| match either {
        TextOrNumber::Text(text) => text,
        TextOrNumber::Number(number) => number.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_hints(json: &str) -> WorkHints {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn hints_name_the_work() {
        assert_eq!(
            parse_hints(r#"{"linkedIssues":null,"isForkPR":null,"prBranch":null,"unknown":1}"#),
            WorkHints::default()
        );
        let work =
            |json: &str| parse_hints(json).to_work("C1:17.5").map(|work| format!("{:?}", work.work_key().to_string()));
        assert_eq!(work("{}").unwrap(), "\"thread C1:17.5\"");
        assert_eq!(work(r#"{"workflowType":"issue","workflowId":42}"#).unwrap(), "\"issue #42\"");
        assert_eq!(work(r#"{"workflowType":"issue","workflowId":"42"}"#).unwrap(), "\"issue #42\"");
        assert!(work(r#"{"workflowType":"issue","workflowId":"x"}"#).is_err());
        let same =
            parse_hints(r#"{"workflowType":"pr","workflowId":"9","prBranch":"feature/x"}"#).to_work("c").unwrap();
        assert!(matches!(same, Work::PullRequest { head: PullRequestHead::SameRepo { .. }, .. }));
        let fork = parse_hints(r#"{"workflowType":"pr","workflowId":"9","prBranch":"feature/x","isForkPR":true}"#);
        assert!(matches!(fork.to_work("c").unwrap(), Work::PullRequest { head: PullRequestHead::Fork { .. }, .. }));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for json in [r#"{"workflowType":"epic"}"#, r#"{"prBranch":"-evil"}"#, r#"{"prSha":"abc"}"#] {
            assert!(serde_json::from_str::<WorkHints>(json).is_err(), "{json}");
        }
    }
}
