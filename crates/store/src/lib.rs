//! One store, two engines: SQLite in a file, or PostgreSQL.
//!
//! Every statement is written once and runs as the same text on both. Every query is a method of [`Store`];
//! each table has its own file.
//!
//! * A row that makes no sense is an error, never a guess.
//! * Every method may be called again after a lost connection without doing its work twice; lost
//!   connections are retried for [`StoreOptions::patience`].
//! * Opening never changes a store that it cannot serve (corrupt, or of a newer version).

mod approvals;
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
pub use environments::{AdoptedWorktree, ClaimOutcome, NewEnvironment};
pub use error::StoreError;
pub use events::{NewEvent, RawEvent};
pub use inbox::{AcceptedMessage, InboxMessage, MessageExchange, QueuedMessage};
pub use journal::JournalLine;
pub use migrations::{latest_version, migrate_to};
pub use open::{Engine, StoreOptions, sqlite_files};
pub use outbox::OutboxEntry;
pub use sending::UnsentMessage;
pub use sessions::{AgentSession, SessionFacts};
pub use trash::{BeginOutcome, RemovalIntent, TrashRow};
pub use turns::{InboxOutcome, TurnKey, WaitingConversation};
pub use usage::AgentUsage;
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
    pub fn database_engine(&self) -> Engine {
        self.engine
    }

    /// Closes all connections; the last one of SQLite merges the write-ahead log into the file.
    pub async fn close(self) {
        self.pool.close().await;
    }

    /// Retries `work` while the connection is lost, for at most [`StoreOptions::patience`].
    async fn retry_while_disconnected<T, F: Future<Output = Result<T, StoreError>>>(
        &self,
        work: impl Fn() -> F,
    ) -> Result<T, StoreError> {
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
