//! `grove chat`: the same conversation with and without a server, for people and for scripts.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use grove_testkit::{
    ProgramOutput, Sandbox, TestEngine, TestRepo, TestServer, TestStore, TestTerminal, on_sqlite, wait_for,
};
use serde_json::Value;

use super::{list_branches, registered_sandbox, start_test_server};
use crate::new_sandbox;

/// `grove chat ARGS` where no server runs.
fn chat_without_server(grove: &Sandbox, args: &[&str]) -> Command {
    let mut command = grove.grove_command(["chat"].iter().chain(args));
    command.env("GROVE_SERVER_LISTEN", "127.0.0.1:0");
    command
}

/// `grove chat ARGS` where this server runs.
fn chat_with_server(server: &TestServer, grove: &Sandbox, args: &[&str]) -> Command {
    let mut command = grove.grove_command(["chat"].iter().chain(args));
    command.env("GROVE_SERVER_LISTEN", server.address.strip_prefix("http://").expect("an address"));
    command
}

fn run_command(mut command: Command) -> ProgramOutput {
    ProgramOutput::from(&mut command)
}

/// Runs with this on the standard input.
fn run_with_input(mut command: Command, input: &str) -> ProgramOutput {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    ProgramOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn json_lines(ran: &ProgramOutput) -> Vec<Value> {
    ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{ran:?}"))).collect()
}

on_sqlite! {
    fn one_message_gets_its_answer_without_a_server(store: TestStore) {
        let grove = registered_sandbox(store);
        let told = run_command(chat_without_server(&grove, &["echo $GROVE_BRANCH; pwd > kept"])).assert_success();
        let branch = list_branches(&grove).pop().unwrap();
        assert!(branch.starts_with("thread-"), "{branch}");
        assert!(told.stdout.starts_with(&format!("{branch}\n")), "{told:?}");
        assert_eq!(told.stderr, format!("Working in isolated branch `{branch}`\n"));
        // Nothing stays behind, and the next one works as well.
        assert_eq!(run_command(chat_without_server(&grove, &["-m", "/worktree list"])).assert_success().stderr, "");
        assert_eq!(run_command(chat_without_server(&grove, &["exit 3"])).assert_exit_code(1).stdout, "The agent `sh` failed with exit code 3.\n");
        let refused = run_command(chat_without_server(&grove, &["/worktree remove nothing"])).assert_exit_code(1);
        assert!(refused.stdout.contains("nothing"), "{refused:?}");
        assert!(run_command(chat_without_server(&grove, &["/worktre list"])).assert_exit_code(1).stdout.contains("`/worktree`"));
    }

    fn lines_of_a_pipe_are_answered_in_order(store: TestStore) {
        let grove = registered_sandbox(store);
        let told = run_with_input(chat_without_server(&grove, &[]), "echo one > a\n\n  cat a  \nsleep 0.2; echo two\nexit 1\necho three").assert_exit_code(1);
        let lines: Vec<&str> = told.stdout.lines().collect();
        let failed = "The agent `sh` failed with exit code 1.";
        assert_eq!(lines, ["one", "two", failed, "three"]);
        assert!(told.stderr.ends_with("\nThe agent is done and said nothing.\n"), "{told:?}");
        assert_eq!(run_with_input(chat_without_server(&grove, &[]), "").assert_success().stdout, "");
    }

    fn an_agent_that_says_nothing_leaves_the_output_empty(store: TestStore) {
        let grove = registered_sandbox(store);
        let told = run_command(chat_without_server(&grove, &["true"])).assert_success();
        assert_eq!(told.stdout, "");
        assert!(told.stderr.ends_with("\nThe agent is done and said nothing.\n"), "{told:?}");
        let told = run_command(chat_without_server(&grove, &["--json", "true"])).assert_success();
        let lines = json_lines(&told);
        assert_eq!(lines.last().unwrap()["message"], "The agent is done and said nothing.");
        assert_eq!(lines.last().unwrap()["type"], "answer");
    }

    fn a_conversation_that_is_not_known_begins_and_says_so(store: TestStore) {
        let grove = registered_sandbox(store);
        let note = "No conversation is called `nope` yet, so a new one begins.\n";
        let told = run_command(chat_without_server(&grove, &["-c", "nope", "/status"])).assert_success();
        assert!(told.stderr.starts_with(note), "{told:?}");
        let told = run_command(chat_without_server(&grove, &["-c", "nope", "/status"])).assert_success();
        assert_eq!(told.stderr, "");
        let told = run_command(chat_without_server(&grove, &["--json", "-c", "other", "/status"])).assert_success();
        assert_eq!(told.stderr, "");
    }

    fn a_conversation_goes_on_where_it_was(store: TestStore) {
        let grove = registered_sandbox(store);
        run_command(chat_without_server(&grove, &["-c", "mine/1", "echo kept > file"])).assert_success();
        // Also through a server, and back.
        let mut server = TestServer::start(&grove);
        let told = run_command(chat_with_server(&server, &grove, &["-c", "mine/1", "cat file; echo $PPID > parent"])).assert_success();
        assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("kept\n", ""));
        assert_eq!(list_branches(&grove).len(), 1);
        server.terminate();
        assert_eq!(run_command(chat_without_server(&grove, &["-c", "mine/1", "cat file"])).assert_success().stdout, "kept\n");
    }
}

