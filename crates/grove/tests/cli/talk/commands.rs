//! Slash commands.

use std::fs;
use std::path::Path;

use grove_testkit::{TestEngine, TestStore};

use super::{list_branches, list_environments, start_test_server};

fn sqlite_store() -> TestStore {
    TestStore::new(TestEngine::Sqlite)
}

#[test]
fn the_kinds_of_changes_are_told_apart() {
    let (grove, server) = start_test_server(sqlite_store());
    let change = "echo a > staged; git add staged; echo b >> README.md; touch one two";
    server.ask("c", change);
    let list = server.ask("c", "/worktree list").remove(0);
    assert!(list.contains(": dirty (1 staged, 1 modified, 2 untracked) · echo a > staged"), "{list}");
    let page = || server.call_api("GET", "/page/worktrees", None).text;
    assert!(page().contains("<dt>changes</dt><dd>1 staged, 1 modified, 2 untracked</dd>"), "{}", page());
    // A merge that stopped at a conflict, and a commit without a branch.
    let path = crate::worktree_path(&list_environments(&grove)[0]);
    grove.repo.git_in(&path, &["clean", "-fdq"]);
    grove.repo.git_in(&path, &["commit", "-qam", "theirs"]);
    grove.repo.git_in(&path, &["checkout", "-q", "--detach", "main"]);
    fs::write(path.join("README.md"), "ours").unwrap();
    grove.repo.git_in(&path, &["commit", "-qam", "ours"]);
    let merged = grove.repo.git_command(&path, &["merge", "-q", &list_branches(&grove)[0]]).output().unwrap();
    assert!(!merged.status.success(), "{merged:?}");
    for told in ["1 conflict, merge in progress", ", detached at "] {
        assert!(page().contains(told), "{}", page());
        let list = server.ask("c", "/worktree list").remove(0);
        assert!(list.contains(told), "{list}");
    }
}

#[test]
fn a_worktrees_life_in_a_chat() {
    let (grove, server) = start_test_server(sqlite_store());
    let ask = |text: &str| server.ask("c", text).join("\n");
    assert_eq!(ask("/worktree list"), "No worktrees. The next message makes one, or `/worktree create NAME`.");
    assert_eq!(ask("/worktree create feature/login"), "Working in isolated branch `feature/login`");
    assert_eq!(ask("git branch --show-current"), "feature/login", "the conversation works there now");
    assert_eq!(
        ask("/worktree list"),
        "- `feature/login` (task feature/login): fresh · git branch --show-current ← active"
    );
    assert_eq!(ask("echo x > file; git add file; echo y >> file"), "The agent is done and said nothing.");
    assert!(ask("/worktree diff").starts_with("```diff\ndiff --git a/file b/file\nnew file mode 100644"));
    ask("echo z > untracked");
    assert_eq!(ask("/worktree diff --name-only"), "```\nfile\nuntracked\n```");
    ask("rm untracked");
    let refused = ask("/worktree remove");
    assert!(
        refused.starts_with("Cannot remove worktree - you have uncommitted changes.\n- It has uncommitted changes"),
        "{refused}"
    );
    assert!(
        refused.contains("`--force`: it is kept for 30 days, and `/worktree undo feature/login` brings it back."),
        "{refused}"
    );
    let removed = ask("/worktree remove --force");
    assert_eq!(
        removed,
        "Removed the worktree `feature/login`.\nIt is kept for 30 days; `/worktree undo feature/login` brings it back."
    );
    assert_eq!(ask("/worktree undo").lines().count(), 1);
    assert_eq!(ask("cat file"), "x\ny", "and the conversation works there again");
    ask("git commit -qam done");
    assert_eq!(
        ask("/worktree hibernate"),
        "`feature/login` hibernates; `/worktree wake feature/login` or the next use brings it back."
    );
    assert_eq!(ask("cat file"), "x\ny", "the next message wakes it");
    let why = ask("/worktree why");
    assert!(why.contains("chosen"), "{why}");
    let finished = ask("/worktree finish");
    assert!(finished.starts_with("Merged `feature/login` into `main` at "), "{finished}");
    assert_eq!(fs::read_to_string(grove.repo.path().join("file")).unwrap(), "x\ny\n");
    assert_eq!(list_branches(&grove), Vec::<String>::new());
    let fresh = ask("git branch --show-current");
    assert!(fresh.starts_with("Working in isolated branch `thread-"), "its own session has ended: {fresh}");
}

