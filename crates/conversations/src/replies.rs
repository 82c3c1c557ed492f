//! The texts that a person reads in a conversation, except refusals, which are in [`crate::words`]. Events come
//! in as values and get the same text for every platform.

use grove_agents::agent::{AgentEvent, CancelReason, RunEnd};
use grove_environments::create::decide::WorkRelation;
use grove_environments::create::{CreateMethod, CreateOutcome};
use grove_environments::error::EnvironmentError;
use grove_environments::init::trust::PendingApproval;
use grove_environments::problem::Problem;
use grove_environments::snapshot::LeftoverSnapshot;
use grove_environments::words::done::describe_pushed;
use grove_git::push::PushOutcome;
use grove_model::{Choice, ChoiceOption, CommitSha, UserText, WorkHints};
use grove_store::{AgentUsage, MessageExchange};

/// The maximum size of an answer; of a longer one, the end is kept.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

pub const NOTHING_TO_RETRY_REPLY: &str = "Nothing was cut short, so there is nothing to run again.";

/// Says that a choice holds for the whole channel, if it does.
pub fn channel_note(of_channel: bool) -> &'static str {
    if of_channel { " New threads in this channel begin with it, too." } else { "" }
}

/// Describes a problem in a conversation: the problem, all reasons, and what to do.
pub fn problem_reply(problem: &Problem) -> String {
    let mut text = problem.message.for_chat();
    if !problem.options.is_empty() {
        text.push_str("\n\nWorktree Status:");
        for reason in &problem.reasons {
            text.push_str(&format!("\n- {}", reason.message.for_chat()));
        }
        text.push_str("\n\nOptions:");
        for option in &problem.options {
            text.push_str(&format!("\n- {} ({})", option.command.for_chat(), option.count));
        }
        return text;
    }
    for reason in &problem.reasons {
        text.push_str(format!("\n- {} {}", reason.message.for_chat(), reason.hint.for_chat()).trim_end());
    }
    if !problem.hint.is_empty() {
        text.push_str(&format!("\n{}", problem.hint.for_chat()));
    }
    text
}

/// Returns the lines of a reply.
pub fn join_lines(lines: impl IntoIterator<Item = UserText>) -> String {
    lines.into_iter().map(|line| line.for_chat()).collect::<Vec<_>>().join("\n")
}

/// Describes why no agent can run: there is no environment for it.
pub fn blocked_problem(problem: Problem) -> Problem {
    if !problem.options.is_empty() {
        return problem;
    }
    let hint = format!("{} The agent was not started.", problem.hint);
    Problem { hint: hint.trim_start().into(), ..problem }
}

/// Describes the environment of the work, if it is new to the conversation.
pub fn place_notices(outcome: &CreateOutcome, hints: &WorkHints, new_here: bool) -> Vec<String> {
    let mut notices = Vec::new();
    if outcome.stale_reference {
        notices.push("Detected a stale isolated workspace reference and cleared it. Creating a new one.".to_owned());
    }
    if let CreateMethod::Created(new) = &outcome.how {
        notices.extend(new.notes.iter().map(|note| format!("Note: {}.", note.trim_end_matches('.'))));
    }
    if !new_here {
        return notices;
    }
    let branch = outcome.environment.branch.as_str();
    match &outcome.how {
        CreateMethod::Shared(WorkRelation::LinkedIssue(number)) => {
            notices.push(format!("Reusing worktree from issue #{number}"))
        }
        CreateMethod::Shared(WorkRelation::LinkedPr(number)) => {
            notices.push(format!("Reusing worktree from pr #{number}"))
        }
        _ => {}
    }
    match &hints.pr_sha {
        Some(sha) => {
            let head = hints.pr_branch.as_ref().map_or(branch, |branch| branch.as_str());
            notices.push(format!("Reviewing PR at commit `{}` (branch: `{head}`)", sha.short_sha()));
        }
        None if matches!(outcome.how, CreateMethod::Shared(_)) => {}
        None => notices.push(format!("Working in isolated branch `{branch}`")),
    }
    notices
}

/// Announces that a repository is cloned because it is used for the first time.
pub fn cloning_notice(name: &str) -> String {
    format!("Cloning `{name}`…")
}

