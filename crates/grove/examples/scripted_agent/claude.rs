//! Claude Code 2.1: `claude -p --output-format stream-json`.

use serde_json::{Value, json};

use crate::script::{PermissionAnswer, ScriptEnd, ScriptOutput, exit_if_vanishing, run_script};
use crate::session::ScriptedSession;
use crate::{fail_with, is_uuid, new_id, read_prompt, write_line};

const CLAUDE_KIND: &str = "claude";
const MODEL_NAME: &str = "scripted-model";

/// The arguments of the call.
#[derive(Default)]
struct ClaudeArguments {
    session: Option<String>,
    resume: Option<String>,
    budget: Option<f64>,
    mode: String,
    allowed: Vec<String>,
    disallowed: Vec<String>,
    /// How many of the required flags are given.
    needed: usize,
}

pub fn run(arguments: &[String]) -> u8 {
    let mut call = ClaudeArguments::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let (flag, value) = word.split_once('=').unwrap_or((word, ""));
        let list = || value.split(',').filter(|tool| !tool.is_empty()).map(str::to_owned).collect();
        let mut next = || words.next().cloned().unwrap_or_default();
        match flag {
            "-p" | "--verbose" | "--include-partial-messages" => call.needed += 1,
            "--output-format" if next() == "stream-json" => call.needed += 1,
            "--session-id" => call.session = Some(next()),
            "--resume" => call.resume = Some(next()),
            "--max-budget-usd" => call.budget = next().parse().ok(),
            "--permission-mode" => call.mode = next(),
            "--allowed-tools" => call.allowed = list(),
            "--disallowed-tools" => call.disallowed = list(),
            "--tools" => {}
            _ => return fail_with(1, &format!("error: unknown option '{word}'")),
        }
    }
    if call.needed != 4 {
        return fail_with(1, "Error: When using --print, --output-format=stream-json requires --verbose");
    }
    let root = rustix::process::geteuid().is_root() && std::env::var_os("IS_SANDBOX").is_none();
    if call.mode == "bypassPermissions" && root {
        let words = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons";
        return fail_with(1, words);
    }
    run_session(call)
}

fn run_session(call: ClaudeArguments) -> u8 {
    let prompt = read_prompt();
    if prompt.trim().is_empty() {
        let words = "Error: Input must be provided either through stdin or as a prompt argument when using --print";
        return fail_with(1, words);
    }
    let mut session = match (&call.resume, &call.session) {
        (Some(id), _) => match ScriptedSession::find_session(CLAUDE_KIND, id) {
            Some(session) => session,
            None => return unknown_session(id),
        },
        (None, Some(id)) if !is_uuid(id) => {
            return fail_with(1, "Error: Invalid session ID. Must be a valid UUID.");
        }
        (None, Some(id)) if ScriptedSession::find_session(CLAUDE_KIND, id).is_some() => {
            return fail_with(1, &format!("Error: Session ID {id} is already in use."));
        }
        (None, id) => ScriptedSession::begin_session(CLAUDE_KIND, id.clone().unwrap_or_else(new_id)),
    };
    exit_if_vanishing(&prompt);
    write_line(&json!({
        "type": "system", "subtype": "init", "cwd": std::env::current_dir().expect("a cwd"), "session_id": session.id,
        "tools": ["Bash", "Edit", "Read", "Write"], "mcp_servers": [], "model": MODEL_NAME, "permissionMode": call.mode,
        "apiKeySource": "ANTHROPIC_API_KEY", "claude_code_version": "2.1.325", "uuid": new_id(),
    }));
    write_line(&json!({ "type": "system", "subtype": "status", "status": "requesting", "session_id": session.id }));
    let before = (session.requests, session.cost);
    let mut voice =
        ClaudeOutput { call, session: session.id.clone(), cost_before: session.cost, last_text: String::new() };
    let end = run_script(&prompt, &mut session, &mut voice);
    voice.send_result(&session, before, &end)
}

