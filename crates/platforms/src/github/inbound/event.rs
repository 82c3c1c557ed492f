//! Parses the JSON of a webhook into one [`GithubEvent`].
//!
//! The parser is tolerant: unknown fields, words that were unknown when this was written, and users and
//! forks that are gone do not matter. A payload without a field that we need is malformed; an event that is
//! not for us is ignored.

use crate::github::inbound::wire::{self, GithubUser, LabelPayload, PullRequestPayload};
use crate::github::repo::RepoName;

/// An event of an issue or a pull request.
#[derive(Clone, Debug)]
pub struct GithubEvent {
    pub repo: EventRepository,
    /// The App's installation that sees the repository.
    pub installation: Option<u64>,
    pub thread: EventThread,
    pub what: EventAction,
}

/// The parts of a repository that we use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRepository {
    pub name: RepoName,
    pub id: Option<u64>,
    /// The address of its web page.
    pub web: Option<String>,
    pub clone_url: Option<String>,
    pub default_branch: Option<String>,
}

/// The issue or pull request.
#[derive(Clone, Debug)]
pub struct EventThread {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub author: Option<GithubUser>,
    /// The GraphQL node id.
    pub node: Option<String>,
    pub labels: Vec<String>,
    pub pull: PullKnowledge,
}

/// The known facts about the pull request of a thread.
#[derive(Clone, Debug)]
pub enum PullKnowledge {
    /// The thread is an issue.
    Issue,
    /// The thread is a pull request, without further data.
    Unseen,
    Seen(Box<PullRequestPayload>),
}

#[derive(Clone, Debug)]
pub enum EventAction {
    /// A text was written or edited.
    Said(Box<EventText>),
    Closed {
        merged: bool,
        at: Option<String>,
    },
    /// New commits were pushed to a pull request.
    Pushed,
    /// Another action, after which a pull request may have changed.
    Other {
        action: String,
    },
}

/// A text that an account wrote.
#[derive(Clone, Debug)]
pub struct EventText {
    pub place: TextPlace,
    /// The account that wrote it first.
    pub author: Option<GithubUser>,
    pub body: String,
    /// The time when it was written or last changed.
    pub at: Option<String>,
    pub created_at: Option<String>,
    /// The GraphQL node id.
    pub node: Option<String>,
    pub edit: TextEdit,
}

/// The origin of the current text. Maintainers may change the text of others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextEdit {
    /// The author wrote it in this form.
    Original,
    /// This account changed it last, or moved it here; `None` for an account that is gone.
    By(Option<GithubUser>),
    /// Unknown. `unchanged`: the times of the text say that it was never changed.
    NotTold { unchanged: bool },
}

/// The place where a text was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPlace {
    /// The text of the issue or pull request itself.
    Body,
    Comment {
        id: u64,
    },
    Review {
        id: u64,
    },
    /// A comment on lines of a file.
    Lines {
        id: u64,
        spot: ReviewedLines,
    },
}

/// The lines that a review comment is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewedLines {
    pub path: String,
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub hunk: String,
}

/// The result of parsing a delivery.
#[derive(Clone, Debug)]
pub enum ParsedDelivery {
    /// GitHub tests whether the webhook works.
    Ping,
    /// An event that we do not handle.
    Ignored(String),
    Happened(Box<GithubEvent>),
}

#[derive(Debug, thiserror::Error)]
pub enum DeliveryParseError {
    #[error("this is not the JSON of a webhook: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("`{0}` is not the name of a repository")]
    Repository(String),
    #[error("the event `{event}` comes without its {part}")]
    Missing { event: &'static str, part: &'static str },
}

/// Parses a delivery by the name of its event (`X-GitHub-Event`).
pub fn parse_delivery(event: &str, payload: &[u8]) -> Result<ParsedDelivery, DeliveryParseError> {
    let kind = match event {
        "ping" => {
            serde_json::from_slice::<serde::de::IgnoredAny>(payload)?;
            return Ok(ParsedDelivery::Ping);
        }
        "issues" => EventKind::Issues,
        "issue_comment" => EventKind::Comment,
        "pull_request" => EventKind::Pull,
        "pull_request_review" => EventKind::Review,
        "pull_request_review_comment" => EventKind::Lines,
        other => {
            serde_json::from_slice::<serde::de::IgnoredAny>(payload)?;
            return Ok(ParsedDelivery::Ignored(format!("`{}` is not an event that we look at", loggable_word(other))));
        }
    };
    let delivery: wire::WebhookPayload = serde_json::from_slice(payload)?;
    let event = kind.parse_event(delivery)?;
    Ok(ParsedDelivery::Happened(Box::new(event)))
}

