//! The tools that an agent uses, of which it tells bit by bit.

use std::collections::VecDeque;
use std::path::PathBuf;

use agent_client_protocol_schema::v1::{
    ContentBlock, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use serde_json::Value;

use crate::agent::AgentEvent;
use crate::tool_summary::about;
use crate::transcript::shortened;

/// So many are remembered at once.
const REMEMBERED: usize = 256;
/// Of so many of its files.
const FILES: usize = 64;

/// One use of a tool, as far as it is known.
pub struct Call {
    id: ToolCallId,
    pub name: String,
    pub kind: ToolKind,
    /// What it is used on, in a few words; none where its name says that already.
    about: Option<String>,
    pub command: Option<String>,
    /// The files that it touches.
    pub paths: Vec<PathBuf>,
    /// Somebody was told of it.
    told: bool,
}

impl Call {
    pub fn new(id: ToolCallId) -> Self {
        let (kind, paths) = (ToolKind::Other, Vec::new());
        Self { id, name: String::new(), kind, about: None, command: None, paths, told: false }
    }

    /// In one line.
    pub fn words(&self) -> String {
        let name = if self.name.is_empty() { "a tool" } else { &self.name };
        match self.about.as_deref() {
            None | Some("") => name.to_owned(),
            Some(about) => format!("{name}: {about}"),
        }
    }

    fn learn(&mut self, fields: &ToolCallUpdateFields) {
        if let Some(kind) = fields.kind {
            self.kind = kind;
        }
        // Later titles say what came of it.
        if self.name.is_empty()
            && let Some(name) = fields.name.as_ref().or(fields.title.as_ref())
        {
            self.name = shortened(name);
        }
        let input = fields.raw_input.as_ref().unwrap_or(&Value::Null);
        if let Some(command) = input["command"].as_str().or_else(|| input["cmd"].as_str()) {
            self.command = Some(command.chars().take(1000).collect());
        }
        let paths: Vec<PathBuf> = paths(fields, input).take(FILES).collect();
        let mut told = about(input);
        // Where a command runs is not what it is about.
        if told.is_empty() && self.about.is_none() && self.kind != ToolKind::Execute {
            told = paths.first().map(|path| shortened(&path.to_string_lossy())).unwrap_or_default();
        }
        if !told.is_empty() {
            self.about = Some(if self.name.contains(&told) { String::new() } else { told });
        }
        if !paths.is_empty() {
            self.paths = paths;
        }
    }

    /// What people are told of it, once: when it is known what it is about, at the latest when it runs.
    fn tell(&mut self, status: ToolCallStatus) -> Option<AgentEvent> {
        if self.told || (self.about.is_none() && status == ToolCallStatus::Pending) {
            return None;
        }
        self.told = true;
        Some(AgentEvent::ToolUse { name: self.name.clone(), about: self.about.clone().unwrap_or_default() })
    }
}

fn paths<'a>(fields: &'a ToolCallUpdateFields, input: &'a Value) -> impl Iterator<Item = PathBuf> {
    let located = fields.locations.iter().flatten().map(|location| location.path.clone());
    let changed = fields.content.iter().flatten().filter_map(|content| match content {
        ToolCallContent::Diff(diff) => Some(diff.path.clone()),
        _ => None,
    });
    let named = ["file_path", "filePath", "path"].into_iter().filter_map(|key| input[key].as_str().map(PathBuf::from));
    located.chain(changed).chain(named)
}

/// The tools that are in use.
#[derive(Default)]
pub struct Calls {
    open: VecDeque<Call>,
}

impl Calls {
    /// A use begins.
    pub fn begin(&mut self, call: ToolCall) -> Vec<AgentEvent> {
        self.update(&ToolCallUpdate::from(call))
    }

    /// What is new of a use.
    pub fn update(&mut self, update: &ToolCallUpdate) -> Vec<AgentEvent> {
        let status = update.fields.status.unwrap_or_default();
        let call = self.learn(update);
        let mut events: Vec<AgentEvent> = call.tell(status).into_iter().collect();
        if status == ToolCallStatus::Failed {
            events.push(AgentEvent::ToolResult { failed: true, about: shortened(&output(&update.fields)) });
        }
        if matches!(status, ToolCallStatus::Failed | ToolCallStatus::Completed) {
            self.open.retain(|call| call.id != update.tool_call_id);
        }
        events
    }

    /// The use that an update is about, with all that is known of it.
    pub fn learn(&mut self, update: &ToolCallUpdate) -> &mut Call {
        let at = self.open.iter().position(|call| call.id == update.tool_call_id).unwrap_or_else(|| {
            self.open.truncate(REMEMBERED - 1);
            self.open.push_front(Call::new(update.tool_call_id.clone()));
            0
        });
        let call = &mut self.open[at];
        call.learn(&update.fields);
        call
    }
}

fn output(fields: &ToolCallUpdateFields) -> String {
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
