//! Posts answers as messages.
//!
//! Telegram has neither a key against doubled messages nor a way to look up what was sent. So the id of each
//! part of a text is recorded as soon as the part is sent: at most the one message that is on its way when the
//! server or the connection breaks is sent twice, and none is lost.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use frankenstein::ParseMode;
use frankenstein::methods::{EditMessageTextParams, SendMessageParams};
use frankenstein::types::{InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyMarkup};
use grove_conversations::delivery::outbox_sender::{AnsweredMessage, DeliveryError, OutgoingText, Platform};
use grove_model::MessageStatus;

use crate::choices::{ChoiceButton, choice_buttons};
use crate::retry::ChatApiError;
use crate::split::{MessageLimit, split_converted};
use crate::telegram::api::{TelegramClient, TelegramError};
use crate::telegram::outbound::markdown::to_markdown_v2;
use crate::telegram::place::{ChatPlace, MessageKey};
use crate::telegram::{TELEGRAM_PLATFORM, TelegramAdapter};

/// The time to wait until our own account is known.
const ACCOUNT_WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// The reactions to a message that was answered; Telegram allows only some emoji.
const DONE_REACTION: &str = "👍";
const FAILED_REACTION: &str = "👎";
/// The descriptions of refusals because of the format of a text.
const FORMAT_REFUSALS: [&str; 2] = ["can't parse entities", "message is too long"];
/// The descriptions of refusals because a message cannot be changed any more.
const GONE_REFUSALS: [&str; 3] = ["message to edit not found", "message can't be edited", "message_id_invalid"];

pub(crate) struct MessageSender {
    pub adapter: Arc<TelegramAdapter>,
    pub client: TelegramClient,
}

#[async_trait]
impl Platform for MessageSender {
    fn name(&self) -> &str {
        TELEGRAM_PLATFORM
    }

    fn draft_interval(&self) -> Option<Duration> {
        self.adapter.settings.chat.update_interval
    }

    async fn show_text(&self, letter: &OutgoingText<'_>) -> Result<String, DeliveryError> {
        let Some(place) = ChatPlace::parse(letter.conversation) else {
            return Err(DeliveryError::Never(format!("`{}` is no chat", letter.conversation)));
        };
        if let Err(wait) = self.adapter.wait_until_ready(ACCOUNT_WAIT_TIMEOUT).await {
            let why = "Telegram has not confirmed our account".to_owned();
            return Err(DeliveryError::Later { after: Some(wait), why });
        }
        match self.show_parts(letter, place).await {
            Ok(ids) => Ok(to_shown_ids(&ids)),
            Err(error) => {
                self.adapter.check_token_error(&error).await;
                Err(ChatApiError::from(error).into())
            }
        }
    }

    async fn mark_answered(&self, message: AnsweredMessage<'_>) -> Result<(), DeliveryError> {
        let Some(key) = MessageKey::parse(message.delivery) else { return Ok(()) };
        let reaction = match message.status {
            MessageStatus::Done => DONE_REACTION,
            MessageStatus::Refused | MessageStatus::Interrupted | MessageStatus::Failed => FAILED_REACTION,
            MessageStatus::Waiting | MessageStatus::Running | MessageStatus::Asked => return Ok(()),
        };
        let set = self.client.set_reaction(key.chat, key.message, reaction).await;
        set.map_err(|error| ChatApiError::from(error).into())
    }
}

/// The form in which a text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextFormat {
    Markdown,
    Plain,
}

/// A message of a text.
struct TextPart<'a> {
    text: &'a str,
    format: TextFormat,
    buttons: &'a [ChoiceButton],
}

impl MessageSender {
    /// Sends or changes the messages of a text, and returns their ids.
    async fn show_parts(&self, letter: &OutgoingText<'_>, place: ChatPlace) -> Result<Vec<i32>, TelegramError> {
        let known: Vec<i32> = letter.shown_as.and_then(|ids| serde_json::from_str(ids).ok()).unwrap_or_default();
        if letter.growing {
            // A draft is one message, which becomes the first one of the answer.
            let text = end_of_text(letter.text, MessageLimit::TELEGRAM.most);
            let part = TextPart { text, format: TextFormat::Plain, buttons: &[] };
            let id = self.write_part(place, known.first().copied(), &part).await?;
            return Ok(vec![id]);
        }
        let parts = split_answer(letter.text);
        let buttons = letter.choice.map(|(question, choice)| choice_buttons(question, choice)).unwrap_or_default();
        let mut ids = Vec::new();
        for (at, text) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let buttons = if is_last { buttons.as_slice() } else { &[] };
            let part = TextPart { text, format: TextFormat::Markdown, buttons };
            let there = known.get(at).copied();
            let id = self.write_part(place, there, &part).await?;
            ids.push(id);
            if !is_last && there != Some(id) {
                self.record_parts(letter, &ids).await;
            }
        }
        Ok(ids)
    }

    async fn record_parts(&self, letter: &OutgoingText<'_>, ids: &[i32]) {
        let Some(entry) = letter.entry else { return };
        if let Err(error) = self.adapter.conversations.store.keep_sent_parts(entry, &to_shown_ids(ids)).await {
            tracing::warn!(message_id = %entry, %error, "parts of an answer not recorded");
        }
    }

    /// Changes a message or sends one; as plain text, if Telegram does not understand its format.
    async fn write_part(
        &self,
        place: ChatPlace,
        there: Option<i32>,
        part: &TextPart<'_>,
    ) -> Result<i32, TelegramError> {
        let written = self.write_formatted(place, there, part).await;
        match written {
            Err(error) if part.format == TextFormat::Markdown && error.is_refused_with(&FORMAT_REFUSALS) => {
                tracing::warn!(conversation = %place, %error, "answer sent as plain text");
                let plain = TextPart { format: TextFormat::Plain, ..*part };
                self.write_formatted(place, there, &plain).await
            }
            written => written,
        }
    }

    async fn write_formatted(
        &self,
        place: ChatPlace,
        there: Option<i32>,
        part: &TextPart<'_>,
    ) -> Result<i32, TelegramError> {
        if let Some(id) = there {
            match self.client.edit_message_text(part.to_edit(place, id)).await {
                Ok(()) => return Ok(id),
                Err(error) if error.is_refused_with(&["message is not modified"]) => return Ok(id),
                // The message was deleted in the chat.
                Err(error) if error.is_refused_with(&GONE_REFUSALS) => {}
                Err(error) => return Err(error),
            }
        }
        match self.client.send_message(part.to_message(place)).await {
            // The group became a supergroup, which has another id.
            Err(TelegramError::Refused { migrated_to: Some(chat), .. }) => {
                tracing::warn!(from = place.chat, to = chat, "a Telegram group became a supergroup");
                self.client.send_message(part.to_message(ChatPlace { chat, ..place })).await
            }
            sent => sent,
        }
    }
}

