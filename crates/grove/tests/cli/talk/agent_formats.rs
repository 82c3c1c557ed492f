//! The formats of Claude Code, Codex and the Agent Client Protocol, spoken by a scripted agent
//! (`examples/scripted_agent`): the same stories for each, through the server.

mod harness;

use std::fs;
use std::time::{Duration, Instant};

use grove_testkit::{is_alive, is_long_run, wait_for};
use harness::{AgentFormat, AgentFormatTest, scripted_agent, shown_pieces};

use super::agents::peak_memory;
use super::list_environments;

/// Writes a story once and tells it of each format.
macro_rules! of_each_format {
    ($(fn $name:ident($house:ident: AgentFormatTest) $body:block)+) => {$(
        mod $name {
            use super::*;

            fn story($house: AgentFormatTest) $body

            #[test]
            fn claude() {
                story(AgentFormatTest::with_format(AgentFormat::Claude));
            }

            #[test]
            fn codex() {
                story(AgentFormatTest::with_format(AgentFormat::Codex));
            }

            #[test]
            fn acp() {
                story(AgentFormatTest::with_format(AgentFormat::Acp));
            }
        }
    )+};
}

of_each_format! {
    fn texts_and_steps_are_streamed_in_order_and_the_whole_text_is_kept(house: AgentFormatTest) {
        let events = house.server.subscribe_events();
        house.server.say("c", "say one line; tool Edit src/x.rs; say another; say and a third; write a.txt words");
        let edit = if house.kind == AgentFormat::Codex { "edit" } else { "Edit" };
        let write = if house.kind == AgentFormat::Codex { "edit" } else { "Write" };
        assert_eq!(
            shown_pieces(&events),
            [
                "delta one line",
                &format!("step {edit}: src/x.rs"),
                "delta another",
                "delta and a third",
                &format!("step {write}: a.txt"),
            ]
        );
        assert_eq!(house.server.wait_until_settled("c").pop().unwrap(), "one line\n\nanother\n\nand a third");
        let worktree = list_environments(&house.grove)[0]["path"].as_str().unwrap().to_owned();
        assert_eq!(fs::read_to_string(format!("{worktree}/a.txt")).unwrap(), "words");
        // A tool that fails is told of, too.
        house.server.say("c", "write no/such/folder/a.txt words; say done");
        let seen = shown_pieces(&events);
        assert!(seen.iter().any(|line| line.starts_with("step failed: No such file")), "{seen:?}");
    }

    fn a_session_goes_on_after_a_restart(house: AgentFormatTest) {
        let mut house = house;
        house.ask_agent("say hello");
        let before = house.ask_agent("where");
        house.restart_server();
        assert_eq!(house.ask_agent("recall"), "Earlier: say hello | where");
        assert_eq!(house.ask_agent("where"), before, "the same place, the same session");
    }

    fn an_unknown_session_is_begun_anew_and_told_what_was_said(house: AgentFormatTest) {
        house.ask_agent("say the sky is blue");
        house.ask_agent("forget");
        let said = house.server.ask("c", "heard");
        let name = house.kind.name();
        let words = "does not know its earlier session any more. A new one begins with the recent messages.";
        assert_eq!(said[0], format!("The agent `{name}` {words}"));
        let heard = &said[1];
        assert!(heard.starts_with("What was said in this conversation before:"), "{heard}");
        assert!(heard.contains("the sky is blue") && heard.ends_with("heard"), "{heard}");
        let recalled = house.ask_agent("recall");
        assert!(recalled.contains("the sky is blue") && recalled.ends_with("heard"), "{recalled}");
    }

    fn a_crash_leaves_the_text_so_far_and_says_what_it_was(house: AgentFormatTest) {
        let answer = house.ask_agent("say so far; crash");
        let failed = format!("so far\n\nThe agent `{}` failed with exit code 3.", house.kind.name());
        assert!(answer.starts_with(&failed) && answer.ends_with("something broke\n```"), "{answer}");
        assert_eq!(house.ask_agent("say still here"), "still here");
        // Before its first word: its session may have begun all the same.
        assert!(house.server.ask("d", "vanish").pop().unwrap().contains("failed with exit code 4"));
        assert_eq!(house.server.ask("d", "say still here"), ["still here"]);
    }

    fn half_a_line_is_a_failure_with_the_text_so_far(house: AgentFormatTest) {
        let answer = house.ask_agent("say so far; half");
        let why = house.failure_message("it ended in the middle of a line: {\"type\":\"assist");
        assert_eq!(answer, format!("so far\n\n{why}"));
    }

    fn unknown_lines_are_skipped(house: AgentFormatTest) {
        assert_eq!(house.ask_agent("garbage; say a; garbage; line 17; say b; garbage"), "a\n\nb");
    }

    fn endless_output_takes_no_more_memory(house: AgentFormatTest) {
        // Far more than is kept.
        let megabytes = if is_long_run() { 1000 } else { 300 };
        let answer = house.ask_agent(&format!("endless {megabytes}; say the end"));
        assert!(answer.starts_with("(The first ") && answer.ends_with("\n\nthe end"), "{}", &answer[..80]);
        assert!(answer.len() < 1_100_000);
        let peak = peak_memory(house.server.process_id());
        println!("{megabytes} MB: at most {} MB resident", peak / 1024);
        assert!(peak < 400 * 1024, "{peak} KiB");
    }

    fn an_agent_that_is_deaf_is_ended_with_all_that_it_started(house: AgentFormatTest) {
        let pids = house.grove.repo.temp_dir().join("pids");
        house.server.say("c", &format!("say so far; deaf {}", pids.display()));
        wait_for(|| fs::read_to_string(&pids).is_ok_and(|text| text.lines().count() == 2));
        let began = Instant::now();
        house.server.say("c", "/stop");
        let answer = house.server.wait_until_settled("c").pop().unwrap();
        assert_eq!(answer, "so far\n\nStopped. /retry runs it again.");
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        for pid in fs::read_to_string(&pids).unwrap().lines() {
            assert!(!is_alive(pid), "{pid} is still there");
        }
    }

    fn a_stopped_turn_ends_soon_and_the_session_goes_on(house: AgentFormatTest) {
        let pid = house.grove.repo.temp_dir().join("pid");
        house.ask_agent("say hello");
        house.server.say("c", &format!("say so far; pid {}; sleep 100", pid.display()));
        wait_for(|| pid.exists());
        let began = Instant::now();
        house.server.say("c", "/stop");
        assert_eq!(house.server.wait_until_settled("c").pop().unwrap(), "so far\n\nStopped. /retry runs it again.");
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert!(!is_alive(&fs::read_to_string(&pid).unwrap()));
        assert!(house.ask_agent("recall").starts_with("Earlier: say hello"));
    }

    fn what_an_agent_may_do_is_what_its_settings_say(house: AgentFormatTest) {
        let events = house.server.subscribe_events();
        let script = "ask edit a.txt; ask execute git commit -m x; ask edit /etc/hosts";
        house.server.say("c", script);
        let seen = shown_pieces(&events);
        let refused = match house.kind {
            AgentFormat::Claude => "step not allowed: Edit",
            AgentFormat::Codex => "step failed: Read-only file system",
            AgentFormat::Acp => "step not allowed: edit: /etc/hosts",
        };
        assert!(seen.contains(&refused.to_owned()), "{seen:?}");
        assert_eq!(house.server.wait_until_settled("c").pop().unwrap(), "I may.\n\nI may.\n\nI may not.");
        house.ask_agent("/agent reader");
        assert_eq!(house.ask_agent(script), "I may not.\n\nI may not.\n\nI may not.");
        house.ask_agent("/agent writer");
        assert_eq!(house.ask_agent(script), "I may.\n\nI may.\n\nI may.");
    }

    fn a_new_worktree_takes_the_session_along_or_tells_a_new_one(house: AgentFormatTest) {
        house.ask_agent("say the sky is blue");
        let before = house.ask_agent("where");
        house.ask_agent("/worktree create other");
        let heard = house.ask_agent("heard");
        let after = house.ask_agent("where");
        let ((old_place, old), (new_place, new)) = (before.split_once(' ').unwrap(), after.split_once(' ').unwrap());
        assert!(old_place != new_place && new_place.ends_with("other"), "{before}, {after}");
        if house.kind == AgentFormat::Claude {
            assert!(old != new && heard.contains("the sky is blue"), "{heard}");
        } else {
            assert_eq!((heard.as_str(), new), ("heard", old));
            assert!(house.ask_agent("recall").starts_with("Earlier: say the sky is blue"));
        }
    }

    fn what_runs_took_is_counted_once_and_shown(house: AgentFormatTest) {
        house.ask_agent("say hello; cost 0.25");
        house.ask_agent("say hello again; cost 0.125");
        let status = house.ask_agent("/status");
        let usage = match house.kind {
            AgentFormat::Claude => "Usage: 30 tokens in, 14 out, $0.3750",
            AgentFormat::Codex => "Usage: 24 tokens in, 14 out",
            AgentFormat::Acp => "Usage: 24 tokens in, 14 out, $0.3750",
        };
        assert!(status.lines().any(|line| line == usage), "{status}");
    }

    fn the_words_of_an_agent_that_fails_are_the_answer(house: AgentFormatTest) {
        let (failed, logged_out) = match house.kind {
            AgentFormat::Claude => (
                "API Error: 500 the model is away",
                "Not logged in · Please run /login. Run `claude` once and log in, or set ANTHROPIC_API_KEY in `agents.claude.env`",
            ),
            AgentFormat::Codex => ("the model is away", "unexpected status 401 Unauthorized: Incorrect API key provided"),
            AgentFormat::Acp => ("Internal error: the model is away", "it is not logged in. Run `scripted login` in the terminal"),
        };
        assert_eq!(house.ask_agent("say so far; fail the model is away"), format!("so far\n\n{}", house.failure_message(failed)));
        assert_eq!(house.ask_agent("logout"), house.failure_message(logged_out));
    }
}

