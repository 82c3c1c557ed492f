//! Claude Code: `claude -p` with its stream of JSON lines.

use std::time::Duration;

use async_trait::async_trait;
use grove_environments::settings::agent_catalog::of_kind;
use grove_environments::settings::{AgentKind, AgentPermissions, AgentSettings};
use serde_json::Value;

use crate::agent::{
    Agent, AgentError, AgentEvent, AgentRun, RunOutcome, RunUsage, SessionMemory, SessionRequest, ToolPolicy,
};
use crate::json_lines::{JsonLinesListener, LineParser};
use crate::process::{AgentProgram, ProgramExit};
use crate::supervisor::AgentInput;
use crate::tool_summary::main_parameter;
use crate::transcript::{ReportedEnd, Transcript, shorten_line};

/// Claude's own tools that would leave the worktree.
const FORBIDDEN_TOOLS: [&str; 2] = ["EnterWorktree", "ExitWorktree"];
/// Claude's own tools that change files.
const WRITING_TOOLS: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];
/// Claude's own tools, as far as they are known: those that are not allowed are forbidden by name.
const KNOWN_TOOLS: [&str; 30] = [
    "Agent",
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EnterWorktree",
    "ExitWorktree",
    "Glob",
    "Grep",
    "KillShell",
    "ListAgents",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "Read",
    "ScheduleWakeup",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "Task",
    "TaskStop",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
];
/// The git subcommands that an agent with edit permission needs in order to commit.
const GIT_SUBCOMMANDS: [&str; 8] = ["add", "commit", "diff", "log", "mv", "rm", "show", "status"];

pub struct ClaudeAgent {
    name: String,
    settings: AgentSettings,
}

impl ClaudeAgent {
    pub fn new(name: &str, mut settings: AgentSettings) -> Self {
        let mut set = |name: &str| _ = settings.env.entry(name.to_owned()).or_insert_with(|| "1".to_owned());
        set("DISABLE_AUTOUPDATER");
        // Claude refuses this permission mode to root unless it is told that it runs in a sandbox.
        if settings.permissions == AgentPermissions::Full && rustix::process::geteuid().is_root() {
            set("IS_SANDBOX");
        }
        Self { name: name.to_owned(), settings }
    }

    fn build_command(&self, session: &SessionRequest, tools: &ToolPolicy) -> Vec<String> {
        let mut command = self.settings.command.clone();
        let mut add = |words: &[&str]| command.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]);
        match session {
            SessionRequest::New => {}
            SessionRequest::Named(id) => add(&["--session-id", id]),
            SessionRequest::Resume(id) => add(&["--resume", id]),
        }
        if let Some(budget) = self.settings.budget {
            add(&["--max-budget-usd", &budget.to_string()]);
        }
        command.extend(permission_arguments(self.settings.permissions, tools));
        command
    }

    async fn try_run(
        &self,
        run: &AgentRun<'_>,
        session: &SessionRequest,
    ) -> Result<(Transcript, ProgramExit), AgentError> {
        let program = AgentProgram {
            name: &self.name,
            command: self.build_command(session, run.tools),
            env: &self.settings.env,
            input: AgentInput::Text(run.prompt.to_owned()),
            timeout: self.settings.timeout,
            courtesy: Duration::ZERO,
        };
        // Claude tracks its cost itself, and reports it only at the end.
        let mut lines = JsonLinesListener {
            dialect: ClaudeParser,
            transcript: Transcript::new(),
            budget: None,
            says: run.says.clone(),
        };
        let exit = program.run_supervised(run.place, run.cancel.clone(), &mut lines).await?;
        Ok((lines.transcript, exit))
    }
}

/// Returns the arguments for permissions. Only `--tools` is obeyed in every mode, so a list of allowed tools
/// goes there, its complement into the forbidden tools, and the list itself into the rules.
fn permission_arguments(permissions: AgentPermissions, tools: &ToolPolicy) -> Vec<String> {
    let mut never: Vec<&str> = FORBIDDEN_TOOLS.to_vec();
    never.extend(tools.disallowed.iter().map(String::as_str));
    let mut rules: Vec<String> = Vec::new();
    let mut given = Vec::new();
    // A rule such as `Bash(git log:*)` is about the tool `Bash`.
    let base = |tool: &'_ str| tool.split('(').next().unwrap_or_default().trim().to_owned();
    if !tools.allowed.is_empty() {
        let allowed: Vec<String> = tools.allowed.iter().map(|tool| base(tool)).collect();
        never.extend(KNOWN_TOOLS.iter().filter(|tool| !allowed.iter().any(|name| name == *tool)));
        given.push(format!("--tools={}", allowed.join(",")));
        rules.extend(tools.allowed.iter().cloned());
    }
    let permissions = if tools.read_only { AgentPermissions::Read } else { permissions };
    let mode = match permissions {
        AgentPermissions::Read => {
            never.extend(WRITING_TOOLS);
            "default"
        }
        // Claude applies its rules only in modes in which it would ask.
        _ if !tools.allowed.is_empty() => "default",
        AgentPermissions::Edit => {
            rules.extend(GIT_SUBCOMMANDS.map(|command| format!("Bash(git {command}:*)")));
            "acceptEdits"
        }
        AgentPermissions::Full => "bypassPermissions",
    };
    never.sort_unstable();
    never.dedup();
    given.push(format!("--disallowed-tools={}", never.join(",")));
    if !rules.is_empty() {
        given.push(format!("--allowed-tools={}", rules.join(",")));
    }
    given.extend(["--permission-mode".to_owned(), mode.to_owned()]);
    given
}

#[async_trait]
impl Agent for ClaudeAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn agent_settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn session_memory(&self) -> SessionMemory {
        SessionMemory::OfPlace
    }

    fn keeps_to_tools(&self) -> bool {
        true
    }

    async fn run_turn(&self, run: AgentRun<'_>) -> Result<RunOutcome, AgentError> {
        let (transcript, exit) = self.try_run(&run, &run.session).await?;
        // A run that was interrupted before this could be recorded may have started the session.
        if let SessionRequest::Named(id) = &run.session
            && transcript.is_silent()
            && exit.last_lines.contains("is already in use")
        {
            let (transcript, exit) = self.try_run(&run, &SessionRequest::Resume(id.clone())).await?;
            return Ok(transcript.into_run_outcome(exit));
        }
        Ok(transcript.into_run_outcome(exit))
    }
}

