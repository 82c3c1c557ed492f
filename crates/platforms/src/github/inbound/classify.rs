//! Decides whether an event is for us: it becomes an `IncomingEvent`, or is ignored for a reason.
//!
//! First [`classify_event`] runs, which needs only the event. If it mentions us, GitHub is asked about the
//! author and the pull request, and [`Mention::to_incoming`] combines the facts.

use std::fmt;

use grove_model::{IncomingEvent, IncomingPayload, WorkHints, WorkKind, short_hash};

use crate::clean::{one_line, visible_text};
use crate::github::inbound::context::{self, ThreadBackground};
use crate::github::inbound::event::{EventAction, EventText, GithubEvent, PullKnowledge, TextPlace};
use crate::github::inbound::links::closed_issues;
use crate::github::inbound::marker::CommentMarker;
use crate::github::inbound::wire::{GithubUser, PullRequestPayload};
use crate::mention::BotName;

/// The name of this platform.
pub const GITHUB_PLATFORM: &str = "github";

/// Our identity on GitHub.
#[derive(Clone, Debug)]
pub struct BotIdentity {
    pub name: BotName,
    /// The account that posts our comments; `None` while it is unknown.
    pub account: Option<GithubUser>,
    /// The account of an App writes nothing by hand; that of a token may.
    pub is_app: bool,
}

/// The relevance of an event for us.
#[derive(Debug)]
pub enum Relevance<'a> {
    Ignored(IgnoreReason),
    /// Closed, by any account.
    Closed(Box<IncomingEvent>),
    Asked(Mention<'a>),
}

/// The reason why an event is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoreReason {
    /// An action that asks for nothing.
    Action(String),
    Pushed,
    NotCalled,
    OurOwn,
}

impl fmt::Display for IgnoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IgnoreReason::Action(action) => write!(f, "`{action}` asks for nothing"),
            IgnoreReason::Pushed => f.write_str("commits were pushed, which asks for nothing"),
            IgnoreReason::NotCalled => f.write_str("the bot is not mentioned"),
            IgnoreReason::OurOwn => f.write_str("the bot wrote it itself"),
        }
    }
}

/// A mention of us; its author has not been checked.
#[derive(Debug)]
pub struct Mention<'a> {
    pub event: &'a GithubEvent,
    pub text: &'a EventText,
    /// The text without the mention.
    words: String,
}

/// Facts that were looked up on GitHub.
#[derive(Clone, Debug)]
pub struct MentionFacts {
    /// The pull request, if it was looked up.
    pub pull: Option<PullRequestPayload>,
    /// The issues of this repository that the pull request closes, as GitHub says.
    pub linked: Vec<u64>,
    pub background: ThreadBackground,
}

/// The event is about a pull request, which the agent cannot work on without knowing its branch.
#[derive(Debug, thiserror::Error)]
#[error("the pull request is not known yet")]
pub struct PullUnknownError;

/// Classifies an event by its own data alone.
pub fn classify_event<'a>(event: &'a GithubEvent, us: &BotIdentity) -> Relevance<'a> {
    match &event.what {
        EventAction::Other { action } => Relevance::Ignored(IgnoreReason::Action(action.clone())),
        EventAction::Pushed => Relevance::Ignored(IgnoreReason::Pushed),
        EventAction::Closed { merged, at } => {
            let key = format!("{} closed {}", thread_key(event), at.as_deref().unwrap_or("for good"));
            Relevance::Closed(Box::new(build_incoming(event, None, key, IncomingPayload::Closed { merged: *merged })))
        }
        // Cleaned after that: the character that stops our own text from mentioning accounts is invisible,
        // too.
        EventAction::Said(text) => match us.name.taken_out_of(&text.body) {
            None => Relevance::Ignored(IgnoreReason::NotCalled),
            Some(_) if us.is_author_of(text) => Relevance::Ignored(IgnoreReason::OurOwn),
            Some(words) => Relevance::Asked(Mention { event, text, words: visible_text(&words).trim().to_owned() }),
        },
    }
}

