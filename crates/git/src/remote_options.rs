//! How remotes are talked to on behalf of one caller.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grove_model::Nonce;

/// How remotes are talked to on behalf of one caller.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// The creation that fetches: reflogs of the refs that its fetches make name it.
    pub creation: Option<Nonce>,
    /// How long a remote may stay silent where what is known here will do; otherwise, and without a
    /// value, a minute.
    pub fetch_timeout: Option<Duration>,
    /// Is told of a remote that lets its caller wait.
    pub on_wait: Option<OnWait>,
}

/// Is told the name of a remote that lets its caller wait, once.
#[derive(Clone)]
pub struct OnWait(Arc<WaitNotice>);

struct WaitNotice {
    told: AtomicBool,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl OnWait {
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(WaitNotice { told: AtomicBool::new(false), tell: Box::new(tell) }))
    }

    pub(crate) fn tell(&self, remote: &str) {
        if !self.0.told.swap(true, Ordering::Relaxed) {
            (self.0.tell)(remote);
        }
    }
}

impl fmt::Debug for OnWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnWait").field("told", &self.0.told).finish_non_exhaustive()
    }
}