#[test]
fn a_server_that_runs_does_the_work() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let told = run_command(chat_with_server(&server, &grove, &["--json", "-c", "c", "echo hello"])).assert_success();
    let lines = json_lines(&told);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["notice", "answer"]);
    let answer = &lines[1];
    assert_eq!((answer["message"].as_str(), answer["status"].as_str()), (Some("hello"), Some("done")));
    assert_eq!(answer["conversationId"], "c");
    // What the API says of it.
    let all = server.call_api("GET", "/api/conversations/c/messages", None).json();
    let messages = all["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "{all}");
    assert_eq!((messages[0]["role"].as_str(), messages[0]["status"].as_str()), (Some("user"), Some("done")));
    assert_eq!(messages[0]["messageId"], answer["messageId"]);
    assert!(messages[1..].iter().all(|line| line["answers"] == answer["messageId"]), "{all}");
    let id = answer["messageId"].as_str().unwrap();
    assert_eq!(
        run_command(chat_with_server(&server, &grove, &["-c", "c", "echo more"])).assert_success().stdout,
        "more\n"
    );
    let one = server.call_api("GET", &format!("/api/conversations/c/messages?message={id}"), None).json();
    assert_eq!(one["messages"], all["messages"]);
    for wrong in [format!("other/messages?message={id}"), "c/messages?message=x".to_owned()] {
        assert_eq!(server.call_api("GET", &format!("/api/conversations/{wrong}"), None).status, 404, "{wrong}");
    }
    // A refusal is told from an answer.
    let told =
        run_command(chat_with_server(&server, &grove, &["--json", "/worktree remove nothing"])).assert_exit_code(1);
    assert_eq!(json_lines(&told)[0]["status"], "refused");
}

