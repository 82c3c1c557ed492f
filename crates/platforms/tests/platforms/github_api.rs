//! The real client and a GitHub with a memory.

use std::time::Duration;

use grove_platforms::github::api::{
    ApiCredentials, ApiError, ClientSetupError, CreatePullRequest, GithubClient, PollResult, RepositoryList,
};
use grove_platforms::github::inbound::access::RepoPermission;
use grove_platforms::github::inbound::event::{ReviewedLines, TextEdit, TextPlace};
use grove_platforms::github::inbound::wire::{CommentPayload, GithubUser};
use grove_platforms::github::repo::RepoName;
use grove_platforms::github::worker::poll_events::number_of;
use grove_platforms::retry::RetryAdvice;
use grove_testkit::github::{BOT_LOGIN, FakeGithub, RequestFault};

const TEST_REPO: &str = "octo/shop";

fn test_repo_name() -> RepoName {
    RepoName::parse(TEST_REPO).unwrap()
}

fn make_user(id: u64, login: &str) -> GithubUser {
    GithubUser { id, login: login.to_owned() }
}

fn token_client(github: &FakeGithub) -> GithubClient {
    let token = ApiCredentials::Token(github.create_token(BOT_LOGIN).into());
    GithubClient::new(&github.api_url(), &token).unwrap()
}

fn app_client(github: &FakeGithub) -> GithubClient {
    github.install_app(77, "grove-dev");
    let app = ApiCredentials::App { id: 77, private_key: FakeGithub::APP_PRIVATE_KEY.into() };
    GithubClient::new(&github.api_url(), &app).unwrap()
}

#[tokio::test]
async fn we_know_who_we_are_and_what_others_may() {
    let github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    let me = client.current_account().await.unwrap();
    assert_eq!((me.name.as_str(), me.user.unwrap().login.as_str()), (BOT_LOGIN, BOT_LOGIN));
    for (login, role, permission) in [
        ("ann", "admin", RepoPermission::Write),
        ("max", "maintain", RepoPermission::Write),
        ("alice", "write", RepoPermission::Write),
        ("tim", "triage", RepoPermission::Less),
        ("rita", "read", RepoPermission::Less),
    ] {
        let id = github.add_user(login, role);
        assert_eq!(
            client.user_permission(&test_repo_name(), &make_user(id, login)).await.unwrap(),
            permission,
            "{login}"
        );
        assert_eq!(
            client.user_permission(&test_repo_name(), &make_user(id + 1, login)).await.unwrap(),
            RepoPermission::Less,
            "another {login}"
        );
    }
    let mallory = github.add_outsider("mallory");
    for (id, login) in [(mallory, "mallory"), (1, "nobody"), (1, "../../x")] {
        assert_eq!(
            client.user_permission(&test_repo_name(), &make_user(id, login)).await.unwrap(),
            RepoPermission::Less,
            "{login}"
        );
    }
    assert_eq!(client.user_called("Mallory").await.unwrap(), Some(make_user(mallory, "mallory")));
    assert_eq!(client.user_called("nobody").await.unwrap(), None);
    let known = client.raw_repository(&test_repo_name()).await.unwrap();
    assert_eq!(known["default_branch"], "main");
    assert_eq!(known["clone_url"], github.clone_url());
}

#[tokio::test]
async fn what_cannot_be_found_out_is_an_error_and_never_a_yes() {
    let github = FakeGithub::start(TEST_REPO);
    let alice = make_user(github.add_user("alice", "write"), "alice");
    let reader = ApiCredentials::Token(github.create_token("rita").into());
    github.add_user("rita", "read");
    let reader = GithubClient::new(&github.api_url(), &reader).unwrap();
    assert!(matches!(reader.user_permission(&test_repo_name(), &alice).await, Err(ApiError::Forbidden(_))));
    let client = token_client(&github);
    github.fail_next(1, RequestFault::Status(502));
    let error = client.user_permission(&test_repo_name(), &alice).await.unwrap_err();
    assert_eq!(error.retry_advice(), RetryAdvice::Later);
    github.revoke_tokens();
    assert!(matches!(client.user_permission(&test_repo_name(), &alice).await, Err(ApiError::BadCredentials(_))));
}

