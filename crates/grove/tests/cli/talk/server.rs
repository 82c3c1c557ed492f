//! What a running server does by itself.

use std::fs;
use std::process::Stdio;

use grove_testkit::{TestServer, is_alive, on_sqlite, wait_for};

use super::{list_branches, list_environments, registered_sandbox, serve_command};
use crate::{create_worktree, worktree_path};

on_sqlite! {
    fn at_its_start_what_is_merged_goes_and_the_rest_stays(store: TestStore) {
        let grove = registered_sandbox(store);
        let (merged, dirty) = (worktree_path(&create_worktree(&grove, &["merged"])), worktree_path(&create_worktree(&grove, &["dirty"])));
        create_worktree(&grove, &["fresh"]);
        for dir in [&merged, &dirty] {
            fs::write(dir.join("file"), dir.display().to_string()).unwrap();
            grove.repo.git_in(dir, &["add", "-A"]);
            grove.repo.git_in(dir, &["commit", "-q", "-m", "work"]);
        }
        grove.repo.git(&["merge", "-q", "--no-ff", "--no-edit", "merged"]);
        fs::write(dirty.join("more"), "unsaved").unwrap();
        // Without the grace that protects what was made a moment ago.
        let mut command = grove.grove_command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"]);
        let server = TestServer::start_command({ command.env("GROVE_CLEANUP_GRACE", "0"); command }, &grove);
        wait_for(|| list_branches(&grove) == ["dirty", "fresh"]);
        assert!(!merged.exists());
        let log = server.take_log_lines().join("\n");
        assert!(log.contains("cleaned up"), "{log}");
    }

    fn at_its_start_what_a_crash_left_is_put_right(store: TestStore) {
        let grove = registered_sandbox(store);
        let mut killed = grove.grove_command(["worktree", "create", "half"]);
        killed.env("GROVE_FAULT_AT", "staged").stdout(Stdio::null()).stderr(Stdio::null());
        assert!(!killed.status().unwrap().success());
        assert_eq!(list_environments(&grove)[0]["status"], "creating");
        let _server = TestServer::start(&grove);
        wait_for(|| list_environments(&grove).is_empty());
        assert_eq!(grove.repo.git(&["branch", "--list", "half"]), "");
    }
}

#[test]
fn a_second_server_finds_the_address_taken() {
    let grove = registered_sandbox(grove_testkit::TestStore::new(grove_testkit::TestEngine::Sqlite));
    let server = TestServer::start(&grove);
    let address = server.address.strip_prefix("http://").unwrap();
    let second = grove_testkit::ProgramOutput::from(&mut grove.grove_command(["serve", "--listen", address, "--json"]));
    let (code, words) = second.assert_exit_code(1).json_error();
    assert_eq!(code, "address_taken", "{words}");
}

