//! Opens a store: checks first, then writes.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sqlx::any::AnyPoolOptions;
use sqlx::{AnyConnection, Connection, Executor};

use crate::{Store, StoreError, migrations, private};

/// A database up to this size is checked completely each time it is opened; that costs a millisecond.
const MAX_FULL_CHECK_BYTES: u64 = 4 * 1024 * 1024;

/// The time between two attempts to reach a PostgreSQL.
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    /// Returns the statement that begins a write. SQLite's plain `BEGIN` reads first, and its later write may
    /// then be refused for good.
    pub(crate) fn begin_write(self) -> &'static str {
        match self {
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN",
        }
    }

    pub(crate) fn has_table(self) -> &'static str {
        match self {
            Engine::Sqlite => "SELECT CAST(1 AS BIGINT) FROM sqlite_master WHERE type = 'table' AND name = $1",
            Engine::Postgres => {
                "SELECT CAST(1 AS BIGINT) FROM information_schema.tables WHERE table_schema = current_schema() AND table_name = $1"
            }
        }
    }
}

#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The time to wait for another process that has the store locked.
    pub busy_timeout: Duration,
    /// The time to retry a PostgreSQL that cannot be reached when the store is opened.
    pub connect_timeout: Duration,
    /// The time to retry after a lost connection.
    pub patience: Duration,
    pub connections: u32,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            busy_timeout: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(3),
            patience: Duration::from_secs(10),
            connections: 4,
        }
    }
}

impl Store {
    /// Opens the store at `url` (`sqlite://PATH` or `postgres://…`); creates or updates it where needed.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        if let Some(path) = sqlite_path(url) {
            if path.as_os_str().is_empty() || path == Path::new(":memory:") {
                return Err(StoreError::BadAddress(url.to_owned()));
            }
            Self::open_sqlite(path, options).await
        } else if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            Self::open_postgres(url, options).await
        } else {
            // The message leaves out the address: it may contain a password.
            let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
            Err(StoreError::BadAddress(format!("{scheme}:…")))
        }
    }

    async fn open_sqlite(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
            private::create_folder(folder)
                .map_err(|source| StoreError::NoFolder { path: folder.to_owned(), source })?;
        }
        let size = look_at(path)?;
        make_private(path).map_err(|error| StoreError::Unopenable { path: path.to_owned(), why: error.to_string() })?;
        let failed = |error: sqlx::Error| sqlite_error(path, error);
        let url = format!("sqlite://{}?mode=rwc", escape_path(path));
        // Each connection caches pages of its own; with SQLite's 2 MiB a server would grow with its store for
        // days. The operating system caches the pages as well, once for all connections.
        let pragmas = format!(
            "PRAGMA busy_timeout = {}; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; PRAGMA cache_size = -512;",
            options.busy_timeout.as_millis()
        );
        let mut first = AnyConnection::connect(&url).await.map_err(failed)?;
        let prepared = prepare_sqlite(&mut first, path, size, &pragmas, options.busy_timeout).await;
        // The connection is closed also after a refusal: the last one to close deletes SQLite's side files.
        let closed = first.close().await;
        prepared?;
        closed.map_err(failed)?;
        let pool = AnyPoolOptions::new()
            .max_connections(options.connections)
            .acquire_timeout(options.busy_timeout.max(Duration::from_secs(5)))
            .after_connect(move |connection, _| {
                let pragmas = pragmas.clone();
                Box::pin(async move { connection.execute(sqlx::AssertSqlSafe(pragmas)).await.map(drop) })
            })
            .after_release(|connection, _| Box::pin(is_reusable(connection)))
            .connect_lazy(&url)?;
        Ok(Self { pool, engine: Engine::Sqlite, file: Some(path.to_owned()), patience: options.patience })
    }

    async fn open_postgres(url: &str, options: StoreOptions) -> Result<Self, StoreError> {
        let lock_timeout = format!("SET lock_timeout = {}", options.busy_timeout.as_millis());
        let set_first = sqlx::AssertSqlSafe(lock_timeout.clone());
        let pool = AnyPoolOptions::new()
            .max_connections(options.connections)
            .acquire_timeout(Duration::from_secs(5))
            .after_connect(move |connection, _| {
                let lock_timeout = lock_timeout.clone();
                Box::pin(async move { connection.execute(sqlx::AssertSqlSafe(lock_timeout)).await.map(drop) })
            })
            .after_release(|connection, _| Box::pin(is_reusable(connection)))
            .connect_lazy(url)
            .map_err(|_| StoreError::BadAddress("postgres://…".to_owned()))?;
        let mut first = connect_to_postgres(url, options.connect_timeout).await?;
        first.execute(set_first).await?;
        let migrated = migrations::migrate_schema(&mut first, Engine::Postgres).await;
        let closed = first.close().await;
        migrated?;
        closed?;
        Ok(Self { pool, engine: Engine::Postgres, file: None, patience: options.patience })
    }
}

