//! Custom commands: from the base branch, in the conversation's own environment or beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use grove_store::{Store, StoreOptions};
use grove_testkit::{Sandbox, TestEngine, TestRepo, TestServer, TestStore, on_sqlite, wait_for};
use serde_json::json;

use super::{list_environments, registered_sandbox, serve_command, start_test_server};
use crate::sandbox_on;

fn sqlite_store() -> TestStore {
    TestStore::new(TestEngine::Sqlite)
}

/// Commits commands to the base branch: files and what is in them.
fn commit_commands(grove: &Sandbox, files: &[(&str, &str)]) {
    for (file, text) in files {
        grove.repo.write_file(file, text);
    }
    grove.repo.commit_all("commands");
}

/// A server whose agent answers with what it was told.
fn start_echo_server(store: TestStore, repo: TestRepo) -> (Sandbox, TestServer) {
    let grove = sandbox_on(store, repo);
    grove.grove(["codebase", "add", "--json"]).assert_success();
    let config = "[agent]\ndefault = \"cat\"\n[agents.cat]\ncommand = [\"cat\"]\n";
    write_config(&grove, config);
    let server = TestServer::start_command(serve_command(&grove), &grove);
    (grove, server)
}

fn write_config(grove: &Sandbox, config: &str) {
    fs::create_dir_all(grove.grove_home()).unwrap();
    fs::write(grove.grove_home().join("config.toml"), config).unwrap();
}

fn count_worktrees(grove: &Sandbox) -> usize {
    grove.repo.git(&["worktree", "list"]).lines().count()
}

fn list_orphans(grove: &Sandbox) -> Vec<PathBuf> {
    let listed = grove.grove(["worktree", "orphans", "--json"]).assert_success().json();
    listed.as_array().unwrap().iter().map(|orphan| PathBuf::from(orphan["path"].as_str().unwrap())).collect()
}

/// How much is left of what was laid out for reading.
fn laid_out(grove: &Sandbox) -> usize {
    let of_readings = |folder: PathBuf| {
        let entries = folder.read_dir().into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("reading-")).count()
    };
    usize::from(grove.grove_home().join("readings").exists())
        + of_readings(grove.grove_home().join("locks"))
        + of_readings(grove.repo.path().join(".git/grove"))
}

#[track_caller]
fn assert_nothing_laid_out(grove: &Sandbox) {
    assert_eq!(laid_out(grove), 0);
}

/// A command that only looks, says where it is in `file`, and goes on until `go` is there.
fn waiting_command(file: &Path, go: &Path, deed: &str) -> String {
    let (file, go) = (file.display(), go.display());
    format!(
        "---\ntype: read\n---\nif [ -e {go} ]; then echo again; exit; fi\n{deed}\n\
         pwd > {file}.new; mv {file}.new {file}; while [ ! -e {go} ]; do sleep 0.05; done; echo looked"
    )
}

fn wait_for_directory(file: &Path) -> PathBuf {
    wait_for(|| file.exists());
    PathBuf::from(fs::read_to_string(file).unwrap().trim())
}

