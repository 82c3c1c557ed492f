//! Browsers that are let in: under a host name of their own, for a while, and until they are sent away.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Stdio};
use std::{fs, thread};

use grove_testkit::{Sandbox, TestEngine, TestServer, TestStore, on_sqlite, wait_for};
use serde_json::json;

use super::page::{SignedInBrowser, new_link};
use super::{registered_sandbox, serve_command, start_test_server};

/// What a server on another port of this machine does that got the cookie: it posts, with any headers.
fn post_as(server: &TestServer, host: &str, cookie: &str) -> u16 {
    let origin = format!("http://{host}");
    let headers =
        [("host", host), ("origin", origin.as_str()), ("cookie", cookie), ("content-type", "application/json")];
    let body = json!({ "message": "/help" }).to_string();
    server.send_request("POST", "/api/conversations/web-1/messages", &headers, Some(&body)).status
}

on_sqlite! {
    fn a_cookie_counts_under_the_pages_own_host_name_alone(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let browser = SignedInBrowser::open_page(&server);
        let label = browser.host.split('.').next().unwrap().to_owned();
        assert!(label.strip_prefix("grove-").is_some_and(|random| random.len() >= 16), "{}", browser.host);
        assert!(browser.host.starts_with(&format!("{label}.localhost:")), "{}", browser.host);
        assert_eq!(browser.get(&server, "/").status, 200);
        assert_eq!(post_as(&server, &browser.host, &browser.cookie), 202);
        let address = server.address.strip_prefix("http://").unwrap();
        let port = address.rsplit_once(':').unwrap().1;
        for (host, status) in [
            (address.to_owned(), 401),
            (format!("localhost:{port}"), 401),
            (format!("[::1]:{port}"), 401),
            (format!("grove-00000000000000000000.localhost:{port}"), 403),
            (format!("other.{}", browser.host), 403),
        ] {
            assert_eq!(post_as(&server, &host, &browser.cookie), status, "{host}");
            let read = server.send_request("GET", "/api/worktrees", &[("host", &host), ("cookie", &browser.cookie)], None);
            assert_eq!(read.status, status, "{host}");
        }
        // The name is kept, for this user alone, so that a bookmark outlives the server.
        let kept = grove.grove_home().join("page-host");
        assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&kept).unwrap().trim(), format!("{label}.localhost"));
        // Scripts go on as before.
        assert_eq!(server.call_api("GET", "/api/worktrees", None).status, 200);
    }

    fn a_session_is_random_survives_a_restart_and_ends_when_it_is_told_to(store: TestStore) {
        let grove = registered_sandbox(store);
        let mut server = TestServer::start(&grove);
        let (first, second, third) = (SignedInBrowser::open_page(&server), SignedInBrowser::open_page(&server), SignedInBrowser::open_page(&server));
        for browser in [&first, &second, &third] {
            let value = browser.cookie.strip_prefix("grove=grove_session_").expect(&browser.cookie);
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            assert!(value.len() >= 43 && value.chars().all(plain), "{value}");
        }
        assert!(first.cookie != second.cookie && first.host == second.host);
        server.terminate();
        server = TestServer::start(&grove);
        let status = |browser: &SignedInBrowser| browser.get(&server, "/").status;
        assert_eq!((status(&first), status(&second)), (200, 200));
        // A page cannot be made to end it from elsewhere.
        let end = |headers: &[(&str, &str)]| first.request_with_headers(&server, "DELETE", "/api/session", headers);
        assert_eq!(end(&[]).0.status, 401);
        assert_eq!(end(&[("origin", "http://evil.example")]).0.status, 403);
        assert_eq!(status(&first), 200);
        let (ended, headers) = end(&[("origin", &format!("http://{}", first.host))]);
        assert_eq!((ended.status, ended.json()["ended"].as_u64()), (200, Some(1)), "{ended:?}");
        let cleared = headers.iter().find(|(name, _)| name == "set-cookie").expect("the cookie is taken back");
        assert!(cleared.1.starts_with("grove=;") && cleared.1.contains("Max-Age=0"), "{cleared:?}");
        assert_eq!((status(&first), status(&second)), (401, 200));
        // A client with the token ends the sessions of all browsers.
        let ended = server.call_api("DELETE", "/api/session", None);
        assert_eq!((ended.status, ended.json()["ended"].as_u64()), (200, Some(2)), "{ended:?}");
        assert_eq!((status(&second), status(&third)), (401, 401));
        assert_eq!(server.call_api("GET", "/api/worktrees", None).status, 200);
    }

    fn a_stream_ends_with_its_session(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        let browser = SignedInBrowser::open_page(&server);
        let stream = ureq::get(format!("{}/api/events", server.address));
        let stream = stream.header("host", &browser.host).header("cookie", &browser.cookie).call().unwrap();
        let lines = thread::spawn(|| BufReader::new(stream.into_body().into_reader()).lines().map_while(Result::ok).count());
        assert_eq!(server.call_api("DELETE", "/api/session", None).status, 200);
        wait_for(|| lines.is_finished());
    }
}