/// Who knows a price is ended when a run has cost too much; the next run has its own budget.
fn a_budget(house: &AgentFormatTest) {
    house.ask_agent("/agent miser");
    let answer = house.ask_agent("say so far; cost 0.3; cost 0.3; sleep 100; say never");
    assert_eq!(answer, "so far\n\nThe agent `miser` has used up what a run may cost, and was ended.");
    assert_eq!(house.ask_agent("say more; cost 0.3"), "more");
}

#[test]
fn a_budget_of_claude() {
    a_budget(&AgentFormatTest::with_format(AgentFormat::Claude));
}

#[test]
fn a_budget_of_acp() {
    a_budget(&AgentFormatTest::with_format(AgentFormat::Acp));
}

#[test]
fn a_plan_is_shown_in_one_line() {
    for kind in [AgentFormat::Codex, AgentFormat::Acp] {
        let house = AgentFormatTest::with_format(kind);
        let events = house.server.subscribe_events();
        house.server.say("c", "plan; say done");
        assert_eq!(shown_pieces(&events), ["step plan, 1 of 2 done: write", "delta done"]);
    }
}

#[test]
fn an_acp_agent_that_tells_its_history_is_heard_from_the_prompt_on() {
    let house = AgentFormatTest::with_program(AgentFormat::Acp, &scripted_agent(), &["--load"]);
    assert_eq!(house.ask_agent("say one"), "one");
    let events = house.server.subscribe_events();
    house.server.say("c", "say two");
    assert_eq!(shown_pieces(&events), ["delta two"]);
    assert_eq!(house.server.wait_until_settled("c").pop().unwrap(), "two");
    assert_eq!(house.ask_agent("recall"), "Earlier: say one | say two");
}

#[test]
fn an_acp_agent_says_why_it_stopped() {
    let house = AgentFormatTest::with_format(AgentFormat::Acp);
    for (reason, words) in [
        ("max_tokens", "it has used up the tokens that it may use for an answer"),
        ("max_turn_requests", "it has used up the requests that it may make in one turn"),
        ("refusal", "it refuses to go on with this"),
        ("cancelled", "it gave the turn up"),
    ] {
        assert_eq!(
            house.ask_agent(&format!("say so far; stop {reason}")),
            format!("so far\n\n{}", house.failure_message(words))
        );
    }
    assert!(house.ask_agent("stop brand_new").starts_with("The agent `acp` failed: "));
}

#[test]
fn an_acp_agent_whose_sessions_stay_is_not_taken_along() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("opencode");
    std::os::unix::fs::symlink(scripted_agent(), &program).unwrap();
    let house = AgentFormatTest::with_program(AgentFormat::Acp, &program, &[]);
    house.ask_agent("say the sky is blue");
    house.ask_agent("/worktree create other");
    let heard = house.ask_agent("heard");
    assert!(heard.contains("the sky is blue"), "{heard}");
}
