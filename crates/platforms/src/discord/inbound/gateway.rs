//! The connection to the gateway, which brings events.
//!
//! An event is stored before the session that contains it is saved, so that a crash before that makes the
//! gateway send it again. The client library resumes after a lost connection and identifies anew if the
//! session is gone; then `catch_up` looks for what came in between. A fatal close (bad token, missing intent)
//! is recorded, and tried again after growing pauses.

use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt;
use grove_conversations::backoff::Backoff;
use grove_store::StoreError;
use serde_json::Value;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use twilight_gateway::error::ReceiveMessageErrorType;
use twilight_gateway::queue::InMemoryQueue;
use twilight_gateway::{CloseFrame, ConfigBuilder, Intents, Message, Session, Shard, ShardId};

use crate::adapter::AdapterState;
use crate::discord::adapter::DiscordAdapter;
use crate::discord::api::{DiscordClient, DiscordMessage, DiscordUser, Snowflake, log_optional};
use crate::discord::inbound::classify::{BotUser, Relevance, classify_message, remove_mentions};
use crate::discord::inbound::interaction::Interaction;
use crate::discord::inbound::session::{SavedSession, current_snowflake};
use crate::discord::inbound::stored::{INTERACTION_KIND, MESSAGE_KIND, interaction_body, message_body, place_of};

/// The pauses after a fatal close, or after connections that bring nothing.
const GATEWAY_BACKOFF: Backoff = Backoff { shortest: Duration::from_secs(5), longest: Duration::from_secs(300) };
/// The number of connections in a row without a session after which we pause.
const MAX_FUTILE_CONNECTIONS: i64 = 3;
/// The pause while the store does not take an event.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The interval at which a session is saved that brings nothing for us.
const SESSION_SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// The number of interactions that may wait for a reply.
const MAX_OPEN_INTERACTIONS: usize = 256;

/// The events that we want: messages in servers and direct messages, with their text.
fn wanted_intents() -> Intents {
    Intents::GUILDS | Intents::GUILD_MESSAGES | Intents::DIRECT_MESSAGES | Intents::MESSAGE_CONTENT
}

/// Returns what a fatal close means and what to do.
pub fn describe_close(frame: Option<&CloseFrame<'_>>) -> String {
    let Some(frame) = frame else { return "Discord ended the connection; connecting again".to_owned() };
    match frame.code {
        4004 => "Discord does not take the token; copy it anew from the Bot page of the application to \
                 `adapters.discord.token` and restart"
            .to_owned(),
        4013 => "Discord does not know an intent that this version asks for; update grove".to_owned(),
        4014 => "Discord refuses the message content intent; switch on Message Content Intent on the Bot page of the \
                 application"
            .to_owned(),
        code if frame.reason.is_empty() => format!("Discord ended the connection with code {code}; connecting again"),
        code => {
            format!("Discord ended the connection with code {code} ({}); connecting again", frame.reason)
        }
    }
}

/// What is known of the current session.
#[derive(Default)]
struct GatewaySession {
    saved: Option<SavedSession>,
    saved_at: Option<Instant>,
    /// Messages after this one may be missing, because the session is a new one.
    catch_up_after: Option<Snowflake>,
}