#[test]
fn the_server_of_another_grove_home_is_left_alone() {
    let (_theirs, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    assert_eq!(
        run_command(chat_with_server(&server, &grove, &["-c", "c", "echo mine"])).assert_success().stdout,
        "mine\n"
    );
    assert_eq!(server.current_messages("c"), (true, Vec::new()));
}

#[test]
fn the_repository_that_one_is_in_is_what_is_talked_about() {
    let grove = new_sandbox(TestRepo::new());
    let other = TestRepo::new();
    let there = |dir: &std::path::Path, args: &[&str]| {
        let mut command = chat_without_server(&grove, args);
        command.current_dir(dir);
        run_command(command)
    };
    // Not registered yet, each of them.
    assert!(there(grove.repo.path(), &["/status"]).assert_success().stdout.contains("odebase"));
    let path = other.path().display().to_string();
    assert_eq!(there(other.path(), &["-c", "there", "echo $GROVE_REPO"]).assert_success().stdout, format!("{path}\n"));
    // A conversation that is about something stays so, wherever one is.
    assert_eq!(
        there(grove.repo.path(), &["-c", "there", "echo $GROVE_REPO"]).assert_success().stdout,
        format!("{path}\n")
    );
    // Outside of both, the message is kept until one is chosen.
    let outside = there(&grove.repo.temp_dir(), &["-c", "which", "echo $GROVE_REPO"]).assert_exit_code(1);
    assert!(outside.stdout.starts_with("Which repository is this about?"), "{outside:?}");
    assert_eq!(there(&grove.repo.temp_dir(), &["-c", "which", "repo"]).assert_success().stdout.lines().count(), 1);
}

#[test]
fn a_chat_leaves_what_others_wait_for_alone() {
    let (grove, mut server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let started = grove.repo.temp_dir().join("started");
    server.say("other", &format!("touch {}; sleep 60", started.display()));
    server.say("other", "echo theirs");
    wait_for(|| started.exists());
    server.kill();
    run_command(chat_without_server(&grove, &["echo mine"])).assert_success();
    let queue = grove.grove(["status", "--json"]).assert_success().json()["queue"].clone();
    assert_eq!(queue, serde_json::json!({ "running": 1, "waiting": 1 }));
    let server = TestServer::start(&grove);
    assert_eq!(server.wait_until_settled("other").last().map(String::as_str), Some("theirs"));
}

#[test]
fn markdown_is_rendered_for_people_and_left_alone_for_scripts() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let config = "[agent]\ndefault = \"cat\"\n[agents.cat]\ncommand = [\"cat\"]\n";
    fs::write(grove.grove_home().join("config.toml"), config).unwrap();
    let text = "# A *title*\n\n- **bold**, `code`\n```\n**as it is**\n```";
    let piped = run_command(chat_without_server(&grove, &["-c", "mine", text])).assert_success();
    assert_eq!(piped.stdout, format!("{text}\n"));
    let mut command = chat_without_server(&grove, &["-c", "mine", text]);
    command.env("TERM", "xterm");
    let mut terminal = TestTerminal::start(&command);
    let shown = terminal.sees_after("**as it is**");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    assert!(shown.contains("\x1b[1mtitle") && shown.contains("- \x1b[1mbold"), "{shown:?}");
    assert!(!shown.contains("# A") && !shown.contains("**bold") && !shown.contains("`code`"), "{shown:?}");
    // The output of a shell is no Markdown.
    fs::remove_file(grove.grove_home().join("config.toml")).unwrap();
    let mut terminal = TestTerminal::start(&chat_without_server(&grove, &["echo '# **all of it**'"]));
    terminal.wait_for_text("# **all of it**");
    assert_eq!(terminal.wait_for_exit(), Some(0));
}

#[test]
fn a_person_at_a_terminal() {
    let grove = registered_sandbox(TestStore::new(TestEngine::Sqlite));
    let mut terminal = TestTerminal::start(&chat_without_server(&grove, &["-c", "mine"]));
    terminal.wait_for_text("Conversation mine about");
    terminal.wait_for_text("› ");
    // The answer comes while it is made.
    let go = grove.repo.temp_dir().join("go");
    let wait = format!("echo first; while [ ! -e {} ]; do sleep 0.05; done; echo second", go.display());
    terminal.type_keys(&format!("{wait}\r"));
    terminal.wait_for_text("Working in isolated branch");
    terminal.wait_for_text("first\r\n");
    fs::write(&go, "").unwrap();
    let between = terminal.sees_after("second\r\n");
    assert!(!between.contains("first"), "{between:?}");
    let rest = terminal.sees_after("› ");
    assert!(!rest.contains("first") && !rest.contains("second"), "nothing is said twice: {rest:?}");
    // Tab, and what is known.
    terminal.type_keys("/wor\t");
    terminal.wait_for_text("/worktree ");
    terminal.type_keys("rem\t");
    terminal.wait_for_text("/worktree remove ");
    terminal.type_keys("thr\t");
    terminal.wait_for_text(&format!("/worktree remove {} ", list_branches(&grove)[0]));
    // Ctrl-C gives the line up.
    terminal.type_keys("\x03");
    terminal.wait_for_text("› ");
    // A backslash at the end: the message goes on.
    terminal.type_keys("echo several \\\rlines\r");
    terminal.wait_for_text("lines: ");
    terminal.wait_for_text("› ");
    // Ctrl-C stops what runs.
    terminal.type_keys("echo begun; echo $$ > pid; exec sleep 60\r");
    terminal.wait_for_text("begun\r\n");
    terminal.type_keys("\x03");
    terminal.wait_for_text("Stopped. /retry runs it again.");
    terminal.wait_for_text("› ");
    // What was said before is there again.
    terminal.type_keys("\x1b[A");
    terminal.wait_for_text("exec sleep 60");
    terminal.type_keys("\x03");
    terminal.wait_for_text("› ");
    terminal.type_keys("\x04");
    terminal.wait_for_text("grove chat -c mine goes on");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    use std::os::unix::fs::PermissionsExt;
    let history = grove.grove_home().join("chat_history");
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fs::read_to_string(&history).unwrap().contains("exec sleep 60"));
    let worktree = grove.grove(["worktree", "path", &list_branches(&grove)[0]]).assert_success().stdout;
    let pid = fs::read_to_string(std::path::Path::new(worktree.trim()).join("pid")).unwrap();
    assert!(!grove_testkit::is_alive(&pid));
}

