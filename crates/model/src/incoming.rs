//! What somebody said, somewhere, as it enters: nothing here knows a platform's own formats.

use serde::{Deserialize, Serialize};

use crate::{BranchName, CommitSha, Kind, PrHead, PullRequestInfo, Work, WorkError};

/// Something that came in from a platform.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The adapter that took it; the shell answers only those of this machine.
    pub via: String,
    pub platform: String,
    /// The platform's own id of the conversation.
    pub conversation: String,
    /// The channel that a thread is in, by the platform's own id.
    pub parent: Option<String>,
    pub user: Option<String>,
    /// Names this delivery; the same one is taken once.
    pub delivery: Option<String>,
    pub event: Event,
}

/// Whether an adapter is only for people of this machine, who may do whatever the program may.
pub fn is_of_this_machine(adapter: &str) -> bool {
    ["web", "cli", "test"].contains(&adapter)
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    Message {
        text: String,
        /// What was said before, or around it; it goes to the agent first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
        #[serde(default)]
        hints: Hints,
    },
    /// The issue, pull request or thread was closed.
    Closed { merged: bool },
    /// The pull request that is worked on has this head now.
    Pushed { head: CommitSha },
}

/// A repository that may be cloned when work for it comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryHint {
    /// As people call it: `owner/name`.
    pub name: String,
    /// Where it is cloned from, without credentials.
    pub url: String,
}

/// What an adapter knows about the work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    pub workflow_type: Option<Kind>,
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
    /// What is known of the pull request itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<Box<PullRequestInfo>>,
    /// The work is in this repository, which is not registered yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Box<RepositoryHint>>,
}

impl Hints {
    /// The work that is meant; without hints, the thread that the conversation is.
    pub fn work(&self, conversation: &str) -> Result<Work, WorkError> {
        let (Some(kind), Some(id)) = (self.workflow_type, self.workflow_id.as_deref()) else {
            return Work::thread(self.workflow_id.as_deref().unwrap_or(conversation));
        };
        let head = PrHead::known_by(self.pr_branch.as_ref(), self.pr_sha.as_ref(), self.is_fork_pr);
        Work::of(kind, id, head)
    }
}

/// `null` is as good as nothing.
fn or_null<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// `42` and `"42"` are one id.
fn text_or_number<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Number(u64),
    }
    Ok(Option::<Either>::deserialize(deserializer)?.map(|either| match either {
        Either::Text(text) => text,
        Either::Number(number) => number.to_string(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(json: &str) -> Hints {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn hints_name_the_work() {
        assert_eq!(hints(r#"{"linkedIssues":null,"isForkPR":null,"prBranch":null,"unknown":1}"#), Hints::default());
        let work = |json: &str| hints(json).work("C1:17.5").map(|work| format!("{:?}", work.key().to_string()));
        assert_eq!(work("{}").unwrap(), "\"thread C1:17.5\"");
        assert_eq!(work(r#"{"workflowType":"issue","workflowId":42}"#).unwrap(), "\"issue #42\"");
        assert_eq!(work(r#"{"workflowType":"issue","workflowId":"42"}"#).unwrap(), "\"issue #42\"");
        assert!(work(r#"{"workflowType":"issue","workflowId":"x"}"#).is_err());
        let same = hints(r#"{"workflowType":"pr","workflowId":"9","prBranch":"feature/x"}"#).work("c").unwrap();
        assert!(matches!(same, Work::PullRequest { head: PrHead::SameRepo { .. }, .. }));
        let fork = hints(r#"{"workflowType":"pr","workflowId":"9","prBranch":"feature/x","isForkPR":true}"#);
        assert!(matches!(fork.work("c").unwrap(), Work::PullRequest { head: PrHead::Fork { .. }, .. }));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for json in [r#"{"workflowType":"epic"}"#, r#"{"prBranch":"-evil"}"#, r#"{"prSha":"abc"}"#] {
            assert!(serde_json::from_str::<Hints>(json).is_err(), "{json}");
        }
    }
}
