//! What GitHub tells: the JSON of a webhook as one happening.
//!
//! The wire is read tolerantly: fields that we do not know, words that did not exist when this was
//! written, users and forks that are gone do not matter. What is missing that we cannot do without
//! makes it malformed; what is not for us is ignored.

use crate::github::inbound::wire::{self, Label, Pull, User};
use crate::github::repo::RepoName;

/// Something happened to an issue or a pull request.
#[derive(Clone, Debug)]
pub struct Happening {
    pub repo: Repository,
    /// The App's installation that sees the repository.
    pub installation: Option<u64>,
    pub thread: Thread,
    pub what: What,
}

/// A repository, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    pub name: RepoName,
    pub id: Option<u64>,
    /// Its page.
    pub web: Option<String>,
    pub clone_url: Option<String>,
    pub default_branch: Option<String>,
}

/// The issue or pull request.
#[derive(Clone, Debug)]
pub struct Thread {
    pub number: u64,
    pub title: String,
    pub body: String,
    pub author: Option<User>,
    /// GraphQL's name for it.
    pub node: Option<String>,
    pub labels: Vec<String>,
    pub pull: PullKnown,
}

/// What is known about the pull request that a thread may be.
#[derive(Clone, Debug)]
pub enum PullKnown {
    /// It is an issue.
    Issue,
    /// It is one, and no more was said.
    Unseen,
    Seen(Box<Pull>),
}

#[derive(Clone, Debug)]
pub enum What {
    /// Somebody wrote something, or wrote it anew.
    Said(Box<Text>),
    Closed {
        merged: bool,
        at: Option<String>,
    },
    /// New commits were pushed to a pull request.
    Pushed,
    /// Something else; a pull request may be another one after it.
    Other {
        action: String,
    },
}

/// What somebody wrote.
#[derive(Clone, Debug)]
pub struct Text {
    pub place: Place,
    /// The account that wrote it first.
    pub author: Option<User>,
    pub body: String,
    /// When it was written or changed last.
    pub at: Option<String>,
    pub created_at: Option<String>,
    /// GraphQL's name for it.
    pub node: Option<String>,
    pub edit: Edit,
}

/// How the words of a text came to be what they are. Maintainers may change what others wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The author wrote them so.
    Original,
    /// This account changed them last, or moved the text here; `None`: an account that is gone.
    By(Option<User>),
    /// It is not told. `unchanged`: the text's times say that it was never changed.
    NotTold { unchanged: bool },
}

/// Where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
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
        spot: Spot,
    },
}

/// The lines that a review comment is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    pub path: String,
    pub from: Option<u64>,
    pub to: Option<u64>,
    pub hunk: String,
}

/// What a delivery comes to.
#[derive(Clone, Debug)]
pub enum Delivered {
    /// GitHub tries whether anybody is there.
    Ping,
    /// Nothing that we look at.
    Ignored(String),
    Happened(Box<Happening>),
}

#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    #[error("this is not the JSON of a webhook: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("`{0}` is not the name of a repository")]
    Repository(String),
    #[error("the event `{event}` comes without its {part}")]
    Missing { event: &'static str, part: &'static str },
}

/// Reads a delivery by the name of its event (`X-GitHub-Event`).
pub fn read(event: &str, payload: &[u8]) -> Result<Delivered, Malformed> {
    let kind = match event {
        "ping" => {
            serde_json::from_slice::<serde::de::IgnoredAny>(payload)?;
            return Ok(Delivered::Ping);
        }
        "issues" => Kind::Issues,
        "issue_comment" => Kind::Comment,
        "pull_request" => Kind::Pull,
        "pull_request_review" => Kind::Review,
        "pull_request_review_comment" => Kind::Lines,
        other => {
            serde_json::from_slice::<serde::de::IgnoredAny>(payload)?;
            return Ok(Delivered::Ignored(format!("`{}` is not an event that we look at", shown(other))));
        }
    };
    let delivery: wire::Delivery = serde_json::from_slice(payload)?;
    let happening = kind.happening(delivery)?;
    Ok(Delivered::Happened(Box::new(happening)))
}

