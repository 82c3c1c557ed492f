//! Any agent of the Agent Client Protocol, version 1, much as OpenCode speaks it.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::script::{End, Leave, Voice, perform, vanish};
use crate::session::Session;
use crate::{line, new_id};

const KIND: &str = "acp";

pub fn run(arguments: &[String]) -> u8 {
    // Sessions can only be loaded, with all that was said in them before.
    let only_load = arguments.iter().any(|argument| argument == "--load");
    let (said, heard) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if said.send(serde_json::from_str::<Value>(&line).expect("JSON")).is_err() {
                return;
            }
        }
    });
    let mut agent = Agent { heard, only_load, session: None, asked: 0 };
    while let Ok(message) = agent.heard.recv() {
        agent.hear(&message);
    }
    0
}

struct Agent {
    heard: Receiver<Value>,
    only_load: bool,
    session: Option<Session>,
    /// How often leave was asked for.
    asked: u64,
}

fn answer(id: &Value, result: &Value) {
    line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn error(id: &Value, code: i32, message: &str, data: &Value) {
    line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } }));
}

impl Agent {
    fn hear(&mut self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => self.welcome(id, params),
            "session/new" => {
                check_cwd(params);
                let session = Session::begin(KIND, format!("ses_{}", new_id()));
                answer(id, &json!({ "sessionId": session.id, "configOptions": [] }));
                self.commands(&session.id);
                self.session = Some(session);
            }
            method @ ("session/load" | "session/resume") => {
                check_cwd(params);
                let Some(session) = Session::find(KIND, params["sessionId"].as_str().expect("a session")) else {
                    let data = json!({ "service": "session" });
                    return error(id, -32603, "Internal error: OpenCode service failure", &data);
                };
                if method == "session/load" {
                    for prompt in &session.prompts {
                        update(&session.id, &json!({ "sessionUpdate": "user_message_chunk", "content": text(prompt) }));
                        update(&session.id, &chunk("an old answer", &new_id()));
                    }
                }
                answer(id, &json!({ "configOptions": [] }));
                self.session = Some(session);
            }
            "session/prompt" => self.prompt(id, params),
            _ if id.is_null() => {}
            other => error(id, -32601, "Method not found", &json!({ "method": other })),
        }
    }

    fn welcome(&self, id: &Value, params: &Value) {
        assert_eq!(params["protocolVersion"], 1, "{params}");
        assert_eq!(params["clientInfo"]["name"], "grove", "{params}");
        assert_ne!(params["clientCapabilities"]["terminal"], true, "{params}");
        let can = if self.only_load { json!({ "list": {} }) } else { json!({ "list": {}, "resume": {} }) };
        let login = json!({ "id": "login", "name": "Log in", "description": "Run `scripted login` in the terminal" });
        answer(
            id,
            &json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true, "sessionCapabilities": can,
                "promptCapabilities": { "image": true } }, "authMethods": [login],
                "agentInfo": { "name": "Scripted", "version": "1.0" } }),
        );
    }

    fn commands(&self, session: &str) {
        update(session, &json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }));
    }

    fn prompt(&mut self, id: &Value, params: &Value) {
        let blocks = params["prompt"].as_array().expect("a prompt");
        assert!(blocks.len() == 1 && blocks[0]["type"] == "text", "{params}");
        let prompt = blocks[0]["text"].as_str().expect("a text").to_owned();
        vanish(&prompt);
        let Some(mut session) = self.session.take().filter(|session| params["sessionId"] == session.id.as_str()) else {
            return error(id, -32602, "Invalid params: session not found", &Value::Null);
        };
        let requests = session.requests;
        let (end, was_cancelled) = {
            let mut voice = Acp { agent: self, session: session.id.clone(), was_cancelled: false };
            (perform(&prompt, &mut session, &mut voice), voice.was_cancelled)
        };
        let (count, stop) = (session.requests - requests, |reason: &str| json!({ "stopReason": reason, "_meta": {} }));
        let mut result = match end {
            _ if was_cancelled => stop("cancelled"),
            End::Failed(words) => {
                let data = json!({ "service": "session", "errorName": "APIError" });
                return error(id, -32603, &format!("Internal error: {words}"), &data);
            }
            End::LoggedOut => return error(id, -32000, "Authentication required", &Value::Null),
            End::Cancelled => stop("cancelled"),
            End::Reason(reason) => stop(&reason),
            End::Well | End::OverBudget => stop("end_turn"),
        };
        result["usage"] = json!({ "inputTokens": 9 * count, "outputTokens": 7 * count, "totalTokens": 19 * count,
            "cachedReadTokens": 3 * count });
        answer(id, &result);
        self.session = Some(session);
    }
}