/// Follows the gateway until `ending` is set.
pub(crate) async fn run_gateway(
    adapter: &DiscordAdapter,
    discord: &DiscordClient,
    gateway_url: &str,
    mut ending: watch::Receiver<bool>,
) {
    let Some(token) = adapter.settings.token.clone() else { return };
    // Shared by all connections: it keeps the limit of how often we may identify.
    let queue = InMemoryQueue::default();
    let mut failures = 0;
    while !*ending.borrow() {
        let saved = adapter.load_session().await;
        let mut config =
            ConfigBuilder::new(token.clone(), wanted_intents()).proxy_url(gateway_url.to_owned()).queue(queue.clone());
        if let Some(saved) = &saved {
            config =
                config.session(Session::new(saved.sequence, saved.id.clone())).resume_url(saved.resume_url.clone());
            adapter.us.send_if_modified(|us| us.is_none() && us.replace(saved.bot_user()).is_none());
        }
        let shard = Shard::with_config(ShardId::ONE, config.build());
        let session = GatewaySession { saved, ..GatewaySession::default() };
        let why = tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            why = follow_shard(adapter, discord, shard, session, &mut failures) => why,
        };
        tracing::error!(error = why, "Discord's gateway refuses the connection");
        adapter.record_state(AdapterState::Failing, &why).await;
        adapter.forget_session().await;
        let pause = GATEWAY_BACKOFF.delay_after(failures);
        failures += 1;
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Takes events until the gateway refuses us for good; returns why.
async fn follow_shard(
    adapter: &DiscordAdapter,
    discord: &DiscordClient,
    mut shard: Shard,
    mut session: GatewaySession,
    failures: &mut i64,
) -> String {
    let (mut futile, mut last_close) = (0, None);
    while let Some(received) = shard.next().await {
        match received {
            Ok(Message::Text(text)) => {
                let Ok(event) = serde_json::from_str::<Value>(&text) else { continue };
                if matches!(event["t"].as_str(), Some("READY" | "RESUMED")) {
                    (*failures, futile) = (0, 0);
                }
                take_event(adapter, discord, &event, &mut session).await;
            }
            Ok(Message::Close(frame)) => {
                let why = describe_close(frame.as_ref());
                last_close = Some(why.clone());
                futile += 1;
                if futile > MAX_FUTILE_CONNECTIONS {
                    adapter.record_state(AdapterState::Failing, &why).await;
                    tokio::time::sleep(GATEWAY_BACKOFF.delay_after(futile - MAX_FUTILE_CONNECTIONS - 1)).await;
                }
            }
            // The library pauses by itself.
            Err(error) if matches!(error.kind(), ReceiveMessageErrorType::Reconnect) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                let why = format!("Discord's gateway does not answer: {cause}; connecting again");
                adapter.record_state(AdapterState::Failing, &why).await;
            }
            Err(error) => tracing::info!(%error, "gateway event not understood"),
        }
    }
    last_close.unwrap_or_else(|| describe_close(None))
}

/// Stores an event; retries for as long as the store does not take it.
async fn take_event(adapter: &DiscordAdapter, discord: &DiscordClient, event: &Value, session: &mut GatewaySession) {
    loop {
        match try_take_event(adapter, discord, event, session).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, "gateway event not stored yet");
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
        }
    }
}

async fn try_take_event(
    adapter: &DiscordAdapter,
    discord: &DiscordClient,
    event: &Value,
    session: &mut GatewaySession,
) -> Result<(), StoreError> {
    let data = &event["d"];
    let is_stored = match event["t"].as_str() {
        Some("READY") => {
            begin_session(adapter, data, session).await?;
            true
        }
        Some("RESUMED") => {
            adapter.record_connected().await;
            true
        }
        Some("GUILD_CREATE") => {
            if let Some(after) = session.catch_up_after {
                adapter.plan_guild_catch_up(session_id(session), data, after).await?;
            }
            false
        }
        Some(MESSAGE_KIND) => store_message(adapter, data).await?,
        Some(INTERACTION_KIND) => store_interaction(adapter, discord, data).await?,
        _ => false,
    };
    let Some(sequence) = event["s"].as_u64() else { return Ok(()) };
    let Some(saved) = &mut session.saved else { return Ok(()) };
    saved.sequence = sequence;
    let is_due = session.saved_at.is_none_or(|at| at.elapsed() >= SESSION_SAVE_INTERVAL);
    if is_stored || is_due {
        adapter.save_session(saved).await?;
        session.saved_at = Some(Instant::now());
    }
    Ok(())
}

fn session_id(session: &GatewaySession) -> &str {
    session.saved.as_ref().map(|saved| saved.id.as_str()).unwrap_or_default()
}

