//! Any program as an agent: the prompt is an argument or standard input, the answer is standard output.

use std::time::Duration;

use async_trait::async_trait;
use grove_environments::settings::AgentSettings;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use crate::agent::{Agent, AgentError, AgentEvent, AgentRun, MAX_KEPT_TEXT_BYTES, RunOutcome, RunUsage, SessionMemory};
use crate::process::{AgentProgram, OutputListener};
use crate::supervisor::AgentInput;
use crate::tail::TextTail;

/// The longest argument that Linux accepts.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;
/// The placeholder for the prompt.
const PROMPT_PLACEHOLDER: &str = "{prompt}";

pub struct CommandAgent {
    name: String,
    settings: AgentSettings,
}

impl CommandAgent {
    pub fn new(name: &str, settings: AgentSettings) -> Self {
        Self { name: name.to_owned(), settings }
    }
}

#[async_trait]
impl Agent for CommandAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn agent_settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn session_memory(&self) -> SessionMemory {
        SessionMemory::None
    }

    async fn run_turn(&self, run: AgentRun<'_>) -> Result<RunOutcome, AgentError> {
        let settings = &self.settings;
        let as_argument = settings.command.iter().any(|part| part.contains(PROMPT_PLACEHOLDER));
        if as_argument && run.prompt.len() > MAX_ARGUMENT_BYTES {
            return Err(AgentError::TooLong { name: self.name.clone() });
        }
        // A NUL byte ends an argument for the kernel.
        let prompt = run.prompt.replace('\0', "\u{fffd}");
        let program = AgentProgram {
            name: &self.name,
            command: settings.command.iter().map(|part| part.replace(PROMPT_PLACEHOLDER, &prompt)).collect(),
            env: &settings.env,
            input: if as_argument { AgentInput::Nothing } else { AgentInput::Text(run.prompt.to_owned()) },
            timeout: settings.timeout,
            courtesy: Duration::ZERO,
        };
        let mut output = TextListener { text: TextTail::new(MAX_KEPT_TEXT_BYTES), says: run.says };
        let exit = program.run_supervised(run.place, run.cancel, &mut output).await?;
        let (text, left_out) = output.text.into_text();
        Ok(RunOutcome { text, left_out, usage: RunUsage::default(), ended: exit.into_run_end() })
    }
}

/// Reads all output of the program as its text.
struct TextListener {
    text: TextTail,
    says: mpsc::Sender<AgentEvent>,
}

#[async_trait]
impl OutputListener for TextListener {
    async fn listen_to_output(&mut self, from: &mut ChildStdout, _to: DuplexStream) -> Option<Duration> {
        let mut buffer = vec![0; 16 * 1024];
        let mut rest: Vec<u8> = Vec::new();
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            self.text.push_bytes(&buffer[..count]);
            rest.extend_from_slice(&buffer[..count]);
            let whole = whole_characters(&rest);
            if whole > 0 {
                let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
                // The answer is kept even if the receiver is gone.
                let _ = self.says.send(AgentEvent::Delta(text)).await;
                rest.drain(..whole);
            }
        }
        None
    }
}

/// Returns how many bytes are complete characters; the few bytes after them may be the start of the next
/// one.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
