//! Any program as an agent: the prompt as an argument or on its standard input, text on its standard
//! output.

use std::time::Duration;

use async_trait::async_trait;
use grove_environments::settings::AgentSettings;
use tokio::io::{AsyncReadExt, DuplexStream};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;

use crate::agent::{Agent, AgentError, AgentEvent, KEPT, Memory, Outcome, Run, Usage};
use crate::process::{Listen, Program};
use crate::supervisor::Input;
use crate::tail::Tail;

/// Linux takes no longer argument.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
/// Where the prompt goes.
const PROMPT: &str = "{prompt}";

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

    fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    fn memory(&self) -> Memory {
        Memory::None
    }

    async fn run(&self, run: Run<'_>) -> Result<Outcome, AgentError> {
        let settings = &self.settings;
        let as_argument = settings.command.iter().any(|part| part.contains(PROMPT));
        if as_argument && run.prompt.len() > LONGEST_ARGUMENT {
            return Err(AgentError::TooLong { name: self.name.clone() });
        }
        // A NUL ends an argument for the kernel.
        let prompt = run.prompt.replace('\0', "\u{fffd}");
        let program = Program {
            name: &self.name,
            command: settings.command.iter().map(|part| part.replace(PROMPT, &prompt)).collect(),
            env: &settings.env,
            input: if as_argument { Input::Nothing } else { Input::Text(run.prompt.to_owned()) },
            timeout: settings.timeout,
            courtesy: Duration::ZERO,
        };
        let mut output = Output { text: Tail::new(KEPT), says: run.says };
        let exit = program.run(run.place, run.cancel, &mut output).await?;
        let (text, left_out) = output.text.into_text();
        Ok(Outcome { text, left_out, usage: Usage::default(), ended: exit.ended() })
    }
}

/// All that the program writes is its text.
struct Output {
    text: Tail,
    says: mpsc::Sender<AgentEvent>,
}

#[async_trait]
impl Listen for Output {
    async fn listen(&mut self, from: &mut ChildStdout, _to: DuplexStream) -> Option<Duration> {
        let mut buffer = vec![0; 16 * 1024];
        let mut rest: Vec<u8> = Vec::new();
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            self.text.push(&buffer[..count]);
            rest.extend_from_slice(&buffer[..count]);
            let whole = whole_characters(&rest);
            if whole > 0 {
                let text = String::from_utf8_lossy(&rest[..whole]).into_owned();
                // The answer is kept anyway.
                let _ = self.says.send(AgentEvent::Delta(text)).await;
                rest.drain(..whole);
            }
        }
        None
    }
}

/// How many bytes are whole characters; a few at the end may be the beginning of the next one.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
