//! What `grove doctor` says of GitHub.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use grove_testkit::github::{BOT_LOGIN, FakeGithub, RecordedRequest, RequestFault};
use grove_testkit::{Sandbox, TestRepo, TestServer};

use super::WEBHOOK_SECRET;
use crate::new_sandbox;

const WEBHOOK_EVENTS: [&str; 5] =
    ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];

/// A GitHub where the bot is an admin, and a machine where it is configured.
struct GithubDoctorTest {
    github: FakeGithub,
    grove: Sandbox,
}

impl GithubDoctorTest {
    fn new() -> Self {
        let github = FakeGithub::start("octo/shop");
        github.add_user(BOT_LOGIN, "admin");
        let clinic = Self { grove: new_sandbox(TestRepo::new()), github };
        let token = clinic.github.create_token(BOT_LOGIN);
        clinic.write_config(&clinic.with_token(&token));
        clinic
    }

    fn with_token(&self, token: &str) -> String {
        format!(
            "token = \"{token}\"\nwebhook_secret = \"{WEBHOOK_SECRET}\"\nrepos = [\"octo/shop\"]\napi_url = \"{}\"",
            self.github.api_url()
        )
    }

    fn with_app(&self) -> String {
        let key = self.grove.repo.temp_dir().join("key.pem");
        fs::write(&key, FakeGithub::APP_PRIVATE_KEY).unwrap();
        self.github.install_app(77, "grove-dev");
        let (token, app) = ("token = \"\"", format!("app_id = 77\nprivate_key_file = \"{}\"", key.display()));
        self.with_token("").replace(token, &app)
    }

    fn write_config(&self, settings: &str) {
        fs::create_dir_all(self.grove.grove_home()).unwrap();
        fs::write(self.grove.grove_home().join("config.toml"), format!("[adapters.github]\n{settings}\n")).unwrap();
    }

    /// What is said of GitHub, as "verdict name: detail".
    #[track_caller]
    fn github_checks(&self, well: bool) -> Vec<String> {
        let ran = self.grove.grove(["doctor", "--json"]);
        assert_eq!(ran.code, i32::from(!well), "{ran:?}");
        let told = ran.json();
        let all = told["checks"].as_array().unwrap();
        assert!(all.iter().any(|check| check["name"] == "store"), "the rest is there: {told}");
        let text = |check: &serde_json::Value, key: &str| check[key].as_str().unwrap().to_owned();
        let mut said = Vec::new();
        for check in all.iter().filter(|check| text(check, "name").starts_with("github")) {
            let verdict = text(check, "verdict");
            assert_eq!(text(check, "hint").is_empty(), verdict == "good", "{check}");
            said.push(format!("{verdict} {}: {}", text(check, "name"), text(check, "detail")));
        }
        said
    }

    /// Those that are not good.
    #[track_caller]
    fn failed_checks(&self, well: bool) -> Vec<String> {
        self.github_checks(well).into_iter().filter(|check| !check.starts_with("good")).collect()
    }

    fn add_webhook(&self, address: &str) -> String {
        let url = format!("{address}/webhooks/github");
        self.github.add_webhook(&url, WEBHOOK_SECRET);
        self.github.hooks_tell(&WEBHOOK_EVENTS);
        url
    }
}

/// Returns an address on which no process listens.
fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn all_is_well() {
    let clinic = GithubDoctorTest::new();
    let server = TestServer::start(&clinic.grove);
    let url = clinic.add_webhook(&server.address);
    clinic.github.open_issue("alice", "Login fails", "It does.");
    drop(server);
    assert_eq!(
        clinic.github_checks(true),
        [
            "good github webhook secret: set".to_owned(),
            "good github: as grove-bot, with a classic token".to_owned(),
            "good github octo/shop: may be written".to_owned(),
            format!("good github webhook octo/shop: {url}, last answered 202"),
            "good github git: octo/shop can be fetched".to_owned(),
        ]
    );
    let shown = clinic.grove.grove(["doctor"]).assert_success().stdout;
    assert!(shown.contains("ok  github: as grove-bot, with a classic token\n"), "{shown}");
    assert!(!shown.contains("ghp_") && !shown.contains(WEBHOOK_SECRET), "{shown}");
    let reads = |asked: &RecordedRequest| asked.method == "GET" || asked.path.ends_with("/git-upload-pack");
    assert!(clinic.github.received_requests().iter().all(reads), "nothing is changed");
}