#[tokio::test]
async fn comments_are_made_changed_and_listed() {
    let github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    github.next_number(42);
    let number = github.open_issue("alice", "Login fails", "It does.");
    github.label("alice", number, "bug");
    let issue = client.fetch_issue(&test_repo_name(), number).await.unwrap();
    assert_eq!((issue.number, issue.title.as_deref(), issue.labels.len()), (42, Some("Login fails"), 1));
    let made = client.create_comment(&test_repo_name(), number, "Working …").await.unwrap();
    let changed = client.update_comment(&test_repo_name(), made.id, "Done.").await.unwrap();
    assert_eq!(made.id, changed.id);
    let said = github.comments(number);
    assert_eq!(said[0].versions, ["Working …", "Done."]);
    assert_eq!(said[0].author, BOT_LOGIN);
    client.add_seen_reaction(&test_repo_name(), number, &TextPlace::Body).await.unwrap();
    client.add_seen_reaction(&test_repo_name(), number, &TextPlace::Comment { id: made.id }).await.unwrap();
    client.add_seen_reaction(&test_repo_name(), number, &TextPlace::Comment { id: made.id }).await.unwrap();
    assert_eq!(github.reactions(number), ["grove-bot: eyes"]);
    assert_eq!(github.find_comment(made.id).reactions, ["grove-bot: eyes"], "the same again is the same");

    for n in 0..250 {
        github.comment("alice", number, &format!("comment {n}"));
    }
    let all = client.list_comments(&test_repo_name(), number).await.unwrap();
    assert_eq!(all.len(), 251, "all pages");
    assert_eq!(all[250].body.as_deref(), Some("comment 249"));

    let long = "x".repeat(65_537);
    let refused = client.create_comment(&test_repo_name(), number, &long).await.unwrap_err();
    assert!(
        matches!(refused, ApiError::Refused { status: 422, .. }) && refused.retry_advice() == RetryAdvice::Never,
        "{refused}"
    );
    assert!(matches!(client.create_comment(&test_repo_name(), 999, "x").await, Err(ApiError::NotFound(_))));
}

#[tokio::test]
async fn pull_requests_of_all_kinds() {
    let github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    github.add_user("alice", "write");
    let issue = github.open_issue("alice", "Login fails", "");
    let head = github.push("alice", "feature/x", "login.c", "int login;\n");
    let same = github.open_pull("alice", "feature/x", "Fix it", "Fixes #1");
    github.set_closed_issues(same, &[&format!("{TEST_REPO}#{issue}"), "other/repo#3"]);
    let pull = client.fetch_pull(&test_repo_name(), same).await.unwrap();
    assert_eq!(pull.head_branch().unwrap().as_str(), "feature/x");
    assert_eq!(pull.head_sha().unwrap().as_str(), head);
    assert!(!pull.is_from_fork() && !pull.is_merged());
    assert_eq!(client.list_closing_issues(&test_repo_name(), same).await.unwrap(), [issue], "of this repository only");
    let files = client.list_changed_files(&test_repo_name(), same).await.unwrap();
    assert_eq!((files.files[0].path.as_str(), files.files[0].status.as_str()), ("login.c", "added"));

    let fork = github.pull_from_fork("mallory", "feature/x", "Mine", "");
    let pull = client.fetch_pull(&test_repo_name(), fork).await.unwrap();
    assert!(pull.is_from_fork());
    assert_eq!(github.resolve_sha(&format!("refs/pull/{fork}/head")), Some(pull.head_sha().unwrap().to_string()));
    github.delete_fork("mallory");
    let pull = client.fetch_pull(&test_repo_name(), fork).await.unwrap();
    assert!(pull.is_from_fork() && pull.head_sha().is_some(), "a fork that is gone is one, too");

    let spot = github.line_comment("alice", same, "login.c", (1, 3), "here");
    let PollResult::Changed { value: lines, .. } =
        client.poll_changed_items(&test_repo_name(), RepositoryList::Lines, 1, None).await.unwrap()
    else {
        panic!()
    };
    let line: CommentPayload = serde_json::from_value(lines[0].clone()).unwrap();
    assert_eq!((line.id, number_of(&lines[0])), (spot, Some(same)));
    let ReviewedLines { path, from, to, hunk } = line.commented_lines();
    assert_eq!((path.as_str(), from, to), ("login.c", Some(1), Some(3)));
    assert!(hunk.starts_with("@@"));
    client
        .add_seen_reaction(&test_repo_name(), same, &TextPlace::Lines { id: spot, spot: ReviewedLines::default() })
        .await
        .unwrap();
    assert_eq!(github.find_comment(spot).reactions, ["grove-bot: eyes"]);
    github.review("alice", same, "looks fine");
    assert_eq!(client.raw_reviews(&test_repo_name(), same).await.unwrap()[0]["body"], "looks fine");

    assert_eq!(client.pull_from(&test_repo_name(), "feature/x").await.unwrap().unwrap().number, same, "not the fork's");
    github.merge("alice", same);
    assert!(client.fetch_pull(&test_repo_name(), same).await.unwrap().is_merged());
    assert!(client.pull_from(&test_repo_name(), "feature/x").await.unwrap().unwrap().is_merged());
    assert!(client.pull_from(&test_repo_name(), "nothing").await.unwrap().is_none());
    assert_eq!(client.fetch_issue(&test_repo_name(), issue).await.unwrap().state.as_deref(), Some("closed"));

    github.push("alice", "issue-42", "more.c", "int more;\n");
    let new = CreatePullRequest { title: "More", body: "Fixes #42", head: "issue-42", base: "main" };
    let opened = client.open_pull(&test_repo_name(), &new).await.unwrap();
    assert_eq!(client.pull_from(&test_repo_name(), "issue-42").await.unwrap().unwrap().number, opened.number);
    let twice = client.open_pull(&test_repo_name(), &new).await.unwrap_err();
    assert!(twice.to_string().contains("already exists"), "{twice}");
}

