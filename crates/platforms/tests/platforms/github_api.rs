//! The real client and a GitHub with a memory.

use std::time::Duration;

use grove_platforms::github::api::{ApiError, Credentials, Github, List, NewPull, Polled, Retry, SetupError};
use grove_platforms::github::inbound::access::Permission;
use grove_platforms::github::inbound::event::{Edit, Place, Spot};
use grove_platforms::github::inbound::wire::{Comment, User};
use grove_platforms::github::repo::RepoName;
use grove_platforms::github::worker::poll_events::number_of;
use grove_testkit::github::{BOT, FakeGithub, Fault};

const REPO: &str = "octo/shop";

fn repo() -> RepoName {
    RepoName::parse(REPO).unwrap()
}

fn user(id: u64, login: &str) -> User {
    User { id, login: login.to_owned() }
}

fn client(github: &FakeGithub) -> Github {
    let token = Credentials::Token(github.token(BOT).into());
    Github::new(&github.api_url(), &token).unwrap()
}

fn app(github: &FakeGithub) -> Github {
    github.app(77, "grove-dev");
    let app = Credentials::App { id: 77, private_key: FakeGithub::APP_KEY.into() };
    Github::new(&github.api_url(), &app).unwrap()
}

#[tokio::test]
async fn we_know_who_we_are_and_what_others_may() {
    let github = FakeGithub::start(REPO);
    let client = client(&github);
    let me = client.whoami().await.unwrap();
    assert_eq!((me.name.as_str(), me.user.unwrap().login.as_str()), (BOT, BOT));
    for (login, role, permission) in [
        ("ann", "admin", Permission::Write),
        ("max", "maintain", Permission::Write),
        ("alice", "write", Permission::Write),
        ("tim", "triage", Permission::Less),
        ("rita", "read", Permission::Less),
    ] {
        let id = github.user(login, role);
        assert_eq!(client.permission(&repo(), &user(id, login)).await.unwrap(), permission, "{login}");
        assert_eq!(
            client.permission(&repo(), &user(id + 1, login)).await.unwrap(),
            Permission::Less,
            "another {login}"
        );
    }
    let mallory = github.outsider("mallory");
    for (id, login) in [(mallory, "mallory"), (1, "nobody"), (1, "../../x")] {
        assert_eq!(client.permission(&repo(), &user(id, login)).await.unwrap(), Permission::Less, "{login}");
    }
    assert_eq!(client.user_called("Mallory").await.unwrap(), Some(user(mallory, "mallory")));
    assert_eq!(client.user_called("nobody").await.unwrap(), None);
    let known = client.raw_repository(&repo()).await.unwrap();
    assert_eq!(known["default_branch"], "main");
    assert_eq!(known["clone_url"], github.clone_url());
}

#[tokio::test]
async fn what_cannot_be_found_out_is_an_error_and_never_a_yes() {
    let github = FakeGithub::start(REPO);
    let alice = user(github.user("alice", "write"), "alice");
    let reader = Credentials::Token(github.token("rita").into());
    github.user("rita", "read");
    let reader = Github::new(&github.api_url(), &reader).unwrap();
    assert!(matches!(reader.permission(&repo(), &alice).await, Err(ApiError::Forbidden(_))));
    let client = client(&github);
    github.fail_next(1, Fault::Status(502));
    let error = client.permission(&repo(), &alice).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Later);
    github.revoke_tokens();
    assert!(matches!(client.permission(&repo(), &alice).await, Err(ApiError::BadCredentials(_))));
}

