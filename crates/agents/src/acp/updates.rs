//! Converts an agent's session updates to events.

use agent_client_protocol_schema::v1::{
    ContentBlock, MessageId, PlanEntry, PlanEntryStatus, SessionUpdate, Usage as Tokens, UsageUpdate,
};

use crate::acp::calls::ToolCallTracker;
use crate::agent::{AgentEvent, PlanStep, RunUsage};

/// The state of a turn, from the updates so far.
pub struct SessionUpdates {
    pub calls: ToolCallTracker,
    /// The text that is being streamed, with the agent's id for it.
    text: Option<Option<MessageId>>,
    /// The cost of the session before this turn.
    cost_before: f64,
    usage: RunUsage,
}

impl SessionUpdates {
    pub fn new(before: RunUsage) -> Self {
        Self { calls: ToolCallTracker::default(), text: None, cost_before: before.cost, usage: RunUsage::default() }
    }

    /// Applies an update; unknown updates are skipped.
    pub fn apply_update(&mut self, update: SessionUpdate) -> Vec<AgentEvent> {
        match update {
            SessionUpdate::AgentMessageChunk(chunk) => {
                let ContentBlock::Text(text) = chunk.content else { return Vec::new() };
                let another = self.text.as_ref().is_some_and(|open| open.is_some() && *open != chunk.message_id);
                let mut events = if another { self.end_text() } else { Vec::new() };
                self.text = Some(chunk.message_id);
                events.push(AgentEvent::Delta(text.text));
                events
            }
            // Thoughts are not shown, but the text after them is a new text.
            SessionUpdate::AgentThoughtChunk(_) => self.end_text(),
            SessionUpdate::ToolCall(call) => {
                let events = self.calls.begin_call(call);
                self.behind_the_text(events)
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let events = self.calls.update_call(&update);
                self.behind_the_text(events)
            }
            SessionUpdate::Plan(plan) => {
                let steps = plan.entries.into_iter().map(to_plan_step).collect();
                self.behind_the_text(vec![AgentEvent::Plan(steps)])
            }
            SessionUpdate::UsageUpdate(update) => self.update_cost(&update).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Ends the current text: no more of it will come.
    pub fn end_text(&mut self) -> Vec<AgentEvent> {
        self.text.take().map(|_| AgentEvent::TextDone).into_iter().collect()
    }

    fn behind_the_text(&mut self, events: Vec<AgentEvent>) -> Vec<AgentEvent> {
        if events.is_empty() {
            return events;
        }
        self.end_text().into_iter().chain(events).collect()
    }

    /// Applies a usage update, which has the cost of the whole session.
    fn update_cost(&mut self, update: &UsageUpdate) -> Option<AgentEvent> {
        let cost = update.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("USD"))?;
        self.usage.cost = (cost.amount - self.cost_before).max(0.0);
        Some(AgentEvent::Usage(self.usage))
    }

    /// Applies the token counts that the agent reports at the end of the turn.
    pub fn update_tokens(&mut self, tokens: &Tokens) -> AgentEvent {
        let cached = [tokens.cached_read_tokens, tokens.cached_write_tokens];
        self.usage.input_tokens = tokens.input_tokens + cached.into_iter().flatten().sum::<u64>();
        self.usage.output_tokens = tokens.output_tokens + tokens.thought_tokens.unwrap_or_default();
        AgentEvent::Usage(self.usage)
    }
}

fn to_plan_step(entry: PlanEntry) -> PlanStep {
    PlanStep { done: entry.status == PlanEntryStatus::Completed, text: entry.content }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn events_from_updates(updates: &[Value]) -> Vec<AgentEvent> {
        let mut taken = SessionUpdates::new(RunUsage { cost: 0.5, ..RunUsage::default() });
        let parsed = updates.iter().filter_map(|update| serde_json::from_value(update.clone()).ok());
        parsed.flat_map(|update| taken.apply_update(update)).collect()
    }

    fn text_chunk(text: &str, message: &str) -> Value {
        let content = json!({ "type": "text", "text": text });
        json!({ "sessionUpdate": "agent_message_chunk", "messageId": message, "content": content })
    }

    fn tool_use_event(name: &str, about: &str) -> AgentEvent {
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
            events_from_updates(&[
                text_chunk("A", "1"),
                unknown,
                odd,
                image,
                text_chunk("B", "1"),
                text_chunk("C", "2"),
                thought,
                text_chunk("D", "2")
            ]),
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
            events_from_updates(&[call(pending), call(running.clone()), call(running), call(failed)]),
            [tool_use_event("bash", "ls -l"), result]
        );
        let edit = json!({ "sessionUpdate": "tool_call", "toolCallId": "2", "title": "Edit", "kind": "edit",
            "locations": [{ "path": "src/a.rs" }] });
        assert_eq!(events_from_updates(&[edit]), [tool_use_event("Edit", "src/a.rs")]);
        let named = json!({ "sessionUpdate": "tool_call", "toolCallId": "3", "title": "Edit src/a.rs", "kind": "new",
            "locations": [{ "path": "src/a.rs" }] });
        assert_eq!(events_from_updates(&[named]), [tool_use_event("Edit src/a.rs", "")]);
        let done =
            json!({ "sessionUpdate": "tool_call_update", "toolCallId": "4", "title": "x", "status": "completed" });
        assert_eq!(events_from_updates(&[done]), [tool_use_event("x", "")]);
    }

    #[test]
    fn a_cost_is_of_this_run_and_a_plan_has_steps() {
        let usage = |amount: f64, currency: &str| {
            let cost = json!({ "amount": amount, "currency": currency });
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost })
        };
        let taken = events_from_updates(&[usage(0.75, "USD"), usage(9.0, "EUR")]);
        assert_eq!(taken, [AgentEvent::Usage(RunUsage { cost: 0.25, ..RunUsage::default() })]);
        let entry = |text: &str, status: &str| json!({ "content": text, "priority": "high", "status": status });
        let plan = json!({ "sessionUpdate": "plan", "entries": [entry("a", "completed"), entry("b", "pending"), 17] });
        let step = |text: &str, done: bool| PlanStep { text: text.to_owned(), done };
        assert_eq!(events_from_updates(&[plan]), [AgentEvent::Plan(vec![step("a", true), step("b", false)])]);
    }
}