#[test]
fn another_token_ends_all_sessions_and_the_store_holds_no_value_that_lets_in() {
    let store = TestStore::new(TestEngine::Sqlite);
    let file = store.url.strip_prefix("sqlite://").unwrap().to_owned();
    let grove = registered_sandbox(store);
    let mut server = TestServer::start(&grove);
    let link = new_link(&server);
    let code = link.rsplit('/').next().unwrap().to_owned();
    assert!(code.strip_prefix("grove_link_").is_some_and(|random| random.len() >= 43), "{link}");
    assert!(!link.contains(server.api_token()));
    let browser = SignedInBrowser::open_page(&server);
    let stored: Vec<u8> = ["", "-wal"].iter().flat_map(|end| fs::read(format!("{file}{end}")).unwrap()).collect();
    for value in [code.as_str(), browser.cookie.strip_prefix("grove=").unwrap(), server.api_token()] {
        assert!(!stored.windows(value.len()).any(|part| part == value.as_bytes()), "{value} is in the store");
    }
    let bearer = server.api_token().to_owned();
    server.terminate();
    fs::remove_file(grove.grove_home().join("token")).unwrap();
    let server = TestServer::start(&grove);
    assert_ne!(server.api_token(), bearer);
    assert_eq!(browser.get(&server, "/").status, 401);
    assert_eq!(SignedInBrowser::open_page(&server).get(&server, "/").status, 200);
}

#[test]
fn a_link_works_once_and_only_under_its_host_name() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let link = new_link(&server);
    let (origin, path) = link.split_at(link.find("/login/").unwrap());
    let host = origin.strip_prefix("http://").unwrap();
    let follow = |method: &str, host: &str| {
        server.request_with_headers(method, path, &[("host", host), ("accept", "text/html")], None)
    };
    // Under another name it is refused, and not used up; nor by a look ahead.
    let address = server.address.strip_prefix("http://").unwrap();
    let (elsewhere, headers) = follow("GET", address);
    assert!(elsewhere.status == 401 && !headers.iter().any(|(name, _)| name == "set-cookie"), "{elsewhere:?}");
    assert_eq!(follow("HEAD", host).0.status, 204);
    // Many follow it at once: one is let in.
    let statuses: Vec<u16> = thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| follow("GET", host).0.status)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    let used = follow("GET", host).0;
    assert!(used.status == 401 && used.text.contains("<code>grove up</code>"), "{used:?}");
}

#[test]
fn where_the_server_listens_elsewhere_a_link_is_for_the_address_that_it_was_asked_at() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let mut server =
        TestServer::start_command(grove.grove_command(["serve", "--listen", "0.0.0.0:0", "--test-adapter"]), &grove);
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    server.address = format!("http://127.0.0.1:{port}");
    let bearer = format!("Bearer {}", server.api_token());
    let link_at = |host: &str| {
        let made = server.send_request("POST", "/api/links", &[("authorization", &bearer), ("host", host)], None);
        made.json()["link"].as_str().expect("a link").to_owned()
    };
    let local = link_at(&format!("127.0.0.1:{port}"));
    assert!(local.starts_with("http://grove-") && local.contains(&format!(".localhost:{port}/login/")), "{local}");
    let there = format!("192.0.2.7:{port}");
    let link = link_at(&there);
    assert!(link.starts_with(&format!("http://{there}/login/")), "{link}");
    let browser = SignedInBrowser::follow_link(&server, &link);
    assert_eq!(browser.get(&server, "/").status, 200);
    for other in [format!("192.0.2.8:{port}"), local.split('/').nth(2).unwrap().to_owned()] {
        assert_eq!(post_as(&server, &other, &browser.cookie), 401, "{other}");
    }
}

/// `grove up`, and what it printed so far. It ends with this value.
struct GroveUpProcess {
    child: Child,
    link: String,
    lasting: String,
    /// Kept open, so that it can go on printing.
    _stdout: BufReader<ChildStdout>,
}

impl GroveUpProcess {
    fn run_up(grove: &Sandbox, listen: &str) -> Self {
        let mut command = grove.grove_command(["up", "--no-open", "--listen", listen]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut lines = stdout.by_ref().lines().map_while(Result::ok);
        let link = lines.find(|line| line.contains("/login/")).expect("a link").trim().to_owned();
        let lasting = lines.find(|line| line.contains("http://")).expect("the lasting address");
        Self { child, link, lasting, _stdout: stdout }
    }
}

impl Drop for GroveUpProcess {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn grove_up_prints_a_link_that_works_also_when_the_server_runs_already() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let server = TestServer::start_command(serve_command(&grove), &grove);
    let address = server.address.strip_prefix("http://").unwrap().to_owned();
    let mut up = GroveUpProcess::run_up(&grove, &address);
    assert!(up.child.wait().unwrap().success());
    let browser = SignedInBrowser::follow_link(&server, &up.link);
    assert_eq!(browser.get(&server, "/").status, 200);
    assert!(up.lasting.contains(&format!("http://{}/", browser.host)), "{}", up.lasting);
    let host = browser.host;
    drop(server);
    // The server's address is free now; `grove up` takes it.
    let up = GroveUpProcess::run_up(&grove, &address);
    let path = up.link.strip_prefix(&format!("http://{host}")).expect(&up.link);
    let answer = ureq::get(format!("http://{address}{path}")).header("host", &host).call().unwrap();
    assert!(answer.headers()["set-cookie"].to_str().unwrap().starts_with("grove=grove_session_"), "{answer:?}");
}
