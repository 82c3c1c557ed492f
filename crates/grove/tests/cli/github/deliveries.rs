//! Webhooks that are not what they should be.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use grove_store::{Store, StoreOptions};
use grove_testkit::github::sign_body;
use grove_testkit::{Sandbox, ServerResponse, TestEngine, TestRepo, TestServer, TestStore, both_engines};
use serde_json::json;

use super::WEBHOOK_SECRET;
use crate::sandbox_on;

/// A server that knows the secret and nothing else: what it takes waits in the store.
struct WebhookTest {
    url: String,
    server: TestServer,
    _grove: Sandbox,
}

impl WebhookTest {
    fn new(store: TestStore) -> Self {
        let url = store.url.clone();
        let grove = sandbox_on(store, TestRepo::new());
        let mut command = grove.grove_command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"]);
        command.env("WEBHOOK_SECRET", format!("an older one,{WEBHOOK_SECRET}"));
        let server = TestServer::start_command(command, &grove);
        Self { url, server, _grove: grove }
    }

    fn post_webhook(&self, headers: &[(&str, &str)], body: &str) -> ServerResponse {
        self.server.send_request("POST", "/webhooks/github", headers, Some(body))
    }

    /// A delivery as GitHub sends it.
    fn deliver_event(&self, id: &str, body: &str) -> ServerResponse {
        self.post_webhook(&signed_headers(id, "issue_comment", &sign_body(WEBHOOK_SECRET, body.as_bytes())), body)
    }

    /// The deliveries that are kept, in order.
    fn kept_deliveries(&self) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::open(&self.url, StoreOptions::default()).await.unwrap();
            let events = store.waiting_events("github", None, 100_000).await.unwrap();
            store.close().await;
            events.into_iter().map(|event| event.delivery).collect()
        })
    }
}

fn signed_headers<'a>(id: &'a str, event: &'a str, signature: &'a str) -> [(&'a str, &'a str); 4] {
    let json = ("content-type", "application/json");
    [json, ("x-github-event", event), ("x-github-delivery", id), ("x-hub-signature-256", signature)]
}

fn comment_payload(body: &str) -> String {
    json!({
        "action": "created",
        "issue": { "number": 42, "title": "Login fails", "body": "It says 500.", "user": { "id": 1, "login": "alice" } },
        "comment": { "id": 7, "body": body, "user": { "id": 1, "login": "alice" }, "updated_at": "2026-01-01T00:00:00Z" },
        "repository": { "id": 3, "full_name": "octo/shop", "html_url": "https://github.com/octo/shop" },
    })
    .to_string()
}

