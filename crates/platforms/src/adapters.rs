//! The adapters of a server. A new platform is a folder and a line in each function here.

use std::sync::Arc;

use grove_conversations::conversations::Conversations;
use grove_environments::maintenance::doctor::DoctorCheck;
use grove_environments::settings::Settings;
use grove_git::Git;
use grove_model::Codebase;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::adapter::Adapter;
use crate::discord::DiscordAdapter;
use crate::discord::doctor::run_discord_checkup;
use crate::github::adapter::{GithubAdapter, GithubSettingsError};
use crate::github::doctor::run_github_checkup;
use crate::slack::SlackAdapter;
use crate::slack::doctor::run_slack_checkup;
use crate::telegram::TelegramAdapter;
use crate::telegram::doctor::run_telegram_checkup;
use crate::webhook::WebhookReceiver;

/// The configured adapters.
#[derive(Default)]
pub struct Adapters {
    running: Vec<Arc<dyn Adapter>>,
    receivers: Vec<(&'static str, Arc<dyn WebhookReceiver>)>,
}

impl Adapters {
    pub fn new(conversations: &Arc<Conversations>, settings: &Settings) -> Result<Self, GithubSettingsError> {
        let mut all = Self::default();
        all.add_receiver(GithubAdapter::new(conversations, settings)?);
        all.add_receiver(SlackAdapter::new(conversations, settings.slack_settings()));
        all.add_receiver(TelegramAdapter::new(conversations, settings.telegram_settings()));
        all.running.extend(DiscordAdapter::new(conversations, settings.discord_settings()).map(|it| it as _));
        Ok(all)
    }

    fn add_receiver<A: Adapter + WebhookReceiver + 'static>(&mut self, adapter: Option<Arc<A>>) {
        if let Some(adapter) = adapter {
            self.receivers.push((adapter.name(), adapter.clone()));
            self.running.push(adapter);
        }
    }

    /// Returns the receiver of a platform's webhooks.
    pub fn webhook_receiver(&self, platform: &str) -> Option<&dyn WebhookReceiver> {
        self.receivers.iter().find(|(name, _)| *name == platform).map(|(_, receiver)| receiver.as_ref())
    }

    /// Starts all adapters; each runs until `ending` is set, whatever happens to the others.
    pub fn start_all(&self, ending: &watch::Receiver<bool>) -> JoinSet<()> {
        let mut running = JoinSet::new();
        for adapter in &self.running {
            running.spawn(adapter.clone().run_adapter(ending.clone()));
        }
        running
    }
}

/// Checks whether every configured platform works: the platforms' part of `grove doctor`.
pub async fn run_checkups(settings: &Settings, codebases: &[Codebase], git: &Git) -> Vec<DoctorCheck> {
    let (github, slack) = (settings.github_settings(), settings.slack_settings());
    let (discord, telegram) = (settings.discord_settings(), settings.telegram_settings());
    let (github, slack, discord, telegram) = tokio::join!(
        run_github_checkup(&github, codebases, git),
        run_slack_checkup(&slack),
        run_discord_checkup(&discord),
        run_telegram_checkup(&telegram),
    );
    [github, slack, discord, telegram].concat()
}