/// Makes a word from outside safe for a log.
fn loggable_word(word: &str) -> String {
    word.chars().filter(|c| c.is_ascii_graphic()).take(40).collect()
}

#[derive(Clone, Copy)]
enum EventKind {
    Issues,
    Comment,
    Pull,
    Review,
    Lines,
}

impl EventKind {
    fn name(self) -> &'static str {
        match self {
            EventKind::Issues => "issues",
            EventKind::Comment => "issue_comment",
            EventKind::Pull => "pull_request",
            EventKind::Review => "pull_request_review",
            EventKind::Lines => "pull_request_review_comment",
        }
    }

    fn parse_event(self, delivery: wire::WebhookPayload) -> Result<GithubEvent, DeliveryParseError> {
        let missing = |part| move || DeliveryParseError::Missing { event: self.name(), part };
        let repository = delivery.repository.ok_or_else(missing("repository"))?;
        let repo = EventRepository::from_payload(repository)?;
        let action = delivery.action.unwrap_or_default();
        let origin =
            TextOrigin { is_edit: action == "edited", sender: delivery.sender, is_told: !delivery.found_by_asking };
        let (thread, what) = match self {
            EventKind::Issues => {
                let issue = delivery.issue.ok_or_else(missing("issue"))?;
                let closed = EventAction::Closed { merged: false, at: issue.closed_at.clone() };
                let unchanged = wire::is_unchanged(issue.created_at.as_deref(), issue.updated_at.as_deref());
                let thread = EventThread::of_issue(issue);
                let what = match action.as_str() {
                    "opened" => EventAction::Said(Box::new(thread.body_text(&origin, unchanged))),
                    "edited" if delivery.changes.body.is_some() => {
                        EventAction::Said(Box::new(thread.body_text(&origin, unchanged)))
                    }
                    // A deleted or transferred issue will never be closed.
                    "closed" | "deleted" | "transferred" => closed,
                    _ => other_action(&action),
                };
                (thread, what)
            }
            EventKind::Pull => {
                let pull = delivery.pull_request.ok_or_else(missing("pull request"))?;
                let closed = EventAction::Closed { merged: pull.is_merged(), at: pull.closed_at.clone() };
                let unchanged = wire::is_unchanged(pull.created_at.as_deref(), pull.updated_at.as_deref());
                let thread = EventThread::of_pull(pull);
                let what = match action.as_str() {
                    "opened" => EventAction::Said(Box::new(thread.body_text(&origin, unchanged))),
                    "edited" if delivery.changes.body.is_some() => {
                        EventAction::Said(Box::new(thread.body_text(&origin, unchanged)))
                    }
                    "closed" => closed,
                    "synchronize" => EventAction::Pushed,
                    _ => other_action(&action),
                };
                (thread, what)
            }
            EventKind::Comment => {
                let thread = EventThread::of_issue(delivery.issue.ok_or_else(missing("issue"))?);
                let comment = delivery.comment.ok_or_else(missing("comment"))?;
                let place = TextPlace::Comment { id: comment.id };
                (
                    thread,
                    text_action(&action, &["created", "edited"], || EventText::of_comment(place, comment, &origin)),
                )
            }
            EventKind::Lines => {
                let thread = EventThread::of_pull(delivery.pull_request.ok_or_else(missing("pull request"))?);
                let comment = delivery.comment.ok_or_else(missing("comment"))?;
                let place = TextPlace::Lines { id: comment.id, spot: comment.commented_lines() };
                (
                    thread,
                    text_action(&action, &["created", "edited"], || EventText::of_comment(place, comment, &origin)),
                )
            }
            EventKind::Review => {
                let thread = EventThread::of_pull(delivery.pull_request.ok_or_else(missing("pull request"))?);
                let review = delivery.review.ok_or_else(missing("review"))?;
                let place = TextPlace::Review { id: review.id };
                (
                    thread,
                    text_action(&action, &["submitted", "edited"], || EventText::of_comment(place, review, &origin)),
                )
            }
        };
        Ok(GithubEvent { repo, installation: delivery.installation.map(|installation| installation.id), thread, what })
    }
}

