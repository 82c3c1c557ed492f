//! Who may come in.

use grove_testkit::{TestEngine, TestServer, TestStore, on_sqlite};
use serde_json::json;

use super::{registered_sandbox, start_test_server};

on_sqlite! {
    fn everything_but_health_needs_the_token(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        let get = |path: &str, headers: &[(&str, &str)]| server.send_request("GET", path, headers, None);
        for open in ["/health", "/ready"] {
            assert_eq!(get(open, &[]).status, 200, "{open}");
        }
        for closed in
            ["/", "/api/worktrees", "/api/codebases", "/api/status", "/api/events", "/api/openapi.json", "/metrics"]
        {
            let answer = get(closed, &[]);
            assert_eq!(answer.status, 401, "{closed}: {answer:?}");
            assert_eq!(answer.json()["error"]["code"], "no_token");
            for wrong in ["Bearer", "Bearer x", "Basic eA==", "bearer "] {
                assert_eq!(get(closed, &[("authorization", wrong)]).status, 401, "{closed} {wrong}");
            }
        }
        let bearer = format!("Bearer {}", server.api_token());
        let with = |more: &[(&str, &str)]| {
            let mut headers = vec![("authorization", bearer.as_str())];
            headers.extend(more);
            get("/api/worktrees", &headers)
        };
        assert_eq!(with(&[]).status, 200);
        assert_eq!(with(&[("host", "evil.example")]).status, 403);
        assert_eq!(with(&[("host", "localhost:1")]).status, 200);
        assert_eq!(with(&[("origin", "http://evil.example")]).status, 403);
        assert_eq!(with(&[("origin", "null")]).status, 403);
        assert_eq!(with(&[("origin", server.address.as_str())]).status, 200);
        // The test adapter needs none, but a page must not reach it.
        let body = json!({ "conversationId": "c", "message": "echo hi" }).to_string();
        let post = |headers: &[(&str, &str)]| {
            let mut all = vec![("content-type", "application/json")];
            all.extend(headers);
            server.send_request("POST", "/test/message", &all, Some(&body)).status
        };
        assert_eq!((post(&[("origin", "http://evil.example")]), post(&[("host", "evil.example")])), (403, 403));
        assert_eq!(post(&[]), 202);
    }
}

#[test]
fn the_token_is_this_users_alone_and_stays() {
    use std::os::unix::fs::PermissionsExt;
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let mut server = TestServer::start(&grove);
    let meta = std::fs::metadata(grove.grove_home().join("token")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    let token = server.api_token().to_owned();
    assert!(token.len() >= 32);
    server.terminate();
    assert_eq!(TestServer::start(&grove).api_token(), token);
}

#[test]
fn without_being_asked_for_the_test_adapter_is_not_there() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let server = TestServer::start_command(grove.grove_command(["serve", "--listen", "127.0.0.1:0"]), &grove);
    let body = json!({ "conversationId": "c", "message": "echo hi" }).to_string();
    assert_eq!(
        server.send_request("POST", "/test/message", &[("content-type", "application/json")], Some(&body)).status,
        404
    );
}

