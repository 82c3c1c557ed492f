//! Any agent of the Agent Client Protocol, version 1, much as OpenCode speaks it.

use std::io::BufRead;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::script::{PermissionAnswer, ScriptEnd, ScriptOutput, exit_if_vanishing, run_script};
use crate::session::ScriptedSession;
use crate::{new_id, write_line};

const ACP_KIND: &str = "acp";

pub fn run(arguments: &[String]) -> u8 {
    // Sessions can only be loaded, with all their earlier messages.
    let only_load = arguments.iter().any(|argument| argument == "--load");
    let (said, heard) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if said.send(serde_json::from_str::<Value>(&line).expect("JSON")).is_err() {
                return;
            }
        }
    });
    let mut agent = AcpServer { heard, only_load, session: None, asked: 0 };
    while let Ok(message) = agent.heard.recv() {
        agent.handle_message(&message);
    }
    0
}

struct AcpServer {
    heard: Receiver<Value>,
    only_load: bool,
    session: Option<ScriptedSession>,
    /// How often the agent asked for permission.
    asked: u64,
}

fn send_answer(id: &Value, result: &Value) {
    write_line(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn send_error(id: &Value, code: i32, message: &str, data: &Value) {
    write_line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message, "data": data } }));
}

impl AcpServer {
    fn handle_message(&mut self, message: &Value) {
        let (id, params) = (&message["id"], &message["params"]);
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => self.handle_initialize(id, params),
            "session/new" => {
                check_cwd(params);
                let session = ScriptedSession::begin_session(ACP_KIND, format!("ses_{}", new_id()));
                send_answer(id, &json!({ "sessionId": session.id, "configOptions": [] }));
                self.send_commands(&session.id);
                self.session = Some(session);
            }
            method @ ("session/load" | "session/resume") => {
                check_cwd(params);
                let Some(session) =
                    ScriptedSession::find_session(ACP_KIND, params["sessionId"].as_str().expect("a session"))
                else {
                    let data = json!({ "service": "session" });
                    return send_error(id, -32603, "Internal error: OpenCode service failure", &data);
                };
                if method == "session/load" {
                    for prompt in &session.prompts {
                        send_update(
                            &session.id,
                            &json!({ "sessionUpdate": "user_message_chunk", "content": text_content(prompt) }),
                        );
                        send_update(&session.id, &message_chunk("an old answer", &new_id()));
                    }
                }
                send_answer(id, &json!({ "configOptions": [] }));
                self.session = Some(session);
            }
            "session/prompt" => self.handle_prompt(id, params),
            _ if id.is_null() => {}
            other => send_error(id, -32601, "Method not found", &json!({ "method": other })),
        }
    }

    fn handle_initialize(&self, id: &Value, params: &Value) {
        assert_eq!(params["protocolVersion"], 1, "{params}");
        assert_eq!(params["clientInfo"]["name"], "grove", "{params}");
        assert_ne!(params["clientCapabilities"]["terminal"], true, "{params}");
        let can = if self.only_load { json!({ "list": {} }) } else { json!({ "list": {}, "resume": {} }) };
        let login = json!({ "id": "login", "name": "Log in", "description": "Run `scripted login` in the terminal" });
        send_answer(
            id,
            &json!({ "protocolVersion": 1, "agentCapabilities": { "loadSession": true, "sessionCapabilities": can,
                "promptCapabilities": { "image": true } }, "authMethods": [login],
                "agentInfo": { "name": "Scripted", "version": "1.0" } }),
        );
    }

    fn send_commands(&self, session: &str) {
        send_update(session, &json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] }));
    }

    fn handle_prompt(&mut self, id: &Value, params: &Value) {
        let blocks = params["prompt"].as_array().expect("a prompt");
        assert!(blocks.len() == 1 && blocks[0]["type"] == "text", "{params}");
        let prompt = blocks[0]["text"].as_str().expect("a text").to_owned();
        exit_if_vanishing(&prompt);
        let Some(mut session) = self.session.take().filter(|session| params["sessionId"] == session.id.as_str()) else {
            return send_error(id, -32602, "Invalid params: session not found", &Value::Null);
        };
        let requests = session.requests;
        let (end, was_cancelled) = {
            let mut voice = AcpOutput { agent: self, session: session.id.clone(), was_cancelled: false };
            (run_script(&prompt, &mut session, &mut voice), voice.was_cancelled)
        };
        let (count, stop) = (session.requests - requests, |reason: &str| json!({ "stopReason": reason, "_meta": {} }));
        let mut result = match end {
            _ if was_cancelled => stop("cancelled"),
            ScriptEnd::Failed(words) => {
                let data = json!({ "service": "session", "errorName": "APIError" });
                return send_error(id, -32603, &format!("Internal error: {words}"), &data);
            }
            ScriptEnd::LoggedOut => return send_error(id, -32000, "Authentication required", &Value::Null),
            ScriptEnd::Cancelled => stop("cancelled"),
            ScriptEnd::Reason(reason) => stop(&reason),
            ScriptEnd::Well | ScriptEnd::OverBudget => stop("end_turn"),
        };
        result["usage"] = json!({ "inputTokens": 9 * count, "outputTokens": 7 * count, "totalTokens": 19 * count,
            "cachedReadTokens": 3 * count });
        send_answer(id, &result);
        self.session = Some(session);
    }
}

