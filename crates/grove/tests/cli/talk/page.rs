//! The page: over plain HTTP, and in a real browser.

use std::path::Path;
use std::process::Command;

use grove_testkit::{ServerResponse, TestEngine, TestRepo, TestServer, TestStore};
use serde_json::json;

use super::{list_branches, registered_sandbox, start_test_server};

/// A browser that was let in.
pub struct SignedInBrowser {
    /// The host name, with the port, under which it was let in.
    pub host: String,
    pub cookie: String,
    /// The page that let it in, and sends it on.
    pub landing: String,
}

impl SignedInBrowser {
    /// Asks for a link and follows it.
    #[track_caller]
    pub fn open_page(server: &TestServer) -> Self {
        Self::follow_link(server, &new_link(server))
    }

    #[track_caller]
    pub fn follow_link(server: &TestServer, link: &str) -> Self {
        let (origin, path) = link.split_at(link.find("/login/").expect("a link"));
        let host = origin.strip_prefix("http://").expect("a link").to_owned();
        let asked = [("host", host.as_str()), ("accept", "text/html")];
        let (answer, headers) = server.request_with_headers("GET", path, &asked, None);
        assert_eq!(answer.status, 200, "{answer:?}");
        let set = headers.iter().find(|(name, _)| name == "set-cookie").map(|(_, value)| value).expect("a cookie");
        for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
            assert!(set.contains(part), "{set}");
        }
        assert!(!set.contains("Domain"), "{set}");
        let cookie = set.split(';').next().expect("a cookie").to_owned();
        Self { host, cookie, landing: answer.text }
    }

    pub fn request_with_headers(
        &self,
        server: &TestServer,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> (ServerResponse, Vec<(String, String)>) {
        let mut all = vec![("host", self.host.as_str()), ("cookie", self.cookie.as_str())];
        all.extend(headers);
        server.request_with_headers(method, path, &all, None)
    }

    pub fn get(&self, server: &TestServer, path: &str) -> ServerResponse {
        self.request_with_headers(server, "GET", path, &[("accept", "text/html")]).0
    }
}

pub fn new_link(server: &TestServer) -> String {
    let made = server.call_api("POST", "/api/links", None);
    made.json()["link"].as_str().expect("a link").to_owned()
}

#[test]
fn a_browser_that_is_not_let_in_is_told_the_way() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let asked = [("accept", "text/html"), ("cookie", "grove=wrong")];
    let closed = server.send_request("GET", "/", &asked, None);
    assert_eq!(closed.status, 401);
    assert!(closed.text.starts_with("<!DOCTYPE html>") && closed.text.contains("<code>grove up</code>"), "{closed:?}");
    // The rest of the page as scripts get it.
    for path in ["/page/worktrees", "/page/chat?c=web-1", "/api/events"] {
        let answer = server.send_request("GET", path, &[], None);
        assert_eq!((answer.status, answer.json()["error"]["code"].as_str()), (401, Some("no_token")), "{path}");
    }
    let page = SignedInBrowser::open_page(&server).get(&server, "/");
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("git log --oneline -3"), "what to type first: {page:?}");
}

#[test]
fn every_answer_is_strict_about_what_a_browser_may_run() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let browser = SignedInBrowser::open_page(&server);
    for path in ["/", "/page/worktrees", "/api/worktrees", "/assets/app.js", "/login/none", "/nothing"] {
        let (_, headers) = browser.request_with_headers(&server, "GET", path, &[("accept", "text/html")]);
        let header = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name == wanted);
            found.map(|(_, value)| value.as_str()).unwrap_or_else(|| panic!("{path}: no {wanted}"))
        };
        let policy = header("content-security-policy");
        assert!(policy.contains("default-src 'self'") && policy.contains("frame-ancestors 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!((header("x-content-type-options"), header("referrer-policy")), ("nosniff", "no-referrer"), "{path}");
    }
}

#[test]
fn files_are_asked_for_again_and_sent_once() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    for (name, kind) in [
        ("app.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("htmx.min.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let path = format!("/assets/{name}");
        let (answer, headers) = server.request_with_headers("GET", &path, &[], None);
        let header = |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        assert_eq!((answer.status, header("content-type").as_deref()), (200, Some(kind)), "{name}");
        let tag = header("etag").expect("a tag");
        assert_eq!(server.send_request("GET", &path, &[("if-none-match", &tag)], None).status, 304, "{name}");
    }
    assert_eq!(server.send_request("GET", "/assets/..%2Fapp.js", &[], None).status, 404);
    assert_eq!(server.send_request("GET", "/assets/app.js", &[("host", "evil.example")], None).status, 403);
}

