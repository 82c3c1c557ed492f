//! The agent's processes, its output and its environment.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use grove_testkit::{TestEngine, TestServer, TestStore, is_alive, on_sqlite, wait_for};

use super::{registered_sandbox, serve_command, start_test_server};

fn sqlite_store() -> TestStore {
    TestStore::new(TestEngine::Sqlite)
}

/// Configures an agent before the server starts.
fn with_config(config: &str) -> (grove_testkit::Sandbox, TestServer) {
    let grove = registered_sandbox(sqlite_store());
    fs::create_dir_all(grove.grove_home()).unwrap();
    fs::write(grove.grove_home().join("config.toml"), config).unwrap();
    let server = TestServer::start_command(serve_command(&grove), &grove);
    (grove, server)
}

on_sqlite! {
    fn everything_that_descends_from_a_stopped_agent_ends(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let pids = grove.repo.temp_dir().join("pids");
        let file = pids.display();
        // Deaf to SIGTERM, with a child in a session of its own and a grandchild whose parent is gone.
        let script = format!(
            "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ >> {file}; sleep 300' & \
             (setsid sh -c 'echo $$ >> {file}; sleep 300' &) ; echo $$ >> {file}; sleep 300; sleep 300"
        );
        server.say("c", &script);
        wait_for(|| fs::read_to_string(&pids).is_ok_and(|text| text.lines().count() == 3));
        let began = Instant::now();
        server.say("c", "/stop");
        let said = server.wait_until_settled("c");
        assert!(said.contains(&"Stopped. /retry runs it again.".to_owned()), "{said:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        for pid in fs::read_to_string(&pids).unwrap().lines() {
            assert!(!is_alive(pid), "{pid} is still there");
        }
    }
}

on_sqlite! {
    fn nothing_outlives_an_agent_that_ends_by_itself_or_a_server_that_is_killed(store: TestStore) {
        let (grove, mut server) = start_test_server(store);
        let pids = grove.repo.temp_dir().join("pids");
        let script = format!("setsid sh -c 'echo $$ >> {0}; exec sleep 300' & sleep 0.2; echo $$ >> {0}", pids.display());
        server.ask("c", &script);
        let ended = || fs::read_to_string(&pids).unwrap().lines().all(|pid| !is_alive(pid));
        assert!(ended(), "an agent that is done leaves nothing behind");
        server.say("c", &format!("{script}; sleep 300"));
        wait_for(|| fs::read_to_string(&pids).unwrap().lines().count() == 4);
        server.kill();
        wait_for(ended);
    }
}

on_sqlite! {
    fn endless_output_is_read_and_its_end_is_kept(store: TestStore) {
        let (_grove, server) = start_test_server(store);
        let before = resident_memory(server.process_id());
        // 300 MB: far more than is kept.
        let said = server.ask("c", "head -c 300000000 /dev/zero | tr '\\0' 'x'; echo; echo the end");
        let text = said.last().unwrap();
        assert!(text.starts_with("(The first ") && text.ends_with("the end"), "{}", &text[..80]);
        assert!(text.len() < 1_100_000);
        let peak = peak_memory(server.process_id());
        println!("resident before {} MB, at most {} MB", before / 1024, peak / 1024);
        assert!(peak < 400 * 1024, "{peak} KiB");
    }
}

fn of_status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap().to_owned();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn resident_memory(pid: u32) -> u64 {
    of_status(pid, "VmRSS:")
}

pub fn peak_memory(pid: u32) -> u64 {
    of_status(pid, "VmHWM:")
}