/// The origin of the text of a delivery.
struct TextOrigin {
    is_edit: bool,
    sender: Option<GithubUser>,
    /// GitHub sent the event by itself, so there is a sender.
    is_told: bool,
}

impl TextOrigin {
    fn edit_of(&self, author: Option<&GithubUser>, unchanged: bool) -> TextEdit {
        if !self.is_told {
            return TextEdit::NotTold { unchanged };
        }
        match (&self.sender, author) {
            (Some(sender), Some(author)) if sender.id == author.id && !self.is_edit => TextEdit::Original,
            (Some(sender), _) => TextEdit::By(Some(sender.clone())),
            // A new text is its author's, unless the event says otherwise.
            (None, _) if !self.is_edit => TextEdit::Original,
            (None, _) => TextEdit::NotTold { unchanged: false },
        }
    }
}

fn text_action(action: &str, speaking: &[&str], text: impl FnOnce() -> EventText) -> EventAction {
    if speaking.contains(&action) { EventAction::Said(Box::new(text())) } else { other_action(action) }
}

fn other_action(action: &str) -> EventAction {
    EventAction::Other { action: loggable_word(action) }
}

impl EventRepository {
    pub fn from_payload(wire: wire::RepositoryPayload) -> Result<Self, DeliveryParseError> {
        let name = RepoName::parse(&wire.full_name)
            .ok_or_else(|| DeliveryParseError::Repository(loggable_word(&wire.full_name)))?;
        let wire::RepositoryPayload { id, html_url, clone_url, default_branch, .. } = wire;
        Ok(Self { name, id, web: html_url, clone_url, default_branch })
    }
}

impl EventThread {
    pub fn of_issue(issue: wire::IssuePayload) -> Self {
        Self {
            number: issue.number,
            title: issue.title.unwrap_or_default(),
            body: issue.body.unwrap_or_default(),
            author: issue.user,
            node: issue.node_id,
            labels: label_names(issue.labels),
            pull: if issue.pull_request.is_some() { PullKnowledge::Unseen } else { PullKnowledge::Issue },
        }
    }

    pub fn of_pull(mut pull: PullRequestPayload) -> Self {
        Self {
            number: pull.number,
            title: pull.title.clone().unwrap_or_default(),
            body: pull.body.clone().unwrap_or_default(),
            author: pull.user.clone(),
            node: pull.node_id.clone(),
            labels: label_names(std::mem::take(&mut pull.labels)),
            pull: PullKnowledge::Seen(Box::new(pull)),
        }
    }

    /// Returns the text of the issue or pull request itself.
    fn body_text(&self, origin: &TextOrigin, unchanged: bool) -> EventText {
        EventText {
            place: TextPlace::Body,
            author: self.author.clone(),
            body: self.body.clone(),
            at: None,
            created_at: None,
            node: self.node.clone(),
            edit: origin.edit_of(self.author.as_ref(), unchanged),
        }
    }

    pub fn is_pull(&self) -> bool {
        !matches!(self.pull, PullKnowledge::Issue)
    }
}

impl EventText {
    fn of_comment(place: TextPlace, comment: wire::CommentPayload, origin: &TextOrigin) -> Self {
        let edit = origin.edit_of(comment.user.as_ref(), comment.looks_unchanged());
        let at = comment.updated_at.or_else(|| comment.submitted_at.clone());
        let created_at = comment.created_at.or(comment.submitted_at);
        let (author, node) = (comment.user, comment.node_id);
        Self { place, author, body: comment.body.unwrap_or_default(), at, created_at, node, edit }
    }
}