#[test]
fn linking_sharing_and_adopting() {
    let (grove, server) = start_test_server(sqlite_store());
    server.ask_with(&serde_json::json!({ "conversationId": "i", "message": "echo hi > file", "hints": { "workflowType": "issue", "workflowId": 42 } }));
    let ask = |text: &str| server.ask("c", text).join("\n");
    assert_eq!(ask("/worktree link issue-42"), "Linked to worktree `issue-42`");
    assert_eq!(ask("cat file"), "hi");
    assert!(ask("/worktree link issue-43").starts_with("No worktree found for issue-43"));
    for wrong in ["/worktree link", "/worktree link a b", "/worktree link ..", "/worktree link -x"] {
        assert!(
            ask(wrong)
                .ends_with("Write `/worktree link issue-42`, `/worktree link pr-7` or `/worktree link feature/auth`."),
            "{wrong}"
        );
    }
    // Another conversation works there.
    let refused = ask("/worktree remove --force");
    assert!(refused.starts_with("Removed"), "forced: {refused}");
    let elsewhere = grove.repo.temp_dir().join("theirs");
    grove.repo.git(&["worktree", "add", "-q", elsewhere.to_str().unwrap(), "-b", "theirs"]);
    assert!(ask("/worktree orphans").starts_with("- `theirs` at "));
    assert!(ask(&format!("/worktree adopt {}", elsewhere.display())).starts_with("Adopted `theirs`"));
    assert!(list_environments(&grove).iter().any(|e| e["branch"] == "theirs" && e["adopted"] == true));
    assert!(ask("/worktree remove theirs").starts_with("Released `theirs`"));
    assert!(elsewhere.exists());
}

#[test]
fn another_conversation_is_a_reason_in_a_chat() {
    let (_grove, server) = start_test_server(sqlite_store());
    server.ask_with(&serde_json::json!({ "conversationId": "i", "message": "true", "hints": { "workflowType": "issue", "workflowId": 42 } }));
    server.ask("c", "/worktree link issue-42");
    let refused = server.ask("c", "/worktree remove").join("\n");
    assert!(refused.starts_with("Cannot remove worktree - ") && refused.contains("(i)"), "{refused}");
}

#[test]
fn what_is_mistyped_gets_the_nearest_name() {
    let (_grove, server) = start_test_server(sqlite_store());
    let ask = |text: &str| server.ask("c", text).join("\n");
    assert_eq!(ask("/hlep"), "There is no command `/hlep`.\nDid you mean `/help`? `/help` shows all commands.");
    assert_eq!(
        ask("/worktree crate x"),
        "There is no command `/worktree crate`.\nDid you mean `/worktree create`? `/help` shows all commands."
    );
    assert!(ask("/xyzzy").starts_with("There is no command `/xyzzy`."));
    assert!(ask("/worktree create").starts_with("NAME is missing."));
    assert!(ask("/worktree create -evil").contains('`'), "a bad name");
    assert!(ask("/worktree create x --frm y").starts_with("`/worktree create` does not know `--frm`."));
    assert!(ask("/worktree cleanup").contains("`/worktree cleanup merged`"));
    assert_eq!(ask("/trust"), "No script waits for approval.");
    assert!(ask("/help").contains("- `/worktree …`: make, find and remove worktrees"));
    assert!(ask("/worktree").contains("- `/worktree finish`: merge the work into its base"));
    // Not a command: a path.
    assert!(ask("/bin/echo hello").ends_with("hello"));
}

