//! Handles one stored event, from the payload to the inbox.

use std::time::Duration;

use async_trait::async_trait;
use grove_model::{IncomingEvent, IncomingPayload};
use grove_store::{RawEvent, StoreError};
use serde_json::Value;

use crate::access::{ChatUser, is_allowed};
use crate::event_queue::{EventHandler, HandleError, LONGEST_RETRY_DELAY, retry_delay};
use crate::retry::{ChatApiError, RetryAdvice};
use crate::slack::SLACK_PLATFORM;
use crate::slack::adapter::SlackAdapter;
use crate::slack::api::SlackApi;
use crate::slack::inbound::classify::{BotAccount, Relevance, classify_event};
use crate::slack::inbound::context::{
    AttachedFile, EarlierMessage, MAX_EARLIER_MESSAGES, MAX_FILE_BYTES, MAX_FILES, build_context, is_readable,
};
use crate::slack::inbound::markup::{UserNames, command_text, mentioned_users, plain_text, without_mention};
use crate::slack::inbound::payload::{MessageEvent, SlackPayload, conversation_id, parse_payload};

/// The reaction to a message that was accepted.
pub(crate) const ACCEPTED_REACTION: &str = "eyes";
/// The time that the reaction may take.
const REACTION_TIMEOUT: Duration = Duration::from_secs(3);
/// An event is retried so often because of its context; then it is handled without it.
const MAX_CONTEXT_ATTEMPTS: i64 = 3;
/// The maximum number of names that are looked up for one message.
const MAX_NAME_LOOKUPS: usize = 20;
/// The text of a message that only shows something.
const WORDLESS_TEXT: &str = "See above.";
/// The text of a message that is nothing but a mention.
const HELP_COMMAND: &str = "/help";

/// The handler of the events of Slack.
pub(crate) struct SlackEventHandler<'a> {
    pub adapter: &'a SlackAdapter,
    pub api: &'a SlackApi,
}

#[async_trait]
impl EventHandler for SlackEventHandler<'_> {
    fn thread_of(&self, event: &RawEvent) -> String {
        let payload = serde_json::from_str::<Value>(&event.body).ok();
        match payload.and_then(|payload| parse_payload(&payload).ok()) {
            Some(SlackPayload::Message { event, .. }) => conversation_id(&event.channel, event.thread()),
            Some(SlackPayload::Press(press)) => {
                conversation_id(&press.channel, press.thread_ts.as_ref().unwrap_or(&press.message_ts))
            }
            _ => event.delivery.clone(),
        }
    }

    async fn handle_event(&self, event: &RawEvent) -> Result<String, HandleError> {
        let payload: Value =
            serde_json::from_str(&event.body).map_err(|error| HandleError::hopeless(error.to_string()))?;
        match parse_payload(&payload).map_err(|error| HandleError::hopeless(error.to_string()))? {
            SlackPayload::Message { event: message, .. } => self.handle_message(&message, event.tries).await,
            SlackPayload::Press(press) => self.handle_press(&press).await,
            SlackPayload::Verification { .. } | SlackPayload::Other => Ok("nothing to do".to_owned()),
        }
    }

    /// Looks up our own account. If it is unknown, all events wait.
    async fn prepare(&self, failures: i64) -> bool {
        if self.adapter.bot_account().is_some() {
            return true;
        }
        match self.api.test_token().await {
            Ok(account) => {
                tracing::info!(account = account.user, team = account.team, "connected to Slack");
                self.adapter.health.account_known(&account.user, &account.team);
                self.adapter.us.send_replace(Some(BotAccount { user: account.user_id, name: account.user }));
                self.adapter.report_health().await;
                true
            }
            Err(error) => {
                tracing::warn!(%error, "own Slack account not looked up");
                self.adapter.health.account_failed(&error.to_string());
                self.adapter.report_health().await;
                self.adapter
                    .queue
                    .pause_for(retry_delay(error.retry_advice(), failures).unwrap_or(LONGEST_RETRY_DELAY));
                false
            }
        }
    }
}

