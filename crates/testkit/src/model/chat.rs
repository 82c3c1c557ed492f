//! OpenAI's chat completions API, which most other agents can use.

use serde_json::{Value, json};

use super::script::{ModelAction, ModelConversation};
use super::{AnswerPart, ModelProtocol, content_texts, list_elements};

#[derive(Clone, Copy)]
pub(super) struct ChatCompletions;

impl ModelProtocol for ChatCompletions {
    fn read_conversation(self, request: &Value) -> ModelConversation {
        let mut told = ModelConversation::default();
        for message in list_elements(&request["messages"]) {
            match message["role"].as_str() {
                Some("user") => told.add_person_texts(content_texts(&message["content"])),
                Some("tool") => told.set_tool_result(content_texts(&message["content"])),
                _ => (),
            }
        }
        told
    }

    fn answer_parts(self, request: &Value, deed: &ModelAction) -> Vec<AnswerPart> {
        // Every answer and every call of a conversation has an id of its own: agents tell them apart by it.
        let id = list_elements(&request["messages"]).count();
        let chunk = |choices: Value, usage: Value| {
            json!({ "id": format!("chatcmpl-{id}"), "object": "chat.completion.chunk", "created": 0,
                "model": request["model"], "choices": choices, "usage": usage })
        };
        let choice = |delta: Value, end: Option<&str>| {
            AnswerPart::without_name(&chunk(json!([{ "index": 0, "delta": delta, "finish_reason": end }]), Value::Null))
        };
        let mut parts = vec![choice(json!({ "role": "assistant", "content": "" }), None)];
        for piece in deed.text_pieces() {
            parts.push(AnswerPart { slow: deed.is_slow(), ..choice(json!({ "content": piece }), None) });
        }
        let call = tool_call(request, deed);
        let end = if call.is_some() { "tool_calls" } else { "stop" };
        if let Some((name, arguments)) = call {
            let function = json!({ "name": name, "arguments": arguments.to_string() });
            let call = json!({ "index": 0, "id": format!("call_{id}"), "type": "function", "function": function });
            parts.push(choice(json!({ "tool_calls": [call] }), None));
        }
        parts.push(choice(json!({}), Some(end)));
        let usage = json!({ "prompt_tokens": 12, "completion_tokens": 7, "total_tokens": 19,
            "prompt_tokens_details": { "cached_tokens": 3 } });
        parts.push(AnswerPart::without_name(&chunk(json!([]), usage)));
        parts.push(AnswerPart { name: None, data: "[DONE]".to_owned(), slow: false });
        parts
    }

    fn refusal_body(self) -> Value {
        json!({ "error": { "message": "Incorrect API key provided", "type": "invalid_request_error",
            "code": "invalid_api_key" } })
    }
}

/// Returns a call of one of opencode's tools.
fn tool_call(request: &Value, deed: &ModelAction) -> Option<(&'static str, Value)> {
    let (tool, arguments) = match deed {
        ModelAction::Write { path, content } => ("write", json!({ "filePath": path, "content": content })),
        ModelAction::Run(command) => {
            ("bash", json!({ "command": command, "description": "What the person asked for" }))
        }
        ModelAction::Say(_) | ModelAction::Slow(_) => return None,
    };
    list_elements(&request["tools"]).any(|offered| offered["function"]["name"] == tool).then_some((tool, arguments))
}
