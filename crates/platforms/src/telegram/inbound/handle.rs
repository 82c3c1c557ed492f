//! Handles one update, from the stored event to the inbox.

use async_trait::async_trait;
use grove_model::{IncomingEvent, IncomingPayload};
use grove_store::{RawEvent, StoreError};

use crate::access::{ChatUser, is_allowed};
use crate::choices::find_pressed;
use crate::event_queue::{EventHandler, HandleError};
use crate::retry::ChatApiError;
use crate::telegram::api::{TelegramClient, TelegramError};
use crate::telegram::inbound::classify::{
    BotCall, BotIdentity, ChatMessage, Relevance, classify_update, conversation_of, place_of, replied_message,
};
use crate::telegram::inbound::context::{
    AttachedFile, MAX_FILE_BYTES, RepliedText, build_context, file_text, may_be_text, other_attachments,
};
use crate::telegram::inbound::wire::{CallbackQuery, FileAttachment, Message, Update, User};
use crate::telegram::place::{ChatPlace, MessageKey};
use crate::telegram::{TELEGRAM_PLATFORM, TelegramAdapter};

/// The reaction to a message that was accepted.
const SEEN_REACTION: &str = "👀";
/// After so many attempts a message is handled without its file.
const MAX_DOWNLOAD_ATTEMPTS: i64 = 5;
/// The text for a person who may not press a button.
const NOT_ALLOWED_TEXT: &str = "You may not use this bot. Ask its owner to add you to adapters.telegram.allowed_users.";
const ANSWERED_TEXT: &str = "This question was answered already. Write a message instead.";
const UNKNOWN_BUTTON_TEXT: &str = "This button does not work any more. Write a message instead.";

/// The handler of the updates of Telegram.
pub(crate) struct TelegramEventHandler<'a> {
    pub adapter: &'a TelegramAdapter,
    pub client: &'a TelegramClient,
}

#[async_trait]
impl EventHandler for TelegramEventHandler<'_> {
    fn thread_of(&self, event: &RawEvent) -> String {
        let update = Update::parse(event.body.as_bytes()).ok();
        update.as_ref().and_then(conversation_of).unwrap_or_else(|| event.delivery.clone())
    }

    async fn handle_event(&self, event: &RawEvent) -> Result<String, HandleError> {
        let update = Update::parse(event.body.as_bytes())
            .map_err(|error| HandleError::hopeless(format!("the update cannot be read: {error}")))?;
        let Some(us) = self.adapter.identity() else {
            return Err(api_error(TelegramError::Unavailable("our account is not known yet".to_owned())));
        };
        match classify_update(&update, &us) {
            Relevance::Ignored(why) => Ok(format!("ignored: {why}")),
            Relevance::Migrated { from, to } => {
                tracing::warn!(from, to, "a Telegram group became a supergroup; its conversation starts anew there");
                Ok("the group has another id now".to_owned())
            }
            Relevance::Member { chat, status } => {
                tracing::info!(chat, status, "membership in a Telegram chat changed");
                Ok("membership changed".to_owned())
            }
            Relevance::Message(message) => self.handle_message(&us, &message, event.tries).await,
            Relevance::Pressed(pressed) => self.handle_press(&us, pressed).await,
        }
    }

    /// Looks up our own account. If it is unknown, all events wait.
    async fn prepare(&self, failures: i64) -> bool {
        self.adapter.identity().is_some() || self.adapter.learn_identity(self.client, failures).await
    }
}