fn check_cwd(params: &Value) {
    let here = std::env::current_dir().expect("a cwd");
    assert_eq!(params["cwd"].as_str(), here.to_str(), "it is started where it is to work");
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn chunk(piece: &str, message: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": text(piece) })
}

fn update(session: &str, update: &Value) {
    line(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } }),
    );
}

struct Acp<'a> {
    agent: &'a mut Agent,
    session: String,
    was_cancelled: bool,
}

impl Acp<'_> {
    fn say(&self, kind: &str, mut fields: Value) {
        fields["sessionUpdate"] = json!(kind);
        update(&self.session, &fields);
    }
}

impl Voice for Acp<'_> {
    fn text(&mut self, text: &str) {
        let message = new_id();
        self.say("agent_thought_chunk", json!({ "content": { "type": "text", "text": "I think" } }));
        for piece in crate::script::pieces(text) {
            update(&self.session, &chunk(piece, &message));
        }
    }

    fn tool(&mut self, name: &str, about: &str, result: Result<&str, &str>) {
        let id = new_id();
        let kind = if name == "Bash" { "execute" } else { "edit" };
        self.say(
            "tool_call",
            json!({ "toolCallId": id, "title": name, "kind": kind, "status": "pending",
            "locations": [], "rawInput": {} }),
        );
        let input = if kind == "execute" { json!({ "command": about }) } else { json!({ "filePath": about }) };
        self.say(
            "tool_call_update",
            json!({ "toolCallId": id, "title": name, "kind": kind, "status": "in_progress",
            "rawInput": input }),
        );
        let (Ok(output) | Err(output)) = result;
        let status = if result.is_ok() { "completed" } else { "failed" };
        let content = json!([{ "type": "content", "content": text(output) }]);
        self.say("tool_call_update", json!({ "toolCallId": id, "title": about, "status": status, "content": content }));
    }

    fn plan(&mut self) {
        let step = |text: &str, status: &str| json!({ "content": text, "priority": "medium", "status": status });
        self.say("plan", json!({ "entries": [step("look", "completed"), step("write", "pending")] }));
    }

    fn ask(&mut self, kind: &str, about: &str) -> Leave {
        let (call, id) = (new_id(), self.agent.asked);
        self.agent.asked += 1;
        let path = std::env::current_dir().expect("a cwd").join(about);
        let (locations, input) = match kind {
            "execute" => (json!([]), json!({ "command": about })),
            _ => (json!([{ "path": path }]), json!({ "filePath": about })),
        };
        let option = |id: &str, kind: &str| json!({ "optionId": id, "kind": kind, "name": id });
        let call = json!({ "toolCallId": call, "title": kind, "kind": kind, "status": "pending",
            "locations": locations, "rawInput": input });
        let options = [
            option("always", "allow_always"),
            option("new", "brand_new"),
            option("once", "allow_once"),
            option("no", "reject_once"),
        ];
        let params = json!({ "sessionId": self.session, "toolCall": call, "options": options });
        line(&json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params }));
        // Some want a file written for them although nobody offered that.
        let file = json!({ "sessionId": self.session, "path": "x", "content": "" });
        line(&json!({ "jsonrpc": "2.0", "id": "w", "method": "fs/write_text_file", "params": file }));
        let (mut leave, mut refused) = (None, false);
        while leave.is_none() || !refused {
            let message = self.agent.heard.recv().expect("an answer");
            if message["id"] == json!(id) {
                leave = Some(match message["result"]["outcome"]["optionId"].as_str() {
                    Some("once") => Leave::Given,
                    Some("no") => Leave::Refused,
                    Some(other) => panic!("nobody may choose `{other}`"),
                    None => Leave::Cancelled,
                });
            } else if message["id"] == "w" {
                assert_eq!(message["error"]["code"], -32601, "{message}");
                refused = true;
            }
        }
        leave.expect("an answer")
    }

    /// The whole session's. Who asks for too much is told, and stops.
    fn cost(&mut self, session: &Session) -> bool {
        let cost = json!({ "amount": session.cost, "currency": "USD" });
        self.say("usage_update", json!({ "used": 12, "size": 100000, "cost": cost }));
        false
    }

    fn unknown(&mut self, filler: &str) {
        self.say("brand_new_update", json!({ "filler": filler }));
        self.say("agent_message_chunk", json!({ "content": { "type": "brand_new" } }));
        line(&json!({ "jsonrpc": "2.0", "method": "brand/new", "params": filler.len() }));
        update("another session", &chunk("none of your business", "1"));
    }

    fn cancelled(&mut self) -> bool {
        match self.agent.heard.recv_timeout(Duration::from_millis(1)) {
            Ok(message) => self.was_cancelled |= message["method"] == "session/cancel",
            // Nobody speaks to us any more.
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        self.was_cancelled
    }
}