/// Announces that a pull request has commits that the worktree does not have.
pub fn behind_notice(branch: &str, number: Option<u64>, head: &CommitSha) -> String {
    let pull_request = number.map_or("The pull request".to_owned(), |number| format!("Pull request #{number}"));
    format!(
        "{pull_request} has new commits, up to {}, that the worktree `{branch}` has not; `/worktree sync` brings them in.",
        head.short_sha()
    )
}

/// Describes the automatic push after a run.
pub fn pushed_after_run(branch: &str, pushed: Result<PushOutcome, EnvironmentError>) -> String {
    match pushed {
        Ok(pushed) => describe_pushed(branch, &pushed).for_chat(),
        Err(error) => {
            let problem = Problem::from(error);
            let (why, hint) = (problem.message.for_chat(), problem.hint.for_chat());
            format!("`{branch}` was not pushed: {why} {hint}")
        }
    }
}

pub fn not_pushed_in_time(branch: &str) -> String {
    format!("Whether `{branch}` was pushed is not known: the remote took too long. `/push` looks, and tries it again.")
}

pub fn removed_meanwhile(branch: &str) -> String {
    format!("The worktree `{branch}` was removed meanwhile. `/worktree undo {branch}` brings it back.")
}

/// Asks which of the codebases a message is about.
pub fn codebase_choice(names: Vec<String>) -> Choice {
    let options = names.into_iter().map(|name| ChoiceOption::new(name.clone(), name)).collect();
    Choice { question: "Which repository is this about?".to_owned(), options }
}

/// Returns the text of [`codebase_choice`] for a chat.
pub fn choose_codebase(choice: &Choice) -> String {
    let Choice { question, options } = choice;
    let names: Vec<&str> = options.iter().map(|option| option.text.as_str()).collect();
    format!("{question} Answer with its name, or use /codebase NAME: {}.", names.join(", "))
}

/// Offers to run an interrupted message again.
pub fn retry_choice() -> Choice {
    Choice { question: "Run it again?".to_owned(), options: vec![ChoiceOption::new("Retry", "/retry")] }
}

/// Asks for the approval of a script.
pub fn approval_question(path: &str) -> String {
    format!(
        "The init script `{path}` of this repository is not approved, so the agent was not started. \
         `/trust` shows it; `/trust --yes` approves it and goes on."
    )
}

pub fn approval_choice(path: &str) -> Choice {
    let options = vec![ChoiceOption::new("Show it", "/trust"), ChoiceOption::new("Approve", "/trust --yes")];
    Choice { question: format!("Approve `{path}`?"), options }
}

/// Shows the scripts that wait for approval, or that were just approved. `command` approves them.
pub fn approvals_reply(pending: &[PendingApproval], approved: bool, command: &str) -> String {
    if pending.is_empty() {
        return "No script waits for approval.".to_owned();
    }
    let mut text = String::new();
    for PendingApproval { script, approved_before, environments } in pending {
        let what = match (approved, approved_before) {
            (true, _) => "is approved",
            (false, None) => "waits for approval",
            (false, Some(_)) => "changed since it was approved, and waits for approval",
        };
        let short = script.hash.get(..12).unwrap_or(&script.hash);
        text.push_str(&format!("`{}` ({short}) {what}.\n", script.path));
        if !environments.is_empty() {
            let names: Vec<String> =
                environments.iter().map(|environment| format!("`{}`", environment.branch)).collect();
            text.push_str(&format!("Worktrees that wait for it: {}.\n", names.join(", ")));
        }
        if !approved {
            let content = String::from_utf8_lossy(&script.content);
            let shown = match approved_before {
                Some(before) => changed_lines(before, &content),
                None => content.into_owned(),
            };
            text.push_str(&format!("```\n{}\n```\n", shown.trim_end()));
        }
    }
    if !approved {
        text.push_str(&format!("`{command}` approves it."));
    }
    text.trim_end().to_owned()
}

/// Returns the lines that were removed and added, in order.
fn changed_lines(before: &str, now: &str) -> String {
    let (before, now): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    let same = before.iter().zip(&now).take_while(|(before, now)| before == now).count();
    let rest = before.len().min(now.len()) - same;
    let ends = before.iter().rev().zip(now.iter().rev()).take(rest).take_while(|(before, now)| before == now).count();
    let removed = before[same..before.len() - ends].iter().map(|line| format!("- {line}"));
    let added = now[same..now.len() - ends].iter().map(|line| format!("+ {line}"));
    removed.chain(added).collect::<Vec<_>>().join("\n")
}