impl BotIdentity {
    /// Tells whether a text is ours. A token may belong to a person, who also writes by hand; and every
    /// person may quote our text.
    fn is_author_of(&self, text: &EventText) -> bool {
        let marked = CommentMarker::from_comment(&text.body).is_some();
        match (&self.account, &text.author) {
            (Some(account), Some(author)) => account.id == author.id && (self.is_app || marked),
            (Some(_), None) => false,
            (None, _) => marked,
        }
    }
}

impl Mention<'_> {
    /// Returns the account that wrote the text first. The account that changed it last must be allowed, too.
    pub fn text_author(&self) -> Option<&GithubUser> {
        self.text.author.as_ref()
    }

    /// Tells whether the pull request must be looked up on GitHub.
    pub fn wants_pull(&self) -> bool {
        matches!(self.event.thread.pull, PullKnowledge::Unseen)
    }

    /// Returns the event for the inbox.
    pub fn to_incoming(&self, facts: &MentionFacts) -> Result<IncomingEvent, PullUnknownError> {
        let hints = self.message_hints(facts)?;
        let context = context::build_context(self.event, self.text, &facts.background);
        let event = IncomingPayload::Message {
            text: self.message_text(&facts.background),
            context: Some(context),
            hints: Box::new(hints),
        };
        let user = self.text_author().map(|author| author.login.clone());
        Ok(build_incoming(self.event, user, self.deduplication_key(), event))
    }

    /// Returns the text of the message; if it is only a mention, the text that the author must mean.
    fn message_text(&self, background: &ThreadBackground) -> String {
        if !self.words.is_empty() {
            return self.words.clone();
        }
        let thread = &self.event.thread;
        let title = one_line(background.title.as_deref().unwrap_or_default(), 300);
        if self.text.place == TextPlace::Body && !title.is_empty() {
            return title;
        }
        let kind = if thread.is_pull() { "pull request" } else { "issue" };
        format!("Have a look at this {kind} (#{}).", thread.number)
    }

    fn message_hints(&self, facts: &MentionFacts) -> Result<WorkHints, PullUnknownError> {
        let thread = &self.event.thread;
        // For people only, so it does not matter which account wrote it.
        let title = Some(one_line(&thread.title, 300)).filter(|title| !title.is_empty());
        let hints = WorkHints { workflow_id: Some(thread.number.to_string()), title, ..WorkHints::default() };
        if !thread.is_pull() {
            return Ok(WorkHints { workflow_type: Some(WorkKind::Issue), ..hints });
        }
        // The pull request that was just looked up is newer than the one in the event.
        let pull = match (&facts.pull, &thread.pull) {
            (Some(pull), _) => pull,
            (None, PullKnowledge::Seen(pull)) => pull,
            (None, _) => return Err(PullUnknownError),
        };
        let repo = &self.event.repo;
        let mut linked_issues = facts.linked.clone();
        let said = closed_issues(pull.body.as_deref().unwrap_or_default(), &repo.name, repo.web.as_deref());
        linked_issues.extend(said);
        linked_issues.sort_unstable();
        linked_issues.dedup();
        linked_issues.retain(|issue| *issue != thread.number);
        Ok(WorkHints {
            workflow_type: Some(WorkKind::Pr),
            pr_branch: pull.head_branch(),
            pr_sha: pull.head_sha(),
            is_fork_pr: pull.is_from_fork(),
            linked_issues,
            pull_request: pull.pull_request_info().map(Box::new),
            ..hints
        })
    }

    /// Identifies this version of the text: delivered twice, or by two webhooks, it is accepted once. The
    /// time of an issue changes with every comment on it, and that of a review is not always present, so for
    /// those only the text counts.
    pub fn deduplication_key(&self) -> String {
        let version = short_hash(self.text.body.replace("\r\n", "\n").as_bytes(), 16);
        let at = self.text.at.as_deref().unwrap_or("-");
        match &self.text.place {
            TextPlace::Body => format!("{} text {version}", thread_key(self.event)),
            TextPlace::Comment { id } => format!("{GITHUB_PLATFORM} comment {id} {at} {version}"),
            TextPlace::Review { id } => format!("{GITHUB_PLATFORM} review {id} {version}"),
            TextPlace::Lines { id, .. } => format!("{GITHUB_PLATFORM} lines {id} {at} {version}"),
        }
    }
}

