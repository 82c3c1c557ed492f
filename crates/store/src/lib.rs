//! One store, two engines: SQLite in a file, or PostgreSQL.
//!
//! Every statement is written once and runs as the same text on both. Everything that can be
//! asked is here as a method of [`Store`], in a file per table.
//!
//! * A row that makes no sense is an error, never a guess.
//! * Every method may be called again after a lost connection without doing its work twice; lost
//!   connections are tried again for [`Options::patience`].
//! * Opening never changes a store that it cannot serve (corrupt, or of a newer version).

mod browser_sessions;
mod codebases;
mod conversations;
mod environments;
mod error;
mod events;
mod inbox;
mod journal;
mod migrations;
mod open;
mod outbox;
pub mod private;
mod probe;
mod resolutions;
mod row;
mod sending;
mod sessions;
mod trash;
mod turns;
mod usage;
mod verdicts;

pub use browser_sessions::NewBrowserSession;
pub use codebases::NewCodebase;
pub use conversations::{Conversation, ConversationRef};
pub use environments::{Adopted, Claim, NewEnvironment};
pub use error::StoreError;
pub use events::{NewEvent, RawEvent};
pub use inbox::{Accepted, Exchange, Message, Queued};
pub use journal::JournalLine;
pub use migrations::{latest_version, migrate_to};
pub use open::{Engine, Options, sqlite_files};
pub use outbox::{Manner, Said};
pub use sending::Unsent;
pub use sessions::{Session, SessionFacts};
pub use trash::{Begun, Intent, Phase, TrashRow};
pub use turns::{End, TurnKey, Waiting};
pub use usage::Usage;
pub use verdicts::VerdictKey;

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sqlx::AnyPool;

/// A connection to the store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pool: AnyPool,
    engine: Engine,
    /// SQLite's file.
    file: Option<PathBuf>,
    patience: Duration,
}

impl Store {
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Ends all connections; the last one of SQLite folds its log into the file.
    pub async fn close(self) {
        self.pool.close().await;
    }

    /// Runs `work` again while the connection is lost, as long as patience lasts.
    async fn retry<T, F: Future<Output = Result<T, StoreError>>>(&self, work: impl Fn() -> F) -> Result<T, StoreError> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(20);
        loop {
            match work().await {
                Err(error) if error.is_lost_connection() && began.elapsed() < self.patience => {
                    tracing::warn!("the store's connection was lost and is tried again: {error}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(500));
                }
                done => return done,
            }
        }
    }
}