/// A word from outside, as it goes into a log.
fn shown(word: &str) -> String {
    word.chars().filter(|c| c.is_ascii_graphic()).take(40).collect()
}

#[derive(Clone, Copy)]
enum Kind {
    Issues,
    Comment,
    Pull,
    Review,
    Lines,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Issues => "issues",
            Kind::Comment => "issue_comment",
            Kind::Pull => "pull_request",
            Kind::Review => "pull_request_review",
            Kind::Lines => "pull_request_review_comment",
        }
    }

    fn happening(self, delivery: wire::Delivery) -> Result<Happening, Malformed> {
        let missing = |part| move || Malformed::Missing { event: self.name(), part };
        let repository = delivery.repository.ok_or_else(missing("repository"))?;
        let repo = Repository::read(repository)?;
        let action = delivery.action.unwrap_or_default();
        let origin =
            Origin { is_edit: action == "edited", sender: delivery.sender, is_told: !delivery.found_by_asking };
        let (thread, what) = match self {
            Kind::Issues => {
                let issue = delivery.issue.ok_or_else(missing("issue"))?;
                let closed = What::Closed { merged: false, at: issue.closed_at.clone() };
                let unchanged = wire::is_unchanged(issue.created_at.as_deref(), issue.updated_at.as_deref());
                let thread = Thread::of_issue(issue);
                let what = match action.as_str() {
                    "opened" => What::Said(Box::new(thread.text(&origin, unchanged))),
                    "edited" if delivery.changes.body.is_some() => {
                        What::Said(Box::new(thread.text(&origin, unchanged)))
                    }
                    // An issue that is not here any more is never closed.
                    "closed" | "deleted" | "transferred" => closed,
                    _ => other(&action),
                };
                (thread, what)
            }
            Kind::Pull => {
                let pull = delivery.pull_request.ok_or_else(missing("pull request"))?;
                let closed = What::Closed { merged: pull.is_merged(), at: pull.closed_at.clone() };
                let unchanged = wire::is_unchanged(pull.created_at.as_deref(), pull.updated_at.as_deref());
                let thread = Thread::of_pull(pull);
                let what = match action.as_str() {
                    "opened" => What::Said(Box::new(thread.text(&origin, unchanged))),
                    "edited" if delivery.changes.body.is_some() => {
                        What::Said(Box::new(thread.text(&origin, unchanged)))
                    }
                    "closed" => closed,
                    "synchronize" => What::Pushed,
                    _ => other(&action),
                };
                (thread, what)
            }
            Kind::Comment => {
                let thread = Thread::of_issue(delivery.issue.ok_or_else(missing("issue"))?);
                let comment = delivery.comment.ok_or_else(missing("comment"))?;
                let place = Place::Comment { id: comment.id };
                (thread, said(&action, &["created", "edited"], || Text::of_comment(place, comment, &origin)))
            }
            Kind::Lines => {
                let thread = Thread::of_pull(delivery.pull_request.ok_or_else(missing("pull request"))?);
                let comment = delivery.comment.ok_or_else(missing("comment"))?;
                let place = Place::Lines { id: comment.id, spot: comment.spot() };
                (thread, said(&action, &["created", "edited"], || Text::of_comment(place, comment, &origin)))
            }
            Kind::Review => {
                let thread = Thread::of_pull(delivery.pull_request.ok_or_else(missing("pull request"))?);
                let review = delivery.review.ok_or_else(missing("review"))?;
                let place = Place::Review { id: review.id };
                (thread, said(&action, &["submitted", "edited"], || Text::of_comment(place, review, &origin)))
            }
        };
        Ok(Happening { repo, installation: delivery.installation.map(|installation| installation.id), thread, what })
    }
}

