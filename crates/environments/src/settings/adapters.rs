//! `[adapters.NAME]`: the platforms that messages come from.

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::Settings;
use crate::settings::value::SettingValue;

/// The settings of GitHub.
#[derive(Clone, Debug)]
pub struct GithubSettings {
    pub credentials: Option<GithubCredentials>,
    /// Any of these may sign a webhook; there are several while they are being changed.
    pub webhook_secrets: Vec<String>,
    /// The interval at which GitHub is polled, for installations without a public address.
    pub poll: Option<Duration>,
    /// Repositories that are registered at their first event.
    pub repos: Vec<String>,
    pub bot_name: String,
    pub api_url: String,
    pub allowed_users: Vec<String>,
    pub allow_all: bool,
    /// The interval at which an answer is updated while it is written; without one, it is posted when it is
    /// complete.
    pub update_interval: Option<Duration>,
}

/// The settings that all chat platforms have.
#[derive(Clone, Debug)]
pub struct ChatSettings {
    pub api_url: String,
    /// If not empty, exactly these users may direct the agent.
    pub allowed_users: Vec<String>,
    pub allow_all: bool,
    /// The interval at which an answer is updated while it is written; without one, it is posted when it is
    /// complete.
    pub update_interval: Option<Duration>,
}

/// The settings of Slack.
#[derive(Clone, Debug)]
pub struct SlackSettings {
    pub bot_token: Option<String>,
    /// Turns Socket Mode on.
    pub app_token: Option<String>,
    /// Signs the requests of the Events API.
    pub signing_secret: Option<String>,
    pub chat: ChatSettings,
}

/// The settings of Discord.
#[derive(Clone, Debug)]
pub struct DiscordSettings {
    pub token: Option<String>,
    /// `ws[s]://host:port`
    pub gateway_url: String,
    pub chat: ChatSettings,
}

/// The settings of Telegram.
#[derive(Clone, Debug)]
pub struct TelegramSettings {
    pub token: Option<String>,
    /// Telegram sends this with every webhook; with it, updates are not polled for.
    pub webhook_secret: Option<String>,
    pub chat: ChatSettings,
}

/// The keys of the settings that all chat platforms have.
struct ChatKeys {
    api_url: &'static str,
    allowed_users: &'static str,
    allow_all: &'static str,
    streaming: &'static str,
    update_seconds: &'static str,
}

macro_rules! chat_keys {
    ($name:literal) => {
        ChatKeys {
            api_url: concat!("adapters.", $name, ".api_url"),
            allowed_users: concat!("adapters.", $name, ".allowed_users"),
            allow_all: concat!("adapters.", $name, ".allow_all"),
            streaming: concat!("adapters.", $name, ".streaming"),
            update_seconds: concat!("adapters.", $name, ".update_seconds"),
        }
    };
}

/// The platforms whose chats are permanent workspaces: an environment that one of them uses is never stale.
const PERMANENT_PLATFORMS: [&str; 1] = ["telegram"];

pub fn is_permanent_platform(platform: &str) -> bool {
    PERMANENT_PLATFORMS.contains(&platform)
}

#[derive(Clone, Debug)]
pub enum GithubCredentials {
    Token(String),
    App { id: u64, private_key_file: PathBuf },
}

impl Settings {
    fn chat_settings(&self, keys: &ChatKeys) -> ChatSettings {
        let streams = self.setting_text(keys.streaming) == Some("stream");
        ChatSettings {
            api_url: self.setting_text(keys.api_url).unwrap_or_default().trim_end_matches('/').to_owned(),
            allowed_users: self.setting_list(keys.allowed_users).to_vec(),
            allow_all: self.setting_value(keys.allow_all).and_then(SettingValue::as_bool).unwrap_or(false),
            update_interval: streams.then(|| Duration::from_secs(self.setting_count(keys.update_seconds))),
        }
    }

    pub fn slack_settings(&self) -> SlackSettings {
        let text = |key| self.setting_text(key).map(str::to_owned);
        SlackSettings {
            bot_token: text("adapters.slack.bot_token"),
            app_token: text("adapters.slack.app_token"),
            signing_secret: text("adapters.slack.signing_secret"),
            chat: self.chat_settings(&chat_keys!("slack")),
        }
    }

    pub fn discord_settings(&self) -> DiscordSettings {
        DiscordSettings {
            token: self.setting_text("adapters.discord.token").map(str::to_owned),
            gateway_url: self.setting_text("adapters.discord.gateway_url").unwrap_or_default().to_owned(),
            chat: self.chat_settings(&chat_keys!("discord")),
        }
    }

    pub fn telegram_settings(&self) -> TelegramSettings {
        TelegramSettings {
            token: self.setting_text("adapters.telegram.token").map(str::to_owned),
            webhook_secret: self.setting_text("adapters.telegram.webhook_secret").map(str::to_owned),
            chat: self.chat_settings(&chat_keys!("telegram")),
        }
    }

    pub fn github_settings(&self) -> GithubSettings {
        let text = |key| self.setting_text(key).map(str::to_owned);
        let list =
            |key| self.setting_value(key).and_then(SettingValue::as_list).map(<[String]>::to_vec).unwrap_or_default();
        let app_id = self.setting_value("adapters.github.app_id").and_then(SettingValue::as_count);
        let app = app_id.zip(self.setting_path("adapters.github.private_key_file"));
        let app = app.map(|(id, private_key_file)| GithubCredentials::App { id, private_key_file });
        let seconds = |key| Duration::from_secs(self.setting_count(key));
        let is = |key, word: &str| self.setting_text(key) == Some(word);
        GithubSettings {
            credentials: app.or_else(|| text("adapters.github.token").map(GithubCredentials::Token)),
            webhook_secrets: list("adapters.github.webhook_secret"),
            poll: is("adapters.github.mode", "poll").then(|| seconds("adapters.github.poll_seconds")),
            repos: list("adapters.github.repos"),
            bot_name: text("adapters.github.bot_name").unwrap_or_default().trim_start_matches('@').to_owned(),
            api_url: text("adapters.github.api_url").unwrap_or_default(),
            allowed_users: list("adapters.github.allowed_users"),
            allow_all: self.setting_value("adapters.github.allow_all").and_then(SettingValue::as_bool).unwrap_or(false),
            update_interval: is("adapters.github.streaming", "stream")
                .then(|| seconds("adapters.github.update_seconds")),
        }
    }
}