impl SlackEventHandler<'_> {
    #[tracing::instrument(name = "slack_event", skip_all, fields(channel = event.channel, ts = event.ts))]
    async fn handle_message(&self, event: &MessageEvent, tries: i64) -> Result<String, HandleError> {
        let (Some(us), Some(user)) = (self.adapter.bot_account(), event.user.as_deref()) else {
            return Ok("ignored: the message of no person".to_owned());
        };
        let store = &self.adapter.conversations.store;
        let relevance = classify_event(event, &us);
        if let Relevance::Ignored(why) = relevance {
            return Ok(format!("ignored: {why}"));
        }
        let (conversation, delivery) = (conversation_id(&event.channel, event.thread()), message_delivery(event));
        if store.was_heard(&delivery).await? {
            return Ok("accepted before".to_owned());
        }
        let known = store.conversations_called(&conversation).await?;
        let is_known = known.iter().any(|conversation| conversation.platform == SLACK_PLATFORM);
        if relevance == Relevance::Overheard && !is_known {
            return Ok("ignored: no mention".to_owned());
        }
        if !self.may_direct(user).await? {
            tracing::info!(user, "message refused: add the user to `adapters.slack.allowed_users` to allow it");
            return Ok(format!("refused: {user} is not in adapters.slack.allowed_users"));
        }
        let earlier = match is_known {
            // The agent was told about everything since it joined the thread.
            true => Vec::new(),
            false => optional(self.earlier_messages(event, &us).await, tries)?,
        };
        let files = optional(self.attached_files(event).await, tries)?;
        let context = build_context(&earlier, &files);
        let names = self.names_of(mentioned_users(&event.text)).await;
        let text = without_mention(&event.text, &us.user, &names);
        let text = command_text(&text.unwrap_or_else(|| plain_text(&event.text, &names)));
        let text = match (text.is_empty(), &context) {
            (false, _) => text,
            (true, Some(_)) => WORDLESS_TEXT.to_owned(),
            (true, None) => HELP_COMMAND.to_owned(),
        };
        // Before the message is accepted: its answer takes the reaction away, and may come at once.
        let reaction = self.api.add_reaction(&event.channel, &event.ts, ACCEPTED_REACTION);
        match tokio::time::timeout(REACTION_TIMEOUT, reaction).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::info!(%error, "reaction not added"),
            Err(_) => tracing::info!("reaction not added in time"),
        }
        let incoming = IncomingEvent {
            via: SLACK_PLATFORM.to_owned(),
            platform: SLACK_PLATFORM.to_owned(),
            conversation,
            parent: Some(event.channel.clone()),
            user: Some(user.to_owned()),
            delivery: Some(delivery),
            event: IncomingPayload::Message { text, context, hints: Box::default() },
        };
        let accepted = self.adapter.conversations.accept_incoming(&incoming).await?;
        Ok(if accepted.repeated { "accepted before" } else { "accepted" }.to_owned())
    }

    /// Tells whether a person may direct the agent. The list may change while the server runs.
    pub(crate) async fn may_direct(&self, user: &str) -> Result<bool, StoreError> {
        let conversations = &self.adapter.conversations;
        let chat = conversations.settings.current().slack_settings().chat;
        is_allowed(conversations, SLACK_PLATFORM, &chat, ChatUser { id: user, login: None }).await
    }

    /// Returns the messages before this one in its thread, by people who may direct the agent and by the bot.
    async fn earlier_messages(
        &self,
        event: &MessageEvent,
        us: &BotAccount,
    ) -> Result<Vec<EarlierMessage>, HandleError> {
        if event.thread() == event.ts {
            return Ok(Vec::new());
        }
        let replies = self.api.list_replies(&event.channel, event.thread(), None).await?;
        let mut readable = Vec::new();
        for reply in &replies {
            let (Some(user), Some(text)) = (reply["user"].as_str(), reply["text"].as_str()) else { continue };
            let is_earlier = reply["ts"].as_str().is_some_and(|ts| is_before(ts, &event.ts));
            if is_earlier && (user == us.user || (reply["bot_id"].is_null() && self.may_direct(user).await?)) {
                readable.push((user, text));
            }
        }
        // The first message says what the thread is about.
        let surplus = readable.len().saturating_sub(MAX_EARLIER_MESSAGES);
        readable.drain(readable.len().min(1)..(1 + surplus).min(readable.len()));
        let mut users: Vec<&str> = readable.iter().map(|(user, _)| *user).collect();
        readable.iter().for_each(|(_, text)| users.extend(mentioned_users(text)));
        let mut names = self.names_of(users).await;
        names.insert(us.user.clone(), format!("{} (you)", us.name));
        let message = |(user, text): (&str, &str)| EarlierMessage {
            author: names.get(user).cloned().unwrap_or_else(|| user.to_owned()),
            text: plain_text(text, &names),
        };
        Ok(readable.into_iter().map(message).collect())
    }

    async fn attached_files(&self, event: &MessageEvent) -> Result<Vec<AttachedFile>, HandleError> {
        let (mut files, mut downloads) = (Vec::new(), 0);
        for file in &event.files {
            let mut text = None;
            if let Some(url) = file.url.as_deref().filter(|_| is_readable(file) && downloads < MAX_FILES) {
                downloads += 1;
                text = self.api.download_text(url, MAX_FILE_BYTES).await?;
            }
            files.push(AttachedFile { name: file.name.clone(), text });
        }
        Ok(files)
    }

    /// Returns the names of users, as far as they can be found out.
    async fn names_of(&self, mut users: Vec<&str>) -> UserNames {
        let mut names = UserNames::new();
        users.sort_unstable();
        users.dedup();
        for user in users.into_iter().take(MAX_NAME_LOOKUPS) {
            if let Some(name) = self.adapter.user_name(self.api, user).await {
                names.insert(user.to_owned(), name);
            }
        }
        names
    }
}

