//! Posts answers as messages in their thread.
//!
//! A message carries our id of the text and its part in its metadata. After an interrupted attempt, what is
//! there already is found by that, so that nothing is posted twice.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use grove_conversations::delivery::outbox_sender::{AnsweredMessage, DeliveryError, OutgoingText, Platform};
use grove_model::{MessageId, MessageStatus};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::choices::choice_buttons;
use crate::retry::ChatApiError;
use crate::slack::SLACK_PLATFORM;
use crate::slack::api::{MessageContent, SlackApi, is_missing_message};
use crate::slack::inbound::classify::BotAccount;
use crate::slack::inbound::handle::ACCEPTED_REACTION;
use crate::slack::inbound::payload::parse_conversation;
use crate::slack::outbound::format::{MAX_MESSAGES, beginning_of, button_blocks, split_escaped};
use crate::split::{MessageLimit, split_message};

/// The type of our metadata.
const METADATA_TYPE: &str = "grove_message";
/// The reaction to a message whose answer is there.
const DONE_REACTION: &str = "white_check_mark";
/// The reaction to a message that was refused or failed.
const FAILED_REACTION: &str = "x";
/// The time to wait until our own account is known.
const ACCOUNT_WAIT_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest difference between Slack's clock and ours that is allowed for, in seconds.
const CLOCK_TOLERANCE_SECONDS: u64 = 3_600;

pub(crate) struct MessageSender {
    pub api: Arc<SlackApi>,
    /// The interval between updates of a draft.
    pub update_interval: Option<Duration>,
    pub us: watch::Receiver<Option<BotAccount>>,
}

/// What is there of a text already.
#[derive(Default)]
struct ExistingText {
    messages: Vec<ExistingMessage>,
    /// The id of the file with the whole text.
    file: Option<String>,
}

struct ExistingMessage {
    ts: String,
    part: usize,
    /// Its text, if it is known and the message has nothing else.
    text: Option<String>,
}

/// The id of an uploaded file.
enum UploadedFile {
    /// People see it already.
    Shown(String),
    New(String),
}

/// A thread, and the text that is shown there.
struct TextPlace<'a> {
    channel: &'a str,
    thread: &'a str,
    name: MessageId,
}

#[async_trait]
impl Platform for MessageSender {
    fn name(&self) -> &str {
        SLACK_PLATFORM
    }

    fn draft_interval(&self) -> Option<Duration> {
        self.update_interval
    }

    async fn show_text(&self, letter: &OutgoingText<'_>) -> Result<String, DeliveryError> {
        let Some((channel, thread)) = parse_conversation(letter.conversation) else {
            return Err(DeliveryError::Never(format!("`{}` is no thread of Slack", letter.conversation)));
        };
        let place = TextPlace { channel, thread, name: letter.name };
        let mut there = self.existing_text(letter, &place).await?;
        if split_escaped(letter.text, MessageLimit::SLACK).len() > MAX_MESSAGES {
            match self.show_file(letter.text, &place, &mut there).await {
                // Without the right to upload files, the answer is a long series of messages.
                Err(ChatApiError::BadCredentials { what, .. }) if what.contains("files:") => {
                    tracing::warn!(reason = what, "answer not uploaded as a file");
                }
                Err(ChatApiError::Refused { what, .. }) if !is_lost_channel(&what) => {
                    tracing::warn!(reason = what, "answer not uploaded as a file");
                }
                shown => return Ok(shown?),
            }
        }
        Ok(self.show_messages(letter, &place, &there).await?)
    }

    async fn mark_answered(&self, message: AnsweredMessage<'_>) -> Result<(), DeliveryError> {
        let written = message.delivery.strip_prefix(SLACK_PLATFORM).and_then(|rest| rest.strip_prefix(':'));
        // A pressed button is no message.
        let Some((channel, ts)) = written.and_then(parse_conversation) else { return Ok(()) };
        let reaction = match message.status {
            MessageStatus::Done | MessageStatus::Asked => DONE_REACTION,
            _ => FAILED_REACTION,
        };
        self.api.add_reaction(channel, ts, reaction).await?;
        Ok(self.api.remove_reaction(channel, ts, ACCEPTED_REACTION).await?)
    }
}

