//! Converts polled items to events: the same JSON that a webhook would have delivered, with an id that is
//! derived from the item. So it is handled in the same way, and accepted once even if a webhook delivers it
//! too.

use std::collections::HashMap;

use grove_environments::redact::Redactor;
use grove_model::Moment;
use grove_store::NewEvent;
use serde_json::{Value, json};

use crate::github::inbound::classify::{BotIdentity, GITHUB_PLATFORM, Relevance, classify_event, thread_key};
use crate::github::inbound::event::{EventAction, ParsedDelivery, parse_delivery};
use crate::github::inbound::payload::without_secrets;

/// A new event, and when it happened.
#[derive(Clone, Debug)]
pub struct PolledEvent {
    pub event: NewEvent,
    /// The key of the event in the inbox.
    pub key: String,
    pub at: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    Issue,
    Pull,
}

/// Reads the items of one repository, for our account.
pub struct PolledEventReader<'a> {
    pub us: &'a BotIdentity,
    /// The repository as raw JSON.
    pub repository: &'a Value,
    /// Texts of issues before this time were not for us.
    pub watched_since: Moment,
    pub redactor: &'a Redactor,
}

impl PolledEventReader<'_> {
    /// Reads the text of an issue or pull request, if it was written since we watch.
    pub fn read_text(&self, thread: &Value, kind: ThreadKind) -> Option<PolledEvent> {
        let is_new = parse_moment(thread, "created_at").is_some_and(|at| at >= self.watched_since);
        if is_new { self.read_thread_change(thread, kind, "opened", "created_at") } else { None }
    }

    /// Reads the closing of an issue or pull request, if it happened after `since`.
    pub fn read_closed(&self, thread: &Value, kind: ThreadKind, since: Moment) -> Option<PolledEvent> {
        let is_new = is_closed(thread) && parse_moment(thread, "closed_at").is_some_and(|at| at >= since);
        if is_new { self.read_thread_change(thread, kind, "closed", "closed_at") } else { None }
    }

    /// Reads the current state of an open pull request.
    pub fn read_pushed(&self, pull: &Value) -> Option<PolledEvent> {
        if is_closed(pull) {
            None
        } else {
            self.read_thread_change(pull, ThreadKind::Pull, "synchronize", "updated_at")
        }
    }

    fn read_thread_change(&self, thread: &Value, kind: ThreadKind, action: &str, at: &str) -> Option<PolledEvent> {
        let (event, part) = match kind {
            ThreadKind::Issue => ("issues", "issue"),
            ThreadKind::Pull => ("pull_request", "pull_request"),
        };
        self.build_event(event, json!({ "action": action, part: thread }), parse_moment(thread, at))
    }

    /// Tells whether a text mentions us.
    pub fn is_called(&self, said: &Value) -> bool {
        said["body"].as_str().is_some_and(|body| self.us.name.taken_out_of(body).is_some())
    }

    /// Reads a comment in an issue or pull request.
    pub fn read_comment(&self, issue: &Value, comment: &Value) -> Option<PolledEvent> {
        let payload = json!({ "action": "created", "issue": issue, "comment": comment });
        self.build_event("issue_comment", payload, parse_moment(comment, "updated_at"))
    }

    /// Reads a comment on lines of a pull request.
    pub fn read_line_comment(&self, pull: &Value, comment: &Value) -> Option<PolledEvent> {
        let payload = json!({ "action": "created", "pull_request": pull, "comment": comment });
        self.build_event("pull_request_review_comment", payload, parse_moment(comment, "updated_at"))
    }

    pub fn read_review(&self, pull: &Value, review: &Value) -> Option<PolledEvent> {
        let payload = json!({ "action": "submitted", "pull_request": pull, "review": review });
        self.build_event("pull_request_review", payload, parse_moment(review, "submitted_at"))
    }

    /// Builds an event; `None` if it is not for us.
    fn build_event(&self, kind: &str, mut payload: Value, at: Option<Moment>) -> Option<PolledEvent> {
        payload["repository"] = self.repository.clone();
        // No sender is known: the last editor of the text is looked up when the event is handled.
        payload["found_by_asking"] = json!(true);
        // As for webhooks: the text is part of the id of the event.
        without_secrets(self.redactor, &mut payload);
        let body = payload.to_string();
        let event = match parse_delivery(kind, body.as_bytes()) {
            Ok(ParsedDelivery::Happened(event)) => event,
            Ok(ParsedDelivery::Ping | ParsedDelivery::Ignored(_)) => return None,
            Err(error) => {
                tracing::warn!(%error, "polled item skipped");
                return None;
            }
        };
        let key = match classify_event(&event, self.us) {
            Relevance::Asked(asked) => asked.deduplication_key(),
            Relevance::Closed(incoming) => incoming.delivery?,
            // Also if nothing was pushed: other changes go into the record.
            Relevance::Ignored(_) if matches!(event.what, EventAction::Pushed) => {
                let version = payload["pull_request"]["updated_at"].as_str().unwrap_or_default();
                let head = payload["pull_request"]["head"]["sha"].as_str().unwrap_or_default();
                format!("{} pull {head} {version}", thread_key(&event))
            }
            Relevance::Ignored(_) => return None,
        };
        let delivery = format!("asked: {key}");
        let event = NewEvent { platform: GITHUB_PLATFORM.to_owned(), delivery, kind: kind.to_owned(), body };
        Some(PolledEvent { event, key, at })
    }
}

