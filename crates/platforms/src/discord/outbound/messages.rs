//! Posts answers as messages.
//!
//! Every message carries a nonce made of our id: Discord returns the existing message if the same one was
//! created in the last minutes. Later, an answer whose sending was cut short is found by its text, among our
//! messages after the last one that is recorded for the channel.

use std::time::Duration;

use async_trait::async_trait;
use grove_conversations::delivery::outbox_sender::{AnsweredMessage, DeliveryError, OutgoingText, Platform};
use grove_model::{Choice, MessageId};
use grove_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use crate::choices::choice_buttons;
use crate::discord::adapter::DISCORD_PLATFORM;
use crate::discord::api::{
    DiscordApiError, DiscordClient, DiscordMessage, MAX_PAGE_SIZE, MessagePage, Snowflake, log_optional,
};
use crate::discord::inbound::classify::BotUser;
use crate::discord::outbound::reactions::{SEEN_EMOJI, answered_emoji, parse_delivery};
use crate::split::{MessageLimit, split_message};

/// Links show no preview.
const SUPPRESS_EMBEDS: u64 = 1 << 2;
/// The maximum length of a button's label.
const MAX_LABEL_LENGTH: usize = 80;
const ACTION_ROW: u64 = 1;
const BUTTON: u64 = 2;
const SECONDARY_STYLE: u64 = 2;

/// Posts the answers of all conversations.
pub(crate) struct MessageSender {
    pub discord: DiscordClient,
    pub store: Store,
    /// The interval between updates of a draft.
    pub update_interval: Option<Duration>,
    pub us: watch::Receiver<Option<BotUser>>,
}

/// The last text that was completely shown in a channel.
#[derive(Debug, Serialize, Deserialize)]
struct ShownText {
    name: MessageId,
    ids: Vec<Snowflake>,
    /// Tells whether it is still the same text.
    digest: String,
}

/// A message that exists on Discord.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ExistingMessage {
    id: Snowflake,
    /// Its text, if it is known.
    text: Option<String>,
}

/// Returns the name of the mark that holds the message to which an answer replies.
pub fn reply_mark(question: MessageId) -> String {
    format!("reply {question}")
}

fn shown_mark(channel: Snowflake) -> String {
    format!("shown {channel}")
}

/// Returns the nonce of a part: the same for each attempt, and at most 25 characters.
fn part_nonce(name: MessageId, part: usize) -> String {
    short_digest(&format!("{name} {part}"))
}

