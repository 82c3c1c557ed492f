//! In order, so many at once, and no message lost by a good or a bad end.

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::{TestServer, on_sqlite, wait_for};

use super::{list_environments, registered_sandbox, serve_command, start_test_server};

on_sqlite! {
    fn messages_of_a_conversation_are_worked_on_in_order(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        for number in 0..6 {
            server.say("c", &format!("sleep 0.0{}; echo {number} >> order; cat order | tr '\\n' ' '", 6 - number));
        }
        let said = server.wait_until_settled("c");
        assert_eq!(said[1..], ["0", "0 1", "0 1 2", "0 1 2 3", "0 1 2 3 4", "0 1 2 3 4 5"]);
    }

    fn so_many_at_once_and_the_rest_is_told(store: TestStore) {
        let grove = registered_sandbox(store);
        let mut command = serve_command(&grove);
        command.env("MAX_CONCURRENT_CONVERSATIONS", "2");
        let server = TestServer::start_command(command, &grove);
        let go = grove.repo.temp_dir().join("go");
        let wait = format!("touch ../ran-$(basename $PWD); while [ ! -e {} ]; do sleep 0.05; done; echo done", go.display());
        let ran = || {
            let folder = grove.worktrees_dir();
            let mut open = vec![folder];
            let mut count = 0;
            while let Some(dir) = open.pop() {
                for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    count += usize::from(name.starts_with("ran-"));
                    if entry.path().is_dir() && !name.starts_with("thread-") {
                        open.push(entry.path());
                    }
                }
            }
            count
        };
        server.say("a", &wait);
        server.say("b", &wait);
        wait_for(|| ran() == 2);
        server.say("c", &wait);
        server.say("d", "exit 3");
        let told = |conversation: &str, place: usize| {
            let said = server.wait_until(conversation, |_, said| !said.is_empty());
            assert_eq!(said, [format!("All 2 places are taken at the moment; yours is number {place} in the queue.")]);
        };
        told("c", 1);
        told("d", 2);
        assert_eq!(ran(), 2);
        fs::write(&go, "").unwrap();
        for conversation in ["a", "b", "c"] {
            assert_eq!(server.wait_until_settled(conversation).last().map(String::as_str), Some("done"));
        }
        assert_eq!(server.wait_until_settled("d").last().map(String::as_str), Some("The agent `sh` failed with exit code 3."));
    }

    fn two_conversations_in_one_environment_take_turns(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        let hints = serde_json::json!({ "workflowType": "issue", "workflowId": 1 });
        let message = "mkdir held && sleep 0.3 && rmdir held && echo alone";
        for conversation in ["a", "b", "c"] {
            server.say_with(&serde_json::json!({ "conversationId": conversation, "message": message, "hints": hints }));
        }
        for conversation in ["a", "b", "c"] {
            assert_eq!(server.wait_until_settled(conversation).last().map(String::as_str), Some("alone"));
        }
    }

    fn stop_overtakes_and_the_rest_goes_on(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        assert_eq!(server.ask("c", "/stop"), ["Nothing is running."]);
        server.say("c", "echo begun; echo $$ > pid; touch started; sleep 60");
        server.say("c", "cat pid");
        let began = Instant::now();
        server.wait_until("c", |_, said| said.len() >= 2);
        let path = std::path::PathBuf::from(server_path(&server));
        wait_for(|| path.join("started").exists());
        server.say("c", "/stop");
        let said = server.wait_until_settled("c");
        assert!(began.elapsed() < Duration::from_secs(20));
        assert!(said.contains(&"Stopping.".to_owned()), "{said:?}");
        assert!(said.contains(&"begun\n\nStopped. /retry runs it again.".to_owned()), "{said:?}");
        let pid = said.last().unwrap();
        assert!(!grove_testkit::is_alive(pid), "{said:?}");
        // What was stopped can be run again.
        server.say("c", "/retry");
        wait_for(|| fs::read_to_string(path.join("pid")).is_ok_and(|now| now.trim() != pid.trim()));
        server.say("c", "/stop");
        server.wait_until_settled("c");
    }

    fn a_good_end_waits_for_what_runs_and_keeps_what_waits(store: TestStore) {
        let (grove, mut server) = start_test_server(store);
        server.say("c", "touch started; sleep 1; echo finished");
        server.say("c", "echo later");
        server.wait_until("c", |_, said| !said.is_empty());
        let path = std::path::PathBuf::from(server_path(&server));
        wait_for(|| path.join("started").exists());
        assert_eq!(server.terminate().code(), Some(0));
        let server = TestServer::start(&grove);
        let said = server.wait_until_settled("c");
        assert_eq!(said[1..], ["finished", "later"]);
    }

    fn a_message_that_waits_for_a_shared_worktree_is_neither_run_at_the_end_nor_set_aside(store: TestStore) {
        let (grove, mut server) = start_test_server(store);
        server.ask("b", "true");
        let id = list_environments(&grove)[0]["id"].as_str().unwrap().to_owned();
        // Another process holds the environment's lock, whatever happens to the server.
        let lock = grove.repo.path().join(format!(".git/grove/locks/{id}.turn"));
        let holder = std::process::Command::new("flock").args(["-x", "--no-fork"]).arg(&lock).args(["sleep", "300"]).spawn();
        let mut holder = KilledOnDrop(holder.expect("flock"));
        wait_for(|| !grove_testkit::is_free(&lock));
        server.say("b", "echo at last");
        // Killed again and again while it waits, and asked to end: it does not begin, and waits on.
        for round in 0..5 {
            std::thread::sleep(Duration::from_millis(500));
            if round % 2 == 0 {
                server.kill();
            } else {
                assert_eq!(server.terminate().code(), Some(0));
            }
            server = TestServer::start(&grove);
        }
        assert_eq!(server.current_messages("b").1.len(), 2, "nothing was said yet");
        holder.end_process();
        let said = server.wait_until_settled("b");
        assert_eq!(said.last().map(String::as_str), Some("at last"), "{said:?}");
    }

    fn what_was_cut_short_is_run_again_once_and_not_the_wish_to_do_so(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        assert_eq!(server.ask("c", "/retry"), ["Nothing was cut short, so there is nothing to run again."]);
        server.ask("c", "echo try >> tries; test $(wc -l < tries) -ge 3 && echo third");
        assert!(server.ask("c", "/retry").last().unwrap().contains("failed with exit code 1"));
        assert_eq!(server.ask("c", "/retry"), ["third"], "the message, not `/retry`");
        assert_eq!(server.ask("c", "/retry"), ["Nothing was cut short, so there is nothing to run again."]);
    }

    fn an_agent_runs_once_whatever_it_exits_with(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        for code in [250, 251, 255] {
            let said = server.ask("c", &format!("echo ran >> ran-{code}; cat ran-{code}; exit {code}"));
            assert_eq!(said.last().unwrap(), &format!("ran\n\nThe agent `sh` failed with exit code {code}."));
        }
    }

    fn anything_that_an_agent_prints_can_be_kept(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        let said = server.ask("c", r"printf 'a\000b\377\303\050\033[31mred'");
        assert_eq!(said.last().unwrap(), "a\u{fffd}b\u{fffd}\u{fffd}(\u{1b}[31mred");
    }

    fn a_run_that_was_cut_short_is_reported_and_not_repeated(store: TestStore) {
        let (grove, mut server) = start_test_server(store);
        server.say("c", "echo run >> runs; echo $$ > pid; sleep 60");
        server.say("c", "echo next");
        server.wait_until("c", |_, said| !said.is_empty());
        let path = std::path::PathBuf::from(server_path(&server));
        wait_for(|| path.join("pid").exists());
        server.kill();
        let pid = fs::read_to_string(path.join("pid")).unwrap();
        wait_for(|| !grove_testkit::is_alive(&pid));
        let server = TestServer::start(&grove);
        let said = server.wait_until_settled("c");
        assert_eq!(said[1..], [
            "“echo run >> runs; echo $$ > pid; sleep 60” was interrupted by a restart. /retry runs it again.",
            "next",
        ]);
        assert_eq!(fs::read_to_string(path.join("runs")).unwrap(), "run\n");
    }

    fn a_message_that_ends_the_program_is_set_aside(store: TestStore) {
        let (grove, mut server) = start_test_server(store);
        server.terminate();
        // Killed while it makes the worktree, each time.
        for round in 0..3 {
            let mut command = serve_command(&grove);
            command.env("GROVE_FAULT_AT", "staged");
            let server = TestServer::start_command(command, &grove);
            if round == 0 {
                assert!(server.try_say(&serde_json::json!({ "conversationId": "poison", "message": "echo never" })));
            }
            wait_for(|| !grove_testkit::is_alive(&server.process_id().to_string()));
        }
        let server = TestServer::start(&grove);
        let said = server.wait_until_settled("poison");
        assert_eq!(said, ["“echo never” was interrupted by a restart three times and is set aside. /retry runs it again."]);
        assert_eq!(server.ask("poison", "/retry").last().map(String::as_str), Some("never"));
    }

    fn the_same_delivery_is_taken_once(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        let body = serde_json::json!({ "conversationId": "c", "message": "echo once", "delivery": "d-1" });
        for _ in 0..4 {
            server.say_with(&body);
        }
        assert_eq!(server.wait_until_settled("c")[1..], ["once"]);
    }
}

/// Where the only environment is.
fn server_path(server: &TestServer) -> String {
    let began = Instant::now();
    loop {
        let list = server.call_api("GET", "/api/worktrees", None).json();
        if let Some(path) = list[0]["path"].as_str() {
            return path.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{list}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process of ours that ends with the test.
struct KilledOnDrop(std::process::Child);

impl KilledOnDrop {
    fn end_process(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        self.end_process();
    }
}