/// Returns the key under which a message is accepted once, however often Slack sends it.
fn message_delivery(event: &MessageEvent) -> String {
    format!("{SLACK_PLATFORM}:{}", conversation_id(&event.channel, &event.ts))
}

/// Compares two timestamps by their numbers.
fn is_before(one: &str, other: &str) -> bool {
    let number =
        |ts: &str| ts.split_once('.').and_then(|(seconds, rest)| Some((seconds.parse::<u64>().ok()?, rest.to_owned())));
    number(one) < number(other)
}

/// Returns a part of the context; it is left out if it cannot be had.
fn optional<T>(found: Result<Vec<T>, HandleError>, tries: i64) -> Result<Vec<T>, HandleError> {
    match found {
        Ok(found) => Ok(found),
        Err(HandleError::Store(error)) => Err(error.into()),
        Err(HandleError::Failed { advice, why, .. })
            if advice == RetryAdvice::Never || tries >= MAX_CONTEXT_ATTEMPTS =>
        {
            tracing::warn!(error = why, "message handled without a part of its context");
            Ok(Vec::new())
        }
        // Missing rights concern only this request.
        Err(HandleError::Failed { advice, why, .. }) => {
            Err(HandleError::Failed { advice, concerns_all: matches!(advice, RetryAdvice::After(_)), why })
        }
    }
}

impl SlackAdapter {
    /// Returns the name of a user, from the cache or from Slack; `None` if Slack does not tell.
    async fn user_name(&self, api: &SlackApi, user: &str) -> Option<String> {
        if let Some(known) = self.cached_name(user) {
            return known;
        }
        match api.user_name(user).await {
            Ok(name) => self.cache_name(user, name),
            Err(ChatApiError::Refused { .. } | ChatApiError::BadCredentials { .. }) => self.cache_name(user, None),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_compared_as_numbers() {
        assert!(is_before("9.5", "10.1") && is_before("10.000100", "10.000200"));
        assert!(!is_before("10.1", "10.1") && !is_before("10.2", "10.1"));
    }
}