impl TextPart<'_> {
    /// Returns the text in its format; plain, if the conversion leaves nothing or too much of it.
    fn formatted_text(&self) -> (String, Option<ParseMode>) {
        let converted = match self.format {
            TextFormat::Markdown => to_markdown_v2(self.text),
            TextFormat::Plain => String::new(),
        };
        if converted.trim().is_empty() || utf16_length(&converted) > MessageLimit::TELEGRAM.most {
            return (self.text.to_owned(), None);
        }
        (converted, Some(ParseMode::MarkdownV2))
    }

    fn keyboard(&self) -> Option<InlineKeyboardMarkup> {
        let button = |button: &ChoiceButton| {
            let data = button.data.clone();
            vec![InlineKeyboardButton::builder().text(button.label.clone()).callback_data(data).build()]
        };
        let rows: Vec<Vec<InlineKeyboardButton>> = self.buttons.iter().map(button).collect();
        (!rows.is_empty()).then(|| InlineKeyboardMarkup::builder().inline_keyboard(rows).build())
    }

    fn to_message(&self, place: ChatPlace) -> SendMessageParams {
        let (text, format) = self.formatted_text();
        SendMessageParams::builder()
            .chat_id(place.chat)
            .maybe_message_thread_id(place.topic)
            .text(text)
            .maybe_parse_mode(format)
            .link_preview_options(LinkPreviewOptions::DISABLED)
            .maybe_reply_markup(self.keyboard().map(ReplyMarkup::InlineKeyboardMarkup))
            .build()
    }

    fn to_edit(&self, place: ChatPlace, message: i32) -> EditMessageTextParams {
        let (text, format) = self.formatted_text();
        EditMessageTextParams::builder()
            .chat_id(place.chat)
            .message_id(message)
            .text(text)
            .maybe_parse_mode(format)
            .link_preview_options(LinkPreviewOptions::DISABLED)
            .maybe_reply_markup(self.keyboard())
            .build()
    }
}

/// Returns the messages of an answer, each short enough after its conversion.
fn split_answer(text: &str) -> Vec<String> {
    split_converted(text, MessageLimit::TELEGRAM, |part| utf16_length(&to_markdown_v2(part)))
}

fn utf16_length(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// Returns the end of a text that fits.
fn end_of_text(text: &str, most: usize) -> &str {
    let mut units = 0;
    for (at, c) in text.char_indices().rev() {
        units += c.len_utf16();
        if units > most {
            return &text[at + c.len_utf8()..];
        }
    }
    text
}

fn to_shown_ids(ids: &[i32]) -> String {
    format!("[{}]", ids.iter().map(i32::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fits(part: &str) -> bool {
        utf16_length(part) <= 4_096 && utf16_length(&to_markdown_v2(part)) <= 4_096
    }

    #[test]
    fn a_text_is_split_by_its_converted_length() {
        assert_eq!(split_answer(&"x".repeat(4_096)).len(), 1);
        assert_eq!(split_answer(&"x".repeat(4_097)).len(), 2);
        assert_eq!(split_answer(&"😀".repeat(2_049)).len(), 2, "two units each");
        let dots = split_answer(&".".repeat(4_096));
        assert_eq!(dots.iter().map(String::len).collect::<Vec<_>>(), [2_048, 2_048]);
        let code = format!("```rust\n{}```\n", "let a = \"`.`\";\n".repeat(600));
        let parts = split_answer(&code);
        assert!(
            parts.len() > 2
                && parts.iter().all(|part| part.starts_with("```rust\n") && part.trim_end().ends_with("```"))
        );
        assert!(parts.iter().all(|part| fits(part)));
        assert_eq!(parts.iter().map(|part| part.matches("let a").count()).sum::<usize>(), 600);
    }

    #[test]
    fn a_draft_shows_its_end() {
        assert_eq!(end_of_text("abc", 3), "abc");
        assert_eq!(end_of_text("abc", 2), "bc");
        assert_eq!(end_of_text("a😀b", 2), "b");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_part_fits(text in "(.|[*_.\\[\\]()~`#+=|{}!>-]|\n|```\n|word |😀){0,200}", times in 1usize..80) {
            for part in split_answer(&text.repeat(times)) {
                prop_assert!(fits(&part), "{part:?}");
            }
        }
    }
}
