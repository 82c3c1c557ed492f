//! Requests to Discord's REST API.

mod error;
mod objects;
mod send;
mod snowflake;

use serde_json::{Value, json};
use twilight_http::request::Method;

pub use error::DiscordApiError;
pub(crate) use error::log_optional;
pub use objects::{
    DiscordApplication, DiscordAttachment, DiscordChannel, DiscordMessage, DiscordUser, lenient, lenient_list,
};
pub(crate) use send::check_gateway_url;
pub use send::{DiscordClient, DiscordSetupError};
pub use snowflake::Snowflake;

/// The page of messages to list.
#[derive(Clone, Copy, Debug)]
pub enum MessagePage {
    /// The latest ones before a message.
    Before(Snowflake),
    /// The first ones after a message.
    After(Snowflake),
    Latest,
}

/// The maximum number of messages in one page.
pub const MAX_PAGE_SIZE: usize = 100;

/// The way to acknowledge an interaction; the answer follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InteractionReceipt {
    /// A message that says that the bot is thinking.
    Thinking = 5,
    /// Nothing that a person sees.
    Silent = 6,
}

impl DiscordClient {
    pub async fn current_user(&self) -> Result<DiscordUser, DiscordApiError> {
        self.request(Method::Get, "users/@me".to_owned(), None).await
    }

    pub async fn current_application(&self) -> Result<DiscordApplication, DiscordApiError> {
        self.request(Method::Get, "applications/@me".to_owned(), None).await
    }

    pub async fn find_channel(&self, channel: Snowflake) -> Result<DiscordChannel, DiscordApiError> {
        self.request(Method::Get, format!("channels/{channel}"), None).await
    }

    /// Lists messages, the oldest first.
    pub async fn list_messages(
        &self,
        channel: Snowflake,
        page: MessagePage,
        limit: usize,
    ) -> Result<Vec<DiscordMessage>, DiscordApiError> {
        let place = match page {
            MessagePage::Before(message) => format!("&before={message}"),
            MessagePage::After(message) => format!("&after={message}"),
            MessagePage::Latest => String::new(),
        };
        let limit = limit.min(MAX_PAGE_SIZE);
        let found: Vec<Value> =
            self.request(Method::Get, format!("channels/{channel}/messages?limit={limit}{place}"), None).await?;
        let read = found.into_iter().filter_map(|message| serde_json::from_value::<DiscordMessage>(message).ok());
        let mut messages: Vec<DiscordMessage> = read.collect();
        messages.sort_by_key(|message| message.id);
        Ok(messages)
    }

    pub async fn create_message(&self, channel: Snowflake, body: &Value) -> Result<DiscordMessage, DiscordApiError> {
        self.request(Method::Post, format!("channels/{channel}/messages"), Some(body)).await
    }

    pub async fn edit_message(
        &self,
        channel: Snowflake,
        message: Snowflake,
        body: &Value,
    ) -> Result<(), DiscordApiError> {
        self.send(Method::Patch, format!("channels/{channel}/messages/{message}"), Some(body)).await.map(drop)
    }

    pub async fn delete_message(&self, channel: Snowflake, message: Snowflake) -> Result<(), DiscordApiError> {
        self.send(Method::Delete, format!("channels/{channel}/messages/{message}"), None).await.map(drop)
    }

    /// Creates the thread of a message; its id is that of the message.
    pub async fn create_thread(
        &self,
        channel: Snowflake,
        message: Snowflake,
        name: &str,
    ) -> Result<DiscordChannel, DiscordApiError> {
        let path = format!("channels/{channel}/messages/{message}/threads");
        self.request(Method::Post, path, Some(&json!({ "name": name }))).await
    }

    /// Adds a reaction; `emoji` is escaped for an address.
    pub async fn add_reaction(
        &self,
        channel: Snowflake,
        message: Snowflake,
        emoji: &str,
    ) -> Result<(), DiscordApiError> {
        let path = format!("channels/{channel}/messages/{message}/reactions/{emoji}/@me");
        self.send(Method::Put, path, None).await.map(drop)
    }

    /// Removes a reaction of ours.
    pub async fn remove_reaction(
        &self,
        channel: Snowflake,
        message: Snowflake,
        emoji: &str,
    ) -> Result<(), DiscordApiError> {
        let path = format!("channels/{channel}/messages/{message}/reactions/{emoji}/@me");
        self.send(Method::Delete, path, None).await.map(drop)
    }

    /// Acknowledges an interaction; Discord waits three seconds for that.
    pub async fn acknowledge_interaction(
        &self,
        interaction: Snowflake,
        token: &str,
        receipt: InteractionReceipt,
    ) -> Result<(), DiscordApiError> {
        let path = format!("interactions/{interaction}/{token}/callback");
        self.send(Method::Post, path, Some(&json!({ "type": receipt as u8 }))).await.map(drop)
    }

    /// Replaces the message that says that the bot is thinking.
    pub async fn complete_interaction(
        &self,
        application: Snowflake,
        token: &str,
        text: &str,
    ) -> Result<(), DiscordApiError> {
        let body = json!({ "content": text, "allowed_mentions": { "parse": [] } });
        let path = format!("webhooks/{application}/{token}/messages/@original");
        self.send(Method::Patch, path, Some(&body)).await.map(drop)
    }

    pub async fn list_commands(&self, application: Snowflake) -> Result<Vec<Value>, DiscordApiError> {
        self.request(Method::Get, format!("applications/{application}/commands"), None).await
    }

    /// Replaces all slash commands.
    pub async fn replace_commands(&self, application: Snowflake, commands: &Value) -> Result<(), DiscordApiError> {
        self.send(Method::Put, format!("applications/{application}/commands"), Some(commands)).await.map(drop)
    }
}
