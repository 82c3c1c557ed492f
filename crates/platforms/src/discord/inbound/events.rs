//! Handles stored events: messages, interactions, and channels to look through.

use std::sync::PoisonError;

use async_trait::async_trait;
use grove_model::{IncomingEvent, IncomingPayload, WorkHints};
use grove_store::{RawEvent, StoreError};

use crate::access::{ChatUser, is_allowed};
use crate::adapter::AdapterState;
use crate::choices::find_pressed;
use crate::discord::adapter::{DISCORD_PLATFORM, DiscordAdapter};
use crate::discord::api::{DiscordClient, DiscordMessage, DiscordUser, Snowflake, log_optional};
use crate::discord::inbound::classify::{BotUser, MessagePlace, Relevance, classify_message};
use crate::discord::inbound::interaction::{Interaction, InteractionAction};
use crate::discord::inbound::stored::StoredEvent;
use crate::discord::inbound::thread_name::thread_name;
use crate::discord::outbound::messages::{remove_buttons, reply_mark};
use crate::discord::outbound::reactions::{SEEN_EMOJI, message_delivery};
use crate::event_queue::{EventHandler, HandleError, LONGEST_RETRY_DELAY, retry_delay};

/// The outcome of a message that became one of a conversation.
pub(super) const TAKEN: &str = "taken";

/// The line that ends the "thinking" of a slash command; the answer is a message of its own.
const COMMAND_TAKEN_TEXT: &str = "See below.";
const COMMAND_REFUSED_TEXT: &str =
    "You may not direct this bot. Ask its operator to add you to `adapters.discord.allowed_users`.";

/// The conversation that a message belongs to.
struct MessageTarget {
    channel: Snowflake,
    parent: Option<Snowflake>,
    /// The answer refers to the message, because others stand around it.
    is_reply: bool,
}

/// The handler of the events of Discord.
pub(crate) struct DiscordEventHandler<'a> {
    pub adapter: &'a DiscordAdapter,
    pub discord: &'a DiscordClient,
}

#[async_trait]
impl EventHandler for DiscordEventHandler<'_> {
    fn thread_of(&self, event: &RawEvent) -> String {
        let parsed = StoredEvent::parse(&event.kind, &event.body);
        parsed.map_or_else(|| event.delivery.clone(), |parsed| parsed.order_key().to_string())
    }

    async fn handle_event(&self, event: &RawEvent) -> Result<String, HandleError> {
        let Some(us) = self.adapter.us.borrow().clone() else {
            return Err(HandleError::hopeless("our own account is not known"));
        };
        let (adapter, discord) = (self.adapter, self.discord);
        match StoredEvent::parse(&event.kind, &event.body) {
            None => Err(HandleError::hopeless("not an event that makes sense")),
            Some(StoredEvent::Message { message, place }) => {
                adapter.handle_message(discord, &us, &message, place, event.tries).await
            }
            Some(StoredEvent::Interaction(interaction)) => adapter.handle_interaction(discord, &interaction).await,
            Some(StoredEvent::CatchUp(missed)) => adapter.catch_up(discord, &us, missed, event.tries).await,
        }
    }

    /// Looks up our own account, unless the gateway has told it.
    async fn prepare(&self, failures: i64) -> bool {
        if self.adapter.us.borrow().is_some() {
            return true;
        }
        match self.discord.current_user().await {
            Ok(user) => {
                self.adapter.us.send_replace(Some(user.into()));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "own Discord account not looked up");
                self.adapter.record_state(AdapterState::Failing, &error.to_string()).await;
                let pause = retry_delay(error.kind.retry_advice(), failures).unwrap_or(LONGEST_RETRY_DELAY);
                self.adapter.queue.pause_for(pause);
                false
            }
        }
    }
}

impl DiscordAdapter {
    /// Tells whether a person may direct the agent. The lists of users may change while the server runs.
    pub(super) async fn is_user_allowed(&self, user: &DiscordUser) -> Result<bool, StoreError> {
        let settings = self.conversations.settings.current().discord_settings().chat;
        let id = user.id.to_string();
        let login = Some(user.username.as_str()).filter(|name| !name.is_empty());
        is_allowed(&self.conversations, DISCORD_PLATFORM, &settings, ChatUser { id: &id, login }).await
    }

    /// Handles a message, and returns the result in a few words.
    pub(super) async fn handle_message(
        &self,
        discord: &DiscordClient,
        us: &BotUser,
        message: &DiscordMessage,
        place: MessagePlace,
        tries: i64,
    ) -> Result<String, HandleError> {
        let text = match classify_message(message, us.id, place) {
            Relevance::Ignored(why) => return Ok(format!("ignored: {why}")),
            Relevance::Asked { text } => text,
        };
        let delivery = message_delivery(message.channel_id, message.id);
        // The inbox already has this message: nothing needs to be looked up again.
        if self.conversations.store.was_heard(&delivery).await? {
            return Ok("taken before".to_owned());
        }
        if !self.is_user_allowed(&message.author).await? {
            tracing::info!(user = %message.author.id, "message refused: its author is not allowed");
            return Ok("refused: its author is not allowed".to_owned());
        }
        let target = self.find_target(discord, message, place, &text).await?;
        // A command is not about what was said before.
        let context =
            if text.starts_with('/') { None } else { self.gather_context(discord, us, message, tries).await? };
        let incoming = incoming_event(target.channel, target.parent, &message.author, delivery, text, context);
        let accepted = self.conversations.accept_incoming(&incoming).await?;
        if accepted.repeated {
            return Ok("taken before".to_owned());
        }
        if target.is_reply {
            let mark = reply_mark(accepted.message);
            self.conversations.store.set_mark(DISCORD_PLATFORM, &mark, &message.id.to_string()).await?;
        }
        let reacted = discord.add_reaction(message.channel_id, message.id, SEEN_EMOJI).await;
        log_optional("reaction not added", reacted);
        Ok(TAKEN.to_owned())
    }