#[test]
fn bad_requests_get_one_clear_sentence() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let post =
        |path: &str, body: &str| server.send_request("POST", path, &[("content-type", "application/json")], Some(body));
    for (body, status) in [
        ("", 400),
        ("{", 400),
        ("[]", 400),
        ("{}", 400),
        (r#"{"conversationId":"c"}"#, 400),
        (r#"{"conversationId":"","message":"x"}"#, 400),
        (r#"{"conversationId":"c","message":"  "}"#, 400),
        (r#"{"conversationId":"c","message":"x","platform":"a b"}"#, 400),
        (r#"{"conversationId":"c","message":"x","hints":{"workflowType":"epic"}}"#, 400),
        (r#"{"conversationId":"c","message":"x","hints":{"prBranch":"-evil"}}"#, 400),
        (r#"{"conversationId":"c","message":"a\u0000b"}"#, 400),
    ] {
        let answer = post("/test/message", body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.ends_with('.') && !message.contains('\n'), "{message}");
    }
    let large = json!({ "conversationId": "c", "message": "x".repeat(3_000_000) }).to_string();
    assert_eq!(post("/test/message", &large).status, 413);
    assert_eq!(server.current_messages("c"), (true, Vec::new()), "nothing of it was taken");
    let api = |method: &str, path: &str, body: Option<&serde_json::Value>| server.call_api(method, path, body);
    assert_eq!(api("GET", "/api/nothing", None).status, 404);
    assert_eq!(api("GET", "/api/worktrees/nothing", None).status, 404);
    assert_eq!(api("POST", "/api/worktrees", Some(&json!({}))).status, 400);
    assert_eq!(api("POST", "/api/worktrees", Some(&json!({ "name": "-evil" }))).status, 400);
    assert_eq!(api("PUT", "/api/worktrees", None).status, 405);
}

#[test]
fn the_api_makes_shows_removes_and_brings_back() {
    let (_grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let made = server.call_api("POST", "/api/worktrees", Some(&json!({ "name": "fix" })));
    assert_eq!(made.status, 201, "{made:?}");
    let (id, path) = (made.json()["id"].as_str().unwrap().to_owned(), made.json()["path"].as_str().unwrap().to_owned());
    let at = |rest: &str| format!("/api/worktrees/{id}{rest}");
    assert_eq!(server.call_api("GET", &at(""), None).json()["branch"], "fix");
    std::fs::write(format!("{path}/file"), "x").unwrap();
    assert_eq!(server.call_api("GET", &at("/plan"), None).json()["would_remove"], false);
    let refused = server.call_api("DELETE", &at(""), None);
    assert_eq!(
        (refused.status, refused.json()["error"]["reasons"][0]["code"].as_str()),
        (409, Some("untracked_files"))
    );
    let removed = server.call_api("DELETE", &at("?force=true"), None);
    assert_eq!((removed.status, removed.json()["removed"].as_bool()), (200, Some(true)));
    assert_eq!(server.call_api("POST", &at("/undo"), None).json()["state"], "dirty");
    assert_eq!(std::fs::read_to_string(format!("{path}/file")).unwrap(), "x");
    assert_eq!(server.call_api("POST", &at("/hibernate"), None).json()["state"], "hibernated");
    assert_eq!(server.call_api("POST", &at("/wake"), None).json()["state"], "dirty");
    assert_eq!(server.call_api("POST", &at("/abort"), None).json()["removed"], true);
    assert_eq!(server.call_api("GET", "/api/worktrees", None).json(), json!([]));
    assert_eq!(server.call_api("GET", "/api/codebases", None).json().as_array().unwrap().len(), 1);
    assert_eq!(server.call_api("GET", "/api/status", None).json()["worktrees"]["total"], 0);
    assert!(server.call_api("GET", "/metrics", None).text.contains("grove_messages_waiting"));
    let paths = server.call_api("GET", "/api/openapi.json", None).json();
    assert!(paths["paths"]["/api/worktrees/{id}"]["delete"].is_object());
}

#[test]
fn a_creation_goes_on_when_its_client_has_left() {
    use std::io::Write;
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    for number in 0..5 {
        let mut stream = std::net::TcpStream::connect(server.address.strip_prefix("http://").unwrap()).unwrap();
        let body = json!({ "name": format!("left-{number}") }).to_string();
        let head = format!(
            "POST /api/worktrees HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            server.api_token(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // Gone after a different while each time.
        std::thread::sleep(std::time::Duration::from_millis(number * 15));
    }
    // Who leaves at once may not even have been heard; what was begun is not left half way.
    grove_testkit::wait_for(|| {
        let list = super::list_environments(&grove);
        !list.is_empty() && list.iter().all(|e| e["status"] == "active")
    });
}
