//! Init scripts: approved once, run in every new worktree, and no agent before they succeed.

use std::fs;
use std::process::Command;

use grove_testkit::{ProgramOutput, Sandbox, TestRepo, TestServer, TestStore, both_engines, wait_for};
use serde_json::{Value, json};

use crate::{new_sandbox, sandbox_on};

const SCRIPT_PATH: &str = ".grove/worktree-init.sh";

/// A repository whose base branch has this init script.
fn with_script(store: TestStore, path: &str, script: &str) -> Sandbox {
    let grove = sandbox_on(store, TestRepo::new());
    commit_script(&grove, path, script);
    grove.grove(["codebase", "add", "--json"]).assert_success();
    grove
}

fn commit_script(grove: &Sandbox, path: &str, script: &str) {
    grove.repo.write_file(path, script);
    grove.repo.git(&["add", path]);
    grove.repo.git(&["commit", "--quiet", "-m", "Init script"]);
}

fn approve(grove: &Sandbox) {
    grove.grove(["trust", "--yes"]).assert_success();
}

fn show(grove: &Sandbox, name: &str) -> Value {
    grove.grove(["worktree", "show", name, "--json"]).assert_success().json()
}

fn create(grove: &Sandbox, name: &str) -> ProgramOutput {
    grove.grove(["worktree", "create", name, "--json"])
}

/// Checks that no process has a worktree among its arguments.
#[track_caller]
fn assert_nothing_runs(grove: &Sandbox) {
    let worktrees = grove.worktrees_dir().display().to_string();
    let left = Command::new("pgrep").args(["-f", &worktrees]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "nothing is left running");
}

