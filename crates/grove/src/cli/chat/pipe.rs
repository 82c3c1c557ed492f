//! Messages from a pipe or a file: one per line.

use std::io::BufRead;

use tokio::sync::mpsc;

use super::ChatInput;
use crate::words;

pub struct PipedInput {
    lines: mpsc::Receiver<ChatInput>,
}

impl PipedInput {
    /// Starts a thread of its own: a read from a pipe cannot be cancelled when the program ends.
    pub fn start_thread() -> Self {
        let (sender, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut stdin = std::io::stdin().lock();
            loop {
                let mut line = Vec::new();
                let input = match stdin.read_until(b'\n', &mut line) {
                    Ok(0) => ChatInput::End,
                    Ok(_) => match String::from_utf8_lossy(&line).trim() {
                        "" => ChatInput::Nothing,
                        text => ChatInput::Message(text.to_owned()),
                    },
                    Err(error) => ChatInput::Failed(words::stdin_failed(&error)),
                };
                let last = matches!(input, ChatInput::End | ChatInput::Failed(_));
                if sender.blocking_send(input).is_err() || last {
                    return;
                }
            }
        });
        Self { lines }
    }

    pub async fn next_input(&mut self) -> ChatInput {
        self.lines.recv().await.unwrap_or(ChatInput::End)
    }
}