/// Begins a new session.
async fn begin_session(
    adapter: &DiscordAdapter,
    ready: &Value,
    session: &mut GatewaySession,
) -> Result<(), StoreError> {
    let Ok(user) = serde_json::from_value::<DiscordUser>(ready["user"].clone()) else { return Ok(()) };
    let us = BotUser::from(user);
    tracing::info!(account = us.name, "connected to Discord");
    session.saved = Some(SavedSession {
        id: ready["session_id"].as_str().unwrap_or_default().to_owned(),
        resume_url: ready["resume_gateway_url"].as_str().unwrap_or_default().to_owned(),
        sequence: 0,
        user_id: us.id,
        user_name: us.name.clone(),
    });
    adapter.us.send_replace(Some(us));
    let latest = adapter.latest_message().await?;
    match latest {
        Some(latest) => {
            let after = super::session::catch_up_start(latest, current_snowflake());
            adapter.plan_direct_catch_up(session_id(session), after).await?;
            session.catch_up_after = Some(after);
        }
        // The very first session.
        None => adapter.note_message(current_snowflake()),
    }
    adapter.record_connected().await;
    Ok(())
}

/// Stores a message if it is for the bot. Returns whether it is.
async fn store_message(adapter: &DiscordAdapter, payload: &Value) -> Result<bool, StoreError> {
    let Ok(message) = serde_json::from_value::<DiscordMessage>(payload.clone()) else { return Ok(false) };
    let Some(us) = adapter.us.borrow().as_ref().map(|us| us.id) else { return Ok(false) };
    // Asked for only where it matters.
    let wants_thread = message.guild_id.is_some() && !message.author.bot;
    let own_thread_of = if wants_thread { adapter.own_thread_parent(message.channel_id).await? } else { None };
    let place = place_of(message.guild_id, own_thread_of);
    let is_for_us = matches!(classify_message(&message, us, place), Relevance::Asked { .. });
    if is_for_us {
        let body = message_body(&adapter.conversations.redactor, payload, own_thread_of);
        adapter.queue.store_event(format!("message:{}", message.id), MESSAGE_KIND.to_owned(), body).await?;
    } else if remove_mentions(&message.content, us).is_some() {
        tracing::debug!(message = %message.id, "mention ignored");
    }
    adapter.note_message(message.id);
    Ok(is_for_us)
}

/// Stores an interaction, then acknowledges it.
async fn store_interaction(
    adapter: &DiscordAdapter,
    discord: &DiscordClient,
    payload: &Value,
) -> Result<bool, StoreError> {
    let Some(interaction) = Interaction::parse(payload) else { return Ok(false) };
    let token = payload["token"].as_str().unwrap_or_default().to_owned();
    let (send_reply, reply) = oneshot::channel();
    {
        // The handler may reply at once.
        let mut waiting = adapter.open_interactions.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_OPEN_INTERACTIONS {
            waiting.pop_first();
        }
        waiting.insert(interaction.id, send_reply);
    }
    let body = interaction_body(&adapter.conversations.redactor, payload);
    let delivery = format!("interaction:{}", interaction.id);
    if adapter.queue.store_event(delivery, INTERACTION_KIND.to_owned(), body).await? {
        // The gateway does not wait for that.
        tokio::spawn(reply_to_interaction(discord.clone(), interaction, token, reply));
    }
    Ok(true)
}

/// Acknowledges an interaction, and completes it once its handler has a reply.
async fn reply_to_interaction(
    discord: DiscordClient,
    interaction: Interaction,
    token: String,
    reply: oneshot::Receiver<&'static str>,
) {
    let sent = discord.acknowledge_interaction(interaction.id, &token, interaction.receipt()).await;
    log_optional("interaction not acknowledged", sent);
    if let Ok(text) = reply.await {
        let sent = discord.complete_interaction(interaction.application, &token, text).await;
        log_optional("interaction not completed", sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_says_what_to_do() {
        let said = |code: u16| describe_close(Some(&CloseFrame::new(code, "Why")));
        assert!(said(4004).contains("`adapters.discord.token`"));
        assert!(said(4014).contains("Message Content Intent"));
        assert!(said(4013).contains("update grove"));
        assert_eq!(said(4000), "Discord ended the connection with code 4000 (Why); connecting again");
        assert!(describe_close(None).contains("connecting again"));
    }
}
