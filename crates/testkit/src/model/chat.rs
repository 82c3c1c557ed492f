//! OpenAI's chat completions, which most other agents can ask for.

use serde_json::{Value, json};

use super::script::{Deed, Told};
use super::{Part, Protocol, list, texts};

#[derive(Clone, Copy)]
pub(super) struct Completions;

impl Protocol for Completions {
    fn told(self, request: &Value) -> Told {
        let mut told = Told::default();
        for message in list(&request["messages"]) {
            match message["role"].as_str() {
                Some("user") => told.person(texts(&message["content"])),
                Some("tool") => told.tool(texts(&message["content"])),
                _ => (),
            }
        }
        told
    }

    fn answer(self, request: &Value, deed: &Deed) -> Vec<Part> {
        // Of every answer and every call of a conversation another one: agents tell them apart by it.
        let id = list(&request["messages"]).count();
        let chunk = |choices: Value, usage: Value| {
            json!({ "id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 0,
                "model": request["model"], "choices": choices, "usage": usage })
        };
        let choice = |delta: Value, end: Option<&str>| {
            Part::plain(&chunk(json!([{ "index": 0, "delta": delta, "finish_reason": end }]), Value::Null))
        };
        let mut parts = vec![choice(json!({ "role": "assistant", "content": "" }), None)];
        for piece in deed.pieces() {
            parts.push(Part { slow: deed.is_slow(), ..choice(json!({ "content": piece }), None) });
        }
        let call = call(request, deed);
        let end = if call.is_some() { "tool_calls" } else { "stop" };
        if let Some((name, arguments)) = call {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            let call = json!({ "index": 0, "id": format!("call_{id}"), "type": "function", "function": function });
            parts.push(choice(json!({ "tool_calls": [call] }), None));
        }
        parts.push(choice(json!({}), Some(end)));
        let usage = json!({ "prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19,
            "prompt_tokens_details": { "cached_tokens": 3 } });
        parts.push(Part::plain(&chunk(json!([]), usage)));
        parts.push(Part { name: None, data: "[DONE]".to_owned(), slow: false });
        parts
    }

    fn refused(self) -> Value {
        json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error",
            "code": "invalid_api_key" } })
    }
}

/// With the tools of opencode.
fn call(request: &Value, deed: &Deed) -> Option<(&'static str, Value)> {
    let (tool, arguments) = match deed {
        Deed::Write { path, content } => ("write", json!({ "filePath": path, "content": content })),
        Deed::Run(command) => ("bash", json!({ "command": command, "description": "What the person asked for" })),
        Deed::Say(_) | Deed::Slow(_) => return None,
    };
    list(&request["tools"]).any(|offered| offered["function"]["name"] == tool).then_some((tool, arguments))
}