#[test]
fn status_codebases_agent_and_cwd() {
    let (grove, server) = start_test_server(sqlite_store());
    let ask = |text: &str| server.ask("c", text).join("\n");
    ask("true");
    let status = ask("/status");
    let lines: Vec<&str> = status.lines().collect();
    assert!(lines[0].starts_with("Codebase: `") && lines[1].starts_with("Directory: /"), "{status}");
    assert!(lines[2].starts_with("Branch: `thread-") && lines[3] == "Agent session: `sh`, active", "{status}");
    assert_eq!(lines[4..], ["Worktrees: 1 (1 fresh)", "Queue: 1 running, 0 waiting"]);
    ask("/reset");
    assert!(ask("/status").contains("Agent session: none"));
    assert!(ask("/codebases").ends_with("← active"));
    assert!(ask("/codebase nothing").contains("Registered are: "));
    assert!(ask("/cwd /tmp").starts_with("This conversation is about `"));
    assert!(ask("/agent").starts_with("This conversation talks to `sh`."));
    let other = grove_testkit::TestRepo::new();
    let path = other.path().display().to_string();
    assert!(ask(&format!("/register {path}")).starts_with("Registered `"));
    let common = ask("git rev-parse --git-common-dir");
    assert!(common.ends_with(&Path::new(&path).join(".git").canonicalize().unwrap().display().to_string()), "{common}");
    assert!(ask("/register /no/such/place").contains("/no/such/place"));
    assert_eq!(grove.grove(["codebase", "list", "--json"]).assert_success().json().as_array().unwrap().len(), 2);
    // Never the main checkout, even without a codebase.
    let said = server.ask("d", &format!("/cwd {path}")).join("\n");
    assert!(said.contains("is in the main checkout of"), "{said}");
}

#[test]
fn a_conflict_is_put_right_in_the_worktree() {
    let (grove, server) = start_test_server(sqlite_store());
    let ask = |text: &str| server.ask("c", text).join("\n");
    ask("/worktree create fix");
    ask("echo theirs > file; git add file; git commit -qm theirs");
    grove.repo.write_file("file", "ours\n");
    grove.repo.commit_all("ours");
    let said = ask("/worktree finish");
    assert!(said.starts_with("`fix` conflicts with `main` in file."), "{said}");
    assert_eq!(list_environments(&grove)[0]["state"], "failed");
    let said = ask("git merge -q main; echo both > file; git commit -qam both && echo resolved");
    assert!(said.contains("resolved"), "the agent works there: {said}");
    assert!(ask("/worktree finish").starts_with("Merged `fix` into `main`"));
}

#[test]
fn main_checkouts_and_our_own_folders_are_not_for_agents() {
    let grove = crate::new_sandbox(grove_testkit::TestRepo::new());
    let server = grove_testkit::TestServer::start(&grove);
    let ask = |text: &str| server.ask("c", text).join("\n");
    let path = grove.repo.path().display().to_string();
    assert!(ask(&format!("/cwd {path}")).starts_with("Working in"), "no codebase is registered yet");
    grove.grove(["codebase", "add", "--json"]).assert_success();
    let other = grove_testkit::TestRepo::new();
    grove.grove(["codebase", "add", other.path().to_str().unwrap(), "--json"]).assert_success();
    let before = grove.repo.snapshot_checkout();
    let said = ask("touch written; pwd");
    assert!(said.contains("is in the main checkout of"), "{said}");
    before.assert_untouched();
    let home = grove.grove_home();
    let link = grove.repo.temp_dir().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for folder in
        [home.as_path(), &home.join("worktrees"), &link, &grove.repo.path().join(".git"), &grove.repo.temp_dir()]
    {
        fs::create_dir_all(folder).ok();
        let said = ask(&format!("/cwd {}", folder.display()));
        assert!(!said.starts_with("Working in"), "{}: {said}", folder.display());
    }
}

#[test]
fn a_clean_up_takes_the_askers_own_worktree_too() {
    let (grove, server) = start_test_server(sqlite_store());
    server.ask("c", "echo x > f; git add f; git commit -qm x");
    let branch = list_branches(&grove).pop().unwrap();
    grove.repo.git(&["merge", "-q", "--no-ff", "--no-edit", &branch]);
    let said = server.ask("c", "/worktree cleanup merged").join("\n");
    assert!(said.starts_with(&format!("Removed `{branch}`")), "{said}");
}
