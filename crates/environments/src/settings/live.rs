//! The settings of a running program, which an edited file can replace.

use std::sync::Arc;

use tokio::sync::watch;

use crate::settings::{SETTING_KEYS, SettingOrigin, Settings};

/// Settings that can be replaced while they are in use. Clones share them.
#[derive(Clone, Debug)]
pub struct LiveSettings {
    current: Arc<watch::Sender<Arc<Settings>>>,
    reload: Arc<watch::Sender<ReloadOutcome>>,
}

/// The outcome of the last time that the edited file was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadOutcome {
    /// The reason why the file cannot be used; the settings before it are kept.
    pub error: Option<String>,
    /// The keys whose new values are used after a restart.
    pub needs_restart: Vec<&'static str>,
}

impl LiveSettings {
    pub fn new(settings: Settings) -> Self {
        let current = Arc::new(watch::Sender::new(Arc::new(settings)));
        Self { current, reload: Arc::new(watch::Sender::new(ReloadOutcome::default())) }
    }

    /// Returns the settings of this moment. One decision reads them once.
    pub fn current(&self) -> Arc<Settings> {
        self.current.borrow().clone()
    }

    pub fn last_reload(&self) -> ReloadOutcome {
        self.reload.borrow().clone()
    }

    /// Is notified whenever the settings are replaced.
    pub fn subscribe_changes(&self) -> watch::Receiver<Arc<Settings>> {
        self.current.subscribe()
    }

    /// Replaces the settings, except for those that need a restart, and returns the keys of these.
    pub fn replace(&self, loaded: Settings) -> Vec<&'static str> {
        let (settings, needs_restart) = self.current().with_reloaded(loaded);
        self.current.send_replace(Arc::new(settings));
        self.reload.send_replace(ReloadOutcome { error: None, needs_restart: needs_restart.clone() });
        needs_restart
    }

    /// Keeps the settings, and remembers why the edited file cannot be used.
    pub fn keep_because_of(&self, error: String) {
        self.reload.send_modify(|reload| reload.error = Some(error));
    }
}

impl Settings {
    /// Returns the newly loaded settings with the flags of this start, and with this start's values of keys
    /// that need a restart. The second value names those of them that changed.
    fn with_reloaded(&self, mut loaded: Settings) -> (Settings, Vec<&'static str>) {
        let mut changed = Vec::new();
        for key in SETTING_KEYS {
            let known = self.entries.get(key.name);
            if let Some((value, origin @ SettingOrigin::Flag(_))) = known {
                loaded.set_if_stronger(key, value.clone(), origin.clone());
            }
            if !key.needs_restart {
                continue;
            }
            if loaded.entries.get(key.name).map(|(value, _)| value) != known.map(|(value, _)| value) {
                changed.push(key.name);
            }
            match known {
                Some(entry) => loaded.entries.insert(key.name, entry.clone()),
                None => loaded.entries.remove(key.name),
            };
        }
        (loaded, changed)
    }
}

impl From<Settings> for LiveSettings {
    fn from(settings: Settings) -> Self {
        Self::new(settings)
    }
}

impl From<&Settings> for LiveSettings {
    fn from(settings: &Settings) -> Self {
        Self::new(settings.clone())
    }
}
