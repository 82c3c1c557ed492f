//! What `grove doctor` says of GitHub.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use grove_testkit::github::{Asked, BOT, FakeGithub, Fault};
use grove_testkit::{Sandbox, TestRepo, TestServer};

use super::SECRET;
use crate::sandbox;

const EVENTS: [&str; 5] =
    ["issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment"];

/// A GitHub where the bot is an admin, and a machine where it is configured.
struct Clinic {
    github: FakeGithub,
    grove: Sandbox,
}

impl Clinic {
    fn new() -> Self {
        let github = FakeGithub::start("octo/shop");
        github.user(BOT, "admin");
        let clinic = Self { grove: sandbox(TestRepo::new()), github };
        let token = clinic.github.token(BOT);
        clinic.configure(&clinic.with_token(&token));
        clinic
    }

    fn with_token(&self, token: &str) -> String {
        format!(
            "token = \"{token}\"\nwebhook_secret = \"{SECRET}\"\nrepos = [\"octo/shop\"]\napi_url = \"{}\"",
            self.github.api_url()
        )
    }

    fn with_app(&self) -> String {
        let key = self.grove.repo.dir().join("key.pem");
        fs::write(&key, FakeGithub::APP_KEY).unwrap();
        self.github.app(77, "grove-dev");
        let (token, app) = ("token = \"\"", format!("app_id = 77\nprivate_key_file = \"{}\"", key.display()));
        self.with_token("").replace(token, &app)
    }

    fn configure(&self, settings: &str) {
        fs::create_dir_all(self.grove.grove_home()).unwrap();
        fs::write(self.grove.grove_home().join("config.toml"), format!("[adapters.github]\n{settings}\n")).unwrap();
    }