#[tokio::test]
async fn who_changed_a_text_last_is_told() {
    let github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    let (alice, bob) = (github.add_user("alice", "write"), github.add_user("bob", "write"));
    let issue = github.open_issue("alice", "One", "As it was.");
    let written = github.comment("alice", issue, "As it was.");
    let changed = github.comment("alice", issue, "As it was.");
    github.edit_comment("bob", changed, "As bob has it.");
    github.rename_thread("alice", issue, "Two");
    github.edit("bob", issue, "As bob has it.");
    let comments = client.list_comments(&test_repo_name(), issue).await.unwrap();
    let node = |id: u64| comments.iter().find(|one| one.id == id).unwrap().node_id.clone().unwrap();
    let thread = client.fetch_issue(&test_repo_name(), issue).await.unwrap().node_id.unwrap();
    let nodes = [node(written), node(changed), "gone".to_owned(), thread];
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let found = client.last_edits(&test_repo_name(), &nodes).await.unwrap();
    let by = |id: u64, login: &str| TextEdit::By(Some(make_user(id, login)));
    let edits: Vec<Option<TextEdit>> = found.iter().map(|one| one.as_ref().map(|one| one.edit.clone())).collect();
    assert_eq!(edits, [Some(TextEdit::Original), Some(by(bob, "bob")), None, Some(by(bob, "bob"))]);
    assert_eq!(found[1].as_ref().unwrap().body, "As bob has it.");
    let title = found[3].as_ref().unwrap().title.as_ref().unwrap();
    assert_eq!((title.title.as_str(), &title.edit), ("Two", &by(alice, "alice")));
    github.fail_next_of("POST", "/graphql", 1, RequestFault::Status(502));
    assert_eq!(client.last_edits(&test_repo_name(), &nodes).await.unwrap_err().retry_advice(), RetryAdvice::Later);
}

#[tokio::test]
async fn an_unchanged_list_is_not_sent_again() {
    let github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    let number = github.open_issue("alice", "Login fails", "");
    let first = github.comment("alice", number, "one");
    let PollResult::Changed { value, etag, more } =
        client.poll_changed_items(&test_repo_name(), RepositoryList::Comments, 1, None).await.unwrap()
    else {
        panic!()
    };
    assert_eq!((value.len(), more), (1, false));
    assert_eq!(
        client
            .poll_changed_items(&test_repo_name(), RepositoryList::Comments, 1, etag.as_deref())
            .await
            .unwrap_unchanged(),
        ()
    );
    github.comment("alice", number, "two");
    github.edit_comment("alice", first, "one, changed");
    let PollResult::Changed { value, .. } =
        client.poll_changed_items(&test_repo_name(), RepositoryList::Comments, 1, etag.as_deref()).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(value[0]["body"], "one, changed", "what changed last comes first");
    assert_eq!(number_of(&value[0]), Some(number));
    let PollResult::Changed { value, etag, .. } =
        client.poll_changed_items(&test_repo_name(), RepositoryList::Issues, 1, None).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(value.len(), 1);
    assert_eq!(
        client
            .poll_changed_items(&test_repo_name(), RepositoryList::Issues, 1, etag.as_deref())
            .await
            .unwrap_unchanged(),
        ()
    );
    github.close("alice", number);
    let PollResult::Changed { value, .. } =
        client.poll_changed_items(&test_repo_name(), RepositoryList::Issues, 1, etag.as_deref()).await.unwrap()
    else {
        panic!()
    };
    assert!(value[0]["closed_at"].is_string());
    let unchanged = github.received_requests().iter().filter(|asked| asked.status == 304).count();
    assert_eq!(unchanged, 2);
}

