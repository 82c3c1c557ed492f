//! `grove chat`: the same conversation with and without a server, for people and for scripts.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use grove_testkit::{Engine, Ran, Sandbox, Terminal, TestRepo, TestServer, TestStore, both_engines, wait_for};
use serde_json::Value;

use super::{branches, registered, talking};
use crate::sandbox;

/// `grove chat ARGS` where no server runs.
fn alone(grove: &Sandbox, args: &[&str]) -> Command {
    let mut command = grove.command(["chat"].iter().chain(args));
    command.env("GROVE_SERVER_LISTEN", "127.0.0.1:0");
    command
}

/// `grove chat ARGS` where this server runs.
fn with(server: &TestServer, grove: &Sandbox, args: &[&str]) -> Command {
    let mut command = grove.command(["chat"].iter().chain(args));
    command.env("GROVE_SERVER_LISTEN", server.address.strip_prefix("http://").expect("an address"));
    command
}

fn ran(mut command: Command) -> Ran {
    Ran::from(&mut command)
}

/// Runs with this on the standard input.
fn fed(mut command: Command, input: &str) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn json_lines(ran: &Ran) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{ran:?}"))).collect()
}

both_engines! {
    fn one_message_gets_its_answer_without_a_server(store: TestStore) {
        let grove = registered(store);
        let told = ran(alone(&grove, &["echo $GROVE_BRANCH; pwd"])).ok();
        let branch = branches(&grove).pop().unwrap();
        assert!(branch.starts_with("thread-"), "{branch}");
        assert!(told.stdout.starts_with(&format!("{branch}\n")), "{told:?}");
        assert_eq!(told.stderr, format!("Working in isolated branch `{branch}`\n"));
        // Nothing stays behind, and the next one works as well.
        assert_eq!(ran(alone(&grove, &["-m", "/worktree list"])).ok().stderr, "");
        assert_eq!(ran(alone(&grove, &["exit 3"])).fails(1).stdout, "The agent `sh` failed with exit code 3.\n");
        let refused = ran(alone(&grove, &["/worktree remove nothing"])).fails(1);
        assert!(refused.stdout.contains("nothing"), "{refused:?}");
        assert!(ran(alone(&grove, &["/worktre list"])).fails(1).stdout.contains("`/worktree`"));
    }

    fn lines_of_a_pipe_are_answered_in_order(store: TestStore) {
        let grove = registered(store);
        let told = fed(alone(&grove, &[]), "echo one > a\n\n  cat a  \nsleep 0.2; echo two\nexit 1\necho three").fails(1);
        let lines: Vec<&str> = told.stdout.lines().collect();
        let failed = "The agent `sh` failed with exit code 1.";
        assert_eq!(lines, ["The agent is done and said nothing.", "one", "two", failed, "three"]);
        assert_eq!(fed(alone(&grove, &[]), "").ok().stdout, "");
    }

    fn a_conversation_goes_on_where_it_was(store: TestStore) {
        let grove = registered(store);
        ran(alone(&grove, &["-c", "mine/1", "echo kept > file"])).ok();
        // Also through a server, and back.
        let mut server = TestServer::start(&grove);
        let told = ran(with(&server, &grove, &["-c", "mine/1", "cat file; echo $PPID > parent"])).ok();
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("kept\n", ""));
        assert_eq!(branches(&grove).len(), 1);
        server.terminate();
        assert_eq!(ran(alone(&grove, &["-c", "mine/1", "cat file"])).ok().stdout, "kept\n");
    }
}

#[test]
fn a_server_that_runs_does_the_work() {
    let (grove, server) = talking(TestStore::new(Engine::Sqlite));
    let told = ran(with(&server, &grove, &["--json", "-c", "c", "echo hello"])).ok();
    let lines = json_lines(&told);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["notice", "answer"]);
    let answer = &lines[1];
    assert_eq!((answer["message"].as_str(), answer["status"].as_str()), (Some("hello"), Some("done")));
    assert_eq!(answer["conversationId"], "c");
    // What the API says of it.
    let all = server.api("GET", "/api/conversations/c/messages", None).json();
    let messages = all["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{all}");
    assert_eq!((messages[0]["role"].as_str(), messages[0]["status"].as_str()), (Some("user"), Some("done")));
    assert_eq!(messages[0]["messageId"], answer["messageId"]);
    assert!(messages[1..].iter().all(|line| line["answers"] == answer["messageId"]), "{all}");
    let id = answer["messageId"].as_str().unwrap();
    assert_eq!(ran(with(&server, &grove, &["-c", "c", "echo more"])).ok().stdout, "more\n");
    let one = server.api("GET", &format!("/api/conversations/c/messages?message={id}"), None).json();
    assert_eq!(one["messages"], all["messages"]);
    for wrong in [format!("other/messages?message={id}"), "c/messages?message=x".to_owned()] {
        assert_eq!(server.api("GET", &format!("/api/conversations/{wrong}"), None).status, 404, "{wrong}");
    }
    // A refusal is told from an answer.
    let told = ran(with(&server, &grove, &["--json", "/worktree remove nothing"])).fails(1);
    assert_eq!(json_lines(&told)[0]["status"], "refused");
}