#[test]
fn a_message_is_shown_as_it_was_typed_and_never_as_html() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let browser = SignedInBrowser::open_page(&server);
    let typed = "echo '<script>alert(1)</script>'";
    let path = "/api/conversations/web-1/messages";
    let body = json!({ "message": typed }).to_string();
    let post = |headers: &[(&str, &str)]| {
        let cookie = ("cookie", browser.cookie.as_str());
        let mut all = vec![("host", browser.host.as_str()), cookie, ("content-type", "application/json")];
        all.extend(headers);
        server.send_request("POST", path, &all, Some(&body)).status
    };
    assert_eq!(post(&[]), 401, "a cookie alone changes nothing");
    assert_eq!(post(&[("origin", "http://evil.example")]), 403);
    assert_eq!(post(&[("origin", &format!("http://{}", browser.host))]), 202);
    server.wait_until_settled("web-1");
    for path in ["/", "/?c=web-1", "/page/chat?c=web-1", "/page/conversations?c=web-1"] {
        let page = browser.get(&server, path);
        assert_eq!(page.status, 200, "{page:?}");
        assert!(page.text.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{path}: {page:?}");
        assert!(!page.text.contains("<script>alert"), "{path}: {page:?}");
    }
    // What is in the address is no HTML, either.
    let odd = browser.get(&server, "/?c=%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert!(odd.status == 200 && !odd.text.contains("<script>alert"), "{odd:?}");
}

#[test]
fn a_plan_that_was_shown_is_not_carried_out_on_something_else() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let made = server.call_api("POST", "/api/worktrees", Some(&json!({ "name": "fix" }))).json();
    let (id, path) = (made["id"].as_str().unwrap(), Path::new(made["path"].as_str().unwrap()));
    let plan = server.call_api("GET", &format!("/page/worktrees/{id}/plan"), None);
    assert!(plan.text.contains("Nothing is in the way.") && plan.text.contains("kept for 30 days"), "{plan:?}");
    let seen = server.call_api("GET", &format!("/api/worktrees/{id}/plan"), None).json()["fingerprint"].clone();
    std::fs::write(path.join("file"), "x").unwrap();
    let remove = |seen: &str| server.call_api("DELETE", &format!("/page/worktrees/{id}?force=true&seen={seen}"), None);
    let refused = remove(seen.as_str().unwrap());
    assert_eq!(refused.status, 409, "{refused:?}");
    assert_eq!(list_branches(&grove), ["fix"]);
    let plan = server.call_api("GET", &format!("/page/worktrees/{id}/plan"), None);
    assert!(plan.text.contains("files that git does not know") && plan.text.contains("Remove anyway"), "{plan:?}");
    let seen = server.call_api("GET", &format!("/api/worktrees/{id}/plan"), None).json()["fingerprint"].clone();
    let removed = remove(seen.as_str().unwrap());
    assert!(removed.status == 200 && removed.text.contains("Undo"), "{removed:?}");
    assert!(!path.exists());
    let back = server.call_api("POST", &format!("/page/worktrees/{id}/undo"), None);
    assert!(back.status == 200 && back.text.contains("is back"), "{back:?}");
    assert!(path.join("file").exists());
}

#[test]
fn a_hibernated_one_has_the_plan_that_is_carried_out() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let made = server.call_api("POST", "/api/worktrees", Some(&json!({ "name": "fix" }))).json();
    let (id, path) = (made["id"].as_str().unwrap(), Path::new(made["path"].as_str().unwrap()));
    std::fs::write(path.join("file"), "x").unwrap();
    let state =
        |what: &str| server.call_api("POST", &format!("/api/worktrees/{id}/{what}"), None).json()["state"].clone();
    assert_eq!(state("hibernate"), "hibernated");
    let dialog = server.call_api("GET", &format!("/page/worktrees/{id}/plan"), None);
    assert!(
        dialog.text.contains("files that git does not know") && dialog.text.contains("Remove anyway"),
        "{dialog:?}"
    );
    assert!(!dialog.text.contains("Forget"), "{dialog:?}");
    let plan = server.call_api("GET", &format!("/api/worktrees/{id}/plan"), None).json();
    for address in ["page", "api"] {
        let refused = server.call_api("DELETE", &format!("/{address}/worktrees/{id}"), None);
        assert_eq!((refused.status, &refused.json()["error"]["reasons"]), (409, &plan["reasons"]), "{refused:?}");
    }
    let seen = plan["fingerprint"].as_str().unwrap();
    let removed = server.call_api("DELETE", &format!("/page/worktrees/{id}?force=true&seen={seen}"), None);
    assert!(removed.status == 200 && removed.text.contains("Undo"), "{removed:?}");
    assert_eq!(state("undo"), "dirty");
    assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "x");
}

/// `GROVE_TEST_PICTURES=FOLDER` keeps pictures of the page.
#[test]
fn a_person_uses_it_in_a_browser() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let config = "[agents.cat]\ncommand = [\"cat\"]\n";
    std::fs::write(grove.grove_home().join("config.toml"), config).expect("settings");
    let server = TestServer::start(&grove);
    let driver = std::env::var_os("GROVE_TEST_BROWSER")
        .expect("the browser's driver is missing: run `scripts/test`, which installs it and sets GROVE_TEST_BROWSER");
    for program in ["node", "chromium"] {
        let there = Command::new(program).arg("--version").output();
        assert!(there.is_ok(), "{program} is missing: run `scripts/test`, which installs it");
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser/page.mjs");
    let mut command = Command::new("node");
    command.env_clear().envs(grove_testkit::bare_env(&grove.repo.home_dir())).env("GROVE_TEST_BROWSER", driver);
    let second = TestRepo::new();
    let path = second.path().canonicalize().expect("a path");
    command.arg(script).arg(new_link(&server)).arg(path).args(std::env::var_os("GROVE_TEST_PICTURES"));
    let output = command.output().expect("node starts");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}\n{:#?}", server.take_log_lines());
    let said: serde_json::Value = serde_json::from_str(&said).expect("what the browser saw");
    let worktrees = grove.repo.git(&["worktree", "list", "--porcelain"]);
    let branch = said["branch"].as_str().expect("a branch");
    assert!(!worktrees.contains(&format!("refs/heads/{branch}")), "{worktrees}");
    // The worktrees of three conversations are still there; the others were in the second repository.
    let left = list_branches(&grove);
    assert_eq!(left.len(), 3, "{left:?}");
    assert!(left.iter().all(|branch| worktrees.contains(&format!("refs/heads/{branch}"))), "{left:?} {worktrees}");
}
