//! Codex 0.166: `codex exec --json`.

use serde_json::json;

use crate::script::{End, Leave, Voice, perform, vanish};
use crate::session::Session;
use crate::{complain, is_uuid, line, new_id, prompt};

const KIND: &str = "codex";

pub fn run(arguments: &[String]) -> u8 {
    let mut words = arguments.iter().map(String::as_str);
    if words.next() != Some("exec") {
        return complain(2, "error: unrecognized subcommand");
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
            _ => return complain(2, &format!("error: unexpected argument '{word}' found")),
        }
    }
    if !json || !from_stdin || !["read-only", "workspace-write", "danger-full-access"].contains(&sandbox.as_str()) {
        return complain(2, "error: invalid arguments");
    }
    let prompt = prompt();
    if prompt.trim().is_empty() {
        return complain(1, "No prompt provided via stdin.");
    }
    let found = resume.and_then(|id| Session::find(KIND, id));
    let mut session = match (resume, found) {
        (_, Some(session)) => session,
        (Some(id), None) if is_uuid(id) => {
            let words = format!("no rollout found for thread id {id} (code -32600)");
            return complain(1, &format!("Error: thread/resume: thread/resume failed: {words}"));
        }
        // What is not even an id begins a new thread, without a word.
        (_, None) => Session::begin(KIND, new_id()),
    };
    vanish(&prompt);
    eprintln!("WARNING: proceeding, even though we could not create PATH aliases");
    line(&json!({ "type": "thread.started", "thread_id": session.id }));
    let mut voice = Codex { items: 0, sandbox };
    let words = "Model metadata for `scripted-model` not found. Defaulting to fallback metadata";
    voice.completed(json!({ "type": "error", "message": words }));
    line(&json!({ "type": "turn.started" }));
    let end = perform(&prompt, &mut session, &mut voice);
    let failed = |message: &str| {
        line(&json!({ "type": "error", "message": format!("Reconnecting... 1/1 ({message})") }));
        line(&json!({ "type": "error", "message": message }));
        line(&json!({ "type": "turn.failed", "error": { "message": message } }));
        1
    };
    match end {
        End::Failed(words) => failed(&words),
        End::LoggedOut => failed("unexpected status 401 Unauthorized: Incorrect API key provided"),
        End::Well | End::OverBudget | End::Cancelled | End::Reason(_) => {
            // Of the whole thread.
            let count = |each: u64| each * session.requests;
            line(&json!({ "type": "turn.completed", "usage": { "input_tokens": count(12),
                "cached_input_tokens": count(3), "cache_write_input_tokens": 0, "output_tokens": count(7),
                "reasoning_output_tokens": 0 } }));
            0
        }
    }
}

struct Codex {
    items: usize,
    sandbox: String,
}

impl Codex {
    fn completed(&mut self, mut item: serde_json::Value) {
        item["id"] = json!(format!("item_{}", self.items));
        self.items += 1;
        line(&json!({ "type": "item.completed", "item": item }));
    }

    fn command(&mut self, command: &str, result: Result<&str, &str>) {
        let (Ok(output) | Err(output)) = result;
        let id = format!("item_{}", self.items);
        let item = json!({ "id": id, "type": "command_execution", "command": command, "aggregated_output": "",
            "exit_code": null, "status": "in_progress" });
        line(&json!({ "type": "item.started", "item": item }));
        let (code, status) = if result.is_ok() { (0, "completed") } else { (1, "failed") };
        self.completed(json!({ "type": "command_execution", "command": command, "aggregated_output": output,
            "exit_code": code, "status": status }));
    }
}

impl Voice for Codex {
    fn text(&mut self, text: &str) {
        self.completed(json!({ "type": "agent_message", "text": text }));
    }

    fn tool(&mut self, name: &str, about: &str, result: Result<&str, &str>) {
        if name == "Edit" || (name == "Write" && result.is_ok()) {
            let change = json!({ "path": about, "kind": "update" });
            return self.completed(json!({ "type": "file_change", "changes": [change], "status": "completed" }));
        }
        self.command(&format!("/bin/bash -lc '{name} {about}'"), result);
    }

    fn plan(&mut self) {
        let step = |text: &str, completed: bool| json!({ "text": text, "completed": completed });
        self.completed(json!({ "type": "todo_list", "items": [step("look", true), step("write", false)] }));
    }

    /// It never asks: its sandbox lets it, or it fails.
    fn ask(&mut self, _kind: &str, about: &str) -> Leave {
        let may = match self.sandbox.as_str() {
            "danger-full-access" => true,
            "workspace-write" => !about.starts_with('/'),
            _ => false,
        };
        self.command(about, if may { Ok("done") } else { Err("Read-only file system") });
        if may { Leave::Given } else { Leave::Refused }
    }

    /// It has no idea.
    fn cost(&mut self, _session: &Session) -> bool {
        false
    }

    fn unknown(&mut self, filler: &str) {
        line(&json!({ "type": "brand.new", "filler": filler }));
        self.completed(json!({ "type": "brand_new", "filler": filler.len() }));
    }

    /// It only knows the signal.
    fn cancelled(&mut self) -> bool {
        false
    }
}
