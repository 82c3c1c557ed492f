//! Anthropic's Messages API, as Claude Code uses it.

use axum::Json;
use serde_json::{Value, json};

use super::script::{ModelAction, ModelConversation};
use super::{AnswerPart, ModelProtocol, content_texts, has_tool, list_elements};

#[derive(Clone, Copy)]
pub(super) struct AnthropicMessages;

pub(super) async fn count_tokens() -> Json<Value> {
    Json(json!({ "input_tokens": 10 }))
}

impl ModelProtocol for AnthropicMessages {
    fn read_conversation(self, request: &Value) -> ModelConversation {
        let mut told = ModelConversation::default();
        for message in list_elements(&request["messages"]).filter(|message| message["role"] == "user") {
            match list_elements(&message["content"]).filter(|part| part["type"] == "tool_result").last() {
                Some(result) => told.set_tool_result(content_texts(&result["content"])),
                None => told.add_person_texts(content_texts(&message["content"])),
            }
        }
        told
    }

    fn answer_parts(self, request: &Value, deed: &ModelAction) -> Vec<AnswerPart> {
        // Every answer and every call of a conversation has an id of its own: agents tell them apart by it.
        let id = list_elements(&request["messages"]).count();
        let usage = json!({ "input_tokens": 12, "output_tokens": 1, "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 3 });
        let message = json!({ "id": format!("msg_{id}"), "type": "message", "role": "assistant",
            "model": request["model"], "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage });
        let mut parts = vec![AnswerPart::with_type_name(&json!({ "type": "message_start", "message": message }))];
        let text = deed.text_pieces().into_iter().map(|piece| json!({ "type": "text_delta", "text": piece }));
        parts.extend(content_block(0, &json!({ "type": "text", "text": "" }), text.collect(), deed.is_slow()));
        let call = tool_call(request, deed);
        let reason = if call.is_some() { "tool_use" } else { "end_turn" };
        if let Some((name, input)) = call {
            let start = json!({ "type": "tool_use", "id": format!("toolu_{id}"), "name": name, "input": {} });
            let input = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
            parts.extend(content_block(1, &start, vec![input], false));
        }
        let delta = json!({ "stop_reason": reason, "stop_sequence": null });
        parts.push(AnswerPart::with_type_name(
            &json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 7 } }),
        ));
        parts.push(AnswerPart::with_type_name(&json!({ "type": "message_stop" })));
        parts
    }

    fn refusal_body(self) -> Value {
        json!({ "type": "error", "error": { "type": "authentication_error", "message": "invalid x-api-key" } })
    }
}

fn content_block(index: usize, start: &Value, deltas: Vec<Value>, slow: bool) -> Vec<AnswerPart> {
    let mut parts = vec![AnswerPart::with_type_name(
        &json!({ "type": "content_block_start", "index": index, "content_block": start }),
    )];
    for delta in deltas {
        let delta =
            AnswerPart::with_type_name(&json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        parts.push(AnswerPart { slow, ..delta });
    }
    parts.push(AnswerPart::with_type_name(&json!({ "type": "content_block_stop", "index": index })));
    parts
}

fn tool_call(request: &Value, deed: &ModelAction) -> Option<(&'static str, Value)> {
    let (tool, input) = match deed {
        ModelAction::Write { path, content } => ("Write", json!({ "file_path": path, "content": content })),
        ModelAction::Run(command) => {
            ("Bash", json!({ "command": command, "description": "What the person asked for" }))
        }
        ModelAction::Say(_) | ModelAction::Slow(_) => return None,
    };
    has_tool(&request["tools"], tool).then_some((tool, input))
}
