//! The real agents: Claude Code, Codex and opencode, the programs themselves, through the server. Only
//! the model is ours (`grove_testkit::FakeModel`), so that nothing leaves the machine and every run is the
//! same.

mod harness;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::{is_alive, is_long_run, wait_for};
use harness::{MachineSetup, RealAgent, RealAgentTest};

use super::list_branches;

/// Writes a story once and tells it of each agent. `$in_quick_run` says whether the quick run has it of
/// opencode, too, whose start takes seconds of both cores; the long run always has.
macro_rules! of_each_agent {
    (opencode_in_quick_run = $in_quick_run:literal; $(fn $name:ident($real:ident: RealAgent) $body:block)+) => {$(
        mod $name {
            use super::*;

            fn story($real: RealAgent) $body

            #[test]
            fn claude() {
                story(RealAgent::Claude);
            }

            #[test]
            fn codex() {
                story(RealAgent::Codex);
            }

            #[test]
            fn opencode() {
                if $in_quick_run || is_long_run() {
                    story(RealAgent::Opencode);
                }
            }
        }
    )+};
}

of_each_agent! {
    opencode_in_quick_run = true;

    fn a_turn_edits_a_file_and_the_next_one_remembers_it_after_a_restart(real: RealAgent) {
        let Some(mut house) = RealAgentTest::with_agent(real) else { return };
        let before = house.grove.repo.snapshot_checkout();
        let said = house.server.ask("c", "WRITE notes.txt: by an agent");
        let answer = said.last().unwrap();
        assert!(answer.contains("Done: "), "{said:?}");
        let worktree = house.worktree_path();
        assert_eq!(fs::read_to_string(worktree.join("notes.txt")).unwrap().trim_end(), "by an agent");
        before.assert_untouched();

        house.restart_server();
        let said = house.server.ask("c", "RECALL");
        assert_eq!(said, ["Earlier: WRITE notes.txt: by an agent"]);
        assert_eq!(house.worktree_path(), worktree);
        assert!(house.other_processes().is_empty(), "{:?}", house.other_processes());
        // Each turn is counted once, though agents tell what the whole session took.
        let status = house.server.ask("c", "/status");
        assert!(status[0].contains(house.real.usage_of_three_answers()), "{status:?}");
    }

    fn a_commit_is_on_the_branch_of_its_environment_and_nowhere_else(real: RealAgent) {
        let Some(house) = RealAgentTest::with_agent(real) else { return };
        let (repo, server) = (&house.grove.repo, &house.server);
        let (before, main) = (repo.snapshot_checkout(), repo.resolve_sha("main"));
        server.ask("c", "WRITE notes.txt: by an agent");
        let said = server.ask("c", "RUN git add notes.txt && git commit --quiet -m 'By an agent' && git log --oneline");
        assert!(said.last().unwrap().contains("By an agent"), "{said:?}");
        let branch = list_branches(&house.grove).pop().unwrap();
        assert_eq!(repo.git(&["log", "--format=%s %an", &format!("main..{branch}")]), "By an agent Test Person");
        assert_eq!(repo.git(&["show", &format!("{branch}:notes.txt")]).trim_end(), "by an agent");
        assert_eq!(repo.git_in(&house.worktree_path(), &["status", "--porcelain"]), "");
        assert_eq!(repo.resolve_sha("main"), main);
        before.assert_untouched();
    }
}

