//! One message, from being said to its answer.
//!
//! The stream of events says when to look and brings the answer's text while it is made; what counts
//! is what the server has stored, so that nothing is lost where the stream breaks, or where another
//! process does the work and this server's stream is silent.

use std::time::Duration;

use grove_environments::problem::Problem;
use reqwest::Response;
use tokio::time::Instant;

use super::client::{CallError, Client, Line};
use super::show::Show;
use super::signals::{Signals, Wish};
use super::sse::{Event, Parser};

/// How often is looked without being told to.
const LOOK: Duration = Duration::from_secs(1);

/// How long a server may be away, for a restart.
const PATIENCE: Duration = Duration::from_secs(30);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Done,
    /// Refused, failed or cut short; the answer says why.
    NotDone,
    /// Ctrl-C ended it.
    Stopped,
    /// It may go on; nobody waits for it here any more.
    Left,
}

pub struct Exchange<'a> {
    client: &'a Client,
    pub signals: Signals,
    show: Show,
    events: Events,
}

impl<'a> Exchange<'a> {
    /// Listens from now on.
    pub async fn new(client: &'a Client, signals: Signals, show: Show) -> Self {
        let mut events = Events::default();
        events.connect(client).await;
        Self { client, signals, show, events }
    }

    /// Says something and shows what comes back.
    pub async fn carry(&mut self, text: &str) -> Result<Fate, Problem> {
        let message = self.client.say(text).await?;
        self.show.begin(self.client.conversation(), &message);
        let (mut shown, mut stopped, mut gone) = (0, false, None);
        loop {
            match self.client.about(&message).await {
                Ok(lines) => {
                    gone = None;
                    if let Some(fate) = self.print(&lines, &mut shown) {
                        return Ok(if stopped && fate == Fate::NotDone { Fate::Stopped } else { fate });
                    }
                }
                Err(CallError::Unreachable(_)) if gone.get_or_insert_with(Instant::now).elapsed() < PATIENCE => {}
                Err(error) => return Err(error.into()),
            }
            match self.news(&message).await {
                None => {}
                // Whoever asks a second time does not want to wait.
                Some(Wish::Stop) if !stopped => {
                    stopped = true;
                    self.client.say("/stop").await?;
                }
                Some(Wish::Stop | Wish::End) => return Ok(Fate::Left),
            }
        }
    }

    /// Prints what is new; what became of the message, if that is known.
    fn print(&mut self, lines: &[Line], shown: &mut usize) -> Option<Fate> {
        // The status comes with the answer or before it, never after it.
        let status = lines.iter().find_map(|line| line.status.as_deref()).unwrap_or_default();
        let ended = !matches!(status, "waiting" | "running");
        let said: Vec<&Line> = lines.iter().filter(|line| line.kind != "message").collect();
        for line in said.iter().skip(*shown) {
            match line.kind.as_str() {
                "answer" if ended => self.show.answer(line, status),
                "answer" => return None,
                _ => self.show.notice(line),
            }
            *shown += 1;
        }
        ended.then_some(if status == "done" { Fate::Done } else { Fate::NotDone })
    }

    /// Waits until there may be something new, and shows the answer's text as it comes.
    async fn news(&mut self, of: &str) -> Option<Wish> {
        let look = tokio::time::sleep(LOOK);
        tokio::pin!(look);
        loop {
            tokio::select! {
                event = self.events.next() => match event {
                    Some(Event::Delta { message, text }) if message == of => self.show.delta(&text),
                    Some(Event::Step { message, text }) if message == of => self.show.step(&text),
                    Some(Event::Delta { .. } | Event::Step { .. }) => {}
                    Some(Event::News) | None => return None,
                },
                wish = self.signals.any() => return Some(wish),
                () = &mut look => {
                    self.events.connect(self.client).await;
                    return None;
                }
            }
        }
    }
}

/// The stream of events, while there is one.
#[derive(Default)]
struct Events {
    response: Option<Response>,
    parser: Parser,
}

impl Events {
    /// Without it the answer comes all the same, only later and in one piece.
    async fn connect(&mut self, client: &Client) {
        if self.response.is_none() {
            self.response = client.events().await.ok();
            self.parser = Parser::default();
        }
    }

    /// `None`: the stream has ended. Where there is none, nothing ever comes.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.parser.next() {
                return Some(event);
            }
            let Some(response) = &mut self.response else { return std::future::pending().await };
            match response.chunk().await {
                Ok(Some(bytes)) => self.parser.push(&bytes),
                Ok(None) | Err(_) => {
                    self.response = None;
                    return None;
                }
            }
        }
    }
}