fn label_names(labels: Vec<LabelPayload>) -> Vec<String> {
    labels.into_iter().filter_map(|label| label.name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse_test_event(event: &str, payload: &Value) -> GithubEvent {
        match parse_delivery(event, payload.to_string().as_bytes()).unwrap() {
            ParsedDelivery::Happened(event) => *event,
            other => panic!("{other:?}"),
        }
    }

    fn sample_issue() -> Value {
        json!({ "number": 42, "title": "Login fails", "body": "@grove fix", "user": { "id": 1, "login": "alice", "type": "User" },
            "labels": [{ "name": "bug" }, "urgent", { "color": "red" }], "state": "a new word" })
    }

    fn sample_pull(head_repository: &Value) -> Value {
        json!({ "number": 99, "title": "Fix", "body": "Fixes #42", "user": { "id": 1, "login": "alice" }, "state": "open",
            "head": { "ref": "feature/x", "sha": "a".repeat(40), "repo": head_repository },
            "base": { "ref": "main", "sha": "b".repeat(40), "repo": { "id": 7, "full_name": "octo/shop" } } })
    }

    fn with_repository(rest: &Value) -> Value {
        let mut whole =
            json!({ "repository": { "id": 7, "full_name": "octo/shop", "new": [] }, "sender": null, "new": {} });
        for (key, value) in rest.as_object().unwrap() {
            whole[key] = value.clone();
        }
        whole
    }

    /// Returns one word for the action.
    fn event_summary(event: &str, rest: &Value) -> String {
        match parse_test_event(event, &with_repository(rest)).what {
            EventAction::Said(text) => format!("said {:?}", text.place),
            EventAction::Closed { merged, .. } => format!("closed {merged}"),
            EventAction::Pushed => "pushed".to_owned(),
            EventAction::Other { action } => format!("other {action}"),
        }
    }

    #[test]
    fn every_event_is_read() {
        let comment = json!({ "id": 5, "body": "@grove", "user": null, "updated_at": "2026-01-01T00:00:00Z" });
        let lines = json!({ "id": 6, "body": "here", "path": "src/a.rs", "line": null, "original_line": 4,
            "original_start_line": 2, "diff_hunk": "@@" });
        let merged = json!({ "number": 99, "merged": true });
        for (event, rest, expected) in [
            ("issues", json!({ "action": "opened", "issue": sample_issue() }), "said Body"),
            (
                "issues",
                json!({ "action": "edited", "issue": sample_issue(), "changes": { "body": { "from": "" } } }),
                "said Body",
            ),
            (
                "issues",
                json!({ "action": "edited", "issue": sample_issue(), "changes": { "title": {} } }),
                "other edited",
            ),
            ("issues", json!({ "action": "closed", "issue": sample_issue() }), "closed false"),
            ("issues", json!({ "action": "deleted", "issue": sample_issue() }), "closed false"),
            ("issues", json!({ "action": "transferred", "issue": sample_issue() }), "closed false"),
            ("issues", json!({ "action": "labeled", "issue": sample_issue() }), "other labeled"),
            ("issues", json!({ "issue": sample_issue() }), "other "),
            (
                "issue_comment",
                json!({ "action": "created", "issue": sample_issue(), "comment": comment }),
                "said Comment { id: 5 }",
            ),
            (
                "issue_comment",
                json!({ "action": "edited", "issue": sample_issue(), "comment": comment }),
                "said Comment { id: 5 }",
            ),
            (
                "issue_comment",
                json!({ "action": "deleted", "issue": sample_issue(), "comment": comment }),
                "other deleted",
            ),
            ("pull_request", json!({ "action": "opened", "pull_request": sample_pull(&Value::Null) }), "said Body"),
            ("pull_request", json!({ "action": "synchronize", "pull_request": sample_pull(&Value::Null) }), "pushed"),
            ("pull_request", json!({ "action": "closed", "pull_request": sample_pull(&Value::Null) }), "closed false"),
            ("pull_request", json!({ "action": "closed", "pull_request": merged }), "closed true"),
            (
                "pull_request",
                json!({ "action": "enqueued", "pull_request": sample_pull(&Value::Null) }),
                "other enqueued",
            ),
            (
                "pull_request_review",
                json!({ "action": "submitted", "pull_request": sample_pull(&Value::Null),
                "review": { "id": 8, "body": null, "state": "new" } }),
                "said Review { id: 8 }",
            ),
            (
                "pull_request_review",
                json!({ "action": "dismissed", "pull_request": sample_pull(&Value::Null),
                "review": { "id": 8 } }),
                "other dismissed",
            ),
            (
                "pull_request_review_comment",
                json!({ "action": "created", "pull_request": sample_pull(&Value::Null), "comment": lines }),
                "said Lines { id: 6, spot: ReviewedLines { path: \"src/a.rs\", from: Some(2), to: Some(4), hunk: \"@@\" } }",
            ),
        ] {
            assert_eq!(event_summary(event, &rest), expected, "{event} {rest}");
        }
    }

    #[test]
    fn whose_words_they_are_is_read() {
        let (alice, mallory) = (json!({ "id": 1, "login": "alice" }), json!({ "id": 9, "login": "mallory" }));
        let edit = |rest: Value| {
            let mut payload = with_repository(
                &json!({ "issue": sample_issue(), "comment": { "id": 5, "body": "@grove", "user": alice,
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z" } }),
            );
            for (key, value) in rest.as_object().unwrap() {
                payload[key] = value.clone();
            }
            let EventAction::Said(text) = parse_test_event("issue_comment", &payload).what else { panic!() };
            text.edit
        };
        let by = |id: u64, login: &str| TextEdit::By(Some(GithubUser { id, login: login.to_owned() }));
        for (rest, expected) in [
            (json!({ "action": "created", "sender": alice }), TextEdit::Original),
            (json!({ "action": "created", "sender": null }), TextEdit::Original),
            (json!({ "action": "created", "sender": mallory }), by(9, "mallory")),
            (json!({ "action": "edited", "sender": alice }), by(1, "alice")),
            (json!({ "action": "edited", "sender": mallory }), by(9, "mallory")),
            (json!({ "action": "edited", "sender": null }), TextEdit::NotTold { unchanged: false }),
            (json!({ "action": "edited", "sender": { "login": "alice" } }), TextEdit::NotTold { unchanged: false }),
            (json!({ "action": "created", "found_by_asking": true }), TextEdit::NotTold { unchanged: true }),
        ] {
            assert_eq!(edit(rest.clone()), expected, "{rest}");
        }
    }

    #[test]
    fn users_and_forks_may_be_gone() {
        let of = |head: Value| {
            let event = parse_test_event(
                "pull_request",
                &with_repository(&json!({ "action": "opened", "pull_request": sample_pull(&head) })),
            );
            let PullKnowledge::Seen(pull) = event.thread.pull else { panic!() };
            pull
        };
        let same = of(json!({ "id": 7, "full_name": "octo/shop" }));
        assert!(
            !same.is_from_fork() && same.head_branch().unwrap().as_str() == "feature/x" && same.head_sha().is_some()
        );
        assert!(of(json!({ "id": 8, "full_name": "octo/shop" })).is_from_fork(), "the id counts");
        assert!(!of(json!({ "full_name": "Octo/Shop" })).is_from_fork());
        assert!(of(Value::Null).is_from_fork());
        assert!(of(json!({})).is_from_fork());

        for user in [Value::Null, json!({}), json!("alice"), json!({ "id": "1", "login": 3 })] {
            let mut issue = sample_issue();
            issue["user"] = user;
            let event = parse_test_event("issues", &with_repository(&json!({ "action": "opened", "issue": issue })));
            assert_eq!(event.thread.author, None);
            assert_eq!(event.thread.labels, ["bug", "urgent"]);
        }
    }

    #[test]
    fn an_issue_may_be_a_pull_request() {
        let mut issue = sample_issue();
        issue["pull_request"] = json!({ "url": "…" });
        let comment = json!({ "action": "created", "issue": issue, "comment": { "id": 5 } });
        let event = parse_test_event("issue_comment", &with_repository(&comment));
        assert!(matches!(event.thread.pull, PullKnowledge::Unseen) && event.thread.is_pull());
        assert!(matches!(&event.what, EventAction::Said(text) if text.body.is_empty() && text.author.is_none()));
    }

    #[test]
    fn nonsense_is_told_from_what_is_not_for_us() {
        assert!(matches!(parse_delivery("ping", b"{\"zen\":\"x\"}"), Ok(ParsedDelivery::Ping)));
        assert!(matches!(parse_delivery("star", b"{}"), Ok(ParsedDelivery::Ignored(why)) if why.contains("star")));
        for (event, payload) in [
            ("ping", "{"),
            ("star", "nonsense"),
            ("issues", ""),
            ("issues", "[]"),
            ("issues", "{}"),
            ("issues", r#"{"action":"opened","repository":{"full_name":"octo/shop"}}"#),
            ("issues", r#"{"action":"opened","repository":{"full_name":"../.."},"issue":{"number":1}}"#),
            ("issues", r#"{"action":"opened","repository":{"full_name":"octo/shop"},"issue":{"number":-1}}"#),
            ("issue_comment", r#"{"action":"created","repository":{"full_name":"octo/shop"},"issue":{"number":1}}"#),
        ] {
            assert!(parse_delivery(event, payload.as_bytes()).is_err(), "{event} {payload}");
        }
    }
}