impl MessageSender {
    /// Shows a text as messages, and returns the list of their ids.
    async fn show_messages(
        &self,
        letter: &OutgoingText<'_>,
        place: &TextPlace<'_>,
        there: &ExistingText,
    ) -> Result<String, ChatApiError> {
        let parts = split_escaped(letter.text, MessageLimit::SLACK);
        let buttons = letter.choice.map(|(question, choice)| choice_buttons(question, choice)).unwrap_or_default();
        let mut ids = Vec::new();
        for (part, text) in (1..).zip(&parts) {
            let blocks = if part == parts.len() { last_part_blocks(letter.text, &buttons) } else { None };
            ids.push(self.write_message(place, there, part, text, blocks.as_ref()).await?);
        }
        self.delete_surplus(place, there, parts.len()).await;
        Ok(json!(ids).to_string())
    }

    /// Shows the beginning of a text as a message, and all of it as a file.
    async fn show_file(
        &self,
        text: &str,
        place: &TextPlace<'_>,
        there: &mut ExistingText,
    ) -> Result<String, ChatApiError> {
        let file = match &there.file {
            Some(file) => UploadedFile::Shown(file.clone()),
            None => UploadedFile::New(self.api.upload_text(&file_name(place.name), text).await?),
        };
        let ts = self.write_message(place, there, 1, &beginning_of(text), None).await?;
        self.delete_surplus(place, there, 1).await;
        there.messages = vec![ExistingMessage { ts: ts.clone(), part: 1, text: None }];
        let file = match file {
            UploadedFile::Shown(file) => file,
            UploadedFile::New(file) => {
                self.api.share_file(place.channel, place.thread, &file, &file_name(place.name)).await?;
                file
            }
        };
        Ok(json!([ts, file]).to_string())
    }

    /// Changes a message or posts one, and returns its timestamp.
    async fn write_message(
        &self,
        place: &TextPlace<'_>,
        there: &ExistingText,
        part: usize,
        text: &str,
        blocks: Option<&Value>,
    ) -> Result<String, ChatApiError> {
        let metadata = json!({
            "event_type": METADATA_TYPE, "event_payload": { "id": place.name.to_string(), "part": part },
        });
        let content = MessageContent { text, blocks, metadata: Some(&metadata) };
        if let Some(there) = there.messages.iter().find(|message| message.part == part) {
            if blocks.is_none() && there.text.as_deref() == Some(text) {
                return Ok(there.ts.clone());
            }
            match self.api.update_message(place.channel, &there.ts, content).await {
                Err(error) if is_missing_message(&error) => {}
                updated => return updated.map(|()| there.ts.clone()),
            }
        }
        self.api.post_message(place.channel, place.thread, content).await
    }

    /// Deletes messages of a longer draft, if that is possible.
    async fn delete_surplus(&self, place: &TextPlace<'_>, there: &ExistingText, count: usize) {
        for message in there.messages.iter().filter(|message| message.part > count) {
            if let Err(error) = self.api.delete_message(place.channel, &message.ts).await {
                tracing::info!(%error, "surplus message not deleted");
            }
        }
    }

    /// Returns what is there of a text: what was recorded, or is found by its metadata.
    async fn existing_text(
        &self,
        letter: &OutgoingText<'_>,
        place: &TextPlace<'_>,
    ) -> Result<ExistingText, DeliveryError> {
        let noted: Vec<String> = letter.shown_as.and_then(|ids| serde_json::from_str(ids).ok()).unwrap_or_default();
        // Timestamps have a dot, ids of files have none.
        let (messages, files): (Vec<String>, Vec<String>) = noted.into_iter().partition(|id| id.contains('.'));
        let mut there = ExistingText { file: files.into_iter().next(), ..ExistingText::default() };
        if letter.uncertain {
            let account = self.bot_account().await?;
            let oldest = time_before(place.name);
            let replies = self.api.list_replies(place.channel, place.thread, oldest.as_deref()).await?;
            replies
                .iter()
                .filter(|reply| reply["user"] == account.user)
                .for_each(|reply| there.add_found(reply, place.name));
        }
        for (part, ts) in (1..).zip(messages) {
            if !there.messages.iter().any(|message| message.part == part) {
                there.messages.push(ExistingMessage { ts, part, text: None });
            }
        }
        Ok(there)
    }