#[tokio::test]
async fn comments_are_made_changed_and_listed() {
    let github = FakeGithub::start(REPO);
    let client = client(&github);
    github.next_number(42);
    let number = github.issue("alice", "Login fails", "It does.");
    github.label("alice", number, "bug");
    let issue = client.issue(&repo(), number).await.unwrap();
    assert_eq!((issue.number, issue.title.as_deref(), issue.labels.len()), (42, Some("Login fails"), 1));
    let made = client.say(&repo(), number, "Working …").await.unwrap();
    let changed = client.change(&repo(), made.id, "Done.").await.unwrap();
    assert_eq!(made.id, changed.id);
    let said = github.comments(number);
    assert_eq!(said[0].versions, ["Working …", "Done."]);
    assert_eq!(said[0].author, BOT);
    client.seen(&repo(), number, &Place::Body).await.unwrap();
    client.seen(&repo(), number, &Place::Comment { id: made.id }).await.unwrap();
    client.seen(&repo(), number, &Place::Comment { id: made.id }).await.unwrap();
    assert_eq!(github.reactions(number), ["grove-bot: eyes"]);
    assert_eq!(github.said(made.id).reactions, ["grove-bot: eyes"], "the same again is the same");

    for n in 0..250 {
        github.comment("alice", number, &format!("comment {n}"));
    }
    let all = client.comments(&repo(), number).await.unwrap();
    assert_eq!(all.len(), 251, "all pages");
    assert_eq!(all[250].body.as_deref(), Some("comment 249"));

    let long = "x".repeat(65_537);
    let refused = client.say(&repo(), number, &long).await.unwrap_err();
    assert!(matches!(refused, ApiError::Refused { status: 422, .. }) && refused.retry() == Retry::Never, "{refused}");
    assert!(matches!(client.say(&repo(), 999, "x").await, Err(ApiError::NotFound(_))));
}

#[tokio::test]
async fn pull_requests_of_all_kinds() {
    let github = FakeGithub::start(REPO);
    let client = client(&github);
    github.user("alice", "write");
    let issue = github.issue("alice", "Login fails", "");
    let head = github.push("alice", "feature/x", "login.c", "int login;\n");
    let same = github.pull("alice", "feature/x", "Fix it", "Fixes #1");
    github.closes(same, &[&format!("{REPO}#{issue}"), "other/repo#3"]);
    let pull = client.pull(&repo(), same).await.unwrap();
    assert_eq!(pull.branch().unwrap().as_str(), "feature/x");
    assert_eq!(pull.head_sha().unwrap().as_str(), head);
    assert!(!pull.is_from_fork() && !pull.is_merged());
    assert_eq!(client.closes(&repo(), same).await.unwrap(), [issue], "of this repository only");
    let files = client.files(&repo(), same).await.unwrap();
    assert_eq!((files.files[0].path.as_str(), files.files[0].status.as_str()), ("login.c", "added"));

    let fork = github.pull_from_fork("mallory", "feature/x", "Mine", "");
    let pull = client.pull(&repo(), fork).await.unwrap();
    assert!(pull.is_from_fork());
    assert_eq!(github.sha(&format!("refs/pull/{fork}/head")), Some(pull.head_sha().unwrap().to_string()));
    github.delete_fork("mallory");
    let pull = client.pull(&repo(), fork).await.unwrap();
    assert!(pull.is_from_fork() && pull.head_sha().is_some(), "a fork that is gone is one, too");

    let spot = github.line_comment("alice", same, "login.c", (1, 3), "here");
    let Polled::Changed { value: lines, .. } = client.changed(&repo(), List::Lines, 1, None).await.unwrap() else {
        panic!()
    };
    let line: Comment = serde_json::from_value(lines[0].clone()).unwrap();
    assert_eq!((line.id, number_of(&lines[0])), (spot, Some(same)));
    let Spot { path, from, to, hunk } = line.spot();
    assert_eq!((path.as_str(), from, to), ("login.c", Some(1), Some(3)));
    assert!(hunk.starts_with("@@"));
    client.seen(&repo(), same, &Place::Lines { id: spot, spot: Spot::default() }).await.unwrap();
    assert_eq!(github.said(spot).reactions, ["grove-bot: eyes"]);
    github.review("alice", same, "looks fine");
    assert_eq!(client.raw_reviews(&repo(), same).await.unwrap()[0]["body"], "looks fine");

    assert_eq!(client.pull_from(&repo(), "feature/x").await.unwrap().unwrap().number, same, "not the fork's");
    github.merge("alice", same);
    assert!(client.pull(&repo(), same).await.unwrap().is_merged());
    assert!(client.pull_from(&repo(), "feature/x").await.unwrap().unwrap().is_merged());
    assert!(client.pull_from(&repo(), "nothing").await.unwrap().is_none());
    assert_eq!(client.issue(&repo(), issue).await.unwrap().state.as_deref(), Some("closed"));

    github.push("alice", "issue-42", "more.c", "int more;\n");
    let new = NewPull { title: "More", body: "Fixes #42", head: "issue-42", base: "main" };
    let opened = client.open_pull(&repo(), &new).await.unwrap();
    assert_eq!(client.pull_from(&repo(), "issue-42").await.unwrap().unwrap().number, opened.number);
    let twice = client.open_pull(&repo(), &new).await.unwrap_err();
    assert!(twice.to_string().contains("already exists"), "{twice}");
}

