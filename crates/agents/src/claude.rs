//! Claude Code: `claude -p` with its stream of JSON lines.

use std::time::Duration;

use async_trait::async_trait;
use grove_environments::settings::agent_catalog::of_kind;
use grove_environments::settings::{AgentKind, AgentSettings, Permissions};
use serde_json::Value;

use crate::agent::{Agent, AgentError, AgentEvent, Memory, Outcome, Run, SessionWish, Tools, Usage};
use crate::json_lines::{Dialect, JsonLines};
use crate::process::{Exit, Program};
use crate::supervisor::Input;
use crate::tool_summary::about;
use crate::transcript::{Heard, Verdict, shortened};

/// Its own tools that would lead out of the worktree.
const NEVER: [&str; 2] = ["EnterWorktree", "ExitWorktree"];
/// Its own tools that change files.
const WRITING: [&str; 4] = ["Edit", "MultiEdit", "NotebookEdit", "Write"];
/// Its own tools, as far as they are known: what is not allowed of them is forbidden by name.
const TOOLS: [&str; 30] = [
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
/// What an agent that may edit also needs in order to commit.
const GIT: [&str; 8] = ["add", "commit", "diff", "log", "mv", "rm", "show", "status"];

pub struct ClaudeAgent {
    name: String,
    settings: AgentSettings,
}

impl ClaudeAgent {
    pub fn new(name: &str, mut settings: AgentSettings) -> Self {
        let mut set = |name: &str| _ = settings.env.entry(name.to_owned()).or_insert_with(|| "1".to_owned());
        set("DISABLE_AUTOUPDATER");
        // It refuses this to root unless it is told that somebody else builds the walls.
        if settings.permissions == Permissions::Full && rustix::process::geteuid().is_root() {
            set("IS_SANDBOX");
        }
        Self { name: name.to_owned(), settings }
    }

    fn command(&self, session: &SessionWish, tools: &Tools) -> Vec<String> {
        let mut command = self.settings.command.clone();
        let mut add = |words: &[&str]| command.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"]);
        match session {
            SessionWish::New => {}
            SessionWish::Named(id) => add(&["--session-id", id]),
            SessionWish::Resume(id) => add(&["--resume", id]),
        }
        if let Some(budget) = self.settings.budget {
            add(&["--max-budget-usd", &budget.to_string()]);
        }
        command.extend(permissions(self.settings.permissions, tools));
        command
    }

    async fn try_run(&self, run: &Run<'_>, session: &SessionWish) -> Result<(Heard, Exit), AgentError> {
        let program = Program {
            name: &self.name,
            command: self.command(session, run.tools),
            env: &self.settings.env,
            input: Input::Text(run.prompt.to_owned()),
            timeout: self.settings.timeout,
            courtesy: Duration::ZERO,
        };
        // It counts what it costs itself, and only tells at the end.
        let mut lines = JsonLines { dialect: Claude, heard: Heard::new(), budget: None, says: run.says.clone() };
        let exit = program.run(run.place, run.cancel.clone(), &mut lines).await?;
        Ok((lines.heard, exit))
    }
}

/// What it may do. Only a list of tools is certain to be kept to in every mode, so a list of allowed
/// ones goes there, into its complement, and into the rules.
fn permissions(permissions: Permissions, tools: &Tools) -> Vec<String> {
    let mut never: Vec<&str> = NEVER.to_vec();
    never.extend(tools.disallowed.iter().map(String::as_str));
    let mut rules: Vec<String> = Vec::new();
    let mut given = Vec::new();
    // A rule such as `Bash(git log:*)` is about the tool `Bash`.
    let base = |tool: &'_ str| tool.split('(').next().unwrap_or_default().trim().to_owned();
    if !tools.allowed.is_empty() {
        let allowed: Vec<String> = tools.allowed.iter().map(|tool| base(tool)).collect();
        never.extend(TOOLS.iter().filter(|tool| !allowed.iter().any(|name| name == *tool)));
        given.push(format!("--tools={}", allowed.join(",")));
        rules.extend(tools.allowed.iter().cloned());
    }
    let permissions = if tools.read_only { Permissions::Read } else { permissions };
    let mode = match permissions {
        Permissions::Read => {
            never.extend(WRITING);
            "default"
        }
        // Its rules count only where it would have to ask.
        _ if !tools.allowed.is_empty() => "default",
        Permissions::Edit => {
            rules.extend(GIT.map(|command| format!("Bash(git {command}:*)")));
            "acceptEdits"
        }
        Permissions::Full => "bypassPermissions",
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

    fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn memory(&self) -> Memory {
        Memory::OfPlace
    }

    fn keeps_to_tools(&self) -> bool {
        true
    }

    async fn run(&self, run: Run<'_>) -> Result<Outcome, AgentError> {
        let (heard, exit) = self.try_run(&run, &run.session).await?;
        // Begun by a run that was cut short before anybody could note that.
        if let SessionWish::Named(id) = &run.session
            && heard.is_silent()
            && exit.last_lines.contains("is already in use")
        {
            let (heard, exit) = self.try_run(&run, &SessionWish::Resume(id.clone())).await?;
            return Ok(heard.outcome(exit));
        }
        Ok(heard.outcome(exit))
    }
}

/// What its lines mean.
struct Claude;

impl Dialect for Claude {
    fn take(&mut self, line: &Value, heard: &mut Heard) -> Vec<AgentEvent> {
        // What helpers of the agent say is between them.
        if line["parent_tool_use_id"].is_string() {
            return Vec::new();
        }
        match line["type"].as_str().unwrap_or_default() {
            "system" => system(line),
            "stream_event" => {
                let piece = line["event"]["delta"]["text"].as_str();
                piece.map(|piece| AgentEvent::Delta(piece.to_owned())).into_iter().collect()
            }
            // Its own words for an error of the model; the result says it again.
            "assistant" if line["is_api_error_message"] == true || line["error"].is_string() => Vec::new(),
            "assistant" => blocks(line).filter_map(assistant).collect(),
            "user" => blocks(line).filter_map(tool_result).collect(),
            "result" => result(line, heard),
            _ => Vec::new(),
        }
    }
}

fn blocks(line: &Value) -> impl Iterator<Item = &Value> {
    line["message"]["content"].as_array().into_iter().flatten()
}

fn system(line: &Value) -> Vec<AgentEvent> {
    match line["subtype"].as_str() {
        Some("init") => line["session_id"].as_str().map(|id| AgentEvent::Session(id.to_owned())).into_iter().collect(),
        Some("permission_denied") => {
            let about = line["tool_name"].as_str().unwrap_or("a tool").to_owned();
            vec![AgentEvent::Permission { about, given: false }]
        }
        _ => Vec::new(),
    }
}

fn assistant(block: &Value) -> Option<AgentEvent> {
    match block["type"].as_str()? {
        "text" => Some(AgentEvent::Text(block["text"].as_str()?.to_owned())),
        "tool_use" => {
            let name = block["name"].as_str()?.to_owned();
            Some(AgentEvent::ToolUse { name, about: about(&block["input"]) })
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
    Some(AgentEvent::ToolResult { failed: block["is_error"] == true, about: shortened(&text) })
}

/// The last line of a run. Whether it went well is not in its `subtype`.
fn result(line: &Value, heard: &mut Heard) -> Vec<AgentEvent> {
    let errors: Vec<&str> = line["errors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let text = line["result"].as_str().unwrap_or_default();
    let mut events = vec![AgentEvent::Usage(usage(line))];
    heard.verdict = Some(match line["is_error"] == true {
        _ if errors.iter().any(|error| error.starts_with("No conversation found")) => Verdict::NoSession,
        _ if line["subtype"] == "error_max_budget_usd" => Verdict::OverBudget,
        true => {
            let why = if errors.is_empty() { text.to_owned() } else { errors.join("; ") };
            let logged_out = line["api_error_status"] == 401 || text.starts_with("Not logged in");
            let login = of_kind(AgentKind::Claude).filter(|_| logged_out).map(|known| format!(". {}", known.login));
            Verdict::Failed(format!("{}{}", shortened(&why), login.unwrap_or_default()))
        }
        false => {
            // Of a text that was not heard before, such as a command's.
            if heard.is_silent() && !text.is_empty() {
                events.push(AgentEvent::Text(text.to_owned()));
            }
            Verdict::Well
        }
    });
    events
}

/// What this run took. The total is the whole session's, earlier runs included.
fn usage(line: &Value) -> Usage {
    let count = |of: &Value, keys: &[&str]| keys.iter().filter_map(|key| of[*key].as_u64()).sum::<u64>();
    let models: Vec<&Value> = match &line["model_usage_since_last_result"] {
        Value::Object(models) => models.values().collect(),
        _ => Vec::new(),
    };
    if models.is_empty() {
        let of = &line["usage"];
        return Usage {
            input_tokens: count(of, &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]),
            output_tokens: count(of, &["output_tokens"]),
            cost: line["total_cost_usd"].as_f64().unwrap_or_default(),
        };
    }
    let input = ["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens"];
    Usage {
        input_tokens: models.iter().map(|of| count(of, &input)).sum(),
        output_tokens: models.iter().map(|of| count(of, &["outputTokens"])).sum(),
        cost: models.iter().filter_map(|of| of["costUSD"].as_f64()).sum(),
    }
}
