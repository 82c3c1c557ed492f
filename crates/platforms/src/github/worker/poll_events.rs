//! What was asked for, as events: the same JSON that a webhook would have brought, under a name that
//! says what it is about, so that it goes the same way and is taken once however it was heard of.

use std::collections::HashMap;

use grove_environments::redact::Redactor;
use grove_model::Moment;
use grove_store::NewEvent;
use serde_json::{Value, json};

use crate::github::inbound::classify::{GITHUB, Look, Us, look, thread_key};
use crate::github::inbound::event::{Delivered, What, read};
use crate::github::inbound::payload::without_secrets;

/// Something new, and when it happened.
#[derive(Clone, Debug)]
pub struct News {
    pub event: NewEvent,
    /// What the inbox will know it by.
    pub key: String,
    pub at: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thread {
    Issue,
    Pull,
}

/// One repository, and who asks.
pub struct Reader<'a> {
    pub us: &'a Us,
    /// The repository, word for word.
    pub repository: &'a Value,
    /// What was written in an issue before that was not for us.
    pub watched_since: Moment,
    pub redactor: &'a Redactor,
}

impl Reader<'_> {
    /// The text of an issue or pull request, if it was written while we watched.
    pub fn text(&self, thread: &Value, kind: Thread) -> Option<News> {
        let is_new = moment(thread, "created_at").is_some_and(|at| at >= self.watched_since);
        if is_new { self.told(thread, kind, "opened", "created_at") } else { None }
    }

    /// That an issue or pull request was closed, if it was after that.
    pub fn closed(&self, thread: &Value, kind: Thread, since: Moment) -> Option<News> {
        let is_new = is_closed(thread) && moment(thread, "closed_at").is_some_and(|at| at >= since);
        if is_new { self.told(thread, kind, "closed", "closed_at") } else { None }
    }

    /// How an open pull request is now.
    pub fn pushed(&self, pull: &Value) -> Option<News> {
        if is_closed(pull) { None } else { self.told(pull, Thread::Pull, "synchronize", "updated_at") }
    }

    fn told(&self, thread: &Value, kind: Thread, action: &str, at: &str) -> Option<News> {
        let (event, part) = match kind {
            Thread::Issue => ("issues", "issue"),
            Thread::Pull => ("pull_request", "pull_request"),
        };
        self.news(event, json!({ "action": action, part: thread }), moment(thread, at))
    }

    /// Whether somebody calls us there.
    pub fn is_called(&self, said: &Value) -> bool {
        said["body"].as_str().is_some_and(|body| self.us.name.taken_out_of(body).is_some())
    }

    /// A comment in an issue or pull request.
    pub fn comment(&self, issue: &Value, comment: &Value) -> Option<News> {
        let payload = json!({ "action": "created", "issue": issue, "comment": comment });
        self.news("issue_comment", payload, moment(comment, "updated_at"))
    }

    /// A comment on lines of a pull request.
    pub fn lines(&self, pull: &Value, comment: &Value) -> Option<News> {
        let payload = json!({ "action": "created", "pull_request": pull, "comment": comment });
        self.news("pull_request_review_comment", payload, moment(comment, "updated_at"))
    }

    pub fn review(&self, pull: &Value, review: &Value) -> Option<News> {
        let payload = json!({ "action": "submitted", "pull_request": pull, "review": review });
        self.news("pull_request_review", payload, moment(review, "submitted_at"))
    }

    /// `None` for what is not for us.
    fn news(&self, kind: &str, mut payload: Value, at: Option<Moment>) -> Option<News> {
        payload["repository"] = self.repository.clone();
        // No sender is known: who changed the words last is found out when they are worked on.
        payload["found_by_asking"] = json!(true);
        // As those of webhooks: the words name the event.
        without_secrets(self.redactor, &mut payload);
        let body = payload.to_string();
        let happening = match read(kind, body.as_bytes()) {
            Ok(Delivered::Happened(happening)) => happening,
            Ok(Delivered::Ping | Delivered::Ignored(_)) => return None,
            Err(error) => {
                tracing::warn!("passed over: {error}");
                return None;
            }
        };
        let key = match look(&happening, self.us) {
            Look::Asked(asked) => asked.key(),
            Look::Closed(incoming) => incoming.delivery?,
            // Also where nothing was pushed: what else changed goes into the record.
            Look::Ignored(_) if matches!(happening.what, What::Pushed) => {
                let version = payload["pull_request"]["updated_at"].as_str().unwrap_or_default();
                let head = payload["pull_request"]["head"]["sha"].as_str().unwrap_or_default();
                format!("{} pull {head} {version}", thread_key(&happening))
            }
            Look::Ignored(_) => return None,
        };
        let delivery = format!("asked: {key}");
        let event = NewEvent { platform: GITHUB.to_owned(), delivery, kind: kind.to_owned(), body };
        Some(News { event, key, at })
    }
}