on_sqlite! {
    fn a_command_is_the_base_branchs_whatever_an_agent_writes(store: TestStore) {
        let (grove, server) = start_test_server(store);
        commit_commands(&grove, &[(".grove/commands/hello.md", "echo good on $GROVE_BRANCH")]);
        let said = server.ask("c", "/run hello");
        let branch = list_environments(&grove)[0]["branch"].as_str().unwrap().to_owned();
        assert_eq!(said, [format!("Working in isolated branch `{branch}`"), format!("good on {branch}")]);
        server.ask("c", "cd .grove/commands; echo 'echo evil' | tee hello.md > new.md; git add -A; git commit -qm evil");
        grove.repo.write_file(".grove/commands/hello.md", "echo not committed");
        assert_eq!(server.ask("c", "/run hello"), [format!("good on {branch}")]);
        let said = server.ask("c", "/run new");
        assert_eq!(said, ["There is no custom command `new` on `main`.\n`/commands` lists them."]);
        assert_eq!(server.ask("c", "/commands"), ["- `/run hello`: echo good on $GROVE_BRANCH"]);
    }

    fn a_reading_is_detached_at_the_conversations_commit_and_leaves_nothing(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let look = "---\ntype: read\n---\ngit rev-parse HEAD; git symbolic-ref -q HEAD || echo detached; pwd; \
                    stat -c %a README.md; echo $GROVE_BRANCH$GROVE_WORK in $GROVE_CODEBASE";
        commit_commands(&grove, &[(".grove/commands/look.md", look)]);
        let before = (grove.repo.snapshot_checkout(), grove.repo.list_branches());
        let looked = |conversation: &str| {
            let said = server.ask(conversation, "/run look");
            let lines: Vec<String> = said.last().unwrap().lines().map(str::to_owned).collect();
            assert_eq!((lines[1].as_str(), lines[3].as_str()), ("detached", "444"), "{said:?}");
            assert!(lines[4].starts_with("in "), "no branch and no work: {said:?}");
            let path = PathBuf::from(&lines[2]);
            assert!(path.starts_with(grove.grove_home().join("readings")) && !path.exists(), "{said:?}");
            (lines[0].clone(), said[..said.len() - 1].to_vec())
        };
        // A conversation without an environment gets none.
        assert_eq!(looked("d"), (grove.repo.resolve_sha("main"), Vec::new()));
        assert!(list_environments(&grove).is_empty());
        assert!(server.ask("d", "/status")[0].contains("Branch: none\nAgent session: none"));
        assert_nothing_laid_out(&grove);
        before.0.assert_untouched();
        assert_eq!((count_worktrees(&grove), grove.repo.list_branches()), (1, before.1));
        // One with an environment is at what is committed there.
        server.ask("c", "echo x > made; git add made; git commit -qm made");
        let environment = list_environments(&grove).pop().unwrap();
        let (branch, head) = (environment["branch"].as_str().unwrap(), environment["head_sha"].as_str().unwrap());
        assert_ne!(head, grove.repo.resolve_sha("main"));
        assert_eq!(looked("c"), (head.to_owned(), Vec::new()));
        server.ask("c", "echo y > made");
        let notice = format!("This looks at commit `{}`; what is not committed on `{branch}` is not seen.", &head[..7]);
        assert_eq!(looked("c"), (head.to_owned(), vec![notice]));
        // Also while it is put away.
        server.ask("c", "git checkout -q made");
        server.ask("c", "/worktree hibernate");
        assert_eq!(looked("c"), (head.to_owned(), Vec::new()));
        assert_eq!(list_environments(&grove).len(), 1);
        assert_nothing_laid_out(&grove);
    }

    fn what_a_killed_server_had_laid_out_goes_at_the_next_start(store: TestStore) {
        let (grove, mut server) = start_test_server(store);
        let (file, go) = (grove.repo.temp_dir().join("file"), grove.repo.temp_dir().join("go"));
        commit_commands(&grove, &[(".grove/commands/look.md", &waiting_command(&file, &go, ""))]);
        server.say("c", "/run look");
        let path = wait_for_directory(&file);
        assert!(path.exists() && count_worktrees(&grove) == 2);
        assert_eq!(list_orphans(&grove), Vec::<PathBuf>::new(), "it is ours");
        assert!(grove.grove(["doctor"]).assert_success().stdout.contains("well") && path.exists(), "its owner is there");
        server.kill();
        assert!(path.exists());
        let server = TestServer::start(&grove);
        wait_for(|| count_worktrees(&grove) == 1 && !path.exists() && laid_out(&grove) == 0);
        assert!(list_environments(&grove).is_empty());
        let said = server.wait_until_settled("c");
        assert_eq!(said, ["“/run look” was interrupted by a restart. /retry runs it again."]);
        fs::write(&go, "").unwrap();
        assert_eq!(server.ask("c", "/retry"), ["again"]);
        assert_eq!(server.ask("c", "/retry"), ["Nothing was cut short, so there is nothing to run again."]);
        assert_nothing_laid_out(&grove);
    }

    fn a_command_that_writes_is_part_of_the_conversations_session(store: TestStore) {
        let url = store.url.clone();
        let grove = registered_sandbox(store);
        let claude = fake_claude(&grove);
        let server = TestServer::start_command(serve_command(&grove), &grove);
        let write = "---\nallowed-tools: Read, Bash(git log:*, x)\ndisallowed_tools:\n  - WebFetch\n---\nFix $1.";
        let read = "---\ntype: read\n---\nLook at $ARGUMENTS.";
        commit_commands(&grove, &[(".claude/commands/fix.md", write), (".claude/commands/look.md", read)]);
        assert_eq!(server.ask("c", "/run fix 'the login' now").last().unwrap(), "ok");
        let call = claude.last_call();
        assert_eq!(call.words, "Fix the login.");
        assert!(call.has_argument("--tools=Read,Bash") && call.has_argument("--allowed-tools=Read,Bash(git log:*, x)"), "{call:?}");
        assert!(call.flag_value("--disallowed-tools=").contains("WebFetch") && call.flag_value("--disallowed-tools=").contains("Write"));
        assert!(call.has_argument("--session-id") && call.cwd.starts_with(grove.worktrees_dir()), "{call:?}");
        assert_eq!(last_command(&url, "c"), Some("fix".to_owned()));
        // What only looks is not part of it.
        assert_eq!(server.ask("c", "/run look the login").last().unwrap(), "ok");
        let call = claude.last_call();
        assert_eq!(call.words, "Look at the login.");
        let never = call.flag_value("--disallowed-tools=");
        assert!(["Edit", "Write", "NotebookEdit"].iter().all(|tool| never.contains(tool)), "{never}");
        assert!(!call.has_argument("--session-id") && !call.has_argument("--resume"), "{call:?}");
        assert!(call.cwd.starts_with(grove.grove_home().join("readings")), "{call:?}");
        assert_eq!(last_command(&url, "c"), Some("fix".to_owned()));
        // And the session goes on.
        server.ask("c", "and now?");
        let call = claude.last_call();
        assert!(call.has_argument("--resume") && !call.args.iter().any(|arg| arg.starts_with("--tools=")), "{call:?}");
        assert_eq!(call.words, "and now?");
    }
}