#[tokio::test]
async fn who_changed_a_text_last_is_told() {
    let github = FakeGithub::start(REPO);
    let client = client(&github);
    let (alice, bob) = (github.user("alice", "write"), github.user("bob", "write"));
    let issue = github.issue("alice", "One", "As it was.");
    let written = github.comment("alice", issue, "As it was.");
    let changed = github.comment("alice", issue, "As it was.");
    github.edit_comment("bob", changed, "As bob has it.");
    github.rename_thread("alice", issue, "Two");
    github.edit("bob", issue, "As bob has it.");
    let comments = client.comments(&repo(), issue).await.unwrap();
    let node = |id: u64| comments.iter().find(|one| one.id == id).unwrap().node_id.clone().unwrap();
    let thread = client.issue(&repo(), issue).await.unwrap().node_id.unwrap();
    let nodes = [node(written), node(changed), "gone".to_owned(), thread];
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let found = client.last_edits(&repo(), &nodes).await.unwrap();
    let by = |id: u64, login: &str| Edit::By(Some(user(id, login)));
    let edits: Vec<Option<Edit>> = found.iter().map(|one| one.as_ref().map(|one| one.edit.clone())).collect();
    assert_eq!(edits, [Some(Edit::Original), Some(by(bob, "bob")), None, Some(by(bob, "bob"))]);
    assert_eq!(found[1].as_ref().unwrap().body, "As bob has it.");
    let title = found[3].as_ref().unwrap().title.as_ref().unwrap();
    assert_eq!((title.title.as_str(), &title.edit), ("Two", &by(alice, "alice")));
    github.fail_next_of("POST", "/graphql", 1, Fault::Status(502));
    assert_eq!(client.last_edits(&repo(), &nodes).await.unwrap_err().retry(), Retry::Later);
}

#[tokio::test]
async fn an_unchanged_list_is_not_sent_again() {
    let github = FakeGithub::start(REPO);
    let client = client(&github);
    let number = github.issue("alice", "Login fails", "");
    let first = github.comment("alice", number, "one");
    let Polled::Changed { value, etag, more } = client.changed(&repo(), List::Comments, 1, None).await.unwrap() else {
        panic!()
    };
    assert_eq!((value.len(), more), (1, false));
    assert_eq!(client.changed(&repo(), List::Comments, 1, etag.as_deref()).await.unwrap_unchanged(), ());
    github.comment("alice", number, "two");
    github.edit_comment("alice", first, "one, changed");
    let Polled::Changed { value, .. } = client.changed(&repo(), List::Comments, 1, etag.as_deref()).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(value[0]["body"], "one, changed", "what changed last comes first");
    assert_eq!(number_of(&value[0]), Some(number));
    let Polled::Changed { value, etag, .. } = client.changed(&repo(), List::Issues, 1, None).await.unwrap() else {
        panic!()
    };
    assert_eq!(value.len(), 1);
    assert_eq!(client.changed(&repo(), List::Issues, 1, etag.as_deref()).await.unwrap_unchanged(), ());
    github.close("alice", number);
    let Polled::Changed { value, .. } = client.changed(&repo(), List::Issues, 1, etag.as_deref()).await.unwrap() else {
        panic!()
    };
    assert!(value[0]["closed_at"].is_string());
    let unchanged = github.requests().iter().filter(|asked| asked.status == 304).count();
    assert_eq!(unchanged, 2);
}

