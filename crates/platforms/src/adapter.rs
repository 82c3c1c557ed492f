//! What all adapters have in common: they run until the server ends, and record their state.

use std::sync::Arc;

use async_trait::async_trait;
use grove_conversations::conversations::Conversations;
use tokio::sync::watch;

/// A connection to a platform.
#[async_trait]
pub trait Adapter: Send + Sync {
    fn name(&self) -> &'static str;

    /// Runs until `ending` is set. An adapter that fails retries by itself, and never returns early because
    /// of that.
    async fn run_adapter(self: Arc<Self>, ending: watch::Receiver<bool>);
}

/// The state of an adapter, for `/status`, the page and `grove doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterState {
    Connected,
    Failing,
}

/// Records the state of an adapter.
pub async fn record_state(conversations: &Conversations, platform: &str, state: AdapterState, detail: &str) {
    let word = match state {
        AdapterState::Connected => "connected",
        AdapterState::Failing => "failing",
    };
    let detail = conversations.redactor.redact_text(detail);
    let value = serde_json::json!({ "state": word, "detail": detail }).to_string();
    if let Err(error) = conversations.store.set_mark(platform, "state", &value).await {
        tracing::warn!(platform, state = word, %error, "adapter state not recorded");
    }
}