/// What a conversation's session says was last run.
fn last_command(url: &str, conversation: &str) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(url, StoreOptions::default()).await.unwrap();
        let conversation = store.conversations_called(conversation).await.unwrap().remove(0);
        let session = store.active_session(conversation.id).await.unwrap().unwrap();
        store.close().await;
        session.facts.last_command
    })
}

/// A program that writes down how it was called, and answers as Claude Code does.
struct FakeClaude {
    log: PathBuf,
}

#[derive(Debug)]
struct FakeClaudeCall {
    cwd: PathBuf,
    args: Vec<String>,
    words: String,
}

impl FakeClaudeCall {
    fn has_argument(&self, arg: &str) -> bool {
        self.args.iter().any(|known| known == arg)
    }

    fn flag_value(&self, start: &str) -> &str {
        self.args.iter().find_map(|arg| arg.strip_prefix(start)).unwrap_or_default()
    }
}

impl FakeClaude {
    fn last_call(&self) -> FakeClaudeCall {
        let text = fs::read_to_string(&self.log).unwrap();
        let (head, words) = text.split_once("\n--words--\n").unwrap();
        let mut lines = head.lines().map(str::to_owned);
        FakeClaudeCall { cwd: lines.next().unwrap().into(), args: lines.collect(), words: words.to_owned() }
    }
}

