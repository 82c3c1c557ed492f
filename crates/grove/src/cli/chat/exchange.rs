//! One message, from sending it to its answer.
//!
//! The stream of events tells when to poll and brings the answer's text while it is made. Only the messages
//! that the server has stored count, so that nothing is lost where the stream breaks, or where another
//! process does the work and this server's stream is silent.

use std::time::Duration;

use grove_environments::problem::Problem;
use grove_model::MessageStatus;
use reqwest::Response;
use tokio::time::Instant;

use super::client::{ChatCallError, ChatClient, ChatLine};
use super::show::ChatOutput;
use super::signals::{ChatSignals, StopSignal};
use super::sse::{ChatEvent, SseParser};

/// The interval of polling when no event arrives.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The time that a server may be unreachable, for a restart.
const SERVER_RESTART_TIMEOUT: Duration = Duration::from_secs(30);

/// The outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    Done,
    /// Refused, failed or interrupted; the answer says why.
    NotDone,
    /// Ctrl-C ended it.
    Stopped,
    /// It may go on; this process no longer waits for it.
    Left,
}

pub struct ChatExchange<'a> {
    client: &'a ChatClient,
    pub signals: ChatSignals,
    show: ChatOutput,
    events: EventStream,
}

impl<'a> ChatExchange<'a> {
    /// Opens the stream of events.
    pub async fn new(client: &'a ChatClient, signals: ChatSignals, show: ChatOutput) -> Self {
        let mut events = EventStream::default();
        events.connect_if_needed(client).await;
        Self { client, signals, show, events }
    }

    /// Sends a message and shows the answers.
    pub async fn send_and_show(&mut self, text: &str) -> Result<MessageOutcome, Problem> {
        let message = self.client.post_message(text).await?;
        self.show.begin_message(self.client.conversation_id(), &message);
        let (mut shown, mut stopped, mut gone) = (0, false, None);
        loop {
            match self.client.fetch_exchange(&message).await {
                Ok(lines) => {
                    gone = None;
                    self.show.expect_markdown(lines.markdown);
                    if let Some(fate) = self.print_new_lines(&lines.messages, &mut shown) {
                        return Ok(if stopped && fate == MessageOutcome::NotDone {
                            MessageOutcome::Stopped
                        } else {
                            fate
                        });
                    }
                }
                Err(ChatCallError::Unreachable(_))
                    if gone.get_or_insert_with(Instant::now).elapsed() < SERVER_RESTART_TIMEOUT => {}
                Err(error) => return Err(error.into()),
            }
            match self.wait_for_news(&message).await {
                None => {}
                // The first Ctrl-C stops the message; at the second one the user does not want to wait.
                Some(StopSignal::Stop) if !stopped => {
                    stopped = true;
                    self.client.post_message("/stop").await?;
                }
                Some(StopSignal::Stop | StopSignal::End) => return Ok(MessageOutcome::Left),
            }
        }
    }

    /// Prints the new lines. Returns the outcome of the message, if it is known.
    fn print_new_lines(&mut self, lines: &[ChatLine], shown: &mut usize) -> Option<MessageOutcome> {
        // The status comes with the answer or before it, never after it.
        let status = lines.iter().find_map(|line| line.status);
        let ended = status.is_none_or(|status| !status.is_open());
        let said: Vec<&ChatLine> = lines.iter().filter(|line| line.kind != "message").collect();
        for line in said.iter().skip(*shown) {
            match line.kind.as_str() {
                "answer" if ended => self.show.show_answer(line, status),
                "answer" => return None,
                _ => self.show.show_notice(line),
            }
            *shown += 1;
        }
        let done = status == Some(MessageStatus::Done);
        ended.then_some(if done { MessageOutcome::Done } else { MessageOutcome::NotDone })
    }

    /// Waits until there may be new lines, and shows the answer's text as it arrives.
    async fn wait_for_news(&mut self, of: &str) -> Option<StopSignal> {
        let look = tokio::time::sleep(POLL_INTERVAL);
        tokio::pin!(look);
        loop {
            tokio::select! {
                event = self.events.next_event() => match event {
                    Some(ChatEvent::Delta { message, text }) if message == of => self.show.show_delta(&text),
                    Some(ChatEvent::Step { message, text }) if message == of => self.show.show_step(&text),
                    Some(ChatEvent::Progress { message, text }) if message == of => self.show.show_progress(&text),
                    Some(ChatEvent::Delta { .. } | ChatEvent::Step { .. } | ChatEvent::Progress { .. }) => {}
                    Some(ChatEvent::News) | None => return None,
                },
                wish = self.signals.next_signal() => return Some(wish),
                () = &mut look => {
                    self.events.connect_if_needed(self.client).await;
                    return None;
                }
            }
        }
    }
}

/// The stream of events, while it is open.
#[derive(Default)]
struct EventStream {
    response: Option<Response>,
    parser: SseParser,
}

impl EventStream {
    /// Opens the stream. Without it the answer still arrives, only later and in one piece.
    async fn connect_if_needed(&mut self, client: &ChatClient) {
        if self.response.is_none() {
            self.response = client.open_event_stream().await.ok();
            self.parser = SseParser::default();
        }
    }

    /// Returns the next event; `None`: the stream has ended. Without a stream it waits for ever.
    async fn next_event(&mut self) -> Option<ChatEvent> {
        loop {
            if let Some(event) = self.parser.next_event() {
                return Some(event);
            }
            let Some(response) = &mut self.response else { return std::future::pending().await };
            match response.chunk().await {
                Ok(Some(bytes)) => self.parser.push_bytes(&bytes),
                Ok(None) | Err(_) => {
                    self.response = None;
                    return None;
                }
            }
        }
    }
}
