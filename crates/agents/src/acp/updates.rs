//! What an agent's updates mean.

use agent_client_protocol_schema::v1::{
    ContentBlock, MessageId, PlanEntry, PlanEntryStatus, SessionUpdate, Usage as Tokens, UsageUpdate,
};

use crate::acp::calls::Calls;
use crate::agent::{AgentEvent, Step, Usage};

/// What was heard of a turn so far.
pub struct Updates {
    pub calls: Calls,
    /// The text that is on its way, and the name that the agent has for it.
    text: Option<Option<MessageId>>,
    /// What the session had cost before.
    cost_before: f64,
    usage: Usage,
}

impl Updates {
    pub fn new(before: Usage) -> Self {
        Self { calls: Calls::default(), text: None, cost_before: before.cost, usage: Usage::default() }
    }

    /// Takes an update; what is unknown is skipped.
    pub fn take(&mut self, update: SessionUpdate) -> Vec<AgentEvent> {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                let ContentBlock::Text(text) = chunk.content else { return Vec::new() };
                let another = self.text.as_ref().is_some_and(|open| open.is_some() && *open != chunk.message_id);
                let mut events = if another { self.end_text() } else { Vec::new() };
                self.text = Some(chunk.message_id);
                events.push(AgentEvent::Delta(text.text));
                events
            }
            // What it thinks is not shown, but what it says then is something else.
            SessionUpdate::AgentThoughtChunk(_) => self.end_text(),
            SessionUpdate::ToolCall(call) => {
                let events = self.calls.begin(call);
                self.behind_the_text(events)
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let events = self.calls.update(&update);
                self.behind_the_text(events)
            }
            SessionUpdate::Plan(plan) => {
                let steps = plan.entries.into_iter().map(step).collect();
                self.behind_the_text(vec![AgentEvent::Plan(steps)])
            }
            SessionUpdate::UsageUpdate(update) => self.cost(&update).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// No more of the present text will come.
    pub fn end_text(&mut self) -> Vec<AgentEvent> {
        self.text.take().map(|_| AgentEvent::TextDone).into_iter().collect()
    }

    fn behind_the_text(&mut self, events: Vec<AgentEvent>) -> Vec<AgentEvent> {
        if events.is_empty() {
            return events;
        }
        self.end_text().into_iter().chain(events).collect()
    }

    /// It tells what the whole session has cost.
    fn cost(&mut self, update: &UsageUpdate) -> Option<AgentEvent> {
        let cost = update.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("USD"))?;
        self.usage.cost = (cost.amount - self.cost_before).max(0.0);
        Some(AgentEvent::Usage(self.usage))
    }

    /// What it says of the turn at its end.
    pub fn tokens(&mut self, tokens: &Tokens) -> AgentEvent {
        let cached = [tokens.cached_read_tokens, tokens.cached_write_tokens];
        self.usage.input_tokens = tokens.input_tokens + cached.into_iter().flatten().sum::<u64>();
        self.usage.output_tokens = tokens.output_tokens + tokens.thought_tokens.unwrap_or_default();
        AgentEvent::Usage(self.usage)
    }
}

fn step(entry: PlanEntry) -> Step {
    Step { done: entry.status == PlanEntryStatus::Completed, text: entry.content }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn heard(updates: &[Value]) -> Vec<AgentEvent> {
        let mut taken = Updates::new(Usage { cost: 0.5, ..Usage::default() });
        let parsed = updates.iter().filter_map(|update| serde_json::from_value(update.clone()).ok());
        parsed.flat_map(|update| taken.take(update)).collect()
    }

    fn chunk(text: &str, message: &str) -> Value {
        let content = json!({ "type": "text", "text": text });
        json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content })
    }

    fn used(name: &str, about: &str) -> AgentEvent {
        AgentEvent::ToolUse { name: name.to_owned(), about: about.to_owned() }
    }

    #[test]
    fn texts_are_told_apart_and_thoughts_and_the_unknown_are_skipped() {
        let delta = |text: &str| AgentEvent::Delta(text.to_owned());
        let thought = json!({ "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } });
        let unknown = json!({ "sessionUpdate": "brand_new", "x": 1 });
        let odd = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "brand_new" } });
        let image = json!({ "type": "image", "data": "", "mimeType": "image/png" });
        let image = json!({ "sessionUpdate": "agent_message_chunk", "content": image });
        assert_eq!(
            heard(&[chunk("A", "1"), unknown, odd, image, chunk("B", "1"), chunk("C", "2"), thought, chunk("D", "2")]),
            [delta("A"), delta("B"), AgentEvent::TextDone, delta("C"), AgentEvent::TextDone, delta("D")]
        );
    }

    #[test]
    fn a_tool_is_told_of_once_when_it_is_known_what_it_is_about() {
        let call = |more: Value| {
            let mut call = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1" });
            call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            call
        };
        let pending = json!({ "sessionUpdate": "tool_call", "title": "bash", "kind": "execute", "status": "pending",
            "locations": [{ "path": "/w" }], "rawInput": {} });
        let running = json!({ "status": "in_progress", "title": "ls -l", "rawInput": { "command": "ls -l" } });
        let failed = json!({ "status": "failed", "content": [{ "type": "content", "content": { "type": "text", "text": "no" } }] });
        let result = AgentEvent::ToolResult { failed: true, about: "no".to_owned() };
        assert_eq!(
            heard(&[call(pending), call(running.clone()), call(running), call(failed)]),
            [used("bash", "ls -l"), result]
        );
        let edit = json!({ "sessionUpdate": "tool_call", "toolCallId": "2", "title": "Edit", "kind": "edit",
            "locations": [{ "path": "src/a.rs" }] });
        assert_eq!(heard(&[edit]), [used("Edit", "src/a.rs")]);
        let named = json!({ "sessionUpdate": "tool_call", "toolCallId": "3", "title": "Edit src/a.rs", "kind": "new",
            "locations": [{ "path": "src/a.rs" }] });
        assert_eq!(heard(&[named]), [used("Edit src/a.rs", "")]);
        let done =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "4", "title": "x", "status": "completed" });
        assert_eq!(heard(&[done]), [used("x", "")]);
    }

    #[test]
    fn a_cost_is_of_this_run_and_a_plan_has_steps() {
        let usage = |amount: f64, currency: &str| {
            let cost = json!({ "amount": amount, "currency": currency });
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost })
        };
        let taken = heard(&[usage(0.75, "USD"), usage(9.0, "EUR")]);
        assert_eq!(taken, [AgentEvent::Usage(Usage { cost: 0.25, ..Usage::default() })]);
        let entry = |text: &str, status: &str| json!({ "content": text, "priority": "high", "status": status });
        let plan = json!({ "sessionUpdate": "plan", "entries": [entry("a", "completed"), entry("b", "pending"), 17] });
        let step = |text: &str, done: bool| Step { text: text.to_owned(), done };
        assert_eq!(heard(&[plan]), [AgentEvent::Plan(vec![step("a", true), step("b", false)])]);
    }
}
