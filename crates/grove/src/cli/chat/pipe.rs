//! Messages from a pipe or a file: a line each.

use std::io::BufRead;

use grove_environments::problem::Problem;
use tokio::sync::mpsc;

use super::Input;

pub struct Pipe {
    lines: mpsc::Receiver<Input>,
}

impl Pipe {
    /// A thread of its own: a read from a pipe cannot be taken back when the program ends.
    pub fn start() -> Self {
        let (sender, lines) = mpsc::channel(1);
        std::thread::spawn(move || {
            let mut stdin = std::io::stdin().lock();
            loop {
                let mut line = Vec::new();
                let input = match stdin.read_until(b'\n', &mut line) {
                    Ok(0) => Input::End,
                    Ok(_) => match String::from_utf8_lossy(&line).trim() {
                        "" => Input::Nothing,
                        text => Input::Message(text.to_owned()),
                    },
                    Err(error) => Input::Failed(Problem::new(
                        "failed",
                        format!("The standard input cannot be read: {error}."),
                        "Give the message as an argument.",
                    )),
                };
                let last = matches!(input, Input::End | Input::Failed(_));
                if sender.blocking_send(input).is_err() || last {
                    return;
                }
            }
        });
        Self { lines }
    }

    pub async fn next(&mut self) -> Input {
        self.lines.recv().await.unwrap_or(Input::End)
    }
}