impl TelegramEventHandler<'_> {
    async fn handle_message(
        &self,
        us: &BotIdentity,
        message: &ChatMessage<'_>,
        tries: i64,
    ) -> Result<String, HandleError> {
        let store = &self.adapter.conversations.store;
        let place = message.place;
        let key = MessageKey { bot: us.id, chat: place.chat, message: message.message.message_id };
        if store.was_heard(&key.to_string()).await? {
            return Ok("taken before".to_owned());
        }
        if message.call == BotCall::InTopic && !self.works_in(place).await? {
            return Ok("ignored: not for us".to_owned());
        }
        if !self.may_direct(message.author).await? {
            let (user, name) = (message.author.id, message.author.display_name());
            tracing::info!(
                conversation = %place, user, name,
                "Telegram message refused; add the user to adapters.telegram.allowed_users to accept it"
            );
            return Ok(format!("refused: {user} is not allowed"));
        }
        let context = self.gather_context(us, message.message, tries).await?;
        let hints = Box::default();
        let text = if message.text.is_empty() { "(no text)".to_owned() } else { message.text.clone() };
        let event = IncomingPayload::Message { text, context, hints };
        let incoming = new_incoming(place, message.author, key.to_string(), event);
        if self.adapter.conversations.accept_incoming(&incoming).await?.repeated {
            return Ok("taken before".to_owned());
        }
        // The reaction is optional.
        if let Err(error) = self.client.set_reaction(key.chat, key.message, SEEN_REACTION).await {
            tracing::info!(%error, "reaction not added");
        }
        Ok("taken".to_owned())
    }

    /// Tells whether the bot has been called in a topic before.
    async fn works_in(&self, place: ChatPlace) -> Result<bool, StoreError> {
        let known = self.adapter.conversations.store.conversations_called(&place.to_string()).await?;
        Ok(known.iter().any(|conversation| conversation.platform == TELEGRAM_PLATFORM))
    }

    async fn may_direct(&self, user: &User) -> Result<bool, StoreError> {
        let (settings, id) = (self.adapter.chat_settings(), user.id.to_string());
        let user = ChatUser { id: &id, login: user.username.as_deref() };
        is_allowed(&self.adapter.conversations, TELEGRAM_PLATFORM, &settings, user).await
    }

    async fn gather_context(
        &self,
        us: &BotIdentity,
        message: &Message,
        tries: i64,
    ) -> Result<Option<String>, HandleError> {
        let replied = match replied_message(message) {
            Some(replied) => self.readable_reply(us, replied).await?,
            None => None,
        };
        let mut files = Vec::new();
        if let Some(document) = &message.document {
            let name = document.file_name.clone().unwrap_or_else(|| "file".to_owned());
            files.push(AttachedFile { name, text: self.read_document(document, tries).await? });
        }
        files.extend(other_attachments(message));
        Ok(build_context(replied.as_ref(), &files))
    }

    /// Returns the text of a replied message, if the agent may read its author's words.
    async fn readable_reply(&self, us: &BotIdentity, replied: &Message) -> Result<Option<RepliedText>, StoreError> {
        let Some(author) = replied.from.as_ref() else { return Ok(None) };
        let is_ours = author.id == us.id;
        if !is_ours && (author.is_bot || !replied.is_own_text() || !self.may_direct(author).await?) {
            return Ok(None);
        }
        let text = replied.written_text().0.to_owned();
        Ok(Some(RepliedText { author: (!is_ours).then(|| author.display_name()), text }))
    }

    /// Downloads a document; `None` if the agent cannot read it.
    async fn read_document(&self, file: &FileAttachment, tries: i64) -> Result<Option<String>, HandleError> {
        if !may_be_text(file) {
            return Ok(None);
        }
        match self.client.download_file(&file.file_id, MAX_FILE_BYTES).await {
            Ok(bytes) => Ok(bytes.and_then(file_text)),
            Err(error @ (TelegramError::Limited(_) | TelegramError::Unavailable(_)))
                if tries < MAX_DOWNLOAD_ATTEMPTS =>
            {
                Err(api_error(error))
            }
            Err(error) => {
                tracing::info!(%error, "file not downloaded");
                Ok(None)
            }
        }
    }

    async fn handle_press(&self, us: &BotIdentity, pressed: &CallbackQuery) -> Result<String, HandleError> {
        if !self.may_direct(&pressed.from).await? {
            self.answer_button(pressed, Some(NOT_ALLOWED_TEXT)).await;
            return Ok(format!("refused: {} is not allowed", pressed.from.id));
        }
        let data = pressed.data.as_deref().unwrap_or_default();
        let found = find_pressed(&self.adapter.conversations, TELEGRAM_PLATFORM, data).await?;
        // The button of one chat means nothing in another.
        let here = pressed.message.as_ref().map(|message| message.chat.id);
        let found = found.and_then(|found| Some((ChatPlace::parse(&found.conversation)?, found)));
        let Some((place, found)) = found.filter(|(place, _)| Some(place.chat) == here) else {
            self.answer_button(pressed, Some(UNKNOWN_BUTTON_TEXT)).await;
            return Ok("ignored: no such button".to_owned());
        };
        // A question is answered by one press, however often the button is pressed.
        let delivery = format!("{TELEGRAM_PLATFORM}:{}:press:{}", us.id, found.question);
        let event = IncomingPayload::Message { text: found.text, context: None, hints: Box::default() };
        let incoming = new_incoming(place, &pressed.from, delivery, event);
        let repeated = self.adapter.conversations.accept_incoming(&incoming).await?.repeated;
        self.answer_button(pressed, repeated.then_some(ANSWERED_TEXT)).await;
        if let Some(message) = &pressed.message
            && let Err(error) = self.client.remove_buttons(place_of(message).chat, message.message_id).await
        {
            tracing::info!(%error, "buttons not removed");
        }
        Ok(if repeated { "answered before" } else { "taken" }.to_owned())
    }

    /// Tells the app of the person that the button was received. It is optional: the app waits only a moment.
    async fn answer_button(&self, pressed: &CallbackQuery, text: Option<&str>) {
        if let Err(error) = self.client.answer_button(&pressed.id, text).await {
            tracing::info!(%error, "press of a button not answered");
        }
    }
}

fn new_incoming(place: ChatPlace, author: &User, delivery: String, event: IncomingPayload) -> IncomingEvent {
    IncomingEvent {
        via: TELEGRAM_PLATFORM.to_owned(),
        platform: TELEGRAM_PLATFORM.to_owned(),
        conversation: place.to_string(),
        parent: place.parent_id(),
        user: Some(author.username.clone().unwrap_or_else(|| author.id.to_string())),
        delivery: Some(delivery),
        event,
    }
}

fn api_error(error: TelegramError) -> HandleError {
    ChatApiError::from(error).into()
}