pub fn init_succeeded(branch: &str) -> String {
    format!("The init script of `{branch}` succeeded.")
}

/// Offers to remove a worktree in spite of the reasons.
pub fn remove_anyway_choice(name: Option<&str>) -> Choice {
    let command = match name {
        Some(name) => format!("/worktree remove {name} --force"),
        None => "/worktree remove --force".to_owned(),
    };
    Choice { question: "Remove it anyway?".to_owned(), options: vec![ChoiceOption::new("Remove anyway", command)] }
}

/// Announces the position in the queue because all slots are taken.
pub fn queued_notice(place: usize, most: usize) -> String {
    format!("All {most} places are taken at the moment; yours is number {place} in the queue.")
}

pub fn stopping_notice(runs: bool) -> &'static str {
    if runs { "Stopping." } else { "Nothing is running." }
}

pub fn stopped_notice(text: &str) -> String {
    with_text(text, "Stopped. /retry runs it again.")
}

/// Returns the beginning of a message, to identify it.
fn message_excerpt(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let short: String = line.chars().take(60).collect();
    if short.len() < text.trim().len() { format!("{short}…") } else { short }
}

pub fn interrupted_notice(text: &str) -> String {
    format!("“{}” was interrupted by a restart. /retry runs it again.", message_excerpt(text))
}

pub fn set_aside(text: &str) -> String {
    format!(
        "“{}” was interrupted by a restart three times and is set aside. /retry runs it again.",
        message_excerpt(text)
    )
}

/// Returns the reply at the end of a run: the agent's text, and any remarks. `said` is the message that the
/// agent got.
pub fn run_end_reply(agent: &str, ended: &RunEnd, text: &str, said: &str) -> String {
    match ended {
        RunEnd::Well => agent_answer(text),
        RunEnd::Badly { code, last_lines } => agent_failed(agent, *code, text, last_lines),
        RunEnd::Failed(why) => agent_gave_up(agent, text, why),
        RunEnd::NoSession => agent_gave_up(agent, text, "it does not know its session"),
        RunEnd::OverBudget => over_budget(agent, text),
        RunEnd::TimedOut => timed_out(agent, text),
        RunEnd::Cancelled(CancelReason::Draining | CancelReason::LostTurn) => interrupted_notice(said),
        RunEnd::Cancelled(CancelReason::Stopped) => stopped_notice(text),
    }
}

/// The answer of a run that ended well without any text.
pub const SILENT_ANSWER: &str = "The agent is done and said nothing.";

/// Returns the agent's own text.
pub fn agent_answer(text: &str) -> String {
    if text.trim().is_empty() { SILENT_ANSWER.to_owned() } else { text.trim_end().to_owned() }
}

pub fn agent_failed(agent: &str, code: i32, text: &str, last_lines: &str) -> String {
    let lines = if last_lines.trim().is_empty() { String::new() } else { format!("\n```\n{last_lines}\n```") };
    with_text(text, &format!("The agent `{agent}` failed with exit code {code}.{lines}"))
}

/// Describes a failure that the agent itself reported.
pub fn agent_gave_up(agent: &str, text: &str, why: &str) -> String {
    let why = why.trim().trim_end_matches('.');
    with_text(text, &format!("The agent `{agent}` failed: {why}."))
}

pub fn over_budget(agent: &str, text: &str) -> String {
    with_text(text, &format!("The agent `{agent}` has used up what a run may cost, and was ended."))
}

/// Announces that a command reads a commit, while the worktree has further changes.
pub fn reads_commit(commit: &CommitSha, branch: &str) -> String {
    format!("This looks at commit `{}`; what is not committed on `{branch}` is not seen.", commit.short_sha())
}

/// Announces that a snapshot for reading could not be removed.
pub fn not_taken_away(left: &LeftoverSnapshot) -> String {
    match left {
        LeftoverSnapshot::Written { path, what } => {
            format!("This was only to be read, but the agent left {what}, so it is kept at {}.", path.display())
        }
        LeftoverSnapshot::Unknown { path, why } => {
            format!("What was read is still at {}, for it could not be looked at: {}", path.display(), why.message)
        }
    }
}

pub fn session_forgotten(agent: &str) -> String {
    format!(
        "The agent `{agent}` does not know its earlier session any more. A new one begins with the recent messages."
    )
}

