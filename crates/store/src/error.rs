use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("`{0}` is not the address of a store")]
    BadAddress(String),
    #[error("the store's folder {} cannot be made: {source}", path.display())]
    NoFolder { path: PathBuf, source: io::Error },
    #[error("the store's file {} cannot be opened: {why}", path.display())]
    Unopenable { path: PathBuf, why: String },
    #[error("the store's file {} is not a sound SQLite database: {why}", path.display())]
    Corrupt { path: PathBuf, why: String },
    #[error("the store was written by a newer grove (schema {found}, this one knows {known})")]
    NewerSchema { found: i64, known: i64 },
    #[error("the store's schema {0} is not the one that this grove made")]
    ForeignSchema(i64),
    #[error("another process keeps the store locked")]
    Busy,
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    #[error("the store holds a row that makes no sense: {table} {id}: {why}")]
    Row { table: &'static str, id: String, why: String },
    #[error("the environment is no longer {expected}")]
    Moved { expected: &'static str },
    #[error("the conversation's turn is another process's now")]
    LostTurn,
    #[error("a codebase named `{0}` is registered already")]
    NameTaken(String),
    #[error("the store failed: {0}")]
    Other(String),
}

impl StoreError {
    /// Tells whether the connection was lost: the outcome is unknown, and a retry may help.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self, StoreError::Unreachable(_))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            // Without "error communicating with database", which says no more.
            sqlx::Error::Io(cause) => StoreError::Unreachable(cause.to_string()),
            sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => {
                StoreError::Unreachable(error.to_string())
            }
            sqlx::Error::Database(database) => match database.code().as_deref() {
                // SQLITE_BUSY, SQLITE_LOCKED and their extended codes.
                Some("5" | "6" | "261" | "262" | "517" | "518" | "773") => StoreError::Busy,
                // The server is stopping, has stopped, or is starting; connection exceptions.
                Some(code) if code.starts_with("57P0") || code.starts_with("08") => {
                    StoreError::Unreachable(database.message().to_owned())
                }
                // PostgreSQL's lock_not_available and query_canceled by lock_timeout.
                Some("55P03") => StoreError::Busy,
                _ => StoreError::Other(database.message().to_owned()),
            },
            _ => StoreError::Other(error.to_string()),
        }
    }
}
