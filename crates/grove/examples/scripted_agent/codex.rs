//! Codex 0.166: `codex exec --json`.

use serde_json::json;

use crate::script::{PermissionAnswer, ScriptEnd, ScriptOutput, exit_if_vanishing, run_script};
use crate::session::ScriptedSession;
use crate::{fail_with, is_uuid, new_id, read_prompt, write_line};

const CODEX_KIND: &str = "codex";

pub fn run(arguments: &[String]) -> u8 {
    let mut words = arguments.iter().map(String::as_str);
    if words.next() != Some("exec") {
        return fail_with(2, "error: unrecognized subcommand");
    }
    let (mut json, mut sandbox, mut resume, mut from_stdin) = (false, String::new(), None, false);
    while let Some(word) = words.next() {
        match word {
            "--json" => json = true,
            "--skip-git-repo-check" => {}
            "--sandbox" if resume.is_none() => sandbox = words.next().unwrap_or_default().to_owned(),
            "-c" => _ = words.next(),
            "resume" => resume = words.next(),
            "-" => from_stdin = true,
            _ => return fail_with(2, &format!("error: unexpected argument '{word}' found")),
        }
    }
    if !json || !from_stdin || !["read-only", "workspace-write", "danger-full-access"].contains(&sandbox.as_str()) {
        return fail_with(2, "error: invalid arguments");
    }
    let prompt = read_prompt();
    if prompt.trim().is_empty() {
        return fail_with(1, "No prompt provided via stdin.");
    }
    let found = resume.and_then(|id| ScriptedSession::find_session(CODEX_KIND, id));
    let mut session = match (resume, found) {
        (_, Some(session)) => session,
        (Some(id), None) if is_uuid(id) => {
            let words = format!("no rollout found for thread id {id} (code -32600)");
            return fail_with(1, &format!("Error: thread/resume: thread/resume failed: {words}"));
        }
        // A value that is not even an id begins a new thread, without a message.
        (_, None) => ScriptedSession::begin_session(CODEX_KIND, new_id()),
    };
    exit_if_vanishing(&prompt);
    eprintln!("WARNING: proceeding, even though we could not create PATH aliases");
    write_line(&json!({ "type": "thread.started", "thread_id": session.id }));
    let mut voice = CodexOutput { items: 0, sandbox };
    let words = "Model metadata for `scripted-model` not found. Defaulting to fallback metadata";
    voice.complete_item(json!({ "type": "error", "message": words }));
    write_line(&json!({ "type": "turn.started" }));
    let end = run_script(&prompt, &mut session, &mut voice);
    let failed = |message: &str| {
        write_line(&json!({ "type": "error", "message": format!("Reconnecting... 1/1 ({message})") }));
        write_line(&json!({ "type": "error", "message": message }));
        write_line(&json!({ "type": "turn.failed", "error": { "message": message } }));
        1
    };
    match end {
        ScriptEnd::Failed(words) => failed(&words),
        ScriptEnd::LoggedOut => failed("unexpected status 401 Unauthorized: Incorrect API key provided"),
        ScriptEnd::Well | ScriptEnd::OverBudget | ScriptEnd::Cancelled | ScriptEnd::Reason(_) => {
            // The usage is that of the whole thread.
            let count = |each: u64| each * session.requests;
            write_line(&json!({ "type": "turn.completed", "usage": { "input_tokens": count(12),
                "cached_input_tokens": count(3), "cache_write_input_tokens": 0, "output_tokens": count(7),
                "reasoning_output_tokens": 0 } }));
            0
        }
    }
}

struct CodexOutput {
    items: usize,
    sandbox: String,
}

impl CodexOutput {
    fn complete_item(&mut self, mut item: serde_json::Value) {
        item["id"] = json!(format!("item_{}", self.items));
        self.items += 1;
        write_line(&json!({ "type": "item.completed", "item": item }));
    }

    fn report_command(&mut self, command: &str, result: Result<&str, &str>) {
        let (Ok(output) | Err(output)) = result;
        let id = format!("item_{}", self.items);
        let item = json!({ "id": id, "type": "command_execution", "command": command, "aggregated_output": "",
            "exit_code": null, "status": "in_progress" });
        write_line(&json!({ "type": "item.started", "item": item }));
        let (code, status) = if result.is_ok() { (0, "completed") } else { (1, "failed") };
        self.complete_item(json!({ "type": "command_execution", "command": command, "aggregated_output": output,
            "exit_code": code, "status": status }));
    }
}

impl ScriptOutput for CodexOutput {
    fn say_text(&mut self, text: &str) {
        self.complete_item(json!({ "type": "agent_message", "text": text }));
    }

    fn report_tool(&mut self, name: &str, about: &str, result: Result<&str, &str>) {
        if name == "Edit" || (name == "Write" && result.is_ok()) {
            let change = json!({ "path": about, "kind": "update" });
            return self.complete_item(json!({ "type": "file_change", "changes": [change], "status": "completed" }));
        }
        self.report_command(&format!("/bin/bash -lc '{name} {about}'"), result);
    }

    fn report_plan(&mut self) {
        let step = |text: &str, completed: bool| json!({ "text": text, "completed": completed });
        self.complete_item(json!({ "type": "todo_list", "items": [step("look", true), step("write", false)] }));
    }

    /// Codex never asks: its sandbox allows the action, or the action fails.
    fn ask_permission(&mut self, _kind: &str, about: &str) -> PermissionAnswer {
        let may = match self.sandbox.as_str() {
            "danger-full-access" => true,
            "workspace-write" => !about.starts_with('/'),
            _ => false,
        };
        self.report_command(about, if may { Ok("done") } else { Err("Read-only file system") });
        if may { PermissionAnswer::Given } else { PermissionAnswer::Refused }
    }

    /// Codex does not report costs.
    fn report_cost(&mut self, _session: &ScriptedSession) -> bool {
        false
    }

    fn send_unknown(&mut self, filler: &str) {
        write_line(&json!({ "type": "brand.new", "filler": filler }));
        self.complete_item(json!({ "type": "brand_new", "filler": filler.len() }));
    }

    /// Codex can be cancelled only by a signal.
    fn is_cancelled(&mut self) -> bool {
        false
    }
}