#[test]
fn what_a_killed_supervisor_leaves_is_ended() {
    let grove = registered_sandbox(grove_testkit::TestStore::new(grove_testkit::TestEngine::Sqlite));
    let server = TestServer::start_command(serve_command(&grove), &grove);
    let file = grove.repo.temp_dir().join("pids");
    server.say("c", &format!("echo $PPID $$ > {0}.new; mv {0}.new {0}; sleep 300", file.display()));
    wait_for(|| file.exists());
    let pids = fs::read_to_string(&file).unwrap();
    let (supervisor, agent) = pids.trim().split_once(' ').unwrap();
    let pid = rustix::process::Pid::from_raw(supervisor.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let said = server.wait_until_settled("c");
    assert!(!is_alive(agent), "{said:?}");
    assert!(said.last().unwrap().contains("failed with exit code"), "{said:?}");
    assert_eq!(server.ask("c", "echo on").last().map(String::as_str), Some("on"));
}

#[test]
fn what_is_left_when_server_and_supervisor_are_killed_at_once_is_ended_at_the_next_start() {
    let grove = registered_sandbox(grove_testkit::TestStore::new(grove_testkit::TestEngine::Sqlite));
    let mut server = TestServer::start(&grove);
    let file = grove.repo.temp_dir().join("pids");
    let child = format!("setsid sh -c 'echo $$ > {}.child; exec sleep 300'", file.display());
    server.say("c", &format!("{child} & echo $PPID $$ > {0}.new; mv {0}.new {0}; sleep 300", file.display()));
    let child = file.with_extension("child");
    wait_for(|| file.exists() && fs::read_to_string(&child).is_ok_and(|pid| pid.ends_with('\n')));
    let pids = fs::read_to_string(&file).unwrap();
    let (supervisor, agent) = pids.trim().split_once(' ').unwrap();
    let pid = |text: &str| rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap();
    let stop = rustix::process::Signal::STOP;
    rustix::process::kill_process(pid(supervisor), stop).unwrap();
    server.kill();
    rustix::process::kill_process(pid(supervisor), rustix::process::Signal::KILL).unwrap();
    // The agent goes with its supervisor; what it had started in a session of its own does not.
    wait_for(|| !is_alive(agent));
    let child = fs::read_to_string(&child).unwrap();
    assert!(is_alive(&child));
    let server = TestServer::start(&grove);
    wait_for(|| !is_alive(&child));
    assert!(server.wait_until_settled("c").last().unwrap().contains("was interrupted by a restart"));
}

#[test]
fn a_client_that_sends_no_request_is_disconnected() {
    use std::io::{Read, Write};
    let grove = registered_sandbox(grove_testkit::TestStore::new(grove_testkit::TestEngine::Sqlite));
    let mut command = serve_command(&grove);
    command.env("GROVE_SERVER_HEADER_TIMEOUT", "2s");
    let server = TestServer::start_command(command, &grove);
    let mut slow = std::net::TcpStream::connect(server.address.strip_prefix("http://").unwrap()).unwrap();
    slow.set_read_timeout(Some(std::time::Duration::from_secs(40))).unwrap();
    let mut silent = slow.try_clone().and_then(|slow| std::net::TcpStream::connect(slow.peer_addr()?)).unwrap();
    silent.set_read_timeout(Some(std::time::Duration::from_secs(40))).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nHost: lo").unwrap();
    let mut answer = Vec::new();
    // Ended by the server, not by our own patience.
    slow.read_to_end(&mut answer).unwrap();
    silent.read_to_end(&mut answer).unwrap();
    assert_eq!(server.send_request("GET", "/health", &[], None).status, 200);
}

#[test]
fn every_request_is_logged_with_its_route_and_without_its_secrets() {
    let grove = registered_sandbox(grove_testkit::TestStore::new(grove_testkit::TestEngine::Sqlite));
    let mut command = serve_command(&grove);
    command.env("GROVE_LOG", "debug");
    let server = TestServer::start_command(command, &grove);
    let get = |path: &str| server.send_request("GET", path, &[], None).status;
    assert_eq!((get("/health"), get("/login/grove_link_secret?x=secret"), get("/secret")), (200, 401, 404));
    let made = server.call_api("POST", "/api/worktrees", Some(&serde_json::json!({ "name": "fix" }))).json();
    server.ask("c", "echo hi");
    // The last request: the lines of all others are there before its own.
    assert_eq!(server.call_api("GET", "/api/worktrees/gone", None).status, 404);
    let mut log = Vec::new();
    let lines = std::cell::RefCell::new(&mut log);
    wait_for(|| {
        let mut lines = lines.borrow_mut();
        lines.extend(server.take_log_lines());
        lines.iter().any(|line| line.contains("route=/api/worktrees/{id} status=404"))
    });
    let find = |parts: &[&str]| log.iter().find(|line| parts.iter().all(|part| line.contains(part)));
    let id = format!("environment={}", made["id"].as_str().unwrap());
    for parts in [
        ["DEBUG", "request{method=GET route=/health status=200 elapsed_ms=", "request answered"],
        ["INFO", "request{method=GET route=/login/{code} status=401 elapsed_ms=", "request answered"],
        ["INFO", "request{method=GET route=none status=404 elapsed_ms=", "request answered"],
        ["INFO", "request{method=POST route=/api/worktrees ", &format!("{id} status=201 elapsed_ms=")],
        ["INFO", "request{method=POST route=/test/message ", "conversation=\"c\" status=202 elapsed_ms="],
    ] {
        assert!(find(&parts).is_some(), "{parts:?} in {log:#?}");
    }
    assert!(!log.iter().any(|line| line.contains("secret")), "{log:#?}");
}