trait Unchanged {
    fn unwrap_unchanged(self);
}

impl<T: std::fmt::Debug> Unchanged for Result<PollResult<T>, ApiError> {
    #[track_caller]
    fn unwrap_unchanged(self) {
        assert!(matches!(self, Ok(PollResult::Unchanged)), "{self:?}");
    }
}

#[tokio::test]
async fn every_failure_says_what_to_do_and_nothing_is_tried_again() {
    let github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    let number = github.open_issue("alice", "Login fails", "");
    let seconds = |seconds| RetryAdvice::After(Duration::from_secs(seconds));
    for (fault, retry, maybe) in [
        (RequestFault::TooMany { retry_after: Some(30) }, seconds(30), false),
        (RequestFault::Secondary { retry_after: Some(7) }, seconds(7), false),
        (RequestFault::Secondary { retry_after: None }, seconds(60), false),
        (RequestFault::Status(500), RetryAdvice::Later, true),
        (RequestFault::Status(503), RetryAdvice::Later, true),
        (RequestFault::DropBefore, RetryAdvice::Later, true),
        (RequestFault::DropAfter, RetryAdvice::Later, true),
    ] {
        let (asked, said) = (github.count_requests("POST", "/comments"), github.comments(number).len());
        github.fail_next_of("POST", "/comments", 1, fault.clone());
        let error = client.create_comment(&test_repo_name(), number, "hello").await.unwrap_err();
        assert_eq!((error.retry_advice(), error.may_have_happened()), (retry, maybe), "{fault:?}: {error:?}");
        assert_eq!(github.count_requests("POST", "/comments"), asked + 1, "{fault:?}: once");
        let happened = fault == RequestFault::DropAfter;
        assert_eq!(github.comments(number).len(), said + usize::from(happened), "{fault:?}");
    }
    github.fail_next(1, RequestFault::UsedUp { seconds: 100 });
    let error = client.create_comment(&test_repo_name(), number, "hello").await.unwrap_err();
    let RetryAdvice::After(wait) = error.retry_advice() else { panic!("{error:?}") };
    assert!((99..=102).contains(&wait.as_secs()), "{wait:?}");
    client.create_comment(&test_repo_name(), number, "hello").await.unwrap();
}

#[tokio::test]
async fn no_answer_is_not_a_refusal() {
    let unused_address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let client = GithubClient::new(&unused_address, &ApiCredentials::Token("x".to_owned().into())).unwrap();
    let error = client.current_account().await.unwrap_err();
    assert!(matches!(&error, ApiError::Unavailable { .. }), "{error:?}");
    assert_eq!(error.retry_advice(), RetryAdvice::Later);
}

#[tokio::test]
async fn a_renamed_repository_is_followed_with_what_was_to_be_said() {
    let mut github = FakeGithub::start(TEST_REPO);
    let client = token_client(&github);
    let number = github.open_issue("alice", "Login fails", "");
    github.rename_repo("octo/store");
    client.create_comment(&test_repo_name(), number, "hello").await.unwrap();
    assert_eq!(github.comments(number)[0].body, "hello");
    assert_eq!(client.raw_repository(&test_repo_name()).await.unwrap()["full_name"], "octo/store");
}