#[test]
fn nothing_is_said_where_nothing_is_configured() {
    let clinic = GithubDoctorTest::new();
    clinic.write_config(&format!("api_url = \"{}\"", clinic.github.api_url()));
    assert_eq!(clinic.github_checks(true), Vec::<String>::new());
    assert!(clinic.github.received_requests().is_empty());
}

#[test]
fn a_token_that_is_not_taken() {
    let clinic = GithubDoctorTest::new();
    clinic.github.revoke_tokens();
    let refused = "bad github: GitHub does not take the token: it ran out, was withdrawn or is wrong";
    assert_eq!(clinic.failed_checks(false), [refused]);
    let hint = format!("Make a new one at {}/settings/tokens and set", clinic.github.api_url());
    assert!(clinic.grove.grove(["doctor"]).stdout.contains(&hint));
    assert_eq!(clinic.github.count_requests("GET", "/repos/"), 0, "it is not asked on and on");
    // Neither a token nor an App.
    clinic.write_config(&format!("webhook_secret = \"{WEBHOOK_SECRET}\""));
    assert_eq!(clinic.failed_checks(false), ["bad github: neither a token nor an App is configured"]);
    clinic.write_config(&format!(
        "webhook_secret = \"{WEBHOOK_SECRET}\"\napp_id = 7\nprivate_key_file = \"/nowhere.pem\""
    ));
    assert!(
        clinic.failed_checks(false)[0].starts_with("bad github: the App's private key /nowhere.pem cannot be read")
    );
}

#[test]
fn what_a_token_may_do() {
    let clinic = GithubDoctorTest::new();
    clinic.add_webhook(&unused_address());
    let with = |token: &str| clinic.write_config(&clinic.with_token(token));
    with(&clinic.github.token_with_scopes(BOT_LOGIN, "gist, read:org"));
    assert_eq!(clinic.failed_checks(false), ["bad github token: has not the scope `repo`; it has gist, read:org"]);
    with(&clinic.github.token_with_scopes(BOT_LOGIN, ""));
    assert_eq!(clinic.failed_checks(false), ["bad github token: has not the scope `repo`; it has none"]);
    with(&clinic.github.token_with_scopes(BOT_LOGIN, "public_repo"));
    assert_eq!(clinic.failed_checks(true), Vec::<String>::new());

    with(&clinic.github.fine_grained_token(BOT_LOGIN, 24 * 30));
    let said = clinic.github_checks(true);
    assert_eq!(said[1], "good github: as grove-bot, with a token");
    assert!(said[2].ends_with("the account may write there; whether the token may, GitHub does not say"), "{said:?}");
    assert!(said[3].contains("not known: only an admin"), "{said:?}");
    with(&clinic.github.fine_grained_token(BOT_LOGIN, 24 * 6));
    let soon = clinic.failed_checks(true);
    assert!(soon.len() == 2 && soon[0].starts_with("warning github token: runs out at 20"), "{soon:?}");
    assert_eq!(soon[1], "warning github webhook octo/shop: not known: only an admin of the repository may look");

    clinic.github.requests_left(499);
    let few = clinic.failed_checks(true);
    assert!(few[1].starts_with("warning github requests: 499 of 5000 requests are left until 20"), "{few:?}");
}

#[test]
fn what_is_wrong_with_a_repository() {
    let mut clinic = GithubDoctorTest::new();
    clinic.add_webhook(&unused_address());
    clinic.github.add_user(BOT_LOGIN, "read");
    assert_eq!(clinic.failed_checks(false), ["bad github octo/shop: may be read, not written"]);
    clinic.github.add_user(BOT_LOGIN, "admin");
    clinic.github.archive();
    let archived = "warning github octo/shop: archived, so nothing can be written there";
    assert_eq!(clinic.failed_checks(true), [archived]);
    clinic.github.rename_repo("octo/store");
    assert_eq!(clinic.failed_checks(false), ["bad github octo/shop: is called octo/store now", archived]);
    clinic.write_config(&clinic.with_token(&clinic.github.create_token(BOT_LOGIN)).replace("octo/shop", "octo/other"));
    let unseen = "bad github octo/other: GitHub does not know it, or does not show it to us";
    assert_eq!(clinic.failed_checks(false), [unseen]);
    clinic.write_config(&clinic.with_token(&clinic.github.create_token(BOT_LOGIN)).replace("octo/shop", "not a name"));
    let wrong = clinic.failed_checks(false);
    assert!(wrong.len() == 1 && wrong[0].contains("`not a name` in `adapters.github.repos`"), "{wrong:?}");
}

