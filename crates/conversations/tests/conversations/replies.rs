//! Every sentence that a person reads in a conversation, side by side with the file that shows them.

use std::path::Path;

use grove_agents::agent::{AgentError, AgentEvent, PlanStep};
use grove_agents::registry::AgentChoiceError;
use grove_conversations::{replies, words};
use grove_environments::problem::{Problem, ProblemReason};
use grove_environments::snapshot::LeftoverSnapshot;
use grove_store::{AgentUsage, MessageExchange};

/// All of them, each under its name.
fn all_replies() -> String {
    let mut text = String::new();
    let mut show = |name: &str, words: &str| text.push_str(&format!("== {name}\n{words}\n\n"));
    show("queued", &replies::queued_notice(3, 10));
    show("stopping", replies::stopping_notice(true));
    show("stopping, nothing runs", replies::stopping_notice(false));
    show("stopped", &replies::stopped_notice(""));
    show("stopped with text", &replies::stopped_notice("half an answer\n"));
    show("interrupted", &replies::interrupted_notice("fix the login\nplease"));
    show("interrupted, long", &replies::interrupted_notice(&"word ".repeat(40)));
    show("set aside", &replies::set_aside("fix the login"));
    show("answer", &replies::agent_answer("done\n\n"));
    show("answer of nothing", &replies::agent_answer(" \n"));
    show("agent failed", &replies::agent_failed("sh", 7, "some text", "what went wrong"));
    show("agent failed silently", &replies::agent_failed("sh", 7, "", ""));
    show("agent gave up", &replies::agent_gave_up("claude", "some text", "API Error: 500."));
    show("over budget", &replies::over_budget("claude", "some text"));
    show("session forgotten", &replies::session_forgotten("claude"));
    let commit = "0123456789".repeat(4).parse().unwrap();
    show("reads a commit", &replies::reads_commit(&commit, "issue-42"));
    let path = || Path::new("/home/grove/readings/app/1").to_owned();
    let written = LeftoverSnapshot::Written { path: path(), what: "1 new or changed file".into() };
    show("written although read", &replies::not_taken_away(&written));
    let unknown = LeftoverSnapshot::Unknown { path: path(), why: Problem::new("git_failed", "Git failed.", "") };
    show("reading not looked at", &replies::not_taken_away(&unknown));
    let said =
        |text: &str, answer: Option<&str>| MessageExchange { text: text.into(), answer: answer.map(str::to_owned) };
    let before = [
        said("first", Some("one")),
        said("/status", Some("…")),
        said("/run fix", Some("two")),
        said(&"long ".repeat(500), None),
    ];
    show("lately", &replies::recent_exchanges(&before).unwrap());
    for (name, event) in [
        ("tool", AgentEvent::ToolUse { name: "Edit".into(), about: "src/main.rs".into() }),
        ("tool failed", AgentEvent::ToolResult { failed: true, about: "no such file".into() }),
        ("not allowed", AgentEvent::Permission { about: "Bash".into(), given: false }),
        (
            "plan",
            AgentEvent::Plan(vec![
                PlanStep { text: "look".into(), done: true },
                PlanStep { text: "change it".into(), done: false },
            ]),
        ),
    ] {
        show(name, &replies::step_line(&event).unwrap());
    }
    let usage = AgentUsage { input_tokens: 1_234_567, output_tokens: 89, cost_microdollars: 123_456 };
    show("usage", &replies::usage_summary(usage));
    show("usage without a price", &replies::usage_summary(AgentUsage { cost_microdollars: 0, ..usage }));
    show("timed out", &replies::timed_out("sh", ""));
    show("left out", &replies::shorten_answer("the end", 12));
    show("removed meanwhile", &replies::removed_meanwhile("issue-42"));
    show("choose a codebase", &replies::choose_codebase(&replies::codebase_choice(vec!["app".into(), "site".into()])));
    show("kept", &replies::kept_worktree_notice("issue-42", "It has uncommitted changes (1 file)."));
    show("nothing to retry", replies::NOTHING_TO_RETRY_REPLY);
    let problems = [
        ("no cwd", words::no_cwd(Path::new("/gone"))),
        ("restless", words::unstable_place()),
        ("no scratch", words::no_scratch(Path::new("/home/grove/scratch/1"), &std::io::Error::other("no space"))),
        (
            "blocked",
            replies::blocked_problem(Problem::new(
                "no_base",
                "No base.",
                "Set it with `grove worktree create --from`.",
            )),
        ),
        ("unknown agent", AgentChoiceError::Unknown { name: "x".into(), known: vec!["sh".into()] }.into()),
        ("only local", AgentChoiceError::OnlyLocal.into()),
        ("not started", AgentError::NotStarted { name: "x".into(), why: "no such file".into() }.into()),
        (
            "not installed",
            AgentError::NotInstalled {
                name: "claude".into(),
                program: "claude".into(),
                how: grove_environments::settings::agent_catalog::find_known_agent("claude").unwrap().install,
            }
            .into(),
        ),
        ("too long", AgentError::TooLong { name: "sh".into() }.into()),
    ];
    for (name, problem) in &problems {
        show(name, &replies::problem_reply(problem));
    }
    let reason = |message: &str| {
        ProblemReason::new("uncommitted_changes", message, "See `grove worktree exec x -- git status`.")
    };
    let hint = "Commit the changes, discard them, or use `--force`: `grove worktree undo x` brings it back.";
    let refused = Problem::new("refused", "Cannot remove worktree - you have uncommitted changes.", hint);
    let refused = refused.with_reasons(vec![
        reason("It has uncommitted changes (1 file)."),
        reason("It has files that git does not know (2)."),
    ]);
    show("refused", &replies::problem_reply(&refused));
    text
}

#[test]
fn the_words_are_these() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conversations/texts/replies.txt");
    if std::env::var_os("GROVE_TEST_WRITE").is_some() {
        std::fs::write(&file, all_replies()).unwrap();
    }
    let kept = std::fs::read_to_string(&file).expect("the file; GROVE_TEST_WRITE=1 writes it");
    assert_eq!(all_replies(), kept, "GROVE_TEST_WRITE=1 writes the new words; then look at the difference");
}
