//! What the fake tells is what we read, and what was told wrongly is not taken.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use grove_model::{IncomingPayload, WorkKind};
use grove_platforms::github::api::{ApiCredentials, GithubClient};
use grove_platforms::github::inbound::classify::{BotIdentity, MentionFacts, Relevance, classify_event};
use grove_platforms::github::inbound::context::ThreadBackground;
use grove_platforms::github::inbound::event::{EventAction, GithubEvent, ParsedDelivery, parse_delivery};
use grove_platforms::github::inbound::signature::{WebhookSecrets, WebhookSignature};
use grove_platforms::github::repo::RepoName;
use grove_platforms::mention::BotName;
use grove_testkit::SeededRandom;
use grove_testkit::github::{BOT_LOGIN, FakeGithub};

const WEBHOOK_SECRET: &str = "not very secret";

struct ReceivedWebhook {
    event: String,
    signature: String,
    body: Vec<u8>,
}

impl ReceivedWebhook {
    fn is_good(&self) -> bool {
        let signature = WebhookSignature::parse(self.signature.as_bytes());
        signature
            .is_some_and(|signature| WebhookSecrets::new([WEBHOOK_SECRET]).matches_signature(signature, &self.body))
    }

    fn github_event(&self) -> GithubEvent {
        assert!(self.is_good());
        match parse_delivery(&self.event, &self.body).unwrap() {
            ParsedDelivery::Happened(happening) => *happening,
            other => panic!("{other:?}"),
        }
    }
}

/// Takes whatever is delivered.
fn start_listener() -> (String, Receiver<ReceivedWebhook>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/webhooks/github", listener.local_addr().unwrap());
    let (heard, ears) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (mut reader, mut writer) = (BufReader::new(stream.try_clone().unwrap()), stream);
            let (mut headers, mut line) = (Vec::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                headers.push(line.trim().to_owned());
                line.clear();
            }
            let header = |name: &str| {
                let found = headers.iter().filter_map(|line| line.split_once(": "));
                found.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
            };
            let mut body = vec![0; header("content-length").unwrap().parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let (event, signature) = (header("x-github-event").unwrap(), header("x-hub-signature-256").unwrap());
            if heard.send(ReceivedWebhook { event, signature, body }).is_err() {
                return;
            }
            writer.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        }
    });
    (url, ears)
}

#[tokio::test]
async fn a_comment_becomes_a_message_with_everything_that_is_known() {
    let github = FakeGithub::start("octo/shop");
    let (url, ears) = start_listener();
    github.add_webhook(&url, WEBHOOK_SECRET);
    github.add_user("alice", "write");
    let client =
        GithubClient::new(&github.api_url(), &ApiCredentials::Token(github.create_token(BOT_LOGIN).into())).unwrap();
    let us = BotIdentity {
        name: BotName::parse("grove").unwrap(),
        account: client.current_account().await.unwrap().user,
        is_app: false,
    };

    github.next_number(42);
    let issue = github.open_issue("alice", "Login fails", "@grove fix this");
    let happening = ears.recv().unwrap().github_event();
    let Relevance::Asked(asked) = classify_event(&happening, &us) else { panic!() };
    let facts = MentionFacts { pull: None, linked: Vec::new(), background: ThreadBackground::default() };
    let incoming = asked.to_incoming(&facts).unwrap();
    assert_eq!(incoming.conversation, "octo/shop#42");

    github.push("alice", "feature/x", "login.c", "int login;\n");
    github.next_number(99);
    let pull = github.open_pull("alice", "feature/x", "Fix it", "Fixes #42");
    github.set_closed_issues(pull, &["octo/shop#42"]);
    assert!(
        matches!(classify_event(&ears.recv().unwrap().github_event(), &us), Relevance::Ignored(_)),
        "nobody is called"
    );
    github.comment("alice", pull, "@grove review, please");
    let happening = ears.recv().unwrap().github_event();
    let Relevance::Asked(asked) = classify_event(&happening, &us) else { panic!() };
    assert!(asked.wants_pull());
    let repo = RepoName::parse("octo/shop").unwrap();
    let facts = MentionFacts {
        pull: Some(client.fetch_pull(&repo, pull).await.unwrap()),
        linked: client.list_closing_issues(&repo, pull).await.unwrap(),
        ..facts
    };
    let IncomingPayload::Message { text, hints, .. } = asked.to_incoming(&facts).unwrap().event else { panic!() };
    assert_eq!(text, "review, please");
    assert_eq!((hints.workflow_type, hints.linked_issues, hints.is_fork_pr), (Some(WorkKind::Pr), vec![issue], false));
    assert_eq!(hints.pr_sha.unwrap().as_str(), github.pull_head(pull));

    // What we say ourselves comes back, and is nothing to us.
    client.create_comment(&repo, pull, "Done, @grove.\n\n<!-- grove abc 1 -->").await.unwrap();
    assert!(
        matches!(classify_event(&ears.recv().unwrap().github_event(), &us), Relevance::Ignored(why) if why.to_string().contains("itself"))
    );

    github.push("alice", "feature/x", "more.c", "int more;\n");
    assert!(matches!(ears.recv().unwrap().github_event().what, EventAction::Pushed));
    github.merge("alice", pull);
    let Relevance::Closed(closed) = classify_event(&ears.recv().unwrap().github_event(), &us) else { panic!() };
    assert_eq!(closed.event, IncomingPayload::Closed { merged: true });
    let Relevance::Closed(closed) = classify_event(&ears.recv().unwrap().github_event(), &us) else { panic!() };
    assert_eq!(
        (closed.event, closed.conversation.as_str()),
        (IncomingPayload::Closed { merged: false }, "octo/shop#42")
    );
    assert!(github.deliveries().iter().all(|delivery| delivery.status == 202));
}

