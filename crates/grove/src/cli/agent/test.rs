//! `grove agent test NAME`

use std::process::ExitCode;
use std::time::Instant;

use grove_agents::agent::{AgentEvent, Ended, Outcome, Run, Tools, Usage};
use grove_agents::registry::Agents;
use grove_conversations::replies;
use grove_environments::problem::Problem;
use grove_environments::ready::{Folder, WorkDir};
use grove_model::Nonce;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::{Context, Done};
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent; without it, the default one
    name: Option<String>,
    /// What to say to it
    #[arg(long, default_value = "Reply with the single word: ready")]
    prompt: String,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let agents = Agents::new(&context.settings);
    let agent = agents.choose(args.name.as_deref(), "cli")?;
    agent.installed()?;
    let folder = context.settings.home().join("scratch").join(format!("agent-test-{}", Nonce::new()));
    let failed = |error: std::io::Error| replies::no_scratch(&folder, &error);
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let place = WorkDir::NoCodebase(Folder::ready(context.settings.home(), folder.clone()).await.map_err(failed)?);
    // The shell answers commands, not questions.
    let prompt = if agent.name() == "sh" { "echo ready" } else { &args.prompt };
    let waiting = output::spinner("Waiting for its answer", context.json);
    let (says, mut heard) = mpsc::channel(64);
    let (_stop, cancel) = watch::channel(None);
    let tools = Tools { read_only: true, ..Tools::default() };
    let (session, before) = (agent.new_session(), Usage::default());
    let began = Instant::now();
    let run = agent.run(Run { place: &place, prompt, session, before, tools: &tools, says, cancel });
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
    // What it may have written there is nobody's work.
    let _ = std::fs::remove_dir_all(&folder);
    let Outcome { text, usage, ended, .. } = ran?;
    let redactor = context.redactor();
    let text = redactor.clean(text.trim());
    if ended != Ended::Well {
        let words = redactor.clean(&replies::ended(agent.name(), &ended, &text, prompt));
        // One sentence; what the program complained about is behind it.
        let (sentence, rest) = words.split_once('\n').unwrap_or((&words, ""));
        let rest: Vec<&str> = rest.split_whitespace().filter(|word| *word != "```").collect();
        let hint = [rest.join(" ").as_str(), "`grove agent list` shows what is missing."].join(" ").trim().to_owned();
        return Err(Problem::new("agent_failed", sentence, hint));
    }
    let (first, whole) = (first.unwrap_or_default().as_secs_f64(), began.elapsed().as_secs_f64());
    if context.json {
        let usage =
            json!({ "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "cost": usage.cost });
        output::json(&json!({
            "name": agent.name(), "answer": text, "seconds_to_first_word": first, "seconds": whole, "usage": usage,
        }));
    } else {
        output::line(&format!("{} answers: {text}", output::strong(agent.name())));
        output::line(&output::dim(&format!("first word after {first:.1} s, done after {whole:.1} s")));
    }
    Ok(ExitCode::SUCCESS)
}