/// The number of bytes of earlier messages that a new session gets.
const MAX_RECENT_BYTES: usize = 12_000;
/// The number of characters of each of these texts.
const MAX_RECENT_TEXT_CHARS: usize = 2_000;

/// Summarizes the recent messages for an agent that does not remember them; commands are left out.
pub fn recent_exchanges(before: &[MessageExchange]) -> Option<String> {
    let cut = |text: &str| {
        let short: String = text.trim().chars().take(MAX_RECENT_TEXT_CHARS).collect();
        if short.len() < text.trim().len() { format!("{short}…") } else { short }
    };
    let mut parts = Vec::new();
    let mut room = MAX_RECENT_BYTES;
    let for_agent = |text: &str| !text.trim_start().starts_with('/') || text.trim_start().starts_with("/run ");
    for exchange in before.iter().rev().filter(|exchange| for_agent(&exchange.text)) {
        let answer = exchange.answer.as_deref().map(|answer| format!("\n\nYou: {}", cut(answer))).unwrap_or_default();
        let part = format!("Person: {}{answer}", cut(&exchange.text));
        let Some(left) = room.checked_sub(part.len()) else { break };
        room = left;
        parts.push(part);
    }
    parts.reverse();
    (!parts.is_empty())
        .then(|| format!("What was said in this conversation before:\n\n{}\n\nThe message now:", parts.join("\n\n")))
}

/// Describes the usage of runs; the price is left out if the agent does not report one.
pub fn usage_summary(usage: AgentUsage) -> String {
    let grouped = |count: i64| {
        let digits = count.to_string();
        let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
        groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
    };
    let tokens = format!("{} tokens in, {} out", grouped(usage.input_tokens), grouped(usage.output_tokens));
    match usage.cost_microdollars {
        0 => tokens,
        cost => format!("{tokens}, ${:.4}", cost as f64 / 1e6),
    }
}

/// Describes an event of an agent in one line; `None` for events that are not shown.
pub fn step_line(event: &AgentEvent) -> Option<String> {
    let with = |name: &str, about: &str| if about.is_empty() { name.to_owned() } else { format!("{name}: {about}") };
    match event {
        AgentEvent::ToolUse { name, about } => Some(with(name, about)),
        AgentEvent::ToolResult { failed: true, about } => Some(with("failed", about)),
        AgentEvent::Permission { about, given: false } => Some(format!("not allowed: {about}")),
        AgentEvent::Plan(steps) => {
            let done = steps.iter().filter(|step| step.done).count();
            let next = steps.iter().find(|step| !step.done).map_or("", |step| step.text.as_str());
            Some(with(&format!("plan, {done} of {} done", steps.len()), next))
        }
        AgentEvent::ToolResult { failed: false, .. }
        | AgentEvent::Permission { given: true, .. }
        | AgentEvent::Delta(_)
        | AgentEvent::Text(_)
        | AgentEvent::TextDone
        | AgentEvent::Usage(_)
        | AgentEvent::Session(_) => None,
    }
}

pub fn timed_out(agent: &str, text: &str) -> String {
    with_text(text, &format!("The agent `{agent}` took too long and was ended. /retry runs it again."))
}

pub fn with_text(text: &str, words: &str) -> String {
    if text.trim().is_empty() { words.to_owned() } else { format!("{}\n\n{words}", text.trim_end()) }
}

/// Returns the part of a text that may be kept, with room for redaction, and the number of bytes before it.
pub fn last_part(text: &str) -> (&str, u64) {
    let over = text.len().saturating_sub(MAX_ANSWER_BYTES + 64 * 1024);
    let start = (over..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    (&text[start..], start as u64)
}

/// Returns the end of a text that is too long to be kept.
pub fn shorten_answer(text: &str, left_out: u64) -> String {
    let over = text.len().saturating_sub(MAX_ANSWER_BYTES);
    let start = (over..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let left_out = left_out + start as u64;
    let kept = &text[start..];
    if left_out == 0 { kept.to_owned() } else { format!("(The first {left_out} bytes are left out.)\n{kept}") }
}

/// Announces that the work was closed, but its worktree is kept because it contains something.
pub fn kept_worktree_notice(branch: &str, reason: &str) -> String {
    format!(
        "The worktree `{branch}` is kept: {reason} `/worktree remove {branch} --force` removes it, and `/worktree undo` brings it back."
    )
}