fn unknown_session(id: &str) -> u8 {
    let words = format!("No conversation found with session ID: {id}");
    let mut result = json!({ "duration_ms": 0, "subtype": "error_during_execution", "is_error": true });
    result["num_turns"] = json!(0);
    result["session_id"] = json!(id);
    result["total_cost_usd"] = json!(0);
    result["usage"] = json!({ "input_tokens": 0, "output_tokens": 0 });
    result["errors"] = json!([words]);
    result["type"] = json!("result");
    write_line(&result);
    fail_with(1, &words)
}

struct ClaudeOutput {
    call: ClaudeArguments,
    session: String,
    cost_before: f64,
    last_text: String,
}

impl ClaudeOutput {
    fn send_event(&self, event: &Value) {
        let parent = Value::Null;
        write_line(
            &json!({ "type": "stream_event", "event": event, "session_id": self.session, "parent_tool_use_id": parent }),
        );
    }

    /// Sends one block of the model's message, as a line before the block's end.
    fn send_assistant_block(&self, block: &Value) {
        let usage = json!({ "input_tokens": 12, "output_tokens": 7 });
        let message = json!({ "id": new_id(), "type": "message", "role": "assistant", "model": MODEL_NAME,
            "content": [block], "stop_reason": null, "usage": usage });
        write_line(
            &json!({ "type": "assistant", "message": message, "parent_tool_use_id": null, "session_id": self.session }),
        );
    }

    fn tool_result(&self, id: &str, result: Result<&str, &str>) {
        let (Ok(text) | Err(text)) = result;
        let block = json!({ "tool_use_id": id, "type": "tool_result", "content": text, "is_error": result.is_err() });
        let message = json!({ "role": "user", "content": [block] });
        write_line(&json!({ "type": "user", "message": message, "parent_tool_use_id": null, "tool_use_result": text }));
    }

    fn tool_use(&self, name: &str, about: &str) -> String {
        let id = format!("toolu_{}", new_id());
        let key = if name == "Bash" { "command" } else { "file_path" };
        self.send_assistant_block(
            &json!({ "type": "tool_use", "id": id, "name": name, "input": { key: about, "x": 1 } }),
        );
        id
    }

    /// Tells whether the rules and the mode allow the use of a tool.
    fn is_allowed(&self, tool: &str, about: &str) -> bool {
        let ruled = |rule: &String| {
            let (name, command) = rule.split_once('(').unwrap_or((rule, ""));
            name == tool && about.starts_with(command.trim_end_matches([')', '*', ':']))
        };
        let inside = !about.starts_with('/') && !about.contains("..");
        match self.call.mode.as_str() {
            _ if self.call.disallowed.iter().any(ruled) => false,
            "bypassPermissions" => true,
            _ if self.call.allowed.iter().any(ruled) => true,
            "acceptEdits" => tool == "Edit" && inside,
            _ => false,
        }
    }

