//! The right place.

use std::fs;
use std::path::Path;

use grove_testkit::{TestRepo, TestServer, on_sqlite, wait_for};
use serde_json::{Value, json};

use super::{list_branches, list_environments, registered_sandbox, serve_command, start_test_server};
use crate::sandbox_on;

fn issue_message(conversation: &str, platform: &str, number: u64, message: &str) -> Value {
    json!({ "conversationId": conversation, "platform": platform, "message": message,
            "hints": { "workflowType": "issue", "workflowId": number.to_string() } })
}

on_sqlite! {
    fn the_first_message_makes_a_worktree_and_the_next_goes_on_there(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let before = grove.repo.snapshot_checkout();
        let said = server.ask_with(&issue_message("acme/app#42", "github", 42, "pwd; git branch --show-current; echo hi > made"));
        let path = grove.worktrees_dir();
        assert_eq!(said[0], "Working in isolated branch `issue-42`");
        assert!(Path::new(said[1].lines().next().unwrap()).starts_with(&path), "{said:?}");
        assert_eq!(said[1].lines().nth(1), Some("issue-42"));
        let again = server.ask_with(&issue_message("acme/app#42", "github", 42, "cat made"));
        assert_eq!(again, ["hi"], "nothing is said about the branch a second time");
        before.assert_untouched();
        let list = list_environments(&grove);
        assert_eq!(list[0]["created_by_platform"], "github");
        assert_eq!(list[0]["conversations"], json!(["acme/app#42"]));
    }

    fn the_same_work_from_another_platform_gets_the_same_worktree(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let first = server.ask_with(&issue_message("acme/app#42", "github", 42, "pwd"));
        let second = server.ask_with(&issue_message("C1:17.5", "slack", 42, "pwd"));
        assert_eq!(first.last(), second.last());
        assert_eq!(list_branches(&grove), ["issue-42"]);
    }

    fn a_chat_that_names_an_issue_by_its_address_works_in_its_worktree(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        // Never contacted: the base is known.
        grove.repo.git(&["remote", "add", "origin", "git@git.example:acme/app.git"]);
        grove.repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
        grove.repo.git(&["remote", "set-head", "origin", "main"]);
        fs::create_dir_all(grove.grove_home()).unwrap();
        fs::write(grove.grove_home().join("config.toml"), "worktree.fetch = \"never\"\n").unwrap();
        grove.grove(["codebase", "add", "--json"]).assert_success();
        let server = TestServer::start(&grove);
        let chat = |id: &str, text: &str| json!({ "conversationId": id, "platform": "slack", "message": text });
        server.ask_with(&issue_message("acme/app#42", "github", 42, "echo from the issue > made"));
        let said = server.ask_with(&chat("C1:17.5", "cat made # https://git.example/acme/app/issues/42"));
        assert_eq!(said, ["Reusing worktree from issue #42", "from the issue"]);
        // Both go on there, each with its own answers.
        assert_eq!(server.ask_with(&chat("C1:17.5", "echo more >> made; git branch --show-current")), ["issue-42"]);
        assert_eq!(server.ask_with(&issue_message("acme/app#42", "github", 42, "tail -n 1 made")), ["more"]);
        assert_eq!(list_environments(&grove)[0]["conversations"].as_array().map(Vec::len), Some(2));
        // Another repository's issue, and a number alone, link nothing; a command does.
        let said = server.ask_with(&chat("C1:18.5", "ls made # https://git.example/acme/site/issues/42 and #42"));
        assert!(said[0].starts_with("Working in isolated branch `thread-"), "{said:?}");
        assert_eq!(server.ask_with(&chat("C1:18.5", "/worktree link issue-42")), ["Linked to worktree `issue-42`"]);
        assert_eq!(server.ask_with(&chat("C1:18.5", "head -n 1 made")), ["from the issue"]);
        // The other way round: the chat came first, and the issue finds its worktree.
        server.ask_with(&chat("C1:19.5", "echo from the chat > made # see https://git.example/acme/app/issues/7"));
        assert_eq!(server.ask_with(&issue_message("acme/app#7", "github", 7, "cat made")).last().unwrap(), "from the chat");
    }

    fn a_conversation_and_its_worktree_are_titled_by_the_first_message(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let titles = || list_environments(&grove).iter().map(|e| e["title"].clone()).collect::<Vec<_>>();
        grove.grove(["worktree", "create", "by-hand"]).assert_success();
        server.ask("c", "/status");
        server.ask("c", ": **Fix** the _login_ redirect. It goes home.");
        server.ask("c", "/worktree list");
        server.ask("c", ": something else");
        assert_eq!(titles(), [Value::Null, json!(": Fix the login redirect")]);
        let list = server.ask("c", "/worktree list").remove(0);
        assert!(list.contains(" · : Fix the login redirect ← active") && list.lines().count() == 2, "{list}");
        let text = grove.grove(["worktree", "list"]).assert_success().stdout;
        assert!(text.contains("TITLE") && text.contains(": Fix the login redirect"), "{text}");
        // An issue has its own.
        let mut issue = issue_message("acme/app#42", "github", 42, ": fix it");
        issue["hints"]["title"] = json!("Login fails");
        server.ask_with(&issue);
        assert_eq!(titles()[2], "Login fails");
        // What a worktree is about is said by the first message there.
        server.ask("c", "/worktree create next");
        server.ask("c", ": now the logout");
        assert_eq!(titles()[3], ": now the logout");
        let said = json!({ "message": ": Say hello" });
        assert_eq!(server.call_api("POST", "/api/conversations/web-1/messages", Some(&said)).status, 202);
        server.wait_until_settled("web-1");
        assert_eq!(server.call_api("GET", "/api/conversations", None).json()[0]["title"], ": Say hello");
    }

    fn a_worktree_that_was_deleted_is_made_anew_and_that_is_said(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let first = server.ask("c", "pwd");
        fs::remove_dir_all(&first[1]).unwrap();
        let second = server.ask("c", "pwd");
        assert_eq!(second[0], "Detected a stale isolated workspace reference and cleared it. Creating a new one.");
        assert_eq!(second[2], first[1]);
        let all = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().json();
        assert_eq!((all[0]["status"].as_str(), all[1]["status"].as_str()), (Some("destroyed"), Some("active")));
    }

    fn without_a_codebase_it_runs_in_a_folder_of_its_own(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let server = TestServer::start(&grove);
        let said = server.ask("c", "pwd");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(Path::new(&said[0]).starts_with(grove.grove_home().join("scratch")));
        let folder = grove.repo.temp_dir().join("elsewhere");
        fs::create_dir(&folder).unwrap();
        server.ask("c", &format!("/cwd {}", folder.display()));
        assert_eq!(server.ask("c", "pwd"), [folder.canonicalize().unwrap().display().to_string()]);
        fs::remove_dir(&folder).unwrap();
        let gone = server.ask("c", "echo ran > /dev/null; pwd");
        assert!(gone[0].contains("is not there, so the agent was not started"), "{gone:?}");
        assert_eq!(list_environments(&grove).len(), 0);
    }

    fn a_pull_request_shares_the_worktree_of_its_issue_if_its_head_is_there(store: TestStore) {
        let (grove, server) = start_test_server(store);
        server.ask_with(&issue_message("acme/app#42", "github", 42, "git commit -q --allow-empty -m work && git rev-parse HEAD"));
        let pr = |number: u64, more: Value| {
            let mut hints = json!({ "workflowType": "pr", "workflowId": number.to_string(), "linkedIssues": [42] });
            hints.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "conversationId": format!("acme/app#{number}"), "platform": "github", "message": "git branch --show-current", "hints": hints })
        };
        let shared = server.ask_with(&pr(99, json!({ "prBranch": "issue-42" })));
        assert_eq!(shared, ["Reusing worktree from issue #42", "issue-42"]);
        let fork = server.ask_with(&pr(100, json!({ "prBranch": "issue-42", "isForkPR": true })));
        assert!(fork.last().unwrap().contains("The agent was not started."), "no such pull request here: {fork:?}");
        assert_eq!(list_branches(&grove), ["issue-42"]);

        // The linked one is gone: marked so, and a new one is made for the next that asks.
        let path = list_environments(&grove)[0]["path"].as_str().unwrap().to_owned();
        fs::remove_dir_all(&path).unwrap();
        let thread = json!({ "conversationId": "t", "message": "git branch --show-current", "hints": { "linkedIssues": [42] } });
        let said = server.ask_with(&thread);
        assert!(said.last().unwrap().starts_with("thread-"), "{said:?}");
        assert!(list_branches(&grove).iter().all(|branch| branch.starts_with("thread-")));
    }

    fn a_pull_request_whose_head_is_not_known_shares_the_worktree_of_its_issue(store: TestStore) {
        let (grove, server) = start_test_server(store);
        server.ask_with(&issue_message("acme/app#42", "github", 42, "true"));
        let ask = |number: u64, kind: &str, more: Value| {
            let mut hints = json!({ "workflowType": kind, "workflowId": number.to_string(), "linkedIssues": [42] });
            hints.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            server.ask_with(&json!({ "conversationId": format!("acme/app#{number}"), "platform": "github",
                "message": "git branch --show-current", "hints": hints }))
        };
        assert_eq!(ask(99, "pr", json!({})), ["Reusing worktree from issue #42", "issue-42"]);
        assert_eq!(list_environments(&grove)[0]["metadata"]["related_prs"], json!([99]));
        // A known commit is compared: this one is nowhere.
        let elsewhere = ask(100, "pr", json!({ "prSha": "a".repeat(40) }));
        assert!(elsewhere.last().unwrap().contains("The agent was not started."), "{elsewhere:?}");
        // A known fork never links, as a pull request or as its review.
        for (number, kind) in [(101, "pr"), (102, "review")] {
            let fork = ask(number, kind, json!({ "isForkPR": true }));
            assert!(fork.last().unwrap().contains("The agent was not started."), "{kind}: {fork:?}");
        }
        assert_eq!(list_branches(&grove), ["issue-42"]);
        assert_eq!(list_environments(&grove)[0]["metadata"]["related_prs"], json!([99]));
    }

    fn a_closed_issue_keeps_what_its_pull_request_shares_and_the_merge_ends_it(store: TestStore) {
        let (grove, server) = start_test_server(store);
        server.ask_with(&issue_message("acme/app#42", "github", 42, "git commit -q --allow-empty -m work"));
        let pr = json!({ "conversationId": "acme/app#99", "platform": "github", "message": "pwd",
            "hints": { "workflowType": "pr", "workflowId": "99", "linkedIssues": [42], "prBranch": "issue-42" } });
        let path = server.ask_with(&pr).pop().unwrap();
        server.post_close(&json!({ "conversationId": "acme/app#42", "platform": "github" }));
        server.wait_until_settled("acme/app#42");
        assert!(Path::new(&path).exists(), "the pull request still works there");
        server.post_close(&json!({ "conversationId": "acme/app#99", "platform": "github", "merged": true }));
        let said = server.wait_until_settled("acme/app#99");
        assert!(!Path::new(&path).exists(), "{said:?}");
        assert_eq!(list_branches(&grove), Vec::<String>::new());
        assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 1);
        // The work is nowhere else, so its branch stays.
        assert!(grove.repo.git(&["branch", "--list", "issue-42"]).contains("issue-42"));

        // Reopened: a new environment for the same number, on its old branch.
        let again = server.ask_with(&issue_message("acme/app#42", "github", 42, "git log -1 --format=%s"));
        assert_eq!(again, ["Working in isolated branch `issue-42`", "work"]);
    }

    fn a_close_that_leaves_unsaved_work_says_so(store: TestStore) {
        let (grove, server) = start_test_server(store);
        server.ask_with(&issue_message("acme/app#7", "github", 7, "echo unsaved > file"));
        server.post_close(&json!({ "conversationId": "acme/app#7", "platform": "github" }));
        let said = server.wait_until_settled("acme/app#7");
        let last = said.last().unwrap();
        assert!(last.starts_with("The worktree `issue-7` is kept: It has files that git does not know"), "{last}");
        assert_eq!(list_branches(&grove), ["issue-7"]);
    }

    fn nothing_is_removed_under_a_run(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let gate = grove.repo.temp_dir().join("gate");
        let go = grove.repo.temp_dir().join("go");
        let script = format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done; pwd; ls -d .", gate.display(), go.display());
        server.say_with(&issue_message("acme/app#7", "github", 7, &script));
        wait_for(|| gate.exists());
        server.post_close(&json!({ "conversationId": "acme/app#7", "platform": "github" }));
        // Nor by a person at the terminal.
        let (code, _) = grove.grove(["worktree", "remove", "issue-7", "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, "refused");
        assert_eq!(list_branches(&grove), ["issue-7"]);
        fs::write(&go, "").unwrap();
        let said = server.wait_until_settled("acme/app#7");
        assert!(said.iter().any(|text| text.ends_with("issue-7\n.")), "it ended in its worktree: {said:?}");
        assert_eq!(list_branches(&grove), Vec::<String>::new(), "and then it went");
    }

    fn a_message_beside_a_removal_never_runs_in_a_deleted_place(store: TestStore) {
        let (grove, server) = start_test_server(store);
        for round in 0..10 {
            // The last removal may have come after the message.
            server.ask("c", "true");
            let branch = list_branches(&grove).pop().unwrap();
            let removal = std::thread::scope(|scope| {
                let removal = scope.spawn(|| grove.grove(["worktree", "remove", &branch, "--json"]));
                server.say("c", &format!("test -d .git -o -f .git && test \"$PWD\" = \"$(git rev-parse --show-toplevel)\" && echo round {round}"));
                removal.join().unwrap()
            });
            let said = server.wait_until_settled("c");
            assert_eq!(said.last().map(String::as_str), Some(format!("round {round}").as_str()), "{removal:?} {said:?}");
        }
    }

    fn a_removed_worktree_is_told_at_the_next_message(store: TestStore) {
        let (grove, server) = start_test_server(store);
        let first = server.ask("c", "pwd");
        let branch = list_branches(&grove).pop().unwrap();
        grove.grove(["worktree", "remove", &branch]).assert_success();
        let next = server.ask("c", "pwd");
        assert_eq!(next[0], format!("The worktree `{branch}` was removed meanwhile. `/worktree undo {branch}` brings it back."));
        assert_eq!(next.last(), first.last(), "a new one");
        assert_eq!(server.ask("c", "pwd").len(), 1, "told once");
    }

    fn at_the_limit_the_answer_says_how_things_stand(store: TestStore) {
        let grove = registered_sandbox(store);
        let mut command = serve_command(&grove);
        let server = TestServer::start_command({ command.env("MAX_WORKTREES_PER_CODEBASE", "2").env("GROVE_CLEANUP_GRACE", "0"); command }, &grove);
        for number in [1, 2] {
            server.ask_with(&issue_message(&format!("i{number}"), "github", number, "git commit -q --allow-empty -m x; echo x > f"));
        }
        let said = server.ask_with(&issue_message("i3", "github", 3, "echo never"));
        let name = grove.grove(["codebase", "list", "--json"]).assert_success().json()[0]["name"].as_str().unwrap().to_owned();
        assert_eq!(said, [format!(
            "You have 2 active worktrees for **{name}** (limit reached).\n\nWorktree Status:\n- 0 merged (can auto-remove)\n\
             - 0 stale (no activity in 14+ days)\n- 2 active\n\nOptions:\n- `/worktree cleanup merged` (0)\n\
             - `/worktree cleanup stale` (0)\n- `/worktree list` (2)\n- `/worktree remove <name>` (2)"
        )]);
        // One is merged: it goes, and there is room.
        grove.repo.git(&["merge", "-q", "--no-edit", "issue-1"]);
        let path = list_environments(&grove)[0]["path"].as_str().unwrap().to_owned();
        fs::remove_file(Path::new(&path).join("f")).unwrap();
        grove.repo.git_in(Path::new(&path), &["commit", "-q", "--allow-empty", "-m", "more"]);
        fs::write(Path::new(&path).join("done"), "x").unwrap();
        grove.repo.git_in(Path::new(&path), &["add", "-A"]);
        grove.repo.git_in(Path::new(&path), &["commit", "-q", "-m", "done"]);
        grove.repo.git(&["merge", "-q", "--no-edit", "issue-1"]);
        let said = server.ask_with(&issue_message("i3", "github", 3, "echo now"));
        assert_eq!(said, ["Working in isolated branch `issue-3`", "now"]);
        assert_eq!(list_branches(&grove), ["issue-2", "issue-3"]);
    }

    fn a_thread_begins_with_its_channels_codebase(store: TestStore) {
        let grove = registered_sandbox(store);
        let other = TestRepo::new();
        let added = grove.grove(["codebase", "add", other.path().to_str().unwrap(), "--name", "other", "--json"]).assert_success().json();
        let server = TestServer::start(&grove);
        let said = server.ask("channel", "pwd");
        assert!(said[0].starts_with("Which repository is this about?"), "{said:?}");
        assert_eq!(server.ask("channel", "/codebase other")[0], "This conversation is about `other` from now on.");
        let thread = json!({ "conversationId": "channel:1", "parent": "channel", "message": "git rev-parse --git-common-dir" });
        let said = server.ask_with(&thread);
        let git = Path::new(added["default_cwd"].as_str().unwrap()).join(".git");
        assert_eq!(said[1], git.display().to_string());
    }

    fn a_worktree_that_leads_elsewhere_is_not_worked_in(store: TestStore) {
        let (grove, server) = start_test_server(store);
        server.ask("a", "true");
        let other = server.ask("b", "pwd").pop().unwrap();
        server.ask("a", &format!("cp {other}/.git .git"));
        let said = server.ask("a", "git commit -q --allow-empty -m astray");
        assert!(said[0].contains("its `.git` leads to another worktree"), "{said:?}");
        assert_eq!(grove.repo.git_in(Path::new(&other), &["log", "--oneline"]).lines().count(), 1);
    }

    fn without_a_codebase_too_one_agent_at_a_time(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let mut server = TestServer::start(&grove);
        let folder = grove.repo.temp_dir().join("shared");
        fs::create_dir(&folder).unwrap();
        for conversation in ["a", "b"] {
            server.ask(conversation, &format!("/cwd {}", folder.display()));
        }
        for conversation in ["a", "b"] {
            server.say(conversation, "mkdir held && sleep 0.3 && rmdir held && echo alone");
        }
        for conversation in ["a", "b"] {
            assert_eq!(server.wait_until_settled(conversation).last().map(String::as_str), Some("alone"));
        }
        // Nor beside what a killed server's agent still does.
        server.say("a", "trap '' TERM; touch begun; for i in $(seq 100); do echo a >> log; sleep 0.05; done");
        wait_for(|| folder.join("begun").exists());
        server.kill();
        let server = TestServer::start(&grove);
        let said = server.ask("a", "wc -l < log; sleep 0.5; wc -l < log");
        let counts: Vec<&str> = said.last().unwrap().lines().collect();
        assert_eq!(counts[0], counts[1], "{said:?}");
    }

    fn a_conversation_whose_codebase_is_gone_is_told(store: TestStore) {
        let (grove, server) = start_test_server(store);
        server.ask("c", "true");
        let name = grove.grove(["codebase", "list", "--json"]).assert_success().json()[0]["name"].as_str().unwrap().to_owned();
        grove.grove(["codebase", "remove", &name]).assert_success();
        let said = server.ask("c", "pwd");
        assert!(said[0].starts_with("The codebase of this conversation is not registered any more"), "{said:?}");
    }
}

/// One notice, while the remote is waited for; then the local base is used, and that is said.
#[test]
fn a_remote_that_does_not_answer_is_told_once() {
    let grove = crate::new_sandbox(TestRepo::with_origin());
    grove.grove(["codebase", "add", "--json"]).assert_success();
    let silent = grove_testkit::SilentServer::start();
    grove.repo.git(&["remote", "set-url", "origin", &silent.repository_url()]);
    let mut command = serve_command(&grove);
    command.env("GROVE_WORKTREE_FETCH_TIMEOUT", "4s");
    let server = TestServer::start_command(command, &grove);
    let waiting = "Waiting for `origin` to answer…";
    let said = server.ask("c", "git branch --show-current");
    assert_eq!(said.iter().filter(|text| *text == waiting).count(), 1, "{said:?}");
    assert_eq!(said[0], waiting);
    assert!(said[1].contains("`origin/main` is used as it was last seen; its newest commit is"), "{said:?}");
    let created = server.ask("d", "/worktree create y");
    assert_eq!(created[0], waiting, "{created:?}");
    assert!(created.last().unwrap().contains("Working in isolated branch `y`"), "{created:?}");
}
