//! Takes up edits of GROVE_HOME/config.toml while the server runs.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use grove_conversations::conversations::{ConversationEvent, Conversations};
use grove_environments::settings::{ProcessEnvironment, SETTINGS_FILE, Settings};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the file is checked. A notification of the kernel would arrive for every write to
/// the store, which is in the same folder.
const SETTINGS_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A version of the file; `None` if there is none.
type FileVersion = Option<(u64, u64, i64, i64)>;

fn file_version(path: &Path) -> FileVersion {
    let of = |file: Metadata| (file.ino(), file.size(), file.mtime(), file.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}

/// Loads the settings again whenever their file has changed, until `ending` is set.
pub async fn watch_settings(conversations: &Conversations, mut ending: watch::Receiver<bool>) {
    let path = conversations.settings.current().home_path().join(SETTINGS_FILE);
    let mut known = file_version(&path);
    let mut check = interval(SETTINGS_CHECK_INTERVAL);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = async { drop(ending.wait_for(|ending| *ending).await) } => return,
            _ = check.tick() => {}
        }
        let version = file_version(&path);
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