/// Parses the lines of Claude's output.
struct ClaudeParser;

impl LineParser for ClaudeParser {
    fn parse_line(&mut self, line: &Value, transcript: &mut Transcript) -> Vec<AgentEvent> {
        // Messages of subagents are not shown.
        if line["parent_tool_use_id"].is_string() {
            return Vec::new();
        }
        match line["type"].as_str().unwrap_or_default() {
            "system" => parse_system_line(line),
            "stream_event" => {
                let piece = line["event"]["delta"]["text"].as_str();
                piece.map(|piece| AgentEvent::Delta(piece.to_owned())).into_iter().collect()
            }
            // Claude's own text for an API error; the result line repeats it.
            "assistant" if line["is_api_error_message"] == true || line["error"].is_string() => Vec::new(),
            "assistant" => content_blocks(line).filter_map(parse_assistant_block).collect(),
            "user" => content_blocks(line).filter_map(tool_result).collect(),
            "result" => parse_result_line(line, transcript),
            _ => Vec::new(),
        }
    }
}

fn content_blocks(line: &Value) -> impl Iterator<Item = &Value> {
    line["message"]["content"].as_array().into_iter().flatten()
}

fn parse_system_line(line: &Value) -> Vec<AgentEvent> {
    match line["subtype"].as_str() {
        Some("init") => line["session_id"].as_str().map(|id| AgentEvent::Session(id.to_owned())).into_iter().collect(),
        Some("permission_denied") => {
            let about = line["tool_name"].as_str().unwrap_or("a tool").to_owned();
            vec![AgentEvent::Permission { about, given: false }]
        }
        _ => Vec::new(),
    }
}

fn parse_assistant_block(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => Some(AgentEvent::Text(block["text"].as_str()?.to_owned())),
        "tool_use" => {
            let name = block["name"].as_str()?.to_owned();
            Some(AgentEvent::ToolUse { name, about: main_parameter(&block["input"]) })
        }
        _ => None,
    }
}

fn tool_result(block: &Value) -> Option<AgentEvent> {
    if block["type"] != "tool_result" {
        return None;
    }
    let text = match &block["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    };
    Some(AgentEvent::ToolResult { failed: block["is_error"] == true, about: shorten_line(&text) })
}

/// Parses the last line of a run. Its `subtype` does not tell whether the run succeeded.
fn parse_result_line(line: &Value, transcript: &mut Transcript) -> Vec<AgentEvent> {
    let errors: Vec<&str> = line["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = line["result"].as_str().unwrap_or_default();
    let mut events = vec![AgentEvent::Usage(parse_run_usage(line))];
    transcript.verdict = Some(match line["is_error"] == true {
        _ if errors.iter().any(|error| error.starts_with("No conversation found")) => ReportedEnd::NoSession,
        _ if line["subtype"] == "error_max_budget_usd" => ReportedEnd::OverBudget,
        true => {
            let why = if errors.is_empty() { text.to_owned() } else { errors.join("; ") };
            let logged_out = line["api_error_status"] == 401 || text.starts_with("Not logged in");
            let login = of_kind(AgentKind::Claude).filter(|_| logged_out).map(|known| format!(". {}", known.login));
            ReportedEnd::Failed(format!("{}{}", shorten_line(&why), login.unwrap_or_default()))
        }
        false => {
            // A text that was not streamed before, such as the output of a command.
            if transcript.is_silent() && !text.is_empty() {
                events.push(AgentEvent::Text(text.to_owned()));
            }
            ReportedEnd::Well
        }
    });
    events
}

/// Parses the usage of this run. The total is that of the whole session, earlier runs included.
fn parse_run_usage(line: &Value) -> RunUsage {
    let count = |of: &Value, keys: &[&str]| keys.iter().filter_map(|key| of[*key].as_u64()).sum::<u64>();
    let models: Vec<&Value> = match &line["model_usage_since_last_result"] {
        Value::Object(models) => models.values().collect(),
        _ => Vec::new(),
    };
    if models.is_empty() {
        let of = &line["usage"];
        return RunUsage {
            input_tokens: count(of, &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]),
            output_tokens: count(of, &["output_tokens"]),
            cost: line["total_cost_usd"].as_f64().unwrap_or_default(),
        };
    }
    let input = ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens"];
    RunUsage {
        input_tokens: models.iter().map(|of| count(of, &input)).sum(),
        output_tokens: models.iter().map(|of| count(of, &["outputTokens"])).sum(),
        cost: models.iter().filter_map(|of| of["costUSD"].as_f64()).sum(),
    }
}
