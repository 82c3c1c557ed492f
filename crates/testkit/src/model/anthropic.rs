//! Anthropic's Messages, as Claude Code asks for them.

use axum::Json;
use serde_json::{Value, json};

use super::script::{Deed, Told};
use super::{Part, Protocol, list, offers, texts};

#[derive(Clone, Copy)]
pub(super) struct Messages;

pub(super) async fn count_tokens() -> Json<Value> {
    Json(json!({ "input_tokens": 10 }))
}

impl Protocol for Messages {
    fn told(self, request: &Value) -> Told {
        let mut told = Told::default();
        for message in list(&request["messages"]).filter(|message| message["role"] == "user") {
            match list(&message["content"]).filter(|part| part["type"] == "tool_result").last() {
                Some(result) => told.tool(texts(&result["content"])),
                None => told.person(texts(&message["content"])),
            }
        }
        told
    }

    fn answer(self, request: &Value, deed: &Deed) -> Vec<Part> {
        // Of every answer and every call of a conversation another one: agents tell them apart by it.
        let id = list(&request["messages"]).count();
        let usage = json!({ "input_tokens": 12, "output_tokens": 1, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3 });
        let message = json!({ "id": format!("msg_{id}"), "type": "message", "role": "assistant",
            "model": request["model"], "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage });
        let mut parts = vec![Part::typed(&json!({ "type": "message_start", "message": message }))];
        let text = deed.pieces().into_iter().map(|piece| json!({ "type": "text_delta", "text": piece }));
        parts.extend(block(0, &json!({ "type": "text", "text": "" }), text.collect(), deed.is_slow()));
        let call = call(request, deed);
        let reason = if call.is_some() { "tool_use" } else { "end_turn" };
        if let Some((name, input)) = call {
            let start = json!({ "type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": {} });
            let input = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            parts.extend(block(1, &start, vec![input], false));
        }
        let delta = json!({ "stop_reason": reason, "stop_sequence": null });
        parts.push(Part::typed(&json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 7 } })));
        parts.push(Part::typed(&json!({ "type": "message_stop" })));
        parts
    }

    fn refused(self) -> Value {
        json!({ "type": "error", "error": { "type": "authentication_error", "message": "invalid x-api-key" } })
    }
}

fn block(index: usize, start: &Value, deltas: Vec<Value>, slow: bool) -> Vec<Part> {
    let mut parts =
        vec![Part::typed(&json!({ "type": "content_block_start", "index": index, "content_block": start }))];
    for delta in deltas {
        let delta = Part::typed(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        parts.push(Part { slow, ..delta });
    }
    parts.push(Part::typed(&json!({ "type": "content_block_stop", "index": index })));
    parts
}

fn call(request: &Value, deed: &Deed) -> Option<(&'static str, Value)> {
    let (tool, input) = match deed {
        Deed::Write { path, content } => ("Write", json!({ "file_path": path, "content": content })),
        Deed::Run(command) => ("Bash", json!({ "command": command, "description": "What the person asked for" })),
        Deed::Say(_) | Deed::Slow(_) => return None,
    };
    offers(&request["tools"], tool).then_some((tool, input))
}
