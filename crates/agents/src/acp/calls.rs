//! The tool calls of an agent, which it reports in several updates.

use std::collections::VecDeque;
use std::path::PathBuf;

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use crate::agent::AgentEvent;
use crate::tool_summary::main_parameter;
use crate::transcript::shorten_line;

/// The number of open calls that are tracked at once.
const MAX_OPEN_CALLS: usize = 256;
/// The number of paths that are kept per call.
const MAX_PATHS_PER_CALL: usize = 64;

/// One tool call, as far as its updates have described it.
pub struct TrackedToolCall {
    id: ToolCallId,
    pub name: String,
    pub kind: ToolKind,
    /// The object of the call, in a few words; `None` if the name already says it.
    about: Option<String>,
    pub command: Option<String>,
    /// The files that the call touches.
    pub paths: Vec<PathBuf>,
    /// The call was reported as an [`AgentEvent`].
    told: bool,
}

impl TrackedToolCall {
    pub fn new(id: ToolCallId) -> Self {
        let (kind, paths) = (ToolKind::Other, Vec::new());
        Self { id, name: String::new(), kind, about: None, command: None, paths, told: false }
    }

    /// Describes the call in one line.
    pub fn summary_line(&self) -> String {
        let name = if self.name.is_empty() { "a tool" } else { &self.name };
        match self.about.as_deref() {
            None | Some("") => name.to_owned(),
            Some(about) => format!("{name}: {about}"),
        }
    }

    fn apply_fields(&mut self, fields: &ToolCallUpdateFields) {
        if let Some(kind) = fields.kind {
            self.kind = kind;
        }
        // Later titles describe the result.
        if self.name.is_empty()
            && let Some(name) = fields.name.as_ref().or(fields.title.as_ref())
        {
            self.name = shorten_line(name);
        }
        let input = fields.raw_input.as_ref().unwrap_or(&Value::Null);
        if let Some(command) = input["command"].as_str().or_else(|| input["cmd"].as_str()) {
            self.command = Some(command.chars().take(1000).collect());
        }
        let paths: Vec<PathBuf> = touched_paths(fields, input).take(MAX_PATHS_PER_CALL).collect();
        let mut told = main_parameter(input);
        // The directory of a command is not its object.
        if told.is_empty() && self.about.is_none() && self.kind != ToolKind::Execute {
            told = paths.first().map(|path| shorten_line(&path.to_string_lossy())).unwrap_or_default();
        }
        if !told.is_empty() {
            self.about = Some(if self.name.contains(&told) { String::new() } else { told });
        }
        if !paths.is_empty() {
            self.paths = paths;
        }
    }

    /// Returns the event that reports the call, once: when its object is known, at the latest when it runs.
    fn take_use_event(&mut self, status: ToolCallStatus) -> Option<AgentEvent> {
        if self.told || (self.about.is_none() && status == ToolCallStatus::Pending) {
            return None;
        }
        self.told = true;
        Some(AgentEvent::ToolUse { name: self.name.clone(), about: self.about.clone().unwrap_or_default() })
    }
}

fn touched_paths<'a>(fields: &'a ToolCallUpdateFields, input: &'a Value) -> impl Iterator<Item = PathBuf> {
    let located = fields.locations.iter().flatten().map(|location| location.path.clone());
    let changed = fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff.path.clone()),
        _ => None,
    });
    let named = ["file_path", "filePath", "path"].into_iter().filter_map(|key| input[key].as_str().map(PathBuf::from));
    located.chain(changed).chain(named)
}

/// The open tool calls.
#[derive(Default)]
pub struct ToolCallTracker {
    open: VecDeque<TrackedToolCall>,
}

impl ToolCallTracker {
    /// Starts to track a call.
    pub fn begin_call(&mut self, call: ToolCall) -> Vec<AgentEvent> {
        self.update_call(&ToolCallUpdate::from(call))
    }

    /// Applies an update to a call and returns the events that follow from it.
    pub fn update_call(&mut self, update: &ToolCallUpdate) -> Vec<AgentEvent> {
        let status = update.fields.status.unwrap_or_default();
        let call = self.call_for_update(update);
        let mut events: Vec<AgentEvent> = call.take_use_event(status).into_iter().collect();
        if status == ToolCallStatus::Failed {
            events.push(AgentEvent::ToolResult { failed: true, about: shorten_line(&output_text(&update.fields)) });
        }
        if matches!(status, ToolCallStatus::Failed | ToolCallStatus::Completed) {
            self.open.retain(|call| call.id != update.tool_call_id);
        }
        events
    }

    /// Returns the call that an update is about, with everything known about it.
    pub fn call_for_update(&mut self, update: &ToolCallUpdate) -> &mut TrackedToolCall {
        let at = self.open.iter().position(|call| call.id == update.tool_call_id).unwrap_or_else(|| {
            self.open.truncate(MAX_OPEN_CALLS - 1);
            self.open.push_front(TrackedToolCall::new(update.tool_call_id.clone()));
            0
        });
        let call = &mut self.open[at];
        call.apply_fields(&update.fields);
        call
    }
}

fn output_text(fields: &ToolCallUpdateFields) -> String {
    let texts = fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Content(content) => match &content.content {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        },
        _ => None,
    });
    let text = texts.collect::<Vec<_>>().join(" ");
    if !text.is_empty() {
        return text;
    }
    let raw = fields.raw_output.as_ref().unwrap_or(&Value::Null);
    raw.as_str().or_else(|| raw["error"].as_str()).unwrap_or_default().to_owned()
}