both_engines! {
    fn an_approved_script_runs_once_in_a_new_worktree_with_few_variables(store: TestStore) {
        let script = "pwd > where; env | sort > variables; echo again >> ran; echo preparing; echo oops >&2\n";
        let grove = with_script(store, SCRIPT_PATH, script);
        approve(&grove);
        let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
        command.env("GROVE_SECRET", "s").env("GITHUB_TOKEN", "t").env("FOO", "bar");
        let made = ProgramOutput::from(&mut command).assert_success().json();
        let path = made["path"].as_str().unwrap().to_owned();
        let read = |name: &str| fs::read_to_string(format!("{path}/{name}")).unwrap();
        assert_eq!(read("where").trim(), path);
        let names: Vec<String> = read("variables").lines().map(|line| line.split('=').next().unwrap().to_owned()).collect();
        let expected = ["GIT_TERMINAL_PROMPT", "GROVE_BRANCH", "GROVE_CODEBASE", "GROVE_REPO", "GROVE_WORK", "GROVE_WORKTREE"];
        let ours: Vec<&String> = names.iter().filter(|name| name.starts_with("GROVE_") || name.starts_with("GIT_")).collect();
        assert_eq!(ours, expected.iter().collect::<Vec<_>>(), "{names:?}");
        assert!(!names.iter().any(|name| name == "FOO" || name == "GITHUB_TOKEN"), "{names:?}");
        assert_eq!(made["metadata"]["init_script"], json!({ "ran": true, "status": "success", "error": null }));
        // Not in the same worktree again, and in the next one too.
        create(&grove, "x").assert_success();
        assert_eq!(read("ran"), "again\n");
        let second = create(&grove, "y").assert_success().json();
        assert!(fs::exists(format!("{}/ran", second["path"].as_str().unwrap())).unwrap());
        let mirror = fs::read_to_string(grove.repo.path().join(".grove/worktrees/x/worktree.json")).unwrap();
        let mirror: Value = serde_json::from_str(&mirror).unwrap();
        assert_eq!((&mirror["initScriptRan"], &mirror["initScriptStatus"]), (&json!(true), &json!("success")));
        let log = grove.grove(["worktree", "init", "x", "--json"]).assert_success().json();
        assert_eq!(fs::read_to_string(log["log"].as_str().unwrap()).unwrap(), "preparing\noops\n");
        assert_eq!(read("ran"), "again\nagain\n", "a person may run it again");
    }

    fn a_failing_script_leaves_the_worktree_failed_until_it_succeeds(store: TestStore) {
        let grove = with_script(store, SCRIPT_PATH, "echo one; echo two; [ -e ../ok ] || exit 3\n");
        approve(&grove);
        let failed = create(&grove, "x").assert_exit_code(1);
        let (code, message) = failed.json_error();
        assert_eq!(code, "init_failed");
        assert!(message.contains("exit code 3"), "{message}");
        assert_eq!(failed.json()["error"]["reasons"][0]["message"], "one\ntwo");
        let shown = show(&grove, "x");
        assert_eq!((&shown["state"], &shown["status"]), (&json!("failed"), &json!("failed")));
        assert_eq!(shown["metadata"]["init_script"]["error"], "it ended with exit code 3\none\ntwo");
        // No agent starts there.
        let server = TestServer::start(&grove);
        let said = server.ask_with(&json!({ "conversationId": "c", "message": "touch ran",
            "hints": { "workflowType": "task", "workflowId": "x" } }));
        assert!(said.last().unwrap().contains("failed") && said.last().unwrap().contains("/worktree init"), "{said:?}");
        let path = shown["path"].as_str().unwrap().to_owned();
        assert!(!fs::exists(format!("{path}/ran")).unwrap());
        fs::write(format!("{path}/../ok"), "").unwrap();
        assert_eq!(server.ask("c", "/worktree init x"), ["The init script of `x` succeeded."]);
        assert_eq!(show(&grove, "x")["status"], "active");
        let said = server.ask_with(&json!({ "conversationId": "c", "message": "echo works",
            "hints": { "workflowType": "task", "workflowId": "x" } }));
        assert_eq!(said.last().unwrap(), "works");
    }

    fn a_script_that_is_not_approved_is_asked_about_and_not_run(store: TestStore) {
        let grove = with_script(store, SCRIPT_PATH, "echo first > ran\n");
        let made = create(&grove, "x").assert_success();
        assert!(made.stderr.contains("is not approved") && made.stderr.contains("grove trust"), "{}", made.stderr);
        let path = made.json()["path"].as_str().unwrap().to_owned();
        assert!(!fs::exists(format!("{path}/ran")).unwrap());
        let waiting = grove.grove(["trust", "--json"]).assert_success().json();
        assert_eq!((&waiting[0]["path"], &waiting[0]["content"]), (&json!(SCRIPT_PATH), &json!("echo first > ran\n")));
        assert_eq!((&waiting[0]["changed"], &waiting[0]["worktrees"]), (&json!(false), &json!(["x"])));
        let server = TestServer::start(&grove);
        let said = server.ask("c", "cat ran");
        assert!(said.last().unwrap().contains("is not approved, so the agent was not started"), "{said:?}");
        assert!(server.ask("c", "/trust")[0].contains("echo first > ran"));
        // The approval runs what was said.
        let said = server.ask("c", "/trust --yes");
        assert_eq!(said.last().unwrap(), "first", "{said:?}");
        assert_eq!(server.ask("c", "/trust"), ["No script waits for approval."]);
        // Another content asks again, and says what changed; what was approved stays.
        commit_script(&grove, SCRIPT_PATH, "echo second > ran\n");
        let shown = server.ask("c", "/trust").remove(0);
        assert!(shown.contains("changed since it was approved") && shown.contains("- echo first > ran\n+ echo second > ran"), "{shown}");
        let said = server.ask("d", "cat ran");
        assert!(said.last().unwrap().contains("is not approved"), "{said:?}");
    }

    fn a_script_that_hangs_kills_its_parent_or_floods_is_ended(store: TestStore) {
        let grove = with_script(store, SCRIPT_PATH, "echo begun; setsid sh -c 'sleep 300; :' $PWD & sh -c 'sleep 300; :' $PWD\n");
        approve(&grove);
        let mut command = grove.grove_command(["worktree", "create", "hangs", "--json"]);
        let hung = ProgramOutput::from(command.env("GROVE_INIT_TIMEOUT", "1s")).assert_exit_code(1);
        assert!(hung.json_error().1.contains("longer than 1 seconds"), "{hung:?}");
        assert_nothing_runs(&grove);

        commit_script(&grove, SCRIPT_PATH, "kill -9 $PPID; sleep 300\n");
        approve(&grove);
        let mut command = grove.grove_command(["worktree", "create", "kills", "--json"]);
        let killed = ProgramOutput::from(command.env("GROVE_INIT_TIMEOUT", "5s")).assert_exit_code(1);
        assert_eq!(killed.json_error().0, "init_failed");

        commit_script(&grove, SCRIPT_PATH, "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end\n");
        approve(&grove);
        let made = create(&grove, "floods").assert_success();
        let log = grove.grove_home().join("init").join(format!("{}.log", made.json()["id"].as_str().unwrap()));
        let kept = fs::read_to_string(log).unwrap();
        assert!(kept.ends_with("x\nend\n") && kept.len() < 1_100_000, "{}", kept.len());
        for environment in grove.grove(["worktree", "list", "--json"]).json().as_array().unwrap() {
            assert_ne!(environment["metadata"]["init_script"]["status"], "running", "{environment}");
        }
    }

    fn a_killed_server_leaves_nothing_running(store: TestStore) {
        let grove = with_script(store, SCRIPT_PATH, "touch ../begun; sh -c 'sleep 300; :' $PWD\n");
        approve(&grove);
        let mut server = TestServer::start(&grove);
        server.say("c", "echo hello");
        let begun = || grove.grove(["worktree", "list", "--json"]).json()[0]["path"].as_str().map(|path| format!("{path}/../begun"));
        wait_for(|| begun().is_some_and(|path| fs::exists(path).unwrap()));
        assert_eq!(show(&grove, "thread-2e7d2c03")["metadata"]["init_script"]["status"], "running");
        server.kill();
        let _server = TestServer::start(&grove);
        wait_for(|| show(&grove, "thread-2e7d2c03")["metadata"]["init_script"]["status"] == "failed");
        let shown = show(&grove, "thread-2e7d2c03");
        assert_eq!(shown["metadata"]["init_script"]["error"], "the init script was interrupted by a restart");
        assert_nothing_runs(&grove);
    }
}