trait Unchanged {
    fn unwrap_unchanged(self);
}

impl<T: std::fmt::Debug> Unchanged for Result<Polled<T>, ApiError> {
    #[track_caller]
    fn unwrap_unchanged(self) {
        assert!(matches!(self, Ok(Polled::Unchanged)), "{self:?}");
    }
}

#[tokio::test]
async fn every_failure_says_what_to_do_and_nothing_is_tried_again() {
    let github = FakeGithub::start(REPO);
    let client = client(&github);
    let number = github.issue("alice", "Login fails", "");
    let seconds = |seconds| Retry::After(Duration::from_secs(seconds));
    for (fault, retry, maybe) in [
        (Fault::TooMany { retry_after: Some(30) }, seconds(30), false),
        (Fault::Secondary { retry_after: Some(7) }, seconds(7), false),
        (Fault::Secondary { retry_after: None }, seconds(60), false),
        (Fault::Status(500), Retry::Later, true),
        (Fault::Status(503), Retry::Later, true),
        (Fault::DropBefore, Retry::Later, true),
        (Fault::DropAfter, Retry::Later, true),
    ] {
        let (asked, said) = (github.asked("POST", "/comments"), github.comments(number).len());
        github.fail_next_of("POST", "/comments", 1, fault.clone());
        let error = client.say(&repo(), number, "hello").await.unwrap_err();
        assert_eq!((error.retry(), error.may_have_happened()), (retry, maybe), "{fault:?}: {error:?}");
        assert_eq!(github.asked("POST", "/comments"), asked + 1, "{fault:?}: once");
        let happened = fault == Fault::DropAfter;
        assert_eq!(github.comments(number).len(), said + usize::from(happened), "{fault:?}");
    }
    github.fail_next(1, Fault::UsedUp { seconds: 100 });
    let error = client.say(&repo(), number, "hello").await.unwrap_err();
    let Retry::After(wait) = error.retry() else { panic!("{error:?}") };
    assert!((99..=102).contains(&wait.as_secs()), "{wait:?}");
    client.say(&repo(), number, "hello").await.unwrap();
}

#[tokio::test]
async fn nobody_there_is_told_from_a_no() {
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let client = Github::new(&nobody, &Credentials::Token("x".to_owned().into())).unwrap();
    let error = client.whoami().await.unwrap_err();
    assert!(matches!(&error, ApiError::Unavailable { .. }), "{error:?}");
    assert_eq!(error.retry(), Retry::Later);
}

#[tokio::test]
async fn a_renamed_repository_is_followed_with_what_was_to_be_said() {
    let mut github = FakeGithub::start(REPO);
    let client = client(&github);
    let number = github.issue("alice", "Login fails", "");
    github.rename("octo/store");
    client.say(&repo(), number, "hello").await.unwrap();
    assert_eq!(github.comments(number)[0].body, "hello");
    assert_eq!(client.raw_repository(&repo()).await.unwrap()["full_name"], "octo/store");
}

