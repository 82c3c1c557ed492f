//! Asks Telegram for updates. Asking for the updates behind an offset confirms all before it, so the offset
//! moves only once they are stored.

use std::time::Duration;

use futures_util::future::join_all;
use grove_conversations::backoff::Backoff;
use grove_store::StoreError;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use crate::telegram::adapter::describe_failure;
use crate::telegram::api::{TelegramClient, TelegramError};
use crate::telegram::{TELEGRAM_PLATFORM, TelegramAdapter};

/// The pauses while Telegram does not answer.
const POLL_BACKOFF: Backoff = Backoff { shortest: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// The name of the offset in the store.
const OFFSET_MARK: &str = "offset";
/// After a week without updates Telegram numbers them anew, so an offset of that age is not used.
const MAX_OFFSET_AGE_SECONDS: i64 = 6 * 24 * 60 * 60;

/// The id of the next update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PollOffset {
    bot: i64,
    next: i64,
    /// When the last update came, in seconds.
    at: i64,
}

impl PollOffset {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(|number| number.parse::<i64>().ok());
        Some(Self { bot: numbers.next()??, next: numbers.next()??, at: numbers.next()?? })
    }

    fn to_mark(self) -> String {
        format!("{} {} {}", self.bot, self.next, self.at)
    }

    /// Returns the offset to ask with. Another bot has other numbers.
    fn to_ask_with(self, bot: i64, now: i64) -> Option<i64> {
        (self.bot == bot && now - self.at < MAX_OFFSET_AGE_SECONDS).then_some(self.next)
    }
}

/// Asks until `ending` is set.
pub(crate) async fn run_polling(adapter: &TelegramAdapter, client: &TelegramClient, mut ending: watch::Receiver<bool>) {
    let mut failures = 0;
    while !*ending.borrow_and_update() {
        let pause = tokio::select! {
            pause = poll_once(adapter, client, failures) => pause,
            _ = ending.changed() => continue,
        };
        let Some(pause) = pause else {
            failures = 0;
            continue;
        };
        failures += 1;
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
    }
}

/// Waits for updates and stores them. Returns how long to pause if that failed.
async fn poll_once(adapter: &TelegramAdapter, client: &TelegramClient, failures: i64) -> Option<Duration> {
    adapter.wait_for_identity().await;
    let backoff = POLL_BACKOFF.delay_after(failures);
    let store_failed = |error: &StoreError| {
        tracing::warn!(%error, "Telegram updates not stored");
        Some(backoff)
    };
    let store = &adapter.conversations.store;
    let known = match store.find_mark(TELEGRAM_PLATFORM, OFFSET_MARK).await {
        Ok(mark) => mark.as_deref().and_then(PollOffset::parse),
        Err(error) => return store_failed(&error),
    };
    let offset = known.and_then(|known| known.to_ask_with(adapter.bot_id(), Timestamp::now().as_second()));
    let updates = match client.get_updates(offset).await {
        Ok(updates) => updates,
        Err(error) => return Some(handle_poll_error(adapter, &error, backoff).await),
    };
    adapter.record_recovered().await;
    let last = match store_updates(adapter, updates).await {
        Ok(last) => last?,
        Err(error) => return store_failed(&error),
    };
    let offset = PollOffset { bot: adapter.bot_id(), next: last.saturating_add(1), at: Timestamp::now().as_second() };
    match store.set_mark(TELEGRAM_PLATFORM, OFFSET_MARK, &offset.to_mark()).await {
        Ok(()) => None,
        Err(error) => store_failed(&error),
    }
}

async fn handle_poll_error(adapter: &TelegramAdapter, error: &TelegramError, backoff: Duration) -> Duration {
    tracing::warn!(%error, "Telegram updates not received");
    adapter.check_token_error(error).await;
    match error {
        TelegramError::Limited(wait) => *wait,
        TelegramError::BadToken(_) => backoff,
        TelegramError::Unavailable(_) | TelegramError::Conflict(_) | TelegramError::Refused { .. } => {
            adapter.record_failing(&describe_failure(error)).await;
            backoff
        }
    }
}

/// Stores updates in order. Returns the id of the last one.
async fn store_updates(adapter: &TelegramAdapter, updates: Vec<Value>) -> Result<Option<i64>, StoreError> {
    let mut last = None;
    let mut stored = Vec::new();
    for update in updates {
        let Some(id) = update["update_id"].as_i64() else {
            tracing::warn!("a Telegram update without an id is left out");
            continue;
        };
        last = last.max(Some(id));
        stored.push(adapter.store_update(id, update));
    }
    // All at once, so that they share a transaction.
    for kept in join_all(stored).await {
        kept?;
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_for_one_bot_and_not_for_ever() {
        let offset = PollOffset { bot: 7, next: 43, at: 1_000 };
        assert_eq!(PollOffset::parse(&offset.to_mark()), Some(offset));
        assert_eq!(offset.to_ask_with(7, 1_000 + 86_400), Some(43));
        assert_eq!(offset.to_ask_with(8, 1_000), None);
        assert_eq!(offset.to_ask_with(7, 1_000 + 7 * 86_400), None);
        for bad in ["", "7", "7 8", "a b c"] {
            assert_eq!(PollOffset::parse(bad), None, "{bad}");
        }
    }
}