#[test]
fn codebases_are_looked_at_too() {
    let clinic = GithubDoctorTest::new();
    clinic.add_webhook(&unused_address());
    let (grove, other) = (&clinic.grove, clinic.github.another_repo("octo/other"));
    grove.repo.git(&["remote", "add", "origin", &other.clone_url()]);
    grove.grove(["codebase", "add", "--json"]).assert_success();
    other.add_user(BOT_LOGIN, "read");
    // The repository is not listed, so its events are ignored.
    assert_eq!(clinic.failed_checks(true), ["warning github octo/other: may be read, not written"]);
    let unlisted = clinic.with_token(&clinic.github.create_token(BOT_LOGIN)).replace("repos = [\"octo/shop\"]", "");
    clinic.write_config(&unlisted);
    assert_eq!(clinic.failed_checks(false), ["bad github octo/other: may be read, not written"]);
}

#[test]
fn whether_github_tells_us() {
    let clinic = GithubDoctorTest::new();
    let none = "warning github webhook octo/shop: none leads to `/webhooks/github`";
    assert_eq!(clinic.failed_checks(true), [none]);
    clinic.github.add_webhook("https://ci.example.com/hook", WEBHOOK_SECRET);
    assert_eq!(clinic.failed_checks(true), [none]);
    clinic.github.without_webhooks();

    let url = clinic.add_webhook(&unused_address());
    let said = clinic.github_checks(true);
    assert!(said.contains(&format!("good github webhook octo/shop: {url}, nothing was sent yet")), "{said:?}");
    clinic.github.hooks_tell(&WEBHOOK_EVENTS[1..4]);
    let untold = format!("warning github webhook octo/shop: {url} does not tell issues, pull_request_review_comment");
    assert_eq!(clinic.failed_checks(true), [untold]);
    clinic.github.hooks_tell(&["*"]);
    clinic.github.open_issue("alice", "Login fails", "It does.");
    let failed = clinic.failed_checks(true);
    let reach =
        format!("warning github webhook octo/shop: the last delivery to {url} failed: GitHub could not reach it");
    assert!(failed.len() == 1 && failed[0].starts_with(&reach), "{failed:?}");
    clinic.github.hooks_off();
    assert_eq!(clinic.failed_checks(false), [format!("bad github webhook octo/shop: {url} is switched off")]);
    // One of two is enough.
    clinic.add_webhook("http://user:hidden@127.0.0.1:1");
    assert_eq!(clinic.failed_checks(true), Vec::<String>::new());
    assert!(!clinic.grove.grove(["doctor"]).assert_success().stdout.contains("hidden"));
}

#[test]
fn a_hook_with_another_secret() {
    let clinic = GithubDoctorTest::new();
    let server = TestServer::start(&clinic.grove);
    let url = format!("{}/webhooks/github", server.address);
    clinic.github.add_webhook(&url, "another secret, also long");
    clinic.github.open_issue("alice", "Login fails", "It does.");
    let refused = format!(
        "bad github webhook octo/shop: the last delivery to {url} was refused with 401: its secret is another one"
    );
    assert_eq!(clinic.failed_checks(false), [refused]);
    clinic.github.without_webhooks();
    clinic.github.add_webhook(&url, "");
    let none = format!("bad github webhook octo/shop: {url} has no secret, so all that it tells is refused");
    assert_eq!(clinic.failed_checks(false), [none]);
}

