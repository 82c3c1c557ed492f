//! Takes up edits of GROVE_HOME/config.toml while the server runs.

use std::time::Duration;

use grove_conversations::conversations::{ConversationEvent, Conversations};
use grove_environments::settings::{ProcessEnvironment, Settings};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the file is checked. A notification of the kernel would arrive for every write to
/// the store, which is in the same folder.
const SETTINGS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Loads the settings again whenever their file has changed, until `ending` is set.
pub async fn watch_settings(conversations: &Conversations, mut ending: watch::Receiver<bool>) {
    let settings = conversations.settings.current();
    let mut known = settings.loaded_file_version();
    let mut check = interval(SETTINGS_CHECK_INTERVAL);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = async { drop(ending.wait_for(|ending| *ending).await) } => return,
            _ = check.tick() => {}
        }
        let version = settings.current_file_version();
        if version != known {
            known = version;
            reload_settings(conversations);
            conversations.tell_watchers(ConversationEvent::Settings);
        }
    }
}

/// Loads the settings. A file that cannot be used changes nothing.
fn reload_settings(conversations: &Conversations) {
    let environment = match ProcessEnvironment::of_this_process() {
        Ok(environment) => environment,
        Err(error) => return tracing::error!(%error, "settings not reloaded"),
    };
    match Settings::load_settings(&environment) {
        Ok(loaded) => {
            // Before anything can use them.
            conversations.redactor.learn(loaded.configured_secrets(), loaded.agent_values());
            let needs_restart = conversations.settings.replace(loaded);
            match needs_restart.as_slice() {
                [] => tracing::info!("settings reloaded"),
                keys => tracing::warn!(keys = keys.join(", "), "settings reloaded; these need a restart"),
            }
        }
        Err(error) => {
            let text = conversations.redactor.redact_text(&format!("{error}. {}", error.hint));
            tracing::error!(error = text, "settings not reloaded; the previous ones are kept");
            conversations.settings.keep_because_of(text);
        }
    }
}