pub(crate) fn thread_key(event: &GithubEvent) -> String {
    format!("{GITHUB_PLATFORM} {}", event.repo.name.conversation_id(event.thread.number).to_lowercase())
}

fn build_incoming(
    event: &GithubEvent,
    user: Option<String>,
    delivery: String,
    payload: IncomingPayload,
) -> IncomingEvent {
    // PostgreSQL cannot store this character, and an event that it never accepts would block its thread
    // forever.
    let storable = |text: String| text.replace('\0', "\u{fffd}");
    IncomingEvent {
        via: GITHUB_PLATFORM.to_owned(),
        platform: GITHUB_PLATFORM.to_owned(),
        conversation: event.repo.name.conversation_id(event.thread.number),
        parent: None,
        user: user.map(storable),
        delivery: Some(storable(delivery)),
        event: payload,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::github::inbound::context::EarlierComment;
    use crate::github::inbound::event::{ParsedDelivery, parse_delivery};

    fn test_identity() -> BotIdentity {
        let account = Some(GithubUser { id: 500, login: "grove-bot".to_owned() });
        BotIdentity { name: BotName::parse("grove").unwrap(), account, is_app: false }
    }

    fn parse_test_event(event: &str, mut payload: Value) -> GithubEvent {
        payload["repository"] =
            json!({ "id": 7, "full_name": "octo/shop", "html_url": "https://github.com/octo/shop" });
        match parse_delivery(event, payload.to_string().as_bytes()).unwrap() {
            ParsedDelivery::Happened(event) => *event,
            other => panic!("{other:?}"),
        }
    }

    fn comment_event(body: &str, author: u64, is_pull: bool) -> GithubEvent {
        let pull = if is_pull { json!({ "url": "x" }) } else { Value::Null };
        parse_test_event(
            "issue_comment",
            json!({ "action": "created",
                "issue": { "number": 42, "title": "Login fails", "body": "It does.", "user": { "id": 9, "login": "mallory" }, "pull_request": pull },
                "comment": { "id": 5, "body": body, "user": { "id": author, "login": "alice" }, "updated_at": "2026-01-01T00:00:00Z" } }),
        )
    }

    fn sample_pull(head: &Value, body: &str) -> Value {
        json!({ "number": 99, "title": "Fix it", "body": body, "user": { "id": 1, "login": "alice" },
            "head": { "ref": "feature/x", "sha": "a".repeat(40), "repo": head },
            "base": { "ref": "main", "repo": { "id": 7, "full_name": "octo/shop" } } })
    }

    fn sample_facts() -> MentionFacts {
        MentionFacts { pull: None, linked: Vec::new(), background: ThreadBackground::default() }
    }

    fn mention_parts(event: &GithubEvent, facts: &MentionFacts) -> (String, String, WorkHints, String) {
        let Relevance::Asked(asked) = classify_event(event, &test_identity()) else {
            panic!("{:?}", classify_event(event, &test_identity()))
        };
        let incoming = asked.to_incoming(facts).unwrap();
        let IncomingPayload::Message { text, context, hints } = incoming.event else { panic!() };
        (text, context.unwrap(), *hints, incoming.delivery.unwrap())
    }

    #[test]
    fn a_call_in_an_issue_becomes_a_message() {
        let event = comment_event("Hey @grove, fix this <!-- hidden -->", 1, false);
        let Relevance::Asked(asked) = classify_event(&event, &test_identity()) else { panic!() };
        assert_eq!(asked.text_author().unwrap().login, "alice");
        assert!(!asked.wants_pull());
        let incoming = asked.to_incoming(&sample_facts()).unwrap();
        assert_eq!((incoming.via.as_str(), incoming.platform.as_str()), ("github", "github"));
        assert_eq!(incoming.conversation, "octo/shop#42");
        assert_eq!(incoming.user.as_deref(), Some("alice"));
        let IncomingPayload::Message { text, hints, .. } = incoming.event else { panic!() };
        assert_eq!(text, "Hey, fix this");
        assert_eq!(
            *hints,
            WorkHints {
                workflow_type: Some(WorkKind::Issue),
                workflow_id: Some("42".to_owned()),
                title: Some("Login fails".to_owned()),
                ..WorkHints::default()
            }
        );
    }

    #[test]
    fn what_is_not_for_us_is_ignored_with_a_reason() {
        let ignored = |event: &GithubEvent, us: &BotIdentity| match classify_event(event, us) {
            Relevance::Ignored(why) => why.to_string(),
            other => panic!("{other:?}"),
        };
        let marker = CommentMarker::new("abc", 1).unwrap();
        assert_eq!(ignored(&comment_event("fix this", 1, false), &test_identity()), "the bot is not mentioned");
        assert_eq!(
            ignored(&comment_event("`@grove` is its name", 1, false), &test_identity()),
            "the bot is not mentioned"
        );
        assert_eq!(
            ignored(&comment_event("ask @\u{200b}grove", 1, false), &test_identity()),
            "the bot is not mentioned"
        );
        assert_eq!(
            ignored(&comment_event(&marker.put_on("@grove"), 500, false), &test_identity()),
            "the bot wrote it itself"
        );
        let app = BotIdentity { is_app: true, ..test_identity() };
        assert_eq!(ignored(&comment_event("@grove", 500, false), &app), "the bot wrote it itself");
        let unknown = BotIdentity { account: None, ..test_identity() };
        assert_eq!(ignored(&comment_event(&marker.put_on("@grove"), 1, false), &unknown), "the bot wrote it itself");
        let labeled = parse_test_event("issues", json!({ "action": "labeled", "issue": { "number": 1 } }));
        assert_eq!(ignored(&labeled, &test_identity()), "`labeled` asks for nothing");
        let pushed = parse_test_event(
            "pull_request",
            json!({ "action": "synchronize", "pull_request": sample_pull(&Value::Null, "") }),
        );
        assert_eq!(ignored(&pushed, &test_identity()), "commits were pushed, which asks for nothing");
    }

    #[test]
    fn a_person_who_quotes_us_or_shares_our_account_is_heard() {
        let ours = CommentMarker::new("abc", 1).unwrap().put_on("Done.");
        let quote: String = ours.lines().map(|line| format!("> {line}\n")).collect();
        for (body, author) in
            [(format!("{quote}\n@grove go on"), 500), (format!("@grove {ours}"), 1), ("@grove".to_owned(), 500)]
        {
            assert!(
                matches!(classify_event(&comment_event(&body, author, false), &test_identity()), Relevance::Asked(_)),
                "{body}"
            );
        }
    }

    #[test]
    fn a_pull_request_brings_its_branch_commit_and_links() {
        let opened = |head: &Value, body: &str| {
            parse_test_event("pull_request", json!({ "action": "opened", "pull_request": sample_pull(head, body) }))
        };
        let same = opened(&json!({ "id": 7 }), "@grove review. Fixes #42, closes other/repo#3, resolves octo/shop#7");
        let linked = MentionFacts { linked: vec![42, 99, 50], ..sample_facts() };
        let (_, _, hints, _) = mention_parts(&same, &linked);
        assert_eq!(hints.workflow_type, Some(WorkKind::Pr));
        assert_eq!(hints.pr_branch.unwrap().as_str(), "feature/x");
        assert_eq!(hints.pr_sha.unwrap().as_str(), "a".repeat(40));
        assert!(!hints.is_fork_pr);
        assert_eq!(hints.linked_issues, [7, 42, 50], "itself is not among them");
        for head in [json!({ "id": 8 }), Value::Null] {
            let (_, _, hints, _) = mention_parts(&opened(&head, "@grove"), &sample_facts());
            assert!(hints.is_fork_pr && hints.pr_sha.is_some() && hints.pr_branch.is_some());
        }
    }

    #[test]
    fn a_comment_on_a_pull_request_waits_until_it_is_known() {
        let event = comment_event("@grove fix", 1, true);
        let Relevance::Asked(asked) = classify_event(&event, &test_identity()) else { panic!() };
        assert!(asked.wants_pull() && asked.to_incoming(&sample_facts()).is_err(), "never taken for an issue");
        let pull = serde_json::from_value(sample_pull(&json!({ "id": 7 }), "")).unwrap();
        let incoming = asked.to_incoming(&MentionFacts { pull: Some(pull), ..sample_facts() }).unwrap();
        let IncomingPayload::Message { hints, .. } = incoming.event else { panic!() };
        assert_eq!((hints.workflow_type, hints.workflow_id.as_deref()), (Some(WorkKind::Pr), Some("42")));
    }

    #[test]
    fn nothing_but_the_call_means_the_thread() {
        assert_eq!(
            mention_parts(&comment_event("@grove", 1, false), &sample_facts()).0,
            "Have a look at this issue (#42)."
        );
        let opened =
            json!({ "action": "opened", "issue": { "number": 3, "title": "Fix\n the login", "body": "@grove" } });
        let opened = parse_test_event("issues", opened);
        assert_eq!(
            mention_parts(&opened, &sample_facts()).0,
            "Have a look at this issue (#3).",
            "the title may not be shown"
        );
        let mut known = sample_facts();
        known.background.title = Some("Fix\n the login".to_owned());
        assert_eq!(mention_parts(&opened, &known).0, "Fix the login");
    }

    #[test]
    fn the_same_words_have_the_same_key_and_other_words_another() {
        let key = |event: &GithubEvent| mention_parts(event, &sample_facts()).3;
        let body = |body: &str, updated: &str| {
            let issue = json!({ "number": 3, "body": body, "updated_at": updated });
            key(&parse_test_event("issues", json!({ "action": "opened", "issue": issue })))
        };
        assert_eq!(key(&comment_event("@grove a", 1, false)), key(&comment_event("@grove a", 1, false)));
        assert_ne!(key(&comment_event("@grove a", 1, false)), key(&comment_event("@grove b", 1, false)));
        assert_eq!(body("@grove a\r\nb", "1"), body("@grove a\nb", "2"), "comments change the time of an issue");
        assert_ne!(body("@grove a", "1"), body("@grove b", "1"));
    }

    #[test]
    fn no_name_holds_what_a_store_does_not() {
        let mut event = comment_event("@grove fix", 1, false);
        let EventAction::Said(text) = &mut event.what else { panic!("{event:?}") };
        text.author = Some(GithubUser { id: 1, login: "al\0ice".to_owned() });
        text.at = Some("then\0".to_owned());
        let Relevance::Asked(asked) = classify_event(&event, &test_identity()) else { panic!() };
        let incoming = asked.to_incoming(&sample_facts()).unwrap();
        assert_eq!(incoming.user.as_deref(), Some("al\u{fffd}ice"));
        assert!(!incoming.delivery.unwrap().contains('\0'));
    }

    #[test]
    fn a_close_counts_whichever_account_closed_it() {
        for (event, payload, merged) in [
            (
                "issues",
                json!({ "action": "closed", "issue": { "number": 42, "closed_at": "2026-01-01T00:00:00Z" } }),
                false,
            ),
            ("pull_request", json!({ "action": "closed", "pull_request": { "number": 42, "merged": true } }), true),
        ] {
            let event = parse_test_event(event, payload);
            let Relevance::Closed(incoming) = classify_event(&event, &test_identity()) else { panic!() };
            assert_eq!(incoming.event, IncomingPayload::Closed { merged });
            assert_eq!(incoming.conversation, "octo/shop#42");
            assert!(incoming.delivery.unwrap().starts_with("github octo/shop#42 closed "));
        }
    }

    #[test]
    fn the_words_of_outsiders_do_not_reach_the_agent() {
        let event = comment_event("@grove fix", 1, false);
        let remark = |author: &str, is_shown: bool| EarlierComment {
            author: author.to_owned(),
            at: "2026-01-01".to_owned(),
            body: format!("{author} says\nso"),
            is_shown,
        };
        let mut facts = sample_facts();
        facts.background.remarks = vec![remark("bob", true), remark("eve", false)];
        let (_, context, ..) = mention_parts(&event, &facts);
        assert!(context.contains("bob, 2026-01-01:\n> bob says\n> so\n"), "{context}");
        assert!(
            !context.contains("eve") && !context.contains("Login fails") && !context.contains("It does."),
            "{context}"
        );
        assert!(context.contains("mallory, who may not direct you") && context.contains("1 by people who may not"));
    }
}
