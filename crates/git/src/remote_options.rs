//! Options for contacting remotes for one caller.

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
}
