//! `grove agent test NAME`

use std::process::ExitCode;
use std::time::Instant;

use grove_agents::agent::{AgentEvent, AgentRun, RunEnd, RunOutcome, RunUsage, ToolPolicy};
use grove_agents::registry::AgentRegistry;
use grove_conversations::replies;
use grove_environments::ready::{ReadyFolder, WorkDir};
use grove_model::Nonce;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::{CliContext, CommandResult};
use crate::{output, words};

#[derive(Debug, clap::Args)]
pub struct AgentTestArgs {
    /// The agent; without it, the default one
    name: Option<String>,
    /// What to say to it
    #[arg(long, default_value = "Reply with the single word: ready")]
    prompt: String,
}

pub async fn run(context: &CliContext, args: &AgentTestArgs) -> CommandResult {
    let agents = AgentRegistry::new(&context.settings);
    let agent = agents.choose_agent(args.name.as_deref(), "cli")?;
    agent.check_installed()?;
    let folder = context.settings.home_path().join("scratch").join(format!("agent-test-{}", Nonce::new()));
    let failed = |error: std::io::Error| grove_conversations::words::no_scratch(&folder, &error);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let place = WorkDir::NoCodebase(
        ReadyFolder::wait_for_turn(context.settings.home_path(), folder.clone()).await.map_err(failed)?,
    );
    // The shell answers commands, not questions.
    let prompt = if agent.name() == "sh" { "echo ready" } else { &args.prompt };
    let waiting = output::start_spinner("Waiting for its answer", context.json);
    let (says, mut heard) = mpsc::channel(64);
    let (_stop, cancel) = watch::channel(None);
    let tools = ToolPolicy { read_only: true, ..ToolPolicy::default() };
    let (session, before) = (agent.new_session(), RunUsage::default());
    let began = Instant::now();
    let run = agent.run_turn(AgentRun { place: &place, prompt, session, before, tools: &tools, says, cancel });
    let listen = async {
        let mut first = None;
        while let Some(event) = heard.recv().await {
            if matches!(event, AgentEvent::Delta(_) | AgentEvent::Text(_)) {
                first.get_or_insert_with(|| began.elapsed());
            }
        }
        first
    };
    let (ran, first) = tokio::join!(run, listen);
    waiting.finish_and_clear();
    drop(place);
    // Files that the agent wrote there do not belong to any work.
    let _ = std::fs::remove_dir_all(&folder);
    let RunOutcome { text, usage, ended, .. } = ran?;
    let redactor = context.secret_redactor();
    let text = redactor.redact_text(text.trim());
    if ended != RunEnd::Well {
        let reply = redactor.redact_text(&replies::run_end_reply(agent.name(), &ended, &text, prompt));
        // The message is one sentence; the output of the program follows it.
        let (sentence, rest) = reply.split_once('\n').unwrap_or((&reply, ""));
        let rest: Vec<&str> = rest.split_whitespace().filter(|word| *word != "```").collect();
        let hint = [rest.join(" ").as_str(), "`grove agent list` shows what is missing."].join(" ").trim().to_owned();
        return Err(words::agent_failed(sentence, hint));
    }
    let (first, whole) = (first.unwrap_or_default().as_secs_f64(), began.elapsed().as_secs_f64());
    if context.json {
        let usage =
            json!({ "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": usage.cost });
        output::print_json(&json!({
            "name": agent.name(), "answer": text, "seconds_to_first_word": first, "seconds": whole, "usage": usage,
        }));
    } else {
        output::print_line(&format!("{} answers: {text}", output::style_strong(agent.name())));
        output::print_line(&output::style_dim(&format!("first word after {first:.1} s, done after {whole:.1} s")));
    }
    Ok(ExitCode::SUCCESS)
}