/// Where the words of a delivery come from.
struct Origin {
    is_edit: bool,
    sender: Option<User>,
    /// GitHub told of it by itself, so that there is a sender.
    is_told: bool,
}

impl Origin {
    fn edit_of(&self, author: Option<&User>, unchanged: bool) -> Edit {
        if !self.is_told {
            return Edit::NotTold { unchanged };
        }
        match (&self.sender, author) {
            (Some(sender), Some(author)) if sender.id == author.id && !self.is_edit => Edit::Original,
            (Some(sender), _) => Edit::By(Some(sender.clone())),
            // What is new is its author's, if nothing else is said.
            (None, _) if !self.is_edit => Edit::Original,
            (None, _) => Edit::NotTold { unchanged: false },
        }
    }
}

fn said(action: &str, speaking: &[&str], text: impl FnOnce() -> Text) -> What {
    if speaking.contains(&action) { What::Said(Box::new(text())) } else { other(action) }
}

fn other(action: &str) -> What {
    What::Other { action: shown(action) }
}

impl Repository {
    pub fn read(wire: wire::Repository) -> Result<Self, Malformed> {
        let name = RepoName::parse(&wire.full_name).ok_or_else(|| Malformed::Repository(shown(&wire.full_name)))?;
        let wire::Repository { id, html_url, clone_url, default_branch, .. } = wire;
        Ok(Self { name, id, web: html_url, clone_url, default_branch })
    }
}

impl Thread {
    pub fn of_issue(issue: wire::Issue) -> Self {
        Self {
            number: issue.number,
            title: issue.title.unwrap_or_default(),
            body: issue.body.unwrap_or_default(),
            author: issue.user,
            node: issue.node_id,
            labels: names(issue.labels),
            pull: if issue.pull_request.is_some() { PullKnown::Unseen } else { PullKnown::Issue },
        }
    }

    pub fn of_pull(mut pull: Pull) -> Self {
        Self {
            number: pull.number,
            title: pull.title.clone().unwrap_or_default(),
            body: pull.body.clone().unwrap_or_default(),
            author: pull.user.clone(),
            node: pull.node_id.clone(),
            labels: names(std::mem::take(&mut pull.labels)),
            pull: PullKnown::Seen(Box::new(pull)),
        }
    }

    /// The text of the issue or pull request itself.
    fn text(&self, origin: &Origin, unchanged: bool) -> Text {
        Text {
            place: Place::Body,
            author: self.author.clone(),
            body: self.body.clone(),
            at: None,
            created_at: None,
            node: self.node.clone(),
            edit: origin.edit_of(self.author.as_ref(), unchanged),
        }
    }

    pub fn is_pull(&self) -> bool {
        !matches!(self.pull, PullKnown::Issue)
    }
}

impl Text {
    fn of_comment(place: Place, comment: wire::Comment, origin: &Origin) -> Self {
        let edit = origin.edit_of(comment.user.as_ref(), comment.looks_unchanged());
        let at = comment.updated_at.or_else(|| comment.submitted_at.clone());
        let created_at = comment.created_at.or(comment.submitted_at);
        let (author, node) = (comment.user, comment.node_id);
        Self { place, author, body: comment.body.unwrap_or_default(), at, created_at, node, edit }
    }
}