/// Sorts events by time. Events without a time come last.
pub fn in_order(mut news: Vec<PolledEvent>) -> Vec<PolledEvent> {
    news.sort_by_key(|news| (news.at.is_none(), news.at));
    news
}

/// Returns the threads by number.
pub fn by_number(threads: &[Value]) -> HashMap<u64, Value> {
    threads.iter().filter_map(|thread| Some((thread["number"].as_u64()?, thread.clone()))).collect()
}

pub fn parse_moment(value: &Value, key: &str) -> Option<Moment> {
    value[key].as_str()?.parse().ok()
}

/// Returns the number of the issue or pull request of a comment.
pub fn number_of(comment: &Value) -> Option<u64> {
    let url = comment["issue_url"].as_str().or_else(|| comment["pull_request_url"].as_str())?;
    url.rsplit('/').next()?.parse().ok()
}

pub fn is_closed(thread: &Value) -> bool {
    thread["state"].as_str() == Some("closed")
}

pub fn is_pull(issue: &Value) -> bool {
    !issue["pull_request"].is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::github::inbound::wire::GithubUser;
    use crate::mention::BotName;

    fn test_identity() -> BotIdentity {
        let account = Some(GithubUser { id: 500, login: "grove-bot".to_owned() });
        BotIdentity { name: BotName::parse("grove").unwrap(), account, is_app: false }
    }

    fn sample_issue(number: u64, body: &str, state: &str) -> Value {
        json!({ "number": number, "title": "Login fails", "body": body, "state": state, "user": { "id": 1, "login": "alice" },
            "created_at": "2026-01-02T00:00:00Z", "updated_at": "2026-01-05T00:00:00Z", "closed_at": "2026-01-04T00:00:00Z" })
    }

    #[test]
    fn an_issue_is_new_or_old_and_open_or_closed() {
        let (us, repository) = (test_identity(), json!({ "full_name": "octo/shop" }));
        let redactor = Redactor::default();
        let reader = |since: &str| {
            let watched_since = since.parse().unwrap();
            PolledEventReader { us: &us, repository: &repository, watched_since, redactor: &redactor }
        };
        let (before, after) = (reader("2026-01-01T00:00:00Z"), reader("2026-01-03T00:00:00Z"));
        let of = ThreadKind::Issue;
        let called = sample_issue(42, "@grove fix", "closed");
        let text = before.read_text(&called, of).unwrap();
        assert!(text.key.starts_with("github octo/shop#42 text "), "{}", text.key);
        assert!(after.read_text(&called, of).is_none(), "it is from before");
        assert!(before.read_text(&sample_issue(42, "fix", "open"), of).is_none(), "nobody is called");
        let since = |at: &str| at.parse().unwrap();
        let closed = before.read_closed(&called, of, since("2026-01-04T00:00:00Z")).unwrap();
        assert_eq!(closed.key, "github octo/shop#42 closed 2026-01-04T00:00:00Z");
        assert!(before.read_closed(&called, of, since("2026-01-04T00:00:01Z")).is_none(), "that was known");
        assert!(before.read_closed(&sample_issue(42, "", "open"), of, since("2026-01-01T00:00:00Z")).is_none());
        let keys: Vec<String> = in_order(vec![closed, text]).into_iter().map(|news| news.key).collect();
        assert!(keys[1].contains("closed"), "{keys:?}");
    }

    #[test]
    fn a_comment_has_the_name_that_a_webhook_gives_it() {
        let (us, repository) = (test_identity(), json!({ "full_name": "octo/shop" }));
        let redactor = Redactor::default();
        let reader =
            PolledEventReader { us: &us, repository: &repository, watched_since: Moment::now(), redactor: &redactor };
        let comment = |body: &str| json!({ "id": 5, "body": body, "updated_at": "2026-01-05T00:00:00Z", "user": { "id": 1, "login": "alice" } });
        let news = reader.read_comment(&sample_issue(42, "", "open"), &comment("@grove go")).unwrap();
        assert!(news.key.starts_with("github comment 5 2026-01-05T00:00:00Z "), "{}", news.key);
        assert_eq!(news.event.delivery, format!("asked: {}", news.key));
        assert!(reader.read_comment(&sample_issue(42, "", "open"), &comment("go")).is_none());
        assert!(reader.read_comment(&Value::Null, &comment("@grove go")).is_none(), "nonsense is nothing");
    }
}