#[test]
fn a_server_of_somebody_else_is_let_be() {
    let (_theirs, server) = talking(TestStore::new(Engine::Sqlite));
    let grove = registered(TestStore::new(Engine::Sqlite));
    assert_eq!(ran(with(&server, &grove, &["-c", "c", "echo mine"])).ok().stdout, "mine\n");
    assert_eq!(server.messages("c"), (true, Vec::new()));
}

#[test]
fn the_repository_that_one_is_in_is_what_is_talked_about() {
    let grove = sandbox(TestRepo::new());
    let other = TestRepo::new();
    let there = |dir: &std::path::Path, args: &[&str]| {
        let mut command = alone(&grove, args);
        command.current_dir(dir);
        ran(command)
    };
    // Not registered yet, each of them.
    assert!(there(grove.repo.path(), &["/status"]).ok().stdout.contains("odebase"));
    let path = other.path().display().to_string();
    assert_eq!(there(other.path(), &["-c", "there", "echo $GROVE_REPO"]).ok().stdout, format!("{path}\n"));
    // A conversation that is about something stays so, wherever one is.
    assert_eq!(there(grove.repo.path(), &["-c", "there", "echo $GROVE_REPO"]).ok().stdout, format!("{path}\n"));
    let outside = there(&grove.repo.dir(), &["echo nowhere"]).ok();
    assert_eq!(outside.stdout, "nowhere\n");
    assert!(outside.stderr.contains("No codebase is chosen"), "{outside:?}");
}

#[test]
fn a_chat_leaves_what_others_wait_for_alone() {
    let (grove, mut server) = talking(TestStore::new(Engine::Sqlite));
    let started = grove.repo.dir().join("started");
    server.say("other", &format!("touch {}; sleep 60", started.display()));
    server.say("other", "echo theirs");
    wait_for(|| started.exists());
    server.kill();
    ran(alone(&grove, &["echo mine"])).ok();
    let queue = grove.grove(["status", "--json"]).ok().json()["queue"].clone();
    assert_eq!(queue, serde_json::json!({ "running": 1, "waiting": 1 }));
    let server = TestServer::start(&grove);
    assert_eq!(server.settled("other").last().map(String::as_str), Some("theirs"));
}

#[test]
fn a_person_at_a_terminal() {
    let grove = registered(TestStore::new(Engine::Sqlite));
    let mut terminal = Terminal::start(&alone(&grove, &["-c", "mine"]));
    terminal.sees("Conversation mine about");
    terminal.sees("› ");
    // The answer comes while it is made.
    let go = grove.repo.dir().join("go");
    let wait = format!("echo first; while [ ! -e {} ]; do sleep 0.05; done; echo second", go.display());
    terminal.types(&format!("{wait}\r"));
    terminal.sees("Working in isolated branch");
    terminal.sees("first\r\n");
    fs::write(&go, "").unwrap();
    let between = terminal.sees_after("second\r\n");
    assert!(!between.contains("first"), "{between:?}");
    let rest = terminal.sees_after("› ");
    assert!(!rest.contains("first") && !rest.contains("second"), "nothing is said twice: {rest:?}");
    // Tab, and what is known.
    terminal.types("/wor\t");
    terminal.sees("/worktree ");
    terminal.types("rem\t");
    terminal.sees("/worktree remove ");
    terminal.types("thr\t");
    terminal.sees(&format!("/worktree remove {} ", branches(&grove)[0]));
    // Ctrl-C gives the line up.
    terminal.types("\x03");
    terminal.sees("› ");
    // A backslash at the end: the message goes on.
    terminal.types("echo several \\\rlines\r");
    terminal.sees("lines: ");
    terminal.sees("› ");
    // Ctrl-C stops what runs.
    terminal.types("echo begun; echo $$ > pid; exec sleep 60\r");
    terminal.sees("begun\r\n");
    terminal.types("\x03");
    terminal.sees("Stopped. /retry runs it again.");
    terminal.sees("› ");
    // What was said before is there again.
    terminal.types("\x1b[A");
    terminal.sees("exec sleep 60");
    terminal.types("\x03");
    terminal.sees("› ");
    terminal.types("\x04");
    terminal.sees("grove chat -c mine goes on");
    assert_eq!(terminal.ends(), Some(0));
    use std::os::unix::fs::PermissionsExt;
    let history = grove.grove_home().join("chat_history");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&history).unwrap().contains("exec sleep 60"));
    let worktree = grove.grove(["worktree", "path", &branches(&grove)[0]]).ok().stdout;
    let pid = fs::read_to_string(std::path::Path::new(worktree.trim()).join("pid")).unwrap();
    assert!(!grove_testkit::is_alive(&pid));
}

#[test]
fn ctrl_c_at_an_empty_prompt_ends_the_chat() {
    let (grove, server) = talking(TestStore::new(Engine::Sqlite));
    let mut terminal = Terminal::start(&with(&server, &grove, &[]));
    terminal.sees("› ");
    terminal.types("echo hi\r");
    terminal.sees("hi\r\n");
    terminal.sees("› ");
    terminal.types("\x03");
    terminal.sees("goes on with this conversation");
    assert_eq!(terminal.ends(), Some(0));
}
