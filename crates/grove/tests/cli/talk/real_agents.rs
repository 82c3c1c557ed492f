//! The real agents: Claude Code, Codex and opencode, the programs themselves, through the server. Only
//! the model is ours (`grove_testkit::Model`), so that nothing leaves the machine and every run is the
//! same.

mod house;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::{is_alive, wait_for};
use house::{House, Machine, Real};

use super::branches;

/// Writes a story once and tells it of each agent.
macro_rules! of_each_agent {
    ($(fn $name:ident($real:ident: Real) $body:block)+) => {$(
        mod $name {
            use super::*;

            fn story($real: Real) $body

            #[test]
            fn claude() {
                story(Real::Claude);
            }

            #[test]
            fn codex() {
                story(Real::Codex);
            }

            #[test]
            fn opencode() {
                story(Real::Opencode);
            }
        }
    )+};
}

of_each_agent! {
    fn a_turn_edits_a_file_and_the_next_one_remembers_it_after_a_restart(real: Real) {
        let Some(mut house) = House::with(real) else { return };
        let before = house.grove.repo.canonical();
        let said = house.server.ask("c", "WRITE notes.txt: by an agent");
        let answer = said.last().unwrap();
        assert!(answer.contains("Done: "), "{said:?}");
        let worktree = house.worktree();
        assert_eq!(fs::read_to_string(worktree.join("notes.txt")).unwrap().trim_end(), "by an agent");
        before.assert_untouched();

        house.restart();
        let said = house.server.ask("c", "RECALL");
        assert_eq!(said, ["Earlier: WRITE notes.txt: by an agent"]);
        assert_eq!(house.worktree(), worktree);
        assert!(house.processes().is_empty(), "{:?}", house.processes());
        // Each turn is counted once, though agents tell what the whole session took.
        let status = house.server.ask("c", "/status");
        assert!(status[0].contains(house.real.usage_of_three_answers()), "{status:?}");
    }

    fn a_stopped_turn_leaves_no_process_and_the_session_goes_on(real: Real) {
        let Some(house) = House::with(real) else { return };
        let House { server, model, .. } = &house;
        server.say("c", "SLOW");
        wait_for(|| model.asked().iter().any(|asked| asked.said == "SLOW"));
        let running = house.processes();
        assert!(running.iter().any(|process| process.contains("node_modules")), "{running:?}");
        let began = Instant::now();
        server.say("c", "/stop");
        let said = server.settled("c");
        assert!(said.last().unwrap().ends_with("Stopped. /retry runs it again."), "{said:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        for process in running.iter().chain(&house.processes()) {
            let pid = process.split(' ').next().unwrap();
            assert!(!is_alive(pid), "{process} is still there");
        }
        assert_eq!(server.ask("c", "RECALL").last().unwrap(), "Earlier: SLOW");
    }

    fn a_commit_is_on_the_branch_of_its_environment_and_nowhere_else(real: Real) {
        let Some(house) = House::with(real) else { return };
        let (repo, server) = (&house.grove.repo, &house.server);
        let (before, main) = (repo.canonical(), repo.sha("main"));
        server.ask("c", "WRITE notes.txt: by an agent");
        let said = server.ask("c", "RUN git add notes.txt && git commit --quiet -m 'By an agent' && git log --oneline");
        assert!(said.last().unwrap().contains("By an agent"), "{said:?}");
        let branch = branches(&house.grove).pop().unwrap();
        assert_eq!(repo.git(&["log", "--format=%s %an", &format!("main..{branch}")]), "By an agent Test Person");
        assert_eq!(repo.git(&["show", &format!("{branch}:notes.txt")]).trim_end(), "by an agent");
        assert_eq!(repo.git_in(&house.worktree(), &["status", "--porcelain"]), "");
        assert_eq!(repo.sha("main"), main);
        before.assert_untouched();
    }

    fn it_is_listed_as_ready_and_answers_a_test(real: Real) {
        let Some(house) = House::with(real) else { return };
        let (grove, name) = (&house.grove, house.real.name());
        let list = grove.grove(["agent", "list", "--json"]).ok().json();
        let found = list.as_array().unwrap().iter().find(|agent| agent["name"] == name).unwrap();
        assert_eq!((&found["state"], &found["default"]), (&"ready".into(), &true.into()), "{found}");
        assert!(found["version"].as_str().unwrap().contains(&house.real.version()), "{found}");
        let tested = grove.grove(["agent", "test", name, "--prompt", "hello", "--json"]).ok().json();
        assert_eq!(tested["answer"], "You said: hello", "{tested}");
        assert!(house.processes().is_empty(), "{:?}", house.processes());
    }

    fn a_session_that_is_gone_is_begun_anew_and_told_what_was_said(real: Real) {
        let Some(house) = House::with(real) else { return };
        let server = &house.server;
        server.ask("c", "the sky is blue");
        house.forget_sessions();
        let said = server.ask("c", "RECALL");
        let notice = format!("The agent `{}` does not know its earlier session any more.", house.real.name());
        assert!(said[0].starts_with(&notice), "{said:?}");
        assert_eq!(said.last().unwrap().trim_end(), "Earlier:", "nothing of its own: {said:?}");
        let asked = house.model.asked().pop().unwrap();
        assert!(asked.said.contains("the sky is blue") && asked.said.ends_with("RECALL"), "{asked:?}");
    }

    fn what_it_may_only_look_at_stays_as_it_is(real: Real) {
        let Some(house) = House::where_it_may(real, "read") else { return };
        house.server.ask("c", "WRITE notes.txt: by an agent");
        house.server.ask("c", "RUN touch notes.txt");
        assert_eq!(house.grove.repo.git_in(&house.worktree(), &["status", "--porcelain"]), "");
        let said = house.server.ask("c", "hello");
        assert_eq!(said.last().unwrap(), "You said: hello");
    }

    fn what_may_do_everything_can(real: Real) {
        let Some(house) = House::where_it_may(real, "full") else { return };
        let outside = house.grove.repo.dir().join("outside");
        let said = house.server.ask("c", &format!("RUN touch {}", outside.display()));
        assert!(outside.exists(), "{said:?}");
    }

    fn a_wrong_key_is_said_in_one_sentence(real: Real) {
        let Some(house) = House::with_key(real, "wrong") else { return };
        let said = house.server.ask("c", "hello");
        let answer = said.last().unwrap();
        let expected = match real {
            Real::Claude => "The agent `claude` failed: Invalid API key",
            Real::Codex => "The agent `codex` failed: unexpected status 401",
            Real::Opencode => "The agent `opencode` failed: ",
        };
        assert!(answer.starts_with(expected) && !answer.contains('\n'), "{said:?}");
        assert_eq!(house.model.asked(), []);
    }
}