of_each_agent! {
    opencode_in_quick_run = false;

    fn a_stopped_turn_leaves_no_process_and_the_session_goes_on(real: RealAgent) {
        let Some(house) = RealAgentTest::with_agent(real) else { return };
        let RealAgentTest { server, model, .. } = &house;
        server.say("c", "SLOW");
        wait_for(|| model.received_requests().iter().any(|asked| asked.said == "SLOW"));
        let running = house.other_processes();
        assert!(running.iter().any(|process| process.contains("node_modules")), "{running:?}");
        let began = Instant::now();
        server.say("c", "/stop");
        let said = server.wait_until_settled("c");
        assert!(said.last().unwrap().ends_with("Stopped. /retry runs it again."), "{said:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        for process in running.iter().chain(&house.other_processes()) {
            let pid = process.split(' ').next().unwrap();
            assert!(!is_alive(pid), "{process} is still there");
        }
        assert_eq!(server.ask("c", "RECALL").last().unwrap(), "Earlier: SLOW");
    }

    fn it_is_listed_as_ready_and_answers_a_test(real: RealAgent) {
        let Some(house) = RealAgentTest::with_agent(real) else { return };
        let (grove, name) = (&house.grove, house.real.name());
        let list = grove.grove(["agent", "list", "--json"]).assert_success().json();
        let found = list.as_array().unwrap().iter().find(|agent| agent["name"] == name).unwrap();
        assert_eq!((&found["state"], &found["default"]), (&"ready".into(), &true.into()), "{found}");
        assert!(found["version"].as_str().unwrap().contains(&house.real.pinned_version()), "{found}");
        let tested = grove.grove(["agent", "test", name, "--prompt", "hello", "--json"]).assert_success().json();
        assert_eq!(tested["answer"], "You said: hello", "{tested}");
        assert!(house.other_processes().is_empty(), "{:?}", house.other_processes());
    }

    fn a_session_that_is_gone_is_begun_anew_and_told_what_was_said(real: RealAgent) {
        let Some(house) = RealAgentTest::with_agent(real) else { return };
        let server = &house.server;
        server.ask("c", "the sky is blue");
        house.forget_sessions();
        let said = server.ask("c", "RECALL");
        let notice = format!("The agent `{}` does not know its earlier session any more.", house.real.name());
        assert!(said[0].starts_with(&notice), "{said:?}");
        assert_eq!(said.last().unwrap().trim_end(), "Earlier:", "nothing of its own: {said:?}");
        let asked = house.model.received_requests().pop().unwrap();
        assert!(asked.said.contains("the sky is blue") && asked.said.ends_with("RECALL"), "{asked:?}");
    }

    fn what_it_may_only_look_at_stays_as_it_is(real: RealAgent) {
        let Some(house) = RealAgentTest::where_it_may(real, "read") else { return };
        house.server.ask("c", "WRITE notes.txt: by an agent");
        house.server.ask("c", "RUN touch notes.txt");
        assert_eq!(house.grove.repo.git_in(&house.worktree_path(), &["status", "--porcelain"]), "");
        let said = house.server.ask("c", "hello");
        assert_eq!(said.last().unwrap(), "You said: hello");
    }

    fn what_may_do_everything_can(real: RealAgent) {
        let Some(house) = RealAgentTest::where_it_may(real, "full") else { return };
        let outside = house.grove.repo.temp_dir().join("outside");
        let said = house.server.ask("c", &format!("RUN touch {}", outside.display()));
        assert!(outside.exists(), "{said:?}");
    }

    fn a_wrong_key_is_said_in_one_sentence(real: RealAgent) {
        let Some(house) = RealAgentTest::with_key(real, "wrong") else { return };
        let said = house.server.ask("c", "hello");
        let answer = said.last().unwrap();
        let expected = match real {
            RealAgent::Claude => "The agent `claude` failed: Invalid API key",
            RealAgent::Codex => "The agent `codex` failed: unexpected status 401",
            RealAgent::Opencode => "The agent `opencode` failed: ",
        };
        assert!(answer.starts_with(expected) && !answer.contains('\n'), "{said:?}");
        assert_eq!(house.model.received_requests(), []);
    }
}

/// Codex walls commands in with the machine's bubblewrap, or with its own. Debian's starts Codex's helper
/// by its name, which Codex does not make in a home below the temporary folder.
fn expect_codex_runs_commands_outside_of_its_home(machine: MachineSetup) {
    let Some(house) = RealAgentTest::on_machine(RealAgent::Codex, machine) else { return };
    let path = std::env::var_os("PATH").unwrap();
    let found = std::env::split_paths(&path).any(|folder| folder.join("bwrap").exists());
    assert!(found, "bubblewrap is missing: run `scripts/test`, which installs it");
    let (repo, server) = (&house.grove.repo, &house.server);
    server.ask("c", "WRITE notes.txt: by an agent");
    let said = server.ask("c", "RUN git add notes.txt && git commit --quiet -m 'By an agent' && git log --oneline");
    assert!(said.last().unwrap().contains("By an agent"), "{said:?}");
    let said = server.ask("c", "RUN echo note > \"${TMPDIR:-/tmp}/grove-test-note-$$\" && rm \"${TMPDIR:-/tmp}/grove-test-note-$$\" && echo temporary");
    assert!(said.last().unwrap().contains("temporary"), "{said:?}");
    let said = server.ask("c", "RUN touch ~/.codex/planted; echo tried");
    assert!(said.last().unwrap().contains("tried"), "{said:?}");
    assert!(!repo.home_dir().join(".codex/planted").exists(), "{said:?}");
}

#[test]
fn codex_runs_commands_with_bubblewrap_and_keeps_them_out_of_its_home() {
    expect_codex_runs_commands_outside_of_its_home(MachineSetup::default());
}

#[test]
fn codex_runs_commands_with_bubblewrap_in_a_home_outside_of_the_temporary_folder() {
    let machine = MachineSetup { own_temporary_folder: true, ..MachineSetup::default() };
    expect_codex_runs_commands_outside_of_its_home(machine);
}

#[test]
fn codex_runs_commands_without_bubblewrap_and_keeps_them_out_of_its_home() {
    let machine = MachineSetup { without_bubblewrap: true, ..MachineSetup::default() };
    expect_codex_runs_commands_outside_of_its_home(machine);
}
