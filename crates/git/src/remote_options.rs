//! Options for contacting remotes for one caller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grove_model::Nonce;

/// Options for contacting remotes for one caller.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// The creation that fetches: reflogs of the refs that its fetches create name it.
    pub creation: Option<Nonce>,
    /// The time that a remote may stay silent if the local state is good enough. Otherwise, and
    /// without a value, it is one minute.
    pub fetch_timeout: Option<Duration>,
    /// Called for a remote that keeps its caller waiting.
    pub on_wait: Option<WaitCallback>,
}

/// A callback that gets the name of a remote that keeps its caller waiting, once.
#[derive(Clone)]
pub struct WaitCallback(Arc<WaitNotice>);

struct WaitNotice {
    told: AtomicBool,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl WaitCallback {
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(WaitNotice { told: AtomicBool::new(false), tell: Box::new(tell) }))
    }

    pub(crate) fn notify_wait(&self, remote: &str) {
        if !self.0.told.swap(true, Ordering::Relaxed) {
            (self.0.tell)(remote);
        }
    }
}

impl fmt::Debug for WaitCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnWait").field("told", &self.0.told).finish_non_exhaustive()
    }
}
