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
fn whoever_does_not_say_what_they_want_is_let_go() {
    use std::io::{Read, Write};
    let grove = registered_sandbox(grove_testkit::TestStore::new(grove_testkit::TestEngine::Sqlite));
    let server = TestServer::start(&grove);
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