#[tokio::test]
async fn an_app_shows_a_token_of_its_installation_and_gets_a_new_one_in_time() {
    let github = FakeGithub::start(TEST_REPO);
    let client = app_client(&github);
    assert!(client.is_app());
    let me = client.current_account().await.unwrap();
    assert_eq!((me.name.as_str(), me.user.unwrap().login.as_str()), ("grove-dev", "grove-dev[bot]"));
    let number = github.open_issue("alice", "Login fails", "");
    client.create_comment(&test_repo_name(), number, "one").await.unwrap();
    client.create_comment(&test_repo_name(), number, "two").await.unwrap();
    assert_eq!(github.comments(number)[1].author, "grove-dev[bot]");
    let tokens = || github.count_requests("POST", "/access_tokens");
    let before = tokens();
    client.create_comment(&test_repo_name(), number, "three").await.unwrap();
    let other = github.another_repo("octo/other");
    let elsewhere = other.open_issue("alice", "Another", "");
    client.create_comment(&RepoName::parse("octo/other").unwrap(), elsewhere, "hello").await.unwrap();
    assert_eq!(tokens(), before, "a token is used until it ends, in all repositories");
    github.revoke_tokens();
    client.create_comment(&test_repo_name(), number, "four").await.unwrap();
    assert_eq!(tokens(), before + 1);
    assert_eq!(github.comments(number).len(), 4, "once each");
    // One that ends soon is no good for git.
    github.app_tokens_last(300);
    github.revoke_tokens();
    client.create_comment(&test_repo_name(), number, "five").await.unwrap();
    let before = tokens();
    client.git_token(&test_repo_name()).await.unwrap();
    assert_eq!(tokens(), before + 1);
    assert!(github.received_requests().iter().all(|asked| !asked.path.contains("ghs_")));
}

#[tokio::test]
async fn a_webhook_tells_the_installation() {
    let github = FakeGithub::start(TEST_REPO);
    let client = app_client(&github);
    let number = github.open_issue("alice", "Login fails", "");
    client.create_comment(&test_repo_name(), number, "asked for once").await.unwrap();
    client.create_comment(&test_repo_name(), number, "and not again").await.unwrap();
    assert_eq!(github.count_requests("GET", "/repos/octo/shop/installation"), 1);
    let told = GithubClient::new(
        &github.api_url(),
        &ApiCredentials::App { id: 77, private_key: FakeGithub::APP_PRIVATE_KEY.into() },
    )
    .unwrap();
    told.seen_by(&test_repo_name(), github.installation_id()).unwrap();
    told.create_comment(&test_repo_name(), number, "told").await.unwrap();
    assert_eq!(github.count_requests("GET", "/repos/octo/shop/installation"), 1);
}

#[tokio::test]
async fn an_enterprise_server_has_its_graphql_elsewhere() {
    let github = FakeGithub::start(TEST_REPO);
    github.push("alice", "feature/x", "login.c", "int login;\n");
    let number = github.open_pull("alice", "feature/x", "Fix it", "");
    github.set_closed_issues(number, &["octo/shop#7"]);
    github.install_app(77, "grove-dev");
    for credentials in [
        ApiCredentials::Token(github.create_token(BOT_LOGIN).into()),
        ApiCredentials::App { id: 77, private_key: FakeGithub::APP_PRIVATE_KEY.into() },
    ] {
        let client = GithubClient::new(&format!("{}/api/v3/", github.api_url()), &credentials).unwrap();
        assert_eq!(client.list_closing_issues(&test_repo_name(), number).await.unwrap(), [7]);
        for n in 0..101 {
            github.comment("alice", number, &format!("{n}"));
        }
        assert!(
            client.list_comments(&test_repo_name(), number).await.unwrap().len() > 100,
            "the next page is there, too"
        );
    }
    assert_eq!(github.count_requests("POST", "/api/graphql"), 2);
    let elsewhere = |path: &str| !path.starts_with("/api/v3/") && path != "/api/graphql";
    assert!(!github.received_requests().iter().any(|asked| elsewhere(&asked.path)));
}

#[tokio::test]
async fn wrong_settings_are_told_at_once() {
    let token = ApiCredentials::Token("x".to_owned().into());
    assert!(matches!(GithubClient::new("api.github.com", &token), Err(ClientSetupError::Address(_))));
    assert!(matches!(GithubClient::new("https://", &token), Err(ClientSetupError::Address(_))));
    for bad in ["", "a b", "a\nb", "ü"] {
        let token = ApiCredentials::Token(bad.to_owned().into());
        assert!(matches!(GithubClient::new("https://api.github.com", &token), Err(ClientSetupError::Token)), "{bad:?}");
    }
    let key = ApiCredentials::App { id: 1, private_key: "no key".to_owned().into() };
    assert!(matches!(GithubClient::new("https://api.github.com", &key), Err(ClientSetupError::Key(_))));
}