fn names(labels: Vec<Label>) -> Vec<String> {
    labels.into_iter().filter_map(|label| label.name).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn happening(event: &str, payload: &Value) -> Happening {
        match read(event, payload.to_string().as_bytes()).unwrap() {
            Delivered::Happened(happening) => *happening,
            other => panic!("{other:?}"),
        }
    }

    fn issue() -> Value {
        json!({ "number": 42, "title": "Login fails", "body": "@grove fix", "user": { "id": 1, "login": "alice", "type": "User" },
            "labels": [{ "name": "bug" }, "urgent", { "color": "red" }], "state": "a new word" })
    }

    fn pull(head_repository: &Value) -> Value {
        json!({ "number": 99, "title": "Fix", "body": "Fixes #42", "user": { "id": 1, "login": "alice" }, "state": "open",
            "head": { "ref": "feature/x", "sha": "a".repeat(40), "repo": head_repository },
            "base": { "ref": "main", "sha": "b".repeat(40), "repo": { "id": 7, "full_name": "octo/shop" } } })
    }

    fn with(rest: &Value) -> Value {
        let mut whole =
            json!({ "repository": { "id": 7, "full_name": "octo/shop", "new": [] }, "sender": null, "new": {} });
        for (key, value) in rest.as_object().unwrap() {
            whole[key] = value.clone();
        }
        whole
    }

    /// One word for what happened.
    fn what(event: &str, rest: &Value) -> String {
        match happening(event, &with(rest)).what {
            What::Said(text) => format!("said {:?}", text.place),
            What::Closed { merged, .. } => format!("closed {merged}"),
            What::Pushed => "pushed".to_owned(),
            What::Other { action } => format!("other {action}"),
        }
    }

    #[test]
    fn every_event_is_read() {
        let comment = json!({ "id": 5, "body": "@grove", "user": null, "updated_at": "2026-01-01T00:00:00Z" });
        let lines = json!({ "id": 6, "body": "here", "path": "src/a.rs", "line": null, "original_line": 4,
            "original_start_line": 2, "diff_hunk": "@@" });
        let merged = json!({ "number": 99, "merged": true });
        for (event, rest, expected) in [
            ("issues", json!({ "action": "opened", "issue": issue() }), "said Body"),
            (
                "issues",
                json!({ "action": "edited", "issue": issue(), "changes": { "body": { "from": "" } } }),
                "said Body",
            ),
            ("issues", json!({ "action": "edited", "issue": issue(), "changes": { "title": {} } }), "other edited"),
            ("issues", json!({ "action": "closed", "issue": issue() }), "closed false"),
            ("issues", json!({ "action": "deleted", "issue": issue() }), "closed false"),
            ("issues", json!({ "action": "transferred", "issue": issue() }), "closed false"),
            ("issues", json!({ "action": "labeled", "issue": issue() }), "other labeled"),
            ("issues", json!({ "issue": issue() }), "other "),
            (
                "issue_comment",
                json!({ "action": "created", "issue": issue(), "comment": comment }),
                "said Comment { id: 5 }",
            ),
            (
                "issue_comment",
                json!({ "action": "edited", "issue": issue(), "comment": comment }),
                "said Comment { id: 5 }",
            ),
            ("issue_comment", json!({ "action": "deleted", "issue": issue(), "comment": comment }), "other deleted"),
            ("pull_request", json!({ "action": "opened", "pull_request": pull(&Value::Null) }), "said Body"),
            ("pull_request", json!({ "action": "synchronize", "pull_request": pull(&Value::Null) }), "pushed"),
            ("pull_request", json!({ "action": "closed", "pull_request": pull(&Value::Null) }), "closed false"),
            ("pull_request", json!({ "action": "closed", "pull_request": merged }), "closed true"),
            ("pull_request", json!({ "action": "enqueued", "pull_request": pull(&Value::Null) }), "other enqueued"),
            (
                "pull_request_review",
                json!({ "action": "submitted", "pull_request": pull(&Value::Null),
                "review": { "id": 8, "body": null, "state": "new" } }),
                "said Review { id: 8 }",
            ),
            (
                "pull_request_review",
                json!({ "action": "dismissed", "pull_request": pull(&Value::Null),
                "review": { "id": 8 } }),
                "other dismissed",
            ),
            (
                "pull_request_review_comment",
                json!({ "action": "created", "pull_request": pull(&Value::Null), "comment": lines }),
                "said Lines { id: 6, spot: Spot { path: \"src/a.rs\", from: Some(2), to: Some(4), hunk: \"@@\" } }",
            ),
        ] {
            assert_eq!(what(event, &rest), expected, "{event} {rest}");
        }
    }

    #[test]
    fn whose_words_they_are_is_read() {
        let (alice, mallory) = (json!({ "id": 1, "login": "alice" }), json!({ "id": 9, "login": "mallory" }));
        let edit = |rest: Value| {
            let mut payload = with(&json!({ "issue": issue(), "comment": { "id": 5, "body": "@grove", "user": alice,
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z" } }));
            for (key, value) in rest.as_object().unwrap() {
                payload[key] = value.clone();
            }
            let What::Said(text) = happening("issue_comment", &payload).what else { panic!() };
            text.edit
        };
        let by = |id: u64, login: &str| Edit::By(Some(User { id, login: login.to_owned() }));
        for (rest, expected) in [
            (json!({ "action": "created", "sender": alice }), Edit::Original),
            (json!({ "action": "created", "sender": null }), Edit::Original),
            (json!({ "action": "created", "sender": mallory }), by(9, "mallory")),
            (json!({ "action": "edited", "sender": alice }), by(1, "alice")),
            (json!({ "action": "edited", "sender": mallory }), by(9, "mallory")),
            (json!({ "action": "edited", "sender": null }), Edit::NotTold { unchanged: false }),
            (json!({ "action": "edited", "sender": { "login": "alice" } }), Edit::NotTold { unchanged: false }),
            (json!({ "action": "created", "found_by_asking": true }), Edit::NotTold { unchanged: true }),
        ] {
            assert_eq!(edit(rest.clone()), expected, "{rest}");
        }
    }

    #[test]
    fn users_and_forks_may_be_gone() {
        let of = |head: Value| {
            let happening =
                happening("pull_request", &with(&json!({ "action": "opened", "pull_request": pull(&head) })));
            let PullKnown::Seen(pull) = happening.thread.pull else { panic!() };
            pull
        };
        let same = of(json!({ "id": 7, "full_name": "octo/shop" }));
        assert!(!same.is_from_fork() && same.branch().unwrap().as_str() == "feature/x" && same.head_sha().is_some());
        assert!(of(json!({ "id": 8, "full_name": "octo/shop" })).is_from_fork(), "the id counts");
        assert!(!of(json!({ "full_name": "Octo/Shop" })).is_from_fork());
        assert!(of(Value::Null).is_from_fork());
        assert!(of(json!({})).is_from_fork());

        for user in [Value::Null, json!({}), json!("alice"), json!({ "id": "1", "login": 3 })] {
            let mut issue = issue();
            issue["user"] = user;
            let happening = happening("issues", &with(&json!({ "action": "opened", "issue": issue })));
            assert_eq!(happening.thread.author, None);
            assert_eq!(happening.thread.labels, ["bug", "urgent"]);
        }
    }

    #[test]
    fn an_issue_may_be_a_pull_request() {
        let mut issue = issue();
        issue["pull_request"] = json!({ "url": "…" });
        let comment = json!({ "action": "created", "issue": issue, "comment": { "id": 5 } });
        let happening = happening("issue_comment", &with(&comment));
        assert!(matches!(happening.thread.pull, PullKnown::Unseen) && happening.thread.is_pull());
        assert!(matches!(&happening.what, What::Said(text) if text.body.is_empty() && text.author.is_none()));
    }

    #[test]
    fn nonsense_is_told_from_what_is_not_for_us() {
        assert!(matches!(read("ping", b"{\"zen\":\"x\"}"), Ok(Delivered::Ping)));
        assert!(matches!(read("star", b"{}"), Ok(Delivered::Ignored(why)) if why.contains("star")));
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
            assert!(read(event, payload.as_bytes()).is_err(), "{event} {payload}");
        }
    }
}