fn fake_claude(grove: &Sandbox) -> FakeClaude {
    let (program, log) = (grove.repo.temp_dir().join("fake-claude"), grove.repo.temp_dir().join("call"));
    let init = json!({ "type": "system", "subtype": "init", "session_id": "x" });
    let result =
        json!({ "type": "result", "subtype": "success", "is_error": false, "result": "ok", "session_id": "x" });
    let script = format!(
        "#!/bin/sh\n{{ pwd; printf '%s\\n' \"$@\"; echo --words--; cat; }} > {}\necho '{init}'\necho '{result}'\n",
        log.display()
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!("[agent]\ndefault = \"fake\"\n[agents.fake]\nkind = \"claude\"\ncommand = [{:?}]\n", program);
    write_config(grove, &config);
    FakeClaude { log }
}

#[test]
fn all_commands_are_listed_and_the_nearest_folder_wins() {
    let (grove, server) = start_echo_server(sqlite_store(), TestRepo::new());
    assert_eq!(
        server.ask("c", "/commands"),
        [
            "No custom commands. A Markdown file in `.grove/commands` (or `.archon/commands`, `.claude/commands`) is one, \
          once it is committed to `main`."
        ]
    );
    let large = "x".repeat(300 * 1024);
    commit_commands(
        &grove,
        &[
            (".claude/commands/all.md", "claude"),
            (".archon/commands/all.md", "archon"),
            (".grove/commands/all.md", "grove"),
            (".claude/commands/two.md", "claude"),
            (".archon/commands/two.md", "archon"),
            (
                ".claude/commands/frontend/review.md",
                "---\ndescription: Look: twice\nargument-hint: '[pr]'\n---\nreview",
            ),
            (".grove/commands/large.md", &large),
            (".grove/commands/wrong.md", "---\ntype: reed\n---\nx"),
            (".grove/commands/notes.txt", "no command"),
            (".grove/commands/deep.md/inner.txt", "no command"),
        ],
    );
    fs::write(grove.repo.path().join(".grove/commands/bytes.md"), b"\xff\xfe").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", grove.repo.path().join(".grove/commands/link.md")).unwrap();
    grove.repo.commit_all("more");
    let said = server.ask("c", "/commands").join("");
    let expected = "- `/run all`: grove\n\
         - `/run bytes` does not work: `.grove/commands/bytes.md` is not UTF-8 text.\n\
         - `/run frontend/review [pr]`: Look: twice\n\
         - `/run large` does not work: `.grove/commands/large.md` is larger than 256 KiB.\n\
         - `/run two`: archon\n\
         - `/run wrong` does not work: `.grove/commands/wrong.md` says `type: reed`, which is not `read`, `write` or `mixed`.";
    assert_eq!(said, expected);
    let run = |line: &str| server.ask("c", line).pop().unwrap();
    assert_eq!(run("/run all"), "grove");
    assert_eq!(run("/run two"), "archon");
    assert_eq!(run("/run frontend/review"), "review");
    assert_eq!(run("/run frontend:review"), "review");
    let wrong = "`.grove/commands/wrong.md` says `type: reed`, which is not `read`, `write` or `mixed`.\n\
                 Correct the file on the base branch.";
    assert_eq!(run("/run wrong"), wrong);
    assert_eq!(
        run("/run bytes"),
        "`.grove/commands/bytes.md` is not UTF-8 text.\nCorrect the file on the base branch."
    );
    assert!(run("/run large").starts_with("`.grove/commands/large.md` is larger than 256 KiB."));
    assert_eq!(
        run("/run fronted/review"),
        "There is no custom command `fronted/review` on `main`.\n\
         Did you mean `/run frontend/review`? `/commands` lists them."
    );
    assert!(run("/run link").starts_with("There is no custom command `link`"));
    assert_eq!(run("/run"), "NAME is missing.\nWrite `/run NAME [ARGS]`; `/commands` lists the names.");
}

#[test]
fn only_so_many_are_read() {
    let (grove, server) = start_echo_server(sqlite_store(), TestRepo::new());
    for number in 0..502 {
        grove.repo.write_file(&format!(".claude/commands/c{number}.md"), "claude");
    }
    commit_commands(&grove, &[(".grove/commands/ours.md", "grove")]);
    let said = server.ask("c", "/commands").join("");
    assert_eq!(said.lines().count(), 501);
    assert!(said.contains("- `/run ours`: grove\n"), "the first folder comes first");
    assert!(said.ends_with("\n3 more are left out: there are too many."), "{said}");
}

#[test]
fn arguments_take_their_places_and_the_context_comes_first() {
    let (grove, server) = start_echo_server(sqlite_store(), TestRepo::new());
    commit_commands(
        &grove,
        &[
            (".grove/commands/places.md", "---\ntype: mixed\n---\n<$1> <$2> <$3> <$ARGUMENTS>"),
            (".grove/commands/plain.md", "Do it.\n"),
            (".grove/commands/look.md", "---\ntype: read\n---\nLook at $ARGUMENTS."),
        ],
    );
    let run = |line: &str| server.ask("c", line).pop().unwrap();
    assert_eq!(run("/run places 'a b' $1"), "<a b> <$1> <> <'a b' $1>");
    assert_eq!(run("/run plain it doesn't work"), "Do it.\n\nArguments:\nit doesn't work");
    assert_eq!(run("/run plain"), "Do it.");
    assert!(run("/run places it doesn't").starts_with("`.grove/commands/places.md` takes its arguments one by one"));
    for command in ["plain", "look"] {
        let body = json!({ "conversationId": "c", "message": format!("/run {command} x"), "context": "before" });
        let said = server.ask_with(&body).pop().unwrap();
        assert!(said.starts_with("before\n\n"), "{said}");
    }
}

#[test]
fn what_was_pushed_to_the_base_is_there() {
    let (grove, server) = start_echo_server(sqlite_store(), TestRepo::with_origin());
    grove.repo.push_commit("refs/heads/main", "origin/main", "other");
    fs::create_dir_all(grove.repo.temp_dir().join("colleague/.grove/commands")).unwrap();
    grove.repo.push_commit("refs/heads/main", "HEAD", ".grove/commands/new.md");
    assert_eq!(server.ask("c", "/run new").pop().unwrap(), ".grove/commands/new.md");
    assert_eq!(server.ask("c", "/commands"), ["- `/run new`: .grove/commands/new.md"]);
}

#[test]
fn without_a_codebase_there_are_no_commands() {
    let grove = sandbox_on(sqlite_store(), TestRepo::new());
    let server = TestServer::start(&grove);
    for line in ["/commands", "/run x"] {
        assert!(server.ask("c", line)[0].starts_with("This conversation has no codebase."), "{line}");
    }
}

#[test]
fn an_agent_that_cannot_be_held_to_tools_does_not_run_what_names_some() {
    let (grove, server) = start_test_server(sqlite_store());
    for (file, key) in [("one", "allowed_tools"), ("two", "disallowed-tools")] {
        commit_commands(
            &grove,
            &[(&format!(".grove/commands/{file}.md"), &format!("---\n{key}: Bash\n---\ntouch ran"))],
        );
        let said = server.ask("c", &format!("/run {file}"));
        let words = format!(
            "`.grove/commands/{file}.md` names the tools that may be used, and the agent `sh` cannot be held to that."
        );
        assert!(said[0].starts_with(&words), "{said:?}");
    }
    assert!(list_environments(&grove).is_empty(), "nothing was made for it");
}

#[test]
fn what_an_agent_writes_although_it_only_looks_is_kept() {
    let (grove, server) = start_test_server(sqlite_store());
    commit_commands(
        &grove,
        &[
            (".grove/commands/write.md", "---\ntype: read\n---\nchmod u+w .; echo x > written; pwd"),
            (".grove/commands/commit.md", "---\ntype: read\n---\ngit commit -q --allow-empty -m mine; pwd"),
        ],
    );
    for (command, what) in [("write", "1 new or changed file"), ("commit", "commits that no branch has")] {
        let said = server.ask("c", &format!("/run {command}")).pop().unwrap();
        let path = PathBuf::from(said.lines().next().unwrap());
        let kept = format!("This was only to be read, but the agent left {what}, so it is kept at {}.", path.display());
        assert_eq!(said, format!("{}\n\n{kept}", path.display()));
        assert!(path.join("README.md").exists() && list_orphans(&grove).contains(&path), "it is like any other now");
    }
    // The repair after a crash leaves it alone.
    grove.grove(["doctor"]).assert_success();
    assert_eq!(list_orphans(&grove).len(), 2);
}

#[test]
fn what_a_killed_run_wrote_is_kept() {
    let (grove, mut server) = start_test_server(sqlite_store());
    let (file, go) = (grove.repo.temp_dir().join("file"), grove.repo.temp_dir().join("go"));
    let command = waiting_command(&file, &go, "chmod u+w .; echo x > written");
    commit_commands(&grove, &[(".grove/commands/look.md", &command)]);
    server.say("c", "/run look");
    let path = wait_for_directory(&file);
    server.kill();
    let _server = TestServer::start(&grove);
    wait_for(|| list_orphans(&grove) == [path.clone()]);
    assert_eq!(fs::read_to_string(path.join("written")).unwrap(), "x\n");
}

#[test]
fn a_reading_can_be_stopped_and_run_again() {
    let (grove, server) = start_test_server(sqlite_store());
    let (file, go) = (grove.repo.temp_dir().join("file"), grove.repo.temp_dir().join("go"));
    commit_commands(&grove, &[(".grove/commands/look.md", &waiting_command(&file, &go, ""))]);
    server.say("c", "/run look");
    let path = wait_for_directory(&file);
    server.say("c", "/stop");
    let said = server.wait_until_settled("c");
    assert!(said.contains(&"Stopped. /retry runs it again.".to_owned()), "{said:?}");
    assert!(!path.exists());
    assert_nothing_laid_out(&grove);
    fs::write(&go, "").unwrap();
    assert_eq!(server.ask("c", "/retry"), ["again"]);
}

#[test]
fn snapshots_do_not_wait_for_other_runs() {
    let (grove, server) = start_test_server(sqlite_store());
    let (file, go) = (grove.repo.temp_dir().join("file"), grove.repo.temp_dir().join("go"));
    commit_commands(
        &grove,
        &[
            (".grove/commands/look.md", "---\ntype: read\n---\necho looked"),
            (".grove/commands/last.md", &waiting_command(&file, &go, "")),
        ],
    );
    let issue = |conversation: &str, message: &str| json!({ "conversationId": conversation, "message": message, "hints": { "workflowType": "issue", "workflowId": "42" } });
    server.ask_with(&issue("a", "true"));
    server.ask_with(&issue("b", "true"));
    // One works in the environment, another conversation looks for long; the rest goes on.
    let started = grove.repo.temp_dir().join("started");
    let work =
        format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done; echo worked", started.display(), go.display());
    server.say_with(&issue("a", &work));
    server.say("d", "/run last");
    wait_for(|| started.exists());
    wait_for_directory(&file);
    assert_eq!(server.ask_with(&issue("b", "/run look")), ["looked"]);
    assert_eq!(server.ask("e", "/run look"), ["looked"]);
    fs::write(&go, "").unwrap();
    assert_eq!(server.wait_until_settled("a").last().unwrap(), "worked");
    assert_eq!(server.wait_until_settled("d"), ["looked"]);
    assert_eq!(list_environments(&grove).len(), 1);
    assert_nothing_laid_out(&grove);
}

#[test]
fn a_command_that_needs_isolation_works_where_the_conversation_does() {
    let (grove, server) = start_test_server(sqlite_store());
    commit_commands(
        &grove,
        &[(".grove/commands/x.md", "---\ntype: read\nrequires_isolation: true\n---\ngit branch --show-current")],
    );
    let said = server.ask("c", "/run x");
    assert_eq!(said.last().unwrap(), list_environments(&grove)[0]["branch"].as_str().unwrap());
}