    /// What is said of GitHub, as "verdict name: detail".
    #[track_caller]
    fn said(&self, well: bool) -> Vec<String> {
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
    fn wrong(&self, well: bool) -> Vec<String> {
        self.said(well).into_iter().filter(|check| !check.starts_with("good")).collect()
    }

    fn hook(&self, address: &str) -> String {
        let url = format!("{address}/webhooks/github");
        self.github.webhook(&url, SECRET);
        self.github.hooks_tell(&EVENTS);
        url
    }
}

/// An address where nobody is.
fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn all_is_well() {
    let clinic = Clinic::new();
    let server = TestServer::start(&clinic.grove);
    let url = clinic.hook(&server.address);
    clinic.github.issue("alice", "Login fails", "It does.");
    drop(server);
    assert_eq!(
        clinic.said(true),
        [
            "good github webhook secret: set".to_owned(),
            "good github: as grove-bot, with a classic token".to_owned(),
            "good github octo/shop: may be written".to_owned(),
            format!("good github webhook octo/shop: {url}, last answered 202"),
            "good github git: octo/shop can be fetched".to_owned(),
        ]
    );
    let shown = clinic.grove.grove(["doctor"]).ok().stdout;
    assert!(shown.contains("ok  github: as grove-bot, with a classic token\n"), "{shown}");
    assert!(!shown.contains("ghp_") && !shown.contains(SECRET), "{shown}");
    let reads = |asked: &Asked| asked.method == "GET" || asked.path.ends_with("/git-upload-pack");
    assert!(clinic.github.requests().iter().all(reads), "nothing is changed");
}

#[test]
fn nothing_is_said_where_nothing_is_configured() {
    let clinic = Clinic::new();
    clinic.configure(&format!("api_url = \"{}\"", clinic.github.api_url()));
    assert_eq!(clinic.said(true), Vec::<String>::new());
    assert!(clinic.github.requests().is_empty());
}

#[test]
fn a_token_that_is_not_taken() {
    let clinic = Clinic::new();
    clinic.github.revoke_tokens();
    let refused = "bad github: GitHub does not take the token: it ran out, was withdrawn or is wrong";
    assert_eq!(clinic.wrong(false), [refused]);
    let hint = format!("Make a new one at {}/settings/tokens and set", clinic.github.api_url());
    assert!(clinic.grove.grove(["doctor"]).stdout.contains(&hint));
    assert_eq!(clinic.github.asked("GET", "/repos/"), 0, "it is not asked on and on");
    // Neither a token nor an App.
    clinic.configure(&format!("webhook_secret = \"{SECRET}\""));
    assert_eq!(clinic.wrong(false), ["bad github: neither a token nor an App is configured"]);
    clinic.configure(&format!("webhook_secret = \"{SECRET}\"\napp_id = 7\nprivate_key_file = \"/nowhere.pem\""));
    assert!(clinic.wrong(false)[0].starts_with("bad github: the App's private key /nowhere.pem cannot be read"));
}

#[test]
fn what_a_token_may_do() {
    let clinic = Clinic::new();
    clinic.hook(&nowhere());
    let with = |token: &str| clinic.configure(&clinic.with_token(token));
    with(&clinic.github.token_with_scopes(BOT, "gist, read:org"));
    assert_eq!(clinic.wrong(false), ["bad github token: has not the scope `repo`; it has gist, read:org"]);
    with(&clinic.github.token_with_scopes(BOT, ""));
    assert_eq!(clinic.wrong(false), ["bad github token: has not the scope `repo`; it has none"]);
    with(&clinic.github.token_with_scopes(BOT, "public_repo"));
    assert_eq!(clinic.wrong(true), Vec::<String>::new());

    with(&clinic.github.fine_grained_token(BOT, 24 * 30));
    let said = clinic.said(true);
    assert_eq!(said[1], "good github: as grove-bot, with a token");
    assert!(said[2].ends_with("the account may write there; whether the token may, GitHub does not say"), "{said:?}");
    assert!(said[3].contains("not known: only an admin"), "{said:?}");
    with(&clinic.github.fine_grained_token(BOT, 24 * 6));
    let soon = clinic.wrong(true);
    assert!(soon.len() == 2 && soon[0].starts_with("warning github token: runs out at 20"), "{soon:?}");
    assert_eq!(soon[1], "warning github webhook octo/shop: not known: only an admin of the repository may look");

    clinic.github.requests_left(499);
    let few = clinic.wrong(true);
    assert!(few[1].starts_with("warning github requests: 499 of 5000 requests are left until 20"), "{few:?}");
}

#[test]
fn what_is_wrong_with_a_repository() {
    let mut clinic = Clinic::new();
    clinic.hook(&nowhere());
    clinic.github.user(BOT, "read");
    assert_eq!(clinic.wrong(false), ["bad github octo/shop: may be read, not written"]);
    clinic.github.user(BOT, "admin");
    clinic.github.archive();
    let archived = "warning github octo/shop: archived, so nothing can be written there";
    assert_eq!(clinic.wrong(true), [archived]);
    clinic.github.rename("octo/store");
    assert_eq!(clinic.wrong(false), ["bad github octo/shop: is called octo/store now", archived]);
    clinic.configure(&clinic.with_token(&clinic.github.token(BOT)).replace("octo/shop", "octo/other"));
    let unseen = "bad github octo/other: GitHub does not know it, or does not show it to us";
    assert_eq!(clinic.wrong(false), [unseen]);
    clinic.configure(&clinic.with_token(&clinic.github.token(BOT)).replace("octo/shop", "not a name"));
    let wrong = clinic.wrong(false);
    assert!(wrong.len() == 1 && wrong[0].contains("`not a name` in `adapters.github.repos`"), "{wrong:?}");
}

#[test]
fn codebases_are_looked_at_too() {
    let clinic = Clinic::new();
    clinic.hook(&nowhere());
    let (grove, other) = (&clinic.grove, clinic.github.another("octo/other"));
    grove.repo.git(&["remote", "add", "origin", &other.clone_url()]);
    grove.grove(["codebase", "add", "--json"]).ok();
    other.user(BOT, "read");
    // It is not listed, so nobody there is heard.
    assert_eq!(clinic.wrong(true), ["warning github octo/other: may be read, not written"]);
    let unlisted = clinic.with_token(&clinic.github.token(BOT)).replace("repos = [\"octo/shop\"]", "");
    clinic.configure(&unlisted);
    assert_eq!(clinic.wrong(false), ["bad github octo/other: may be read, not written"]);
}

#[test]
fn whether_github_tells_us() {
    let clinic = Clinic::new();
    let none = "warning github webhook octo/shop: none leads to `/webhooks/github`";
    assert_eq!(clinic.wrong(true), [none]);
    clinic.github.webhook("https://ci.example.com/hook", SECRET);
    assert_eq!(clinic.wrong(true), [none]);
    clinic.github.without_webhooks();

    let url = clinic.hook(&nowhere());
    let said = clinic.said(true);
    assert!(said.contains(&format!("good github webhook octo/shop: {url}, nothing was sent yet")), "{said:?}");
    clinic.github.hooks_tell(&EVENTS[1..4]);
    let untold = format!("warning github webhook octo/shop: {url} does not tell issues, pull_request_review_comment");
    assert_eq!(clinic.wrong(true), [untold]);
    clinic.github.hooks_tell(&["*"]);
    clinic.github.issue("alice", "Login fails", "It does.");
    let failed = clinic.wrong(true);
    let reach =
        format!("warning github webhook octo/shop: the last delivery to {url} failed: GitHub could not reach it");
    assert!(failed.len() == 1 && failed[0].starts_with(&reach), "{failed:?}");
    clinic.github.hooks_off();
    assert_eq!(clinic.wrong(false), [format!("bad github webhook octo/shop: {url} is switched off")]);
    // One of two is enough.
    clinic.hook("http://user:hidden@127.0.0.1:1");
    assert_eq!(clinic.wrong(true), Vec::<String>::new());
    assert!(!clinic.grove.grove(["doctor"]).ok().stdout.contains("hidden"));
}

#[test]
fn a_hook_with_another_secret() {
    let clinic = Clinic::new();
    let server = TestServer::start(&clinic.grove);
    let url = format!("{}/webhooks/github", server.address);
    clinic.github.webhook(&url, "another secret, also long");
    clinic.github.issue("alice", "Login fails", "It does.");
    let refused = format!(
        "bad github webhook octo/shop: the last delivery to {url} was refused with 401: its secret is another one"
    );
    assert_eq!(clinic.wrong(false), [refused]);
    clinic.github.without_webhooks();
    clinic.github.webhook(&url, "");
    let none = format!("bad github webhook octo/shop: {url} has no secret, so all that it tells is refused");
    assert_eq!(clinic.wrong(false), [none]);
}

#[test]
fn the_secret_itself() {
    let clinic = Clinic::new();
    clinic.hook(&nowhere());
    let settings = clinic.with_token(&clinic.github.token(BOT));
    clinic.configure(&settings.replace(SECRET, "fifteen letters"));
    let short = "warning github webhook secret: shorter than 16 characters, so somebody may guess it";
    assert_eq!(clinic.wrong(true), [short]);
    clinic.configure(&settings.replace(SECRET, ""));
    let unset = "warning github webhook secret: not set, so nothing that GitHub tells is heard";
    assert_eq!(clinic.wrong(true), [unset]);
    clinic.configure(&settings.replace(&format!("webhook_secret = \"{SECRET}\""), "mode = \"poll\""));
    let said = clinic.said(true);
    assert!(!said.iter().any(|check| check.contains("webhook")), "{said:?}");
}

#[test]
fn an_app() {
    let clinic = Clinic::new();
    clinic.configure(&clinic.with_app());
    let url = format!("{}/webhooks/github", nowhere());
    clinic.github.app_webhook(&url, SECRET);
    let tells = format!("good github webhook: {url}, nothing was sent yet");
    let said = clinic.said(true);
    assert_eq!(said[1..3], ["good github: as the App grove-dev, installed at octo".to_owned(), tells]);
    let rest = ["good github octo/shop: may be written", "good github git: octo/shop can be fetched"];
    assert_eq!(said[3..], rest);
    clinic.github.issue("alice", "Login fails", "It does.");
    clinic.github.app_may("contents", "read");
    clinic.github.app_may("issues", "none");
    let lacks = "contents (read), issues (nothing)";
    let wrong = clinic.wrong(false);
    assert_eq!(wrong[0], format!("bad github app: may not write {lacks}"));
    assert!(wrong[1].starts_with(&format!("warning github webhook: the last delivery to {url} failed")), "{wrong:?}");
    assert_eq!(wrong[2], format!("bad github octo/shop: the App may not write {lacks} there"));
    clinic.configure(&clinic.with_app().replace("octo/shop", "octo/elsewhere"));
    clinic.github.without_webhooks();
    assert_eq!(
        clinic.wrong(false),
        [
            "warning github webhook: that of the App does not lead to `/webhooks/github`",
            "bad github octo/elsewhere: the App is not installed there",
        ]
    );
    clinic.configure(&clinic.with_app().replace("app_id = 77", "app_id = 78"));
    assert_eq!(clinic.wrong(false), ["bad github: GitHub does not take the App's key"]);
}

#[test]
fn a_github_that_is_not_there_is_not_known() {
    let clinic = Clinic::new();
    let settings = clinic.with_token(&clinic.github.token(BOT));
    let elsewhere = |address: &str| clinic.configure(&settings.replace(&clinic.github.api_url(), address));
    let unknown = |why: &str| {
        let wrong = clinic.wrong(true);
        let begins = format!("warning github: not known: GitHub does not answer: {why}");
        assert!(wrong.len() == 1 && wrong[0].starts_with(&begins), "{wrong:?}");
    };
    elsewhere(&nowhere());
    unknown("");
    // It takes the connection, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere(&format!("http://{}", silent.local_addr().unwrap()));
    let began = Instant::now();
    unknown("the time is over");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    elsewhere("nowhere");
    let wrong = clinic.wrong(false);
    assert!(wrong[0].contains("`nowhere` is not the address of an API"), "{wrong:?}");
    // Some of it is not answered.
    clinic.configure(&settings);
    clinic.hook(&nowhere());
    clinic.github.fail_next_of("GET", "/repos/octo/shop/hooks", 1, Fault::Status(502));
    let wrong = clinic.wrong(true);
    assert_eq!(wrong, ["warning github webhook octo/shop: not known: GitHub does not answer: Something went wrong"]);
    for (status, verdict) in
        [(502, "warning github git: not known: "), (403, "bad github git: octo/shop cannot be fetched: ")]
    {
        clinic.github.fail_next_of("", "/octo/shop.git/", 1, Fault::Status(status));
        let wrong = clinic.wrong(status == 502);
        assert!(wrong.len() == 1 && wrong[0].starts_with(verdict), "{wrong:?}");
    }
}