    /// Returns the conversation of a message; a mention in a channel opens a thread.
    async fn find_target(
        &self,
        discord: &DiscordClient,
        message: &DiscordMessage,
        place: MessagePlace,
        text: &str,
    ) -> Result<MessageTarget, HandleError> {
        let here = |parent, is_reply| MessageTarget { channel: message.channel_id, parent, is_reply };
        match place {
            MessagePlace::Direct => {
                self.remember_direct_channel(message.channel_id).await?;
                return Ok(here(None, false));
            }
            MessagePlace::OwnThread { parent } => return Ok(here(Some(parent), false)),
            MessagePlace::Elsewhere => {}
        }
        match discord.find_channel(message.channel_id).await {
            Ok(channel) if channel.is_thread() => return Ok(here(channel.parent_id, false)),
            Ok(_) => {}
            Err(error) if error.is_refused() => {
                tracing::info!(channel = %message.channel_id, %error, "channel not looked up");
            }
            Err(error) => return Err(error.into()),
        }
        // Before the thread exists, so that no message in it is taken for one in a foreign thread. The id of
        // the thread is that of the message.
        let (thread, parent) = (message.id, message.channel_id);
        self.remember_own_thread(thread, parent).await?;
        match discord.create_thread(parent, thread, &thread_name(text)).await {
            Ok(made) => Ok(MessageTarget { channel: made.id, parent: Some(parent), is_reply: false }),
            // An earlier attempt made it.
            Err(error) if error.is_thread_there() => {
                Ok(MessageTarget { channel: thread, parent: Some(parent), is_reply: false })
            }
            Err(error) if error.is_refused() => {
                tracing::info!(channel = %parent, %error, "thread not created; answering in the channel");
                Ok(here(None, true))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Handles a pressed button or a slash command, and returns the result in a few words.
    async fn handle_interaction(
        &self,
        discord: &DiscordClient,
        interaction: &Interaction,
    ) -> Result<String, HandleError> {
        let delivery = format!("{DISCORD_PLATFORM}:interaction:{}", interaction.id);
        let is_allowed = self.is_user_allowed(&interaction.user).await?;
        let channel = &interaction.channel;
        let text = match &interaction.action {
            InteractionAction::Command { text } => {
                let reply = if is_allowed { COMMAND_TAKEN_TEXT } else { COMMAND_REFUSED_TEXT };
                self.complete_interaction(interaction.id, reply);
                Some(text.clone())
            }
            InteractionAction::Button { data, .. } => {
                let pressed = find_pressed(&self.conversations, DISCORD_PLATFORM, data).await?;
                let pressed = pressed.filter(|pressed| pressed.conversation == channel.id.to_string());
                pressed.map(|pressed| pressed.text)
            }
        };
        if !is_allowed {
            tracing::info!(user = %interaction.user.id, "interaction refused: its user is not allowed");
            return Ok("refused: its user is not allowed".to_owned());
        }
        let Some(text) = text else { return Ok("ignored: no question has this button".to_owned()) };
        let own_parent = self.own_thread_parent(channel.id).await?;
        let parent = own_parent.or(channel.parent_id.filter(|_| channel.is_thread()));
        let incoming = incoming_event(channel.id, parent, &interaction.user, delivery, text, None);
        let accepted = self.conversations.accept_incoming(&incoming).await?;
        if let InteractionAction::Button { message, .. } = interaction.action {
            log_optional("buttons not removed", remove_buttons(discord, channel.id, message).await);
        }
        Ok(if accepted.repeated { "taken before".to_owned() } else { TAKEN.to_owned() })
    }

    /// Ends the "thinking" of a slash command.
    fn complete_interaction(&self, interaction: Snowflake, text: &'static str) {
        let open = self.open_interactions.lock().unwrap_or_else(PoisonError::into_inner).remove(&interaction);
        // After a restart its token is not known any more.
        if let Some(open) = open {
            let _ = open.send(text);
        }
    }
}

fn incoming_event(
    channel: Snowflake,
    parent: Option<Snowflake>,
    user: &DiscordUser,
    delivery: String,
    text: String,
    context: Option<String>,
) -> IncomingEvent {
    IncomingEvent {
        via: DISCORD_PLATFORM.to_owned(),
        platform: DISCORD_PLATFORM.to_owned(),
        conversation: channel.to_string(),
        parent: parent.map(|parent| parent.to_string()),
        user: Some(user.id.to_string()),
        delivery: Some(delivery),
        event: IncomingPayload::Message { text, context, hints: Box::<WorkHints>::default() },
    }
}