fn check_cwd(params: &Value) {
    let here = std::env::current_dir().expect("a cwd");
    assert_eq!(params["cwd"].as_str(), here.to_str(), "it is started where it is to work");
}

fn text_content(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn message_chunk(piece: &str, message: &str) -> Value {
    json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": text_content(piece) })
}

fn send_update(session: &str, update: &Value) {
    write_line(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": update } }),
    );
}

struct AcpOutput<'a> {
    agent: &'a mut AcpServer,
    session: String,
    was_cancelled: bool,
}

impl AcpOutput<'_> {
    fn send_session_update(&self, kind: &str, mut fields: Value) {
        fields["sessionUpdate"] = json!(kind);
        send_update(&self.session, &fields);
    }
}

impl ScriptOutput for AcpOutput<'_> {
    fn say_text(&mut self, text: &str) {
        let message = new_id();
        self.send_session_update("agent_thought_chunk", json!({ "content": { "type": "text", "text": "I think" } }));
        for piece in crate::script::split_into_pieces(text) {
            send_update(&self.session, &message_chunk(piece, &message));
        }
    }

    fn report_tool(&mut self, name: &str, about: &str, result: Result<&str, &str>) {
        let id = new_id();
        let kind = if name == "Bash" { "execute" } else { "edit" };
        self.send_session_update(
            "tool_call",
            json!({ "toolCallId": id, "title": name, "kind": kind, "status": "pending",
            "locations": [], "rawInput": {} }),
        );
        let input = if kind == "execute" { json!({ "command": about }) } else { json!({ "filePath": about }) };
        self.send_session_update(
            "tool_call_update",
            json!({ "toolCallId": id, "title": name, "kind": kind, "status": "in_progress",
            "rawInput": input }),
        );
        let (Ok(output) | Err(output)) = result;
        let status = if result.is_ok() { "completed" } else { "failed" };
        let content = json!([{ "type": "content", "content": text_content(output) }]);
        self.send_session_update(
            "tool_call_update",
            json!({ "toolCallId": id, "title": about, "status": status, "content": content }),
        );
    }

    fn report_plan(&mut self) {
        let step = |text: &str, status: &str| json!({ "content": text, "priority": "medium", "status": status });
        self.send_session_update("plan", json!({ "entries": [step("look", "completed"), step("write", "pending")] }));
    }

    fn ask_permission(&mut self, kind: &str, about: &str) -> PermissionAnswer {
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
        write_line(&json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params }));
        // Some agents ask the client to write a file although it does not offer that.
        let file = json!({ "sessionId": self.session, "path": "x", "content": "" });
        write_line(&json!({ "jsonrpc": "2.0", "id": "w", "method": "fs/write_text_file", "params": file }));
        let (mut leave, mut refused) = (None, false);
        while leave.is_none() || !refused {
            let message = self.agent.heard.recv().expect("an answer");
            if message["id"] == json!(id) {
                leave = Some(match message["result"]["outcome"]["optionId"].as_str() {
                    Some("once") => PermissionAnswer::Given,
                    Some("no") => PermissionAnswer::Refused,
                    Some(other) => panic!("no such choice: `{other}`"),
                    None => PermissionAnswer::Cancelled,
                });
            } else if message["id"] == "w" {
                assert_eq!(message["error"]["code"], -32601, "{message}");
                refused = true;
            }
        }
        leave.expect("an answer")
    }

    /// Reports the cost of the whole session. The client cancels an agent that costs too much.
    fn report_cost(&mut self, session: &ScriptedSession) -> bool {
        let cost = json!({ "amount": session.cost, "currency": "USD" });
        self.send_session_update("usage_update", json!({ "used": 12, "size": 100000, "cost": cost }));
        false
    }

    fn send_unknown(&mut self, filler: &str) {
        self.send_session_update("brand_new_update", json!({ "filler": filler }));
        self.send_session_update("agent_message_chunk", json!({ "content": { "type": "brand_new" } }));
        write_line(&json!({ "jsonrpc": "2.0", "method": "brand/new", "params": filler.len() }));
        send_update("another session", &message_chunk("none of your business", "1"));
    }

    fn is_cancelled(&mut self) -> bool {
        match self.agent.heard.recv_timeout(Duration::from_millis(1)) {
            Ok(message) => self.was_cancelled |= message["method"] == "session/cancel",
            // The client has closed our standard input.
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {}
        }
        self.was_cancelled
    }
}