#[test]
fn the_secret_itself() {
    let clinic = GithubDoctorTest::new();
    clinic.add_webhook(&unused_address());
    let settings = clinic.with_token(&clinic.github.create_token(BOT_LOGIN));
    clinic.write_config(&settings.replace(WEBHOOK_SECRET, "fifteen letters"));
    let short = "warning github webhook secret: shorter than 16 characters, so it can be guessed";
    assert_eq!(clinic.failed_checks(true), [short]);
    clinic.write_config(&settings.replace(WEBHOOK_SECRET, ""));
    let unset = "warning github webhook secret: not set, so nothing that GitHub tells is heard";
    assert_eq!(clinic.failed_checks(true), [unset]);
    clinic.write_config(&settings.replace(&format!("webhook_secret = \"{WEBHOOK_SECRET}\""), "mode = \"poll\""));
    let said = clinic.github_checks(true);
    assert!(!said.iter().any(|check| check.contains("webhook")), "{said:?}");
}

#[test]
fn an_app() {
    let clinic = GithubDoctorTest::new();
    clinic.write_config(&clinic.with_app());
    let url = format!("{}/webhooks/github", unused_address());
    clinic.github.app_webhook(&url, WEBHOOK_SECRET);
    let tells = format!("good github webhook: {url}, nothing was sent yet");
    let said = clinic.github_checks(true);
    assert_eq!(said[1..3], ["good github: as the App grove-dev, installed at octo".to_owned(), tells]);
    let rest = ["good github octo/shop: may be written", "good github git: octo/shop can be fetched"];
    assert_eq!(said[3..], rest);
    clinic.github.open_issue("alice", "Login fails", "It does.");
    clinic.github.app_may("contents", "read");
    clinic.github.app_may("issues", "none");
    let lacks = "contents (read), issues (nothing)";
    let wrong = clinic.failed_checks(false);
    assert_eq!(wrong[0], format!("bad github app: may not write {lacks}"));
    assert!(wrong[1].starts_with(&format!("warning github webhook: the last delivery to {url} failed")), "{wrong:?}");
    assert_eq!(wrong[2], format!("bad github octo/shop: the App may not write {lacks} there"));
    clinic.write_config(&clinic.with_app().replace("octo/shop", "octo/elsewhere"));
    clinic.github.without_webhooks();
    assert_eq!(
        clinic.failed_checks(false),
        [
            "warning github webhook: that of the App does not lead to `/webhooks/github`",
            "bad github octo/elsewhere: the App is not installed there",
        ]
    );
    clinic.write_config(&clinic.with_app().replace("app_id = 77", "app_id = 78"));
    assert_eq!(clinic.failed_checks(false), ["bad github: GitHub does not take the App's key"]);
}

#[test]
fn a_github_that_is_not_there_is_not_known() {
    let clinic = GithubDoctorTest::new();
    let settings = clinic.with_token(&clinic.github.create_token(BOT_LOGIN));
    let elsewhere = |address: &str| clinic.write_config(&settings.replace(&clinic.github.api_url(), address));
    let unknown = |why: &str| {
        let wrong = clinic.failed_checks(true);
        let begins = format!("warning github: not known: GitHub does not answer: {why}");
        assert!(wrong.len() == 1 && wrong[0].starts_with(&begins), "{wrong:?}");
    };
    elsewhere(&unused_address());
    unknown("");
    // It takes the connection, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere(&format!("http://{}", silent.local_addr().unwrap()));
    let began = Instant::now();
    unknown("the time is over");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    elsewhere("nowhere");
    let wrong = clinic.failed_checks(false);
    assert!(wrong[0].contains("`nowhere` is not the address of an API"), "{wrong:?}");
    // Some of it is not answered.
    clinic.write_config(&settings);
    clinic.add_webhook(&unused_address());
    clinic.github.fail_next_of("GET", "/repos/octo/shop/hooks", 1, RequestFault::Status(502));
    let wrong = clinic.failed_checks(true);
    assert_eq!(wrong, ["warning github webhook octo/shop: not known: GitHub does not answer: Something went wrong"]);
    for (status, verdict) in
        [(502, "warning github git: not known: "), (403, "bad github git: octo/shop cannot be fetched: ")]
    {
        clinic.github.fail_next_of("", "/octo/shop.git/", 1, RequestFault::Status(status));
        let wrong = clinic.failed_checks(status == 502);
        assert!(wrong.len() == 1 && wrong[0].starts_with(verdict), "{wrong:?}");
    }
}