/// Returns 24 characters that tell one text from another.
fn short_digest(text: &str) -> String {
    Sha256::digest(text).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the texts of the messages. A draft is one message with the end of what was written.
fn message_texts(text: &str, is_growing: bool) -> Vec<String> {
    let mut texts = split_message(text, MessageLimit::DISCORD);
    if is_growing && texts.len() > 1 {
        texts.drain(..texts.len() - 1);
    }
    texts
}

/// Returns the fields that all messages have. No text of an agent may ping a person.
fn message_fields(text: &str, choice: Option<(MessageId, &Choice)>) -> Value {
    let mut fields = json!({ "content": text, "allowed_mentions": { "parse": [] }, "flags": SUPPRESS_EMBEDS });
    let buttons = choice.map(|(question, choice)| choice_buttons(question, choice)).unwrap_or_default();
    if !buttons.is_empty() {
        let button = |button: crate::choices::ChoiceButton| {
            let label: String = button.label.chars().take(MAX_LABEL_LENGTH).collect();
            json!({ "type": BUTTON, "style": SECONDARY_STYLE, "label": label, "custom_id": button.data })
        };
        let row: Vec<Value> = buttons.into_iter().map(button).collect();
        fields["components"] = json!([{ "type": ACTION_ROW, "components": row }]);
    }
    fields
}

/// Finds messages by their texts, in order: `there` is sorted by age.
fn find_texts(there: &[DiscordMessage], texts: &[String]) -> Vec<ExistingMessage> {
    let (mut found, mut rest) = (Vec::new(), there.iter());
    for text in texts {
        let Some(message) = rest.find(|message| is_same_text(&message.content, text)) else { break };
        found.push(ExistingMessage { id: message.id, text: Some(message.content.clone()) });
    }
    found
}

/// Compares texts; Discord removes the spaces around one.
fn is_same_text(one: &str, other: &str) -> bool {
    one.trim() == other.trim()
}

#[async_trait]
impl Platform for MessageSender {
    fn name(&self) -> &str {
        DISCORD_PLATFORM
    }

    fn draft_interval(&self) -> Option<Duration> {
        self.update_interval
    }

    async fn show_text(&self, letter: &OutgoingText<'_>) -> Result<String, DeliveryError> {
        let Ok(channel) = letter.conversation.parse::<Snowflake>() else {
            return Err(DeliveryError::Never(format!("`{}` is no channel", letter.conversation)));
        };
        let texts = message_texts(letter.text, letter.growing);
        let digest = short_digest(letter.text);
        let recorded = self.recorded_text(channel).await.map_err(|error| store_error(&error))?;
        if let Some(shown) = recorded.as_ref().filter(|shown| shown.name == letter.name && shown.digest == digest) {
            // Only the note in the outbox was missing.
            return to_json(&shown.ids);
        }
        let last_recorded = recorded.and_then(|shown| shown.ids.into_iter().max());
        let mut existing = self.existing_messages(letter, channel, &texts, last_recorded).await?;
        let surplus = existing.split_off(texts.len().min(existing.len()));
        let mut ids = Vec::new();
        for (part, text) in texts.iter().enumerate() {
            let choice = letter.choice.filter(|_| part + 1 == texts.len());
            let fields = message_fields(text, choice);
            let id = match existing.get(part) {
                Some(there) if choice.is_none() && there.text.as_ref().is_some_and(|now| is_same_text(now, text)) => {
                    there.id
                }
                Some(there) => match self.discord.edit_message(channel, there.id, &fields).await {
                    Ok(()) => there.id,
                    // The message was deleted on Discord.
                    Err(error) if error.is_not_found() => self.post_part(letter, channel, part, text, fields).await?,
                    Err(error) => return Err(error.into()),
                },
                None => self.post_part(letter, channel, part, text, fields).await?,
            };
            ids.push(id);
        }
        for message in surplus {
            match self.discord.delete_message(channel, message.id).await {
                Err(error) if !error.is_refused() => return Err(error.into()),
                deleted => log_optional("surplus message not deleted", deleted),
            }
        }
        if !letter.growing {
            self.record_text(channel, ShownText { name: letter.name, ids: ids.clone(), digest })
                .await
                .map_err(|error| store_error(&error))?;
        }
        to_json(&ids)
    }

    async fn mark_answered(&self, message: AnsweredMessage<'_>) -> Result<(), DeliveryError> {
        let Some((channel, asked)) = parse_delivery(message.delivery) else { return Ok(()) };
        let Some(emoji) = answered_emoji(message.status) else { return Ok(()) };
        self.discord.add_reaction(channel, asked, emoji).await?;
        self.discord.remove_reaction(channel, asked, SEEN_EMOJI).await?;
        Ok(())
    }
}

impl MessageSender {
    /// Returns the messages that may show the text already, in the order of its parts.
    async fn existing_messages(
        &self,
        letter: &OutgoingText<'_>,
        channel: Snowflake,
        texts: &[String],
        last_recorded: Option<Snowflake>,
    ) -> Result<Vec<ExistingMessage>, DeliveryError> {
        let noted: Vec<Snowflake> = letter.shown_as.and_then(|ids| serde_json::from_str(ids).ok()).unwrap_or_default();
        let mut existing: Vec<ExistingMessage> =
            noted.iter().map(|id| ExistingMessage { id: *id, text: None }).collect();
        if !letter.uncertain || existing.len() >= texts.len() {
            return Ok(existing);
        }
        let Some(us) = self.us.borrow().as_ref().map(|us| us.id) else {
            let why = "our own account on Discord is not known yet".to_owned();
            return Err(DeliveryError::Later { after: None, why });
        };
        let after = last_recorded.max(noted.iter().copied().max());
        let page = match after {
            Some(after) => MessagePage::After(after),
            None => MessagePage::Latest,
        };
        let mut there = match self.discord.list_messages(channel, page, MAX_PAGE_SIZE).await {
            // We may write here, but not read: the nonce must do.
            Err(error) if error.is_refused() => Vec::new(),
            there => there?,
        };
        there.retain(|message| message.author.id == us && message.is_text());
        existing.extend(find_texts(&there, &texts[existing.len()..]));
        Ok(existing)
    }

    /// Creates the message of a part, or finds the one that an earlier attempt created.
    async fn post_part(
        &self,
        letter: &OutgoingText<'_>,
        channel: Snowflake,
        part: usize,
        text: &str,
        mut fields: Value,
    ) -> Result<Snowflake, DeliveryError> {
        let edited = fields.clone();
        fields["nonce"] = json!(part_nonce(letter.name, part));
        fields["enforce_nonce"] = json!(true);
        if part == 0
            && let Some(question) = self.find_question(letter.name).await.map_err(|error| store_error(&error))?
        {
            fields["message_reference"] = json!({ "message_id": question, "fail_if_not_exists": false });
        }
        let made = self.discord.create_message(channel, &fields).await?;
        if !is_same_text(&made.content, text) {
            // An earlier attempt created it, with the words of that time.
            self.discord.edit_message(channel, made.id, &edited).await?;
        }
        Ok(made.id)
    }

    /// Returns the message to which an answer replies, if it stands among those of others.
    async fn find_question(&self, name: MessageId) -> Result<Option<Snowflake>, StoreError> {
        let mark = self.store.find_mark(DISCORD_PLATFORM, &reply_mark(name)).await?;
        Ok(mark.and_then(|message| message.parse().ok()))
    }

    async fn recorded_text(&self, channel: Snowflake) -> Result<Option<ShownText>, StoreError> {
        let mark = self.store.find_mark(DISCORD_PLATFORM, &shown_mark(channel)).await?;
        Ok(mark.and_then(|shown| serde_json::from_str(&shown).ok()))
    }

    async fn record_text(&self, channel: Snowflake, shown: ShownText) -> Result<(), StoreError> {
        let text = serde_json::to_string(&shown).unwrap_or_default();
        self.store.set_mark(DISCORD_PLATFORM, &shown_mark(channel), &text).await
    }
}

/// Removes the buttons of a question that was answered.
pub async fn remove_buttons(
    discord: &DiscordClient,
    channel: Snowflake,
    message: Snowflake,
) -> Result<(), DiscordApiError> {
    discord.edit_message(channel, message, &json!({ "components": [], "allowed_mentions": { "parse": [] } })).await
}

fn to_json(ids: &[Snowflake]) -> Result<String, DeliveryError> {
    serde_json::to_string(ids).map_err(|error| DeliveryError::Never(error.to_string()))
}

fn store_error(error: &StoreError) -> DeliveryError {
    DeliveryError::Later { after: None, why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use grove_model::ChoiceOption;

    use super::*;
    use crate::discord::api::DiscordUser;

    #[test]
    fn a_nonce_is_short_and_the_same_for_each_attempt() {
        let name = MessageId::new();
        assert_eq!(part_nonce(name, 0), part_nonce(name, 0));
        assert_ne!(part_nonce(name, 0), part_nonce(name, 1));
        assert_ne!(part_nonce(name, 0), part_nonce(MessageId::new(), 0));
        assert!(part_nonce(name, usize::MAX).len() <= 25);
    }

    #[test]
    fn a_message_pings_no_account_and_shows_buttons() {
        let option = |name: &str| ChoiceOption::new(name, name);
        let choice = Choice { question: "Which?".to_owned(), options: vec![option("app"), option(&"x".repeat(99))] };
        let question = MessageId::new();
        let fields = message_fields("@everyone <@1>", Some((question, &choice)));
        assert_eq!(fields["allowed_mentions"], json!({ "parse": [] }));
        let buttons = &fields["components"][0]["components"];
        assert_eq!((&buttons[0]["label"], &buttons[0]["custom_id"]), (&json!("app"), &json!(format!("{question}:0"))));
        assert_eq!(buttons[1]["label"].as_str().unwrap().len(), 80);
        assert!(message_fields("text", None).get("components").is_none());
    }

    #[test]
    fn a_draft_is_one_message() {
        let text = "line\n".repeat(1_000);
        assert_eq!(message_texts(&text, false).len(), 3);
        let draft = message_texts(&text, true);
        assert!(draft.len() == 1 && text.trim_end().ends_with(draft[0].trim_end()));
        assert!(message_texts(" \n", false).is_empty());
    }

    #[test]
    fn parts_are_found_in_their_order() {
        let message = |id: u64, content: &str| DiscordMessage {
            id: Snowflake(id),
            channel_id: Snowflake(1),
            guild_id: None,
            author: DiscordUser { id: Snowflake(2), username: String::new(), bot: true },
            content: content.to_owned(),
            kind: 0,
            webhook_id: None,
            attachments: Vec::new(),
        };
        let there = [message(10, "two"), message(11, "one"), message(12, "two"), message(13, "four")];
        let texts = ["one\n", "two", "three", "four"].map(str::to_owned);
        let ids: Vec<u64> = find_texts(&there, &texts).iter().map(|found| found.id.0).collect();
        assert_eq!(ids, [11, 12]);
    }
}