    async fn bot_account(&self) -> Result<BotAccount, DeliveryError> {
        let mut us = self.us.clone();
        let known = tokio::time::timeout(ACCOUNT_WAIT_TIMEOUT, us.wait_for(Option::is_some)).await;
        let why = "who we are on Slack is not known yet".to_owned();
        known.ok().and_then(|us| us.ok()?.clone()).ok_or(DeliveryError::Later { after: None, why })
    }
}

impl ExistingText {
    /// Adds a message of ours, if it belongs to the text.
    fn add_found(&mut self, reply: &Value, name: MessageId) {
        let files = reply["files"].as_array().into_iter().flatten();
        let file = files.filter(|file| file["name"] == file_name(name)).find_map(|file| file["id"].as_str());
        if let Some(file) = file {
            self.file = Some(file.to_owned());
        }
        let (metadata, ts) = (&reply["metadata"], reply["ts"].as_str());
        let payload = &metadata["event_payload"];
        let is_ours = metadata["event_type"] == METADATA_TYPE && payload["id"] == name.to_string();
        let part = payload["part"].as_u64().and_then(|part| usize::try_from(part).ok());
        if let (true, Some(ts), Some(part)) = (is_ours, ts, part)
            && !self.messages.iter().any(|message| message.part == part)
        {
            let text = reply["text"].as_str().filter(|_| !has_buttons(reply)).map(str::to_owned);
            self.messages.push(ExistingMessage { ts: ts.to_owned(), part, text });
        }
    }
}

fn has_buttons(reply: &Value) -> bool {
    reply["blocks"].as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "actions"))
}

/// Returns the blocks of the last message of a text.
fn last_part_blocks(text: &str, buttons: &[crate::choices::ChoiceButton]) -> Option<Value> {
    button_blocks(split_message(text, MessageLimit::SLACK).last()?, buttons)
}

/// Returns the name of the file that a long answer becomes, by which it is found again.
fn file_name(name: MessageId) -> String {
    format!("answer-{name}.md")
}

/// Returns a time before which a text cannot have been posted: our ids begin with the time at which they were
/// made, in milliseconds.
fn time_before(name: MessageId) -> Option<String> {
    let digits: String = name.to_string().chars().filter(|c| *c != '-').take(12).collect();
    let seconds = u64::from_str_radix(&digits, 16).ok()? / 1_000;
    Some(format!("{}.000000", seconds.checked_sub(CLOCK_TOLERANCE_SECONDS)?))
}

/// Tells whether no message can be posted in the channel either.
fn is_lost_channel(what: &str) -> bool {
    ["is_archived", "channel_not_found", "not_in_channel", "restricted_action", "thread_not_found"].contains(&what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_found_by_its_metadata() {
        let name = MessageId::new();
        let message = |ts: &str, id: String, part: u64| json!({ "ts": ts, "text": ts, "metadata": { "event_type": "grove_message", "event_payload": { "id": id, "part": part } } });
        let mut there = ExistingText::default();
        for reply in [
            message("1.1", name.to_string(), 1),
            message("1.2", MessageId::new().to_string(), 1),
            message("1.3", name.to_string(), 2),
            json!({ "ts": "1.4", "text": "x" }),
            json!({ "ts": "1.5", "files": [{ "id": "F1", "name": file_name(name) }] }),
            json!({ "ts": "1.6", "metadata": 7, "files": 8 }),
        ] {
            there.add_found(&reply, name);
        }
        let found: Vec<_> = there.messages.iter().map(|message| (message.part, message.ts.as_str())).collect();
        assert_eq!((found, there.file.as_deref()), (vec![(1, "1.1"), (2, "1.3")], Some("F1")));
    }

    #[test]
    fn a_text_is_looked_for_since_it_exists() {
        let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap();
        let oldest = time_before(MessageId::new()).unwrap();
        let seconds: u64 = oldest.strip_suffix(".000000").unwrap().parse().unwrap();
        assert!((now - 3_700..=now - 3_600).contains(&seconds), "{now} {oldest}");
    }
}
