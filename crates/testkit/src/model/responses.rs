//! OpenAI's Responses API, as Codex uses it.

use serde_json::{Value, json};

use super::script::{ModelAction, ModelConversation};
use super::{AnswerPart, ModelProtocol, content_texts, has_tool, list_elements};

#[derive(Clone, Copy)]
pub(super) struct OpenaiResponses;

impl ModelProtocol for OpenaiResponses {
    fn read_conversation(self, request: &Value) -> ModelConversation {
        let mut told = ModelConversation::default();
        for item in list_elements(&request["input"]) {
            match item["type"].as_str() {
                Some("message") if item["role"] == "user" => told.add_person_texts(content_texts(&item["content"])),
                Some("function_call_output" | "custom_tool_call_output") => {
                    told.set_tool_result(content_texts(&item["output"]))
                }
                _ => (),
            }
        }
        told
    }

    fn answer_parts(self, request: &Value, deed: &ModelAction) -> Vec<AnswerPart> {
        // Every answer and every call of a conversation has an id of its own: agents tell them apart by it.
        let id = list_elements(&request["input"]).count();
        let response =
            |status: &str| json!({ "id": format!("resp_{id}"), "object": "response", "status": status, "output": [] });
        let mut parts = vec![AnswerPart::with_type_name(
            &json!({ "type": "response.created", "response": response("in_progress") }),
        )];
        parts.push(item_event("added", &message_item(id, &json!([]))));
        for piece in deed.text_pieces() {
            let delta = json!({ "type": "response.output_text.delta", "item_id": format!("msg_{id}"),
                "output_index": 0, "content_index": 0, "delta": piece });
            parts.push(AnswerPart { slow: deed.is_slow(), ..AnswerPart::with_type_name(&delta) });
        }
        let text = json!([{ "type": "output_text", "text": deed.text_pieces().concat(), "annotations": [] }]);
        parts.push(item_event("done", &message_item(id, &text)));
        if let Some(call) = tool_call(request, deed, id) {
            parts.push(item_event("added", &call));
            parts.push(item_event("done", &call));
        }
        let mut response = response("completed");
        response["usage"] = json!({ "input_tokens": 12, "input_tokens_details": { "cached_tokens": 3 },
            "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 19 });
        parts.push(AnswerPart::with_type_name(&json!({ "type": "response.completed", "response": response })));
        parts
    }

    fn refusal_body(self) -> Value {
        json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error",
            "code": "invalid_api_key" } })
    }
}

fn message_item(id: usize, content: &Value) -> Value {
    json!({ "type": "message", "id": format!("msg_{id}"), "role": "assistant", "content": content })
}

fn item_event(what: &str, item: &Value) -> AnswerPart {
    AnswerPart::with_type_name(
        &json!({ "type": format!("response.output_item.{what}"), "output_index": 0, "item": item }),
    )
}

fn tool_call(request: &Value, deed: &ModelAction, id: usize) -> Option<Value> {
    let (tool, call) = match deed {
        ModelAction::Write { path, content } => {
            let patch = format!("*** Begin Patch\n*** Add File: {path}\n+{content}\n*** End Patch\n");
            let call = json!({ "type": "custom_tool_call", "id": format!("ctc_{id}"), "status": "completed",
                "call_id": format!("call_{id}"), "name": "apply_patch", "input": patch });
            ("apply_patch", call)
        }
        ModelAction::Run(command) => {
            let call = json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"),
                "name": "exec_command", "arguments": json!({ "cmd": command }).to_string() });
            ("exec_command", call)
        }
        ModelAction::Say(_) | ModelAction::Slow(_) => return None,
    };
    has_tool(&request["tools"], tool).then_some(call)
}