#[test]
fn automakers_script_counts_and_a_forks_never_runs() {
    let grove = new_sandbox(TestRepo::new());
    commit_script(&grove, ".automaker/worktree-init.sh", "#!/usr/bin/env bash\n[[ -n $BASH ]] && echo base > ran\n");
    let fork = grove.repo.temp_dir().join("origin.git");
    grove.repo.git(&["clone", "--quiet", "--bare", ".", fork.to_str().unwrap()]);
    grove.repo.git(&["remote", "add", "origin", fork.to_str().unwrap()]);
    grove.repo.git(&["fetch", "--quiet", "origin"]);
    grove.repo.git(&["remote", "set-head", "origin", "main"]);
    grove.grove(["codebase", "add", "--json"]).assert_success();
    approve(&grove);
    // The fork's branch has another script, and one at the stronger place.
    grove.repo.git(&["checkout", "--quiet", "-b", "evil"]);
    commit_script(&grove, ".automaker/worktree-init.sh", "echo fork > ran\n");
    commit_script(&grove, SCRIPT_PATH, "echo fork > ran\n");
    grove.repo.git(&["push", "--quiet", "origin", "HEAD:refs/pull/7/head"]);
    grove.repo.git(&["checkout", "--quiet", "main"]);
    let made =
        grove.grove(["worktree", "create", "--kind", "pr", "--id", "7", "--fork", "--json"]).assert_success().json();
    assert_eq!(fs::read_to_string(format!("{}/ran", made["path"].as_str().unwrap())).unwrap(), "base\n");
}