#[test]
fn the_same_comment_through_two_hooks_or_twice_has_one_key() {
    let github = FakeGithub::start("octo/shop");
    let (one, first) = start_listener();
    let (two, second) = start_listener();
    github.add_webhook(&one, WEBHOOK_SECRET);
    github.add_webhook(&two, WEBHOOK_SECRET);
    let us = BotIdentity { name: BotName::parse("grove").unwrap(), account: None, is_app: false };
    let facts = MentionFacts { pull: None, linked: Vec::new(), background: ThreadBackground::default() };
    let key = |ears: &Receiver<ReceivedWebhook>| {
        let happening = ears.recv().unwrap().github_event();
        let Relevance::Asked(asked) = classify_event(&happening, &us) else { panic!() };
        asked.to_incoming(&facts).unwrap().delivery.unwrap()
    };
    let issue = github.open_issue("alice", "Login fails", "@grove");
    let (a, b) = (key(&first), key(&second));
    assert_eq!(a, b);
    let comment = github.comment("alice", issue, "@grove fix");
    let (a, b) = (key(&first), key(&second));
    assert_eq!(a, b);
    let last = github.deliveries().last().unwrap().id.clone();
    assert_eq!(github.redeliver(&last), 202);
    assert_eq!(key(&second), a);
    github.edit_comment("alice", comment, "@grove fix it well");
    assert_ne!(key(&first), a, "another version");
}

#[test]
fn ten_thousand_changed_deliveries_are_refused_and_none_is_too_much() {
    let github = FakeGithub::start("octo/shop");
    let (url, ears) = start_listener();
    github.add_webhook(&url, WEBHOOK_SECRET);
    github.open_issue("alice", "Login fails", "@grove fix this");
    let heard = ears.recv().unwrap();
    assert!(heard.is_good());
    let mut dice = SeededRandom(42);
    for _ in 0..10_000 {
        let mut body = heard.body.clone();
        let mut signature = heard.signature.clone().into_bytes();
        match dice.next_below(3) {
            0 => {
                let at = usize::try_from(dice.next_below(body.len() as u64)).unwrap();
                body[at] ^= 1 << dice.next_below(8);
            }
            1 => body.truncate(usize::try_from(dice.next_below(body.len() as u64)).unwrap()),
            _ => {
                let at = usize::try_from(dice.next_below(signature.len() as u64)).unwrap();
                signature[at] ^= 1 << dice.next_below(8);
            }
        }
        let parsed = WebhookSignature::parse(&signature);
        // Only the case of a digit may differ.
        let same = signature.eq_ignore_ascii_case(heard.signature.as_bytes()) && body == heard.body;
        let accepted =
            parsed.is_some_and(|signature| WebhookSecrets::new([WEBHOOK_SECRET]).matches_signature(signature, &body));
        assert!(!accepted || same);
        // A sender with the secret may still send nonsense.
        let events = ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];
        let _ = parse_delivery(events[usize::try_from(dice.next_below(5)).unwrap()], &body);
    }
}