    /// Sends the last line. Its cost is the whole session's; `model_usage_since_last_result` is not.
    fn send_result(&self, session: &ScriptedSession, before: (u64, f64), end: &ScriptEnd) -> u8 {
        let (requests, cost) = (session.requests - before.0, session.cost - before.1);
        let models = |requests: u64, cost: f64| {
            let one = json!({ "inputTokens": 12 * requests, "outputTokens": 7 * requests,
                "cacheReadInputTokens": 3 * requests, "cacheCreationInputTokens": 0, "costUSD": cost });
            json!({ MODEL_NAME: one })
        };
        let mut line = json!({ "duration_api_ms": 37, "session_id": session.id, "total_cost_usd": session.cost });
        line["usage"] = json!({ "input_tokens": 12 * requests, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3 * requests, "output_tokens": 7 * requests });
        line["modelUsage"] = models(session.requests, session.cost);
        let error = |line: &mut Value, name: &str, status: &Value, words: &str| {
            let block = json!({ "type": "text", "text": words });
            crate::write_line(&json!({ "type": "assistant", "message": { "content": [block] }, "error": name,
                "is_api_error_message": true, "api_error_status": status, "session_id": session.id }));
            line["api_error_status"] = status.clone();
            line["terminal_reason"] = json!("api_error");
            line["result"] = json!(words);
        };
        // Claude Code reports an error of the model as a success, too.
        line["subtype"] = json!("success");
        match end {
            ScriptEnd::Failed(words) => {
                error(&mut line, "server_error", &json!(500), &format!("API Error: 500 {words}"))
            }
            ScriptEnd::LoggedOut => {
                error(&mut line, "authentication_failed", &Value::Null, "Not logged in · Please run /login");
            }
            ScriptEnd::OverBudget => {
                let words = format!("Reached maximum budget (${})", self.call.budget.unwrap_or_default());
                line["subtype"] = json!("error_max_budget_usd");
                line["terminal_reason"] = json!("budget_exhausted");
                line["errors"] = json!([words]);
            }
            ScriptEnd::Well | ScriptEnd::Cancelled | ScriptEnd::Reason(_) => line["result"] = json!(self.last_text),
        }
        let is_error = matches!(end, ScriptEnd::Failed(_) | ScriptEnd::LoggedOut | ScriptEnd::OverBudget);
        line["is_error"] = json!(is_error);
        line["type"] = json!("result");
        line["model_usage_since_last_result"] = models(requests, cost);
        crate::write_line(&line);
        u8::from(is_error)
    }
}

impl ScriptOutput for ClaudeOutput {
    fn say_text(&mut self, text: &str) {
        self.send_event(&json!({ "type": "message_start", "message": { "role": "assistant", "content": [] } }));
        let empty = json!({ "type": "text", "text": "" });
        self.send_event(&json!({ "type": "content_block_start", "index": 0, "content_block": empty }));
        for piece in crate::script::split_into_pieces(text) {
            let delta = json!({ "type": "text_delta", "text": piece });
            self.send_event(&json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
        }
        self.send_assistant_block(&json!({ "type": "text", "text": text }));
        self.send_event(&json!({ "type": "content_block_stop", "index": 0 }));
        let delta = json!({ "stop_reason": "end_turn" });
        self.send_event(&json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 7 } }));
        self.send_event(&json!({ "type": "message_stop" }));
        self.last_text = text.to_owned();
    }

    fn report_tool(&mut self, name: &str, about: &str, result: Result<&str, &str>) {
        let id = self.tool_use(name, about);
        self.tool_result(&id, result);
    }

    fn report_plan(&mut self) {
        let id = self.tool_use("TodoWrite", "");
        self.tool_result(&id, Ok("Todos have been modified successfully"));
    }

    fn ask_permission(&mut self, kind: &str, about: &str) -> PermissionAnswer {
        let tool = if kind == "edit" { "Edit" } else { "Bash" };
        let about = if kind == "delete" { format!("rm {about}") } else { about.to_owned() };
        let id = self.tool_use(tool, &about);
        if self.is_allowed(tool, &about) {
            self.tool_result(&id, Ok("done"));
            return PermissionAnswer::Given;
        }
        let words = format!("This {tool} command requires approval: {about}");
        write_line(&json!({ "type": "system", "subtype": "permission_denied", "tool_name": tool, "tool_use_id": id,
            "decision_reason_type": "mode", "message": words, "session_id": self.session }));
        self.tool_result(&id, Err(&words));
        PermissionAnswer::Refused
    }

    fn report_cost(&mut self, session: &ScriptedSession) -> bool {
        self.call.budget.is_some_and(|budget| session.cost - self.cost_before > budget)
    }

    fn send_unknown(&mut self, filler: &str) {
        write_line(&json!({ "filler": filler, "session_id": self.session, "type": "brand_new_kind" }));
        write_line(
            &json!({ "type": "assistant", "message": { "content": [{ "type": "brand_new_block" }] }, "more": filler.len() }),
        );
        write_line(&json!({ "type": "system", "subtype": "brand_new", "session_id": self.session }));
    }

    /// Claude Code can be cancelled only by a signal.
    fn is_cancelled(&mut self) -> bool {
        false
    }
}
