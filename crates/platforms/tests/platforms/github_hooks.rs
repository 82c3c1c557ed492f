//! What the fake tells is what we read, and what was told wrongly is not taken.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use grove_model::{Event, Kind};
use grove_platforms::github::api::{Credentials, Github};
use grove_platforms::github::inbound::classify::{Facts, Look, Us, look};
use grove_platforms::github::inbound::context::Background;
use grove_platforms::github::inbound::event::{Delivered, Happening, What, read};
use grove_platforms::github::inbound::mention::BotName;
use grove_platforms::github::inbound::signature::{Secrets, Signature};
use grove_platforms::github::repo::RepoName;
use grove_testkit::Dice;
use grove_testkit::github::{BOT, FakeGithub};

const SECRET: &str = "not very secret";

struct Heard {
    event: String,
    signature: String,
    body: Vec<u8>,
}

impl Heard {
    fn is_good(&self) -> bool {
        let signature = Signature::parse(self.signature.as_bytes());
        signature.is_some_and(|signature| Secrets::new([SECRET]).made(signature, &self.body))
    }

    fn happening(&self) -> Happening {
        assert!(self.is_good());
        match read(&self.event, &self.body).unwrap() {
            Delivered::Happened(happening) => *happening,
            other => panic!("{other:?}"),
        }
    }
}

/// Takes whatever is delivered.
fn listen() -> (String, Receiver<Heard>) {
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
            if heard.send(Heard { event, signature, body }).is_err() {
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
    let (url, ears) = listen();
    github.webhook(&url, SECRET);
    github.user("alice", "write");
    let client = Github::new(&github.api_url(), &Credentials::Token(github.token(BOT).into())).unwrap();
    let us = Us { name: BotName::parse("grove").unwrap(), account: client.whoami().await.unwrap().user, is_app: false };

    github.next_number(42);
    let issue = github.issue("alice", "Login fails", "@grove fix this");
    let happening = ears.recv().unwrap().happening();
    let Look::Asked(asked) = look(&happening, &us) else { panic!() };
    let facts = Facts { pull: None, linked: Vec::new(), background: Background::default() };
    let incoming = asked.incoming(&facts).unwrap();
    assert_eq!(incoming.conversation, "octo/shop#42");

    github.push("alice", "feature/x", "login.c", "int login;\n");
    github.next_number(99);
    let pull = github.pull("alice", "feature/x", "Fix it", "Fixes #42");
    github.closes(pull, &["octo/shop#42"]);
    assert!(matches!(look(&ears.recv().unwrap().happening(), &us), Look::Ignored(_)), "nobody is called");
    github.comment("alice", pull, "@grove review, please");
    let happening = ears.recv().unwrap().happening();
    let Look::Asked(asked) = look(&happening, &us) else { panic!() };
    assert!(asked.wants_pull());
    let repo = RepoName::parse("octo/shop").unwrap();
    let facts = Facts {
        pull: Some(client.pull(&repo, pull).await.unwrap()),
        linked: client.closes(&repo, pull).await.unwrap(),
        ..facts
    };
    let Event::Message { text, hints, .. } = asked.incoming(&facts).unwrap().event else { panic!() };
    assert_eq!(text, "review, please");
    assert_eq!((hints.workflow_type, hints.linked_issues, hints.is_fork_pr), (Some(Kind::Pr), vec![issue], false));
    assert_eq!(hints.pr_sha.unwrap().as_str(), github.head(pull));

    // What we say ourselves comes back, and is nothing to us.
    client.say(&repo, pull, "Done, @grove.\n\n<!-- grove abc 1 -->").await.unwrap();
    assert!(
        matches!(look(&ears.recv().unwrap().happening(), &us), Look::Ignored(why) if why.to_string().contains("itself"))
    );

    github.push("alice", "feature/x", "more.c", "int more;\n");
    assert!(matches!(ears.recv().unwrap().happening().what, What::Pushed));
    github.merge("alice", pull);
    let Look::Closed(closed) = look(&ears.recv().unwrap().happening(), &us) else { panic!() };
    assert_eq!(closed.event, Event::Closed { merged: true });
    let Look::Closed(closed) = look(&ears.recv().unwrap().happening(), &us) else { panic!() };
    assert_eq!((closed.event, closed.conversation.as_str()), (Event::Closed { merged: false }, "octo/shop#42"));
    assert!(github.deliveries().iter().all(|delivery| delivery.status == 202));
}

#[test]
fn the_same_comment_through_two_hooks_or_twice_has_one_key() {
    let github = FakeGithub::start("octo/shop");
    let (one, first) = listen();
    let (two, second) = listen();
    github.webhook(&one, SECRET);
    github.webhook(&two, SECRET);
    let us = Us { name: BotName::parse("grove").unwrap(), account: None, is_app: false };
    let facts = Facts { pull: None, linked: Vec::new(), background: Background::default() };
    let key = |ears: &Receiver<Heard>| {
        let happening = ears.recv().unwrap().happening();
        let Look::Asked(asked) = look(&happening, &us) else { panic!() };
        asked.incoming(&facts).unwrap().delivery.unwrap()
    };
    let issue = github.issue("alice", "Login fails", "@grove");
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
    let (url, ears) = listen();
    github.webhook(&url, SECRET);
    github.issue("alice", "Login fails", "@grove fix this");
    let heard = ears.recv().unwrap();
    assert!(heard.is_good());
    let mut dice = Dice(42);
    for _ in 0..10_000 {
        let mut body = heard.body.clone();
        let mut signature = heard.signature.clone().into_bytes();
        match dice.roll(3) {
            0 => {
                let at = usize::try_from(dice.roll(body.len() as u64)).unwrap();
                body[at] ^= 1 << dice.roll(8);
            }
            1 => body.truncate(usize::try_from(dice.roll(body.len() as u64)).unwrap()),
            _ => {
                let at = usize::try_from(dice.roll(signature.len() as u64)).unwrap();
                signature[at] ^= 1 << dice.roll(8);
            }
        }
        let parsed = Signature::parse(&signature);
        // Only the case of a digit may differ.
        let same = signature.eq_ignore_ascii_case(heard.signature.as_bytes()) && body == heard.body;
        let accepted = parsed.is_some_and(|signature| Secrets::new([SECRET]).made(signature, &body));
        assert!(!accepted || same);
        // Whoever has the secret may still send nonsense.
        let events = ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];
        let _ = read(events[usize::try_from(dice.roll(5)).unwrap()], &body);
    }
}