/// Connects to a PostgreSQL, and retries one that cannot be reached for `limit`. A pool would do that too, but
/// report only that it timed out, not why.
async fn connect_to_postgres(url: &str, limit: Duration) -> Result<AnyConnection, StoreError> {
    let mut cause = None;
    let connecting = async {
        loop {
            let error = match AnyConnection::connect(url).await {
                Ok(connection) => return Ok(connection),
                // It starts or stops, or has too many connections at the moment.
                Err(sqlx::Error::Database(database)) if database.is_transient_in_connect_phase() => {
                    StoreError::Unreachable(database.message().to_owned())
                }
                // Waiting does not help against a wrong name or password.
                Err(sqlx::Error::Database(database)) => StoreError::Other(database.message().to_owned()),
                Err(other) => other.into(),
            };
            if !error.is_lost_connection() {
                return Err(error);
            }
            cause = Some(error);
            tokio::time::sleep(CONNECT_RETRY_INTERVAL).await;
        }
    };
    let connected = tokio::time::timeout(limit, connecting).await;
    let silent = || StoreError::Unreachable(format!("it did not answer within {} s", limit.as_secs()));
    connected.unwrap_or_else(|_| Err(cause.unwrap_or_else(silent)))
}

/// Tells whether a connection may be used again; otherwise the pool closes it.
///
/// When the disk is full, SQLite rolls a failed transaction back by itself. The `ROLLBACK` that follows then
/// fails, and the driver believes for ever that a transaction is open and refuses to begin another.
async fn is_reusable(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    // A rollback that was only queued runs before the ping is answered.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// Checks the file, then brings it up to date; writes nothing before all checks are done.
async fn prepare_sqlite(
    first: &mut AnyConnection,
    path: &Path,
    size: u64,
    pragmas: &str,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    let failed = |error: sqlx::Error| sqlite_error(path, error);
    first.execute(sqlx::AssertSqlSafe(pragmas.to_owned())).await.map_err(failed)?;
    if size > 0 && size <= MAX_FULL_CHECK_BYTES {
        let verdict: String =
            sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut *first).await.map_err(failed)?;
        if verdict != "ok" {
            return Err(StoreError::Corrupt { path: path.to_owned(), why: verdict });
        }
    }
    migrations::migrate_schema(first, Engine::Sqlite).await.map_err(|error| match error {
        StoreError::Other(why) if size > 0 => StoreError::Corrupt { path: path.to_owned(), why },
        other => other,
    })?;
    use_wal(first, busy_timeout).await.map_err(failed)
}

/// Turns the write-ahead log on. SQLite by itself does not wait for other processes here.
async fn use_wal(first: &mut AnyConnection, busy_timeout: Duration) -> Result<(), sqlx::Error> {
    let began = Instant::now();
    loop {
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *first).await?;
        if mode == "wal" {
            return Ok(());
        }
        let turned: Result<String, sqlx::Error> =
            sqlx::query_scalar("PRAGMA journal_mode = WAL").fetch_one(&mut *first).await;
        match turned {
            Ok(_) => return Ok(()),
            Err(error) if began.elapsed() > busy_timeout => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Returns the size of the file, 0 when it does not exist; refuses a file that is no database at all.
fn look_at(path: &Path) -> Result<u64, StoreError> {
    let unopenable = |why: String| StoreError::Unopenable { path: path.to_owned(), why };
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(unopenable(error.to_string())),
    };
    let meta = file.metadata().map_err(|error| unopenable(error.to_string()))?;
    if !meta.is_file() {
        return Err(unopenable("it is not a file".to_owned()));
    }
    let mut magic = [0; 16];
    if meta.len() > 0 && (file.read_exact(&mut magic).is_err() || magic != *b"SQLite format 3\0") {
        return Err(StoreError::Corrupt { path: path.to_owned(), why: "it does not begin like one".to_owned() });
    }
    Ok(meta.len())
}

fn sqlite_error(path: &Path, error: sqlx::Error) -> StoreError {
    let code = error.as_database_error().and_then(|database| database.code().map(|code| code.into_owned()));
    let why = error.as_database_error().map_or_else(|| error.to_string(), |database| database.message().to_owned());
    let path = PathBuf::from(path);
    // The low byte of SQLite's extended code is the plain one.
    match code.and_then(|code| code.parse::<i32>().ok()).map(|code| code & 0xff) {
        Some(11 | 26) => StoreError::Corrupt { path, why },
        Some(8 | 10 | 13 | 14 | 23) => StoreError::Unopenable { path, why },
        _ => error.into(),
    }
}

/// Makes the store's files private before anything is written. SQLite gives new files beside the database the
/// database's own mode, but does not change existing ones. A file of another user keeps its mode.
fn make_private(path: &Path) -> io::Result<()> {
    private::create_file(path)?;
    for file in files_of(path) {
        match private::restrict_permissions(&file) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!("others may be able to read {}: {error}", file.display());
            }
            // SQLite deletes the files beside the database when the last connection closes.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

fn files_of(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|ending| {
        let mut file = path.as_os_str().to_owned();
        file.push(ending);
        PathBuf::from(file)
    })
}

fn sqlite_path(url: &str) -> Option<&Path> {
    let path = url.strip_prefix("sqlite:")?;
    let path = path.strip_prefix("//").unwrap_or(path);
    Some(Path::new(path.split_once('?').map_or(path, |(path, _)| path)))
}

/// Returns the files that a store at this address may have; none for PostgreSQL.
pub fn sqlite_files(url: &str) -> Vec<PathBuf> {
    sqlite_path(url).map(files_of).into_iter().flatten().collect()
}

/// Escapes a path for use in an address.
fn escape_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    text.chars().fold(String::new(), |mut out, c| {
        match c {
            '%' | '?' | '#' | ' ' => out.push_str(&format!("%{:02X}", c as u32)),
            c => out.push(c),
        }
        out
    })
}