both_engines! {
    fn only_what_is_signed_and_makes_sense_is_kept(store: TestStore) {
        let door = WebhookTest::new(store);
        let body = comment_payload("@grove fix");
        let good = sign_body(WEBHOOK_SECRET, body.as_bytes());
        let other = sign_body("another secret", body.as_bytes());
        let upper = good.to_uppercase();
        for (what, signature) in [
            ("of another secret", other.as_str()),
            ("of an older kind", "sha1=0123456789012345678901234567890123456789"),
            ("too short", &good[..good.len() - 2]),
            ("not hexadecimal", "sha256=zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"),
            ("without its kind", &good["sha256=".len()..]),
            ("in another case", &upper),
            ("nothing", ""),
        ] {
            let answer = door.post_webhook(&signed_headers("d", "issue_comment", signature), &body);
            assert_eq!(answer.status, 401, "{what}: {answer:?}");
        }
        assert_eq!(door.post_webhook(&signed_headers("d", "issue_comment", &good)[..3], &body).status, 401, "no signature at all");
        assert_eq!(door.post_webhook(&signed_headers("d", "issue_comment", &good), &body.replace("fix", "fax")).status, 401);
        assert_eq!(door.kept_deliveries(), Vec::<String>::new());
        // Signed, but nonsense.
        for nonsense in ["", "{", "[]", "null", "{\"action\":\"created\"}", "\u{0}"] {
            let answer = door.deliver_event("d", nonsense);
            assert_eq!(answer.status, 400, "{nonsense:?}: {answer:?}");
        }
        for missing in 1..3 {
            let all = signed_headers("d", "issue_comment", &good);
            let headers: Vec<_> = all.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, header)| *header).collect();
            assert_eq!(door.post_webhook(&headers, &body).status, 400, "{missing}");
        }
        assert_eq!(door.kept_deliveries(), Vec::<String>::new());
        // What was refused is not remembered; what is taken is taken once.
        for _ in 0..4 {
            assert_eq!(door.deliver_event("d", &body).status, 202);
        }
        assert_eq!(door.kept_deliveries(), ["d"]);
        // Acknowledged, and of no interest.
        for (event, body) in [("ping", "{\"zen\":\"x\"}"), ("star", "{}"), ("issues", &comment_payload("x"))] {
            let answer = door.post_webhook(&signed_headers("e", event, &sign_body(WEBHOOK_SECRET, body.as_bytes())), body);
            assert_eq!(answer.status / 100, 2, "{event}: {answer:?}");
        }
        let old = sign_body("an older one", body.as_bytes());
        assert_eq!(door.post_webhook(&signed_headers("f", "issue_comment", &old), &body).status, 202, "while secrets are changed");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let door = WebhookTest::new(TestStore::new(TestEngine::Sqlite));
    let large = |bytes: usize| {
        let empty = comment_payload("");
        comment_payload(&"x".repeat(bytes - empty.len()))
    };
    let most = 25 * 1024 * 1024;
    assert_eq!(door.deliver_event("over", &large(most + 1)).status, 413);
    assert_eq!(door.deliver_event("just", &large(most)).status, 202);
    assert_eq!(door.kept_deliveries(), ["just"]);
}

/// The most memory that a process had so far, in bytes.
fn peak_memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn many_large_unsigned_bodies_take_little_memory_and_no_slot_for_long() {
    let door = WebhookTest::new(TestStore::new(TestEngine::Sqlite));
    let address = door.server.address.strip_prefix("http://").unwrap();
    let size = 23 * 1024 * 1024;
    let piece = vec![b'x'; 64 * 1024];
    let wrong = sign_body("another secret", b"x");
    let answers: Vec<String> = std::thread::scope(|scope| {
        let send = || {
            let mut stream = TcpStream::connect(address).unwrap();
            let patience = Some(Duration::from_secs(90));
            stream.set_read_timeout(patience).unwrap();
            stream.set_write_timeout(patience).unwrap();
            let head = format!(
                "POST /webhooks/github HTTP/1.1\r\nHost: localhost\r\nX-Hub-Signature-256: {wrong}\r\n\
                 Content-Length: {size}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            // All but the last piece: the server has to keep it, and waits for the rest. It may refuse
            // before all is sent.
            let sent = (1..size / piece.len()).try_for_each(|_| stream.write_all(&piece));
            let mut answer = Vec::new();
            let read = stream.read_to_end(&mut answer);
            assert!(sent.is_err() || read.is_ok() || !answer.is_empty(), "it is neither refused nor answered");
            String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
        };
        let calls: Vec<_> = (0..100).map(|_| scope.spawn(send)).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let peak = peak_memory(door.server.process_id());
    assert!(peak < 400 * 1024 * 1024, "{} MiB: {answers:#?}", peak >> 20);
    let refused = |answer: &String| ["", "HTTP/1.1 408", "HTTP/1.1 503"].iter().any(|begin| answer.starts_with(begin));
    assert!(answers.iter().all(refused), "{answers:#?}");
    assert!(answers.iter().any(|answer| answer.starts_with("HTTP/1.1 503")), "{answers:#?}");
    let began = Instant::now();
    assert_eq!(door.deliver_event("d", &comment_payload("@grove fix")).status, 202);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn without_a_secret_nothing_is_taken() {
    let grove = sandbox_on(TestStore::new(TestEngine::Sqlite), TestRepo::new());
    let server = TestServer::start(&grove);
    let body = comment_payload("@grove fix");
    let good = sign_body("", body.as_bytes());
    let answer =
        server.send_request("POST", "/webhooks/github", &signed_headers("d", "issue_comment", &good), Some(&body));
    assert_eq!(answer.status, 404, "{answer:?}");
}