/// The order in which it happened. What has no time comes last.
pub fn in_order(mut news: Vec<News>) -> Vec<News> {
    news.sort_by_key(|news| (news.at.is_none(), news.at));
    news
}

/// By number.
pub fn by_number(threads: &[Value]) -> HashMap<u64, Value> {
    threads.iter().filter_map(|thread| Some((thread["number"].as_u64()?, thread.clone()))).collect()
}

pub fn moment(value: &Value, key: &str) -> Option<Moment> {
    value[key].as_str()?.parse().ok()
}

/// The number of the issue or pull request that a comment is in.
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
    use crate::github::inbound::mention::BotName;
    use crate::github::inbound::wire::User;

    fn us() -> Us {
        let account = Some(User { id: 500, login: "grove-bot".to_owned() });
        Us { name: BotName::parse("grove").unwrap(), account, is_app: false }
    }

    fn issue(number: u64, body: &str, state: &str) -> Value {
        json!({ "number": number, "title": "Login fails", "body": body, "state": state, "user": { "id": 1, "login": "alice" },
            "created_at": "2026-01-02T00:00:00Z", "updated_at": "2026-01-05T00:00:00Z", "closed_at": "2026-01-04T00:00:00Z" })
    }

    #[test]
    fn an_issue_is_new_or_old_and_open_or_closed() {
        let (us, repository) = (us(), json!({ "full_name": "octo/shop" }));
        let redactor = Redactor::default();
        let reader = |since: &str| {
            let watched_since = since.parse().unwrap();
            Reader { us: &us, repository: &repository, watched_since, redactor: &redactor }
        };
        let (before, after) = (reader("2026-01-01T00:00:00Z"), reader("2026-01-03T00:00:00Z"));
        let of = Thread::Issue;
        let called = issue(42, "@grove fix", "closed");
        let text = before.text(&called, of).unwrap();
        assert!(text.key.starts_with("github octo/shop#42 text "), "{}", text.key);
        assert!(after.text(&called, of).is_none(), "it is from before");
        assert!(before.text(&issue(42, "fix", "open"), of).is_none(), "nobody is called");
        let since = |at: &str| at.parse().unwrap();
        let closed = before.closed(&called, of, since("2026-01-04T00:00:00Z")).unwrap();
        assert_eq!(closed.key, "github octo/shop#42 closed 2026-01-04T00:00:00Z");
        assert!(before.closed(&called, of, since("2026-01-04T00:00:01Z")).is_none(), "that was known");
        assert!(before.closed(&issue(42, "", "open"), of, since("2026-01-01T00:00:00Z")).is_none());
        let keys: Vec<String> = in_order(vec![closed, text]).into_iter().map(|news| news.key).collect();
        assert!(keys[1].contains("closed"), "{keys:?}");
    }

    #[test]
    fn a_comment_has_the_name_that_a_webhook_gives_it() {
        let (us, repository) = (us(), json!({ "full_name": "octo/shop" }));
        let redactor = Redactor::default();
        let reader = Reader { us: &us, repository: &repository, watched_since: Moment::now(), redactor: &redactor };
        let comment = |body: &str| json!({ "id": 5, "body": body, "updated_at": "2026-01-05T00:00:00Z", "user": { "id": 1, "login": "alice" } });
        let news = reader.comment(&issue(42, "", "open"), &comment("@grove go")).unwrap();
        assert!(news.key.starts_with("github comment 5 2026-01-05T00:00:00Z "), "{}", news.key);
        assert_eq!(news.event.delivery, format!("asked: {}", news.key));
        assert!(reader.comment(&issue(42, "", "open"), &comment("go")).is_none());
        assert!(reader.comment(&Value::Null, &comment("@grove go")).is_none(), "nonsense is nothing");
    }
}