#[tokio::test]
async fn an_app_shows_a_token_of_its_installation_and_gets_a_new_one_in_time() {
    let github = FakeGithub::start(REPO);
    let client = app(&github);
    assert!(client.is_app());
    let me = client.whoami().await.unwrap();
    assert_eq!((me.name.as_str(), me.user.unwrap().login.as_str()), ("grove-dev", "grove-dev[bot]"));
    let number = github.issue("alice", "Login fails", "");
    client.say(&repo(), number, "one").await.unwrap();
    client.say(&repo(), number, "two").await.unwrap();
    assert_eq!(github.comments(number)[1].author, "grove-dev[bot]");
    let tokens = || github.asked("POST", "/access_tokens");
    let before = tokens();
    client.say(&repo(), number, "three").await.unwrap();
    let other = github.another("octo/other");
    let elsewhere = other.issue("alice", "Another", "");
    client.say(&RepoName::parse("octo/other").unwrap(), elsewhere, "hello").await.unwrap();
    assert_eq!(tokens(), before, "a token is used until it ends, in all repositories");
    github.revoke_tokens();
    client.say(&repo(), number, "four").await.unwrap();
    assert_eq!(tokens(), before + 1);
    assert_eq!(github.comments(number).len(), 4, "once each");
    // One that ends soon is no good for git.
    github.app_tokens_last(300);
    github.revoke_tokens();
    client.say(&repo(), number, "five").await.unwrap();
    let before = tokens();
    client.git_token(&repo()).await.unwrap();
    assert_eq!(tokens(), before + 1);
    assert!(github.requests().iter().all(|asked| !asked.path.contains("ghs_")));
}

#[tokio::test]
async fn a_webhook_tells_the_installation() {
    let github = FakeGithub::start(REPO);
    let client = app(&github);
    let number = github.issue("alice", "Login fails", "");
    client.say(&repo(), number, "asked for once").await.unwrap();
    client.say(&repo(), number, "and not again").await.unwrap();
    assert_eq!(github.asked("GET", "/repos/octo/shop/installation"), 1);
    let told =
        Github::new(&github.api_url(), &Credentials::App { id: 77, private_key: FakeGithub::APP_KEY.into() }).unwrap();
    told.seen_by(&repo(), github.installation()).unwrap();
    told.say(&repo(), number, "told").await.unwrap();
    assert_eq!(github.asked("GET", "/repos/octo/shop/installation"), 1);
}

#[tokio::test]
async fn an_enterprise_server_has_its_graphql_elsewhere() {
    let github = FakeGithub::start(REPO);
    github.push("alice", "feature/x", "login.c", "int login;\n");
    let number = github.pull("alice", "feature/x", "Fix it", "");
    github.closes(number, &["octo/shop#7"]);
    github.app(77, "grove-dev");
    for credentials in [
        Credentials::Token(github.token(BOT).into()),
        Credentials::App { id: 77, private_key: FakeGithub::APP_KEY.into() },
    ] {
        let client = Github::new(&format!("{}/api/v3/", github.api_url()), &credentials).unwrap();
        assert_eq!(client.closes(&repo(), number).await.unwrap(), [7]);
        for n in 0..101 {
            github.comment("alice", number, &format!("{n}"));
        }
        assert!(client.comments(&repo(), number).await.unwrap().len() > 100, "the next page is there, too");
    }
    assert_eq!(github.asked("POST", "/api/graphql"), 2);
    let elsewhere = |path: &str| !path.starts_with("/api/v3/") && path != "/api/graphql";
    assert!(!github.requests().iter().any(|asked| elsewhere(&asked.path)));
}

#[tokio::test]
async fn wrong_settings_are_told_at_once() {
    let token = Credentials::Token("x".to_owned().into());
    assert!(matches!(Github::new("api.github.com", &token), Err(SetupError::Address(_))));
    assert!(matches!(Github::new("https://", &token), Err(SetupError::Address(_))));
    for bad in ["", "a b", "a\nb", "ü"] {
        let token = Credentials::Token(bad.to_owned().into());
        assert!(matches!(Github::new("https://api.github.com", &token), Err(SetupError::Token)), "{bad:?}");
    }
    let key = Credentials::App { id: 1, private_key: "no key".to_owned().into() };
    assert!(matches!(Github::new("https://api.github.com", &key), Err(SetupError::Key(_))));
}