#[test]
fn an_agent_gets_the_message_on_its_standard_input_and_an_environment_of_its_own() {
    let config = "[agent]\ndefault = \"echo\"\n[agents.echo]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"cat; env | sort\"]\n\
                  env = { MY_KEY = \"mine\" }\ntimeout = \"20s\"\n";
    let grove = registered_sandbox(sqlite_store());
    fs::create_dir_all(grove.grove_home()).unwrap();
    fs::write(grove.grove_home().join("config.toml"), config).unwrap();
    let mut command = serve_command(&grove);
    command.env("ANTHROPIC_API_KEY", "ambient").env("GROVE_LOG", "info").env("SECRET_OF_SERVER", "ambient");
    let server = TestServer::start_command(command, &grove);
    let said =
        server.ask_with(&serde_json::json!({ "conversationId": "c", "message": "my words", "context": "before" }));
    let text = said.last().unwrap();
    assert!(text.starts_with("before\n\nmy words"), "{text}");
    assert!(!text.contains("ambient") && !text.contains("GROVE_HOME=") && !text.contains("DATABASE_URL"), "{text}");
    for expected in
        ["MY_KEY=mine", "GROVE_BRANCH=thread-", "GROVE_WORKTREE=/", "GIT_TERMINAL_PROMPT=0", "GROVE_WORK=thread c"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // Without context, exactly the message.
    assert!(server.ask("c", "hi").last().unwrap().starts_with("hi"));
}

#[test]
fn a_failing_missing_or_slow_agent_is_said_in_one_sentence() {
    let config = "[agents.slow]\ncommand = [\"sh\", \"-c\", \"echo begun; sleep 60\"]\ntimeout = \"1s\"\n\
                  [agents.gone]\ncommand = [\"/no/such/program\"]\n[agents.claude]\ncommand = [\"no-claude-here\"]\n";
    let (_grove, server) = with_config(config);
    let said = server.ask("c", "echo out; echo 'what went wrong' >&2; exit 7");
    assert_eq!(said.last().unwrap(), "out\n\nThe agent `sh` failed with exit code 7.\n```\nwhat went wrong\n```");
    server.ask("c", "/agent slow");
    assert_eq!(server.ask("c", "x"), ["begun\n\nThe agent `slow` took too long and was ended. /retry runs it again."]);
    let said = server.ask("c", "/agent gone");
    assert!(said[0].starts_with("The agent `gone` needs the program `/no/such/program`, which is not"), "{said:?}");
    let said = server.ask("c", "/agent claude");
    let how = "The agent `claude` needs the program `no-claude-here`, which is not installed.\n\
               Install it with `npm install -g @anthropic-ai/claude-code`.";
    assert_eq!(said, [how]);
    assert!(server.ask("c", "/agent")[0].starts_with("This conversation talks to `slow`."));
    let said = server.ask("c", "/agent nobody");
    assert_eq!(said[0], "No agent is called `nobody`.\nThere are: claude, gone, sh, slow.");
}

#[test]
fn the_shell_is_only_for_people_of_this_machine_but_the_test_adapter_may() {
    let (_grove, server) = with_config("");
    let said =
        server.ask_with(&serde_json::json!({ "conversationId": "c", "platform": "slack", "message": "echo hi" }));
    assert_eq!(said.last().unwrap(), "hi");
}

on_sqlite! {
    fn secrets_are_taken_out_of_answers_errors_and_the_log(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let token = server.api_token().to_owned();
        let file = grove.repo.temp_dir().join("secrets");
        fs::write(&file, format!("{token}\nghp_0123456789abcdefghijABCDEFGHIJ\nhttps://me:pw1234@host/x\n")).unwrap();
        let said = server.ask("c", &format!("cat {}", file.display()));
        assert_eq!(said.last().unwrap(), "***\n***\nhttps://***@host/x");
        // Nor does an agent get those of a message.
        let said = server.ask("c", &format!("printf %s '{token} https://me:pw1234@host/x' | wc -c"));
        assert_eq!(said.last().unwrap().trim(), "*** https://***@host/x".len().to_string());
        let said = server.ask("c", "/clone https://me:hunter2hunter2@127.0.0.1:1/x/y.git");
        assert!(!said[0].contains("hunter2"), "{said:?}");
        // Cut to its beginning, a message is cleaned first.
        let log = server.take_log_lines().join("\n");
        assert!(!log.contains(&token) && !log.contains("hunter2") && !log.contains("ghp_"), "{log}");
        let stored = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().stdout;
        assert!(!stored.contains("hunter2"));
    }
}

#[test]
fn a_forced_removal_ends_the_agent_and_not_the_server() {
    let (grove, server) = start_test_server(sqlite_store());
    let pid = grove.repo.temp_dir().join("pid");
    server.say("c", &format!("echo $$ > {}; sleep 300", pid.display()));
    wait_for(|| fs::read_to_string(&pid).is_ok_and(|text| !text.trim().is_empty()));
    let branch = super::list_branches(&grove).pop().unwrap();
    let path = PathBuf::from(super::list_environments(&grove)[0]["path"].as_str().unwrap());
    grove.grove(["worktree", "remove", &branch, "--force"]).assert_success();
    assert!(!path.exists() && !is_alive(&fs::read_to_string(&pid).unwrap()));
    let said = server.wait_until_settled("c");
    assert!(said.last().unwrap().contains("failed with exit code 143"), "{said:?}");
    assert_eq!(server.ask("c", "echo still here").last().map(String::as_str), Some("still here"));
}

#[test]
fn what_was_configured_for_an_agent_stays_with_it() {
    let config = "[agents.env]\ncommand = [\"env\"]\nenv = { MY_KEY = \"a-very-secret-key\" }\n";
    let (_grove, server) = with_config(config);
    server.ask("c", "/agent env");
    let said = server.ask("c", "x");
    assert!(said.last().unwrap().contains("MY_KEY=***"), "{said:?}");
}

#[test]
fn what_hides_from_its_supervisor_does_not_keep_the_answer_waiting() {
    let (grove, server) = start_test_server(sqlite_store());
    let file = grove.repo.temp_dir().join("pid");
    // Without any of our files open but the output.
    let hidden = format!(
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo $$ > {0}.new; mv {0}.new {0}; sleep 300",
        file.display()
    );
    server.say("c", &format!("setsid sh -c '{hidden}' & wait"));
    wait_for(|| file.exists());
    let pid = fs::read_to_string(&file).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap();
    let shell: u32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    let stat = fs::read_to_string(format!("/proc/{shell}/stat")).unwrap();
    let supervisor: i32 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap();
    let supervisor = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    server.wait_until_settled("c");
    assert!(!is_alive(&pid), "known by its mark");
}

#[test]
fn a_run_cannot_let_its_own_worktree_be_moved() {
    let (grove, server) = start_test_server(sqlite_store());
    let started = grove.repo.temp_dir().join("started");
    let release = "for fd in 3 4 5 6 7 8 9 10 11 12 13 14 15; do flock -u $fd 2>/dev/null; done";
    server.say("c", &format!("{release}; touch {}; sleep 20", started.display()));
    wait_for(|| started.exists());
    let branch = super::list_branches(&grove).pop().unwrap();
    let (code, words) = grove.grove(["worktree", "hibernate", &branch, "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "refused", "{words}");
    server.say("c", "/stop");
    server.wait_until_settled("c");
}

#[test]
fn a_supervisor_that_does_nothing_is_done_without() {
    let (_grove, server) = start_test_server(sqlite_store());
    server.say("c", "kill -STOP $PPID; echo hello; sleep 300");
    server.wait_until("c", |_, said| !said.is_empty());
    let began = Instant::now();
    let log = || server.current_messages("c").1;
    // The run has begun when it can be stopped.
    while !log().contains(&"Stopping.".to_owned()) {
        server.say("c", "/stop");
        wait_for(|| log().iter().any(|text| text == "Stopping." || text == "Nothing is running."));
    }
    let said = server.wait_until_settled("c");
    assert!(said.iter().any(|text| text.ends_with("Stopped. /retry runs it again.")), "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(25));
}