/// Codex walls commands in with the machine's bubblewrap, or with its own. Debian's starts Codex's helper
/// by its name, which Codex does not make in a home below the temporary folder.
#[test]
fn codex_runs_commands_with_and_without_bubblewrap_and_keeps_them_out_of_its_home() {
    let machines = [
        Machine::default(),
        Machine { own_temporary_folder: true, ..Machine::default() },
        Machine { without_bubblewrap: true, ..Machine::default() },
    ];
    for machine in machines {
        let Some(house) = House::on(Real::Codex, machine) else { return };
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path).any(|folder| folder.join("bwrap").exists());
        assert!(found, "bubblewrap is missing: run `scripts/test`, which installs it");
        let (repo, server) = (&house.grove.repo, &house.server);
        server.ask("c", "WRITE notes.txt: by an agent");
        let said = server.ask("c", "RUN git add notes.txt && git commit --quiet -m 'By an agent' && git log --oneline");
        assert!(said.last().unwrap().contains("By an agent"), "{machine:?}: {said:?}");
        let said = server.ask("c", "RUN echo note > \"${TMPDIR:-/tmp}/grove-test-note-$$\" && rm \"${TMPDIR:-/tmp}/grove-test-note-$$\" && echo temporary");
        assert!(said.last().unwrap().contains("temporary"), "{machine:?}: {said:?}");
        let said = server.ask("c", "RUN touch ~/.codex/planted; echo tried");
        assert!(said.last().unwrap().contains("tried"), "{machine:?}: {said:?}");
        assert!(!repo.home().join(".codex/planted").exists(), "{machine:?}: {said:?}");
    }
}
