//! OpenAI's Responses, as Codex asks for them.

use serde_json::{Value, json};

use super::script::{Deed, Told};
use super::{Part, Protocol, list, offers, texts};

#[derive(Clone, Copy)]
pub(super) struct Responses;

impl Protocol for Responses {
    fn told(self, request: &Value) -> Told {
        let mut told = Told::default();
        for item in list(&request["input"]) {
            match item["type"].as_str() {
                Some("message") if item["role"] == "user" => told.person(texts(&item["content"])),
                Some("function_call_output" | "custom_tool_call_output") => told.tool(texts(&item["output"])),
                _ => (),
            }
        }
        told
    }

    fn answer(self, request: &Value, deed: &Deed) -> Vec<Part> {
        // Of every answer and every call of a conversation another one: agents tell them apart by it.
        let id = list(&request["input"]).count();
        let response =
            |status: &str| json!({ "id": format!("resp_{id}"), "object": "response", "status": status, "output": [] });
        let mut parts = vec![Part::typed(&json!({ "type": "response.created", "response": response("in_progress") }))];
        parts.push(item("added", &message(id, &json!([]))));
        for piece in deed.pieces() {
            let delta = json!({ "type": "response.output_text.delta", "item_id": format!("msg_{id}"),
                "output_index": 0, "content_index": 0, "delta": piece });
            parts.push(Part { slow: deed.is_slow(), ..Part::typed(&delta) });
        }
        let text = json!([{ "type": "output_text", "text": deed.pieces().concat(), "annotations": [] }]);
        parts.push(item("done", &message(id, &text)));
        if let Some(call) = call(request, deed, id) {
            parts.push(item("added", &call));
            parts.push(item("done", &call));
        }
        let mut response = response("completed");
        response["usage"] = json!({ "input_tokens": 12, "input_tokens_details": { "cached_tokens": 3 },
            "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 19 });
        parts.push(Part::typed(&json!({ "type": "response.completed", "response": response })));
        parts
    }

    fn refused(self) -> Value {
        json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error",
            "code": "invalid_api_key" } })
    }
}

fn message(id: usize, content: &Value) -> Value {
    json!({ "type": "message", "id": format!("msg_{id}"), "role": "assistant", "content": content })
}

fn item(what: &str, item: &Value) -> Part {
    Part::typed(&json!({ "type": format!("response.output_item.{what}"), "output_index": 0, "item": item }))
}

fn call(request: &Value, deed: &Deed, id: usize) -> Option<Value> {
    let (tool, call) = match deed {
        Deed::Write { path, content } => {
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n+{content}\n*** End Patch\n");
            let call = json!({ "type": "custom_tool_call", "id": format!("ctc_{id}"), "status": "completed",
                "call_id": format!("call_{id}"), "name": "apply_patch", "input": patch });
            ("apply_patch", call)
        }
        Deed::Run(command) => {
            let call = json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"),
                "name": "exec_command", "arguments": json!({ "cmd": command }).to_string() });
            ("exec_command", call)
        }
        Deed::Say(_) | Deed::Slow(_) => return None,
    };
    offers(&request["tools"], tool).then_some(call)
}