#[test]
fn ctrl_c_at_an_empty_prompt_ends_the_chat() {
    let (grove, server) = start_test_server(TestStore::new(TestEngine::Sqlite));
    let mut terminal = TestTerminal::start(&chat_with_server(&server, &grove, &[]));
    terminal.wait_for_text("› ");
    terminal.type_keys("echo hi\r");
    terminal.wait_for_text("hi\r\n");
    terminal.wait_for_text("› ");
    terminal.type_keys("\x03");
    terminal.wait_for_text("goes on with this conversation");
    assert_eq!(terminal.wait_for_exit(), Some(0));
}

#[test]
fn one_shot_chats_do_not_fill_the_limit() {
    let grove = new_sandbox(TestRepo::new());
    let is_long = std::env::var_os("GROVE_TEST_LONG").is_some();
    let (chats, limit) = if is_long { (60, "25") } else { (6, "3") };
    let chat = |message: &str| {
        let mut command = chat_without_server(&grove, &["--json", message]);
        command.env("MAX_WORKTREES_PER_CODEBASE", limit);
        let lines = json_lines(&run_command(command).assert_success());
        let answer = lines.iter().rfind(|line| line["type"] == "answer").expect("an answer").clone();
        (answer["conversationId"].as_str().unwrap().to_owned(), answer["message"].as_str().unwrap().to_owned())
    };
    let worktrees = || grove.grove(["worktree", "list", "--json"]).assert_success().json().as_array().unwrap().len();
    for number in 0..chats {
        let (_, answer) = chat(&format!("echo {number}; pwd"));
        assert!(answer.starts_with(&format!("{number}\n")), "{answer}");
        assert_eq!(worktrees(), 0, "nothing was done in it");
    }
    // What an agent leaves stays: a file, an ignored file, a commit.
    grove.repo.write_file(".git/info/exclude", "ignored\n");
    for (kept, message) in
        ["echo x > new", "echo x > ignored", "git commit -q --allow-empty -m work"].iter().enumerate()
    {
        chat(message);
        assert_eq!(worktrees(), kept + 1, "{message}");
    }
    // The conversation goes on at the same path, and is told nothing about the removal.
    let again = |id: &str, message: &str| {
        let mut command = chat_without_server(&grove, &["--json", "-c", id, message]);
        command.env("MAX_WORKTREES_PER_CODEBASE", "9");
        json_lines(&run_command(command).assert_success())
    };
    let (id, first) = {
        let mut command = chat_without_server(&grove, &["--json", "pwd"]);
        command.env("MAX_WORKTREES_PER_CODEBASE", "9");
        let lines = json_lines(&run_command(command).assert_success());
        let answer = lines.last().unwrap();
        (answer["conversationId"].as_str().unwrap().to_owned(), answer["message"].clone())
    };
    let lines = again(&id, "pwd");
    assert_eq!(lines.last().unwrap()["message"], first);
    assert!(!lines.iter().any(|line| line["message"].as_str().unwrap().contains("removed")), "{lines:?}");
}
