//! The schema, step by step. Append-only: a step that has landed never changes.

use std::borrow::Cow;

use sqlx::migrate::{Migrate, Migration, MigrationType, Migrator};
use sqlx::{AnyConnection, Connection, Executor, SqlSafeStr};

use crate::{Engine, StoreError};

/// The table in which sqlx records the applied steps.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

const MIGRATION_STEPS: &[(i64, &str, &str)] = &[
    (1, "ground", include_str!("../migrations/0001_ground.sql")),
    (2, "journal", include_str!("../migrations/0002_journal.sql")),
    (3, "resolutions", include_str!("../migrations/0003_resolutions.sql")),
    (4, "trash", include_str!("../migrations/0004_trash.sql")),
    (5, "verdicts", include_str!("../migrations/0005_verdicts.sql")),
    (6, "sizes", include_str!("../migrations/0006_sizes.sql")),
    (7, "talk", include_str!("../migrations/0007_talk.sql")),
    (8, "usage", include_str!("../migrations/0008_usage.sql")),
    (9, "platforms", include_str!("../migrations/0009_platforms.sql")),
    (10, "browser_sessions", include_str!("../migrations/0010_browser_sessions.sql")),
    (11, "choices", include_str!("../migrations/0011_choices.sql")),
    (12, "titles", include_str!("../migrations/0012_titles.sql")),
    (13, "trust", include_str!("../migrations/0013_trust.sql")),
];

fn build_migrator() -> Migrator {
    let step = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, sql.into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(MIGRATION_STEPS.iter().map(step).collect());
    migrator.set_locking(false);
    migrator
}

/// Returns the schema version to which this program brings a store.
pub fn latest_version() -> i64 {
    MIGRATION_STEPS.last().map_or(0, |(version, ..)| *version)
}

/// Brings the schema up to date. Refuses a store of a newer version before writing anything.
pub(crate) async fn migrate_schema(connection: &mut AnyConnection, engine: Engine) -> Result<(), StoreError> {
    let migrator = build_migrator();
    if last_applied_version(connection, engine, &migrator).await? == latest_version() {
        return Ok(());
    }
    // Several processes may start at once on a new store: one migrates, the others wait here and then find
    // the schema up to date.
    let mut transaction = connection.begin_with(engine.begin_write()).await?;
    if engine == Engine::Postgres {
        // sqlx would release its own lock before our commit.
        transaction.execute("SELECT pg_advisory_xact_lock(7102026)").await?;
    }
    migrator.run_direct(None, &mut *transaction, false).await.map_err(|error| match error {
        sqlx::migrate::MigrateError::Execute(error) => error.into(),
        other => StoreError::Other(other.to_string()),
    })?;
    Ok(transaction.commit().await?)
}

/// Brings the schema to an earlier version on purpose, to test the migration of rows made then.
pub async fn migrate_to(connection: &mut AnyConnection, version: i64) -> Result<(), StoreError> {
    let done = build_migrator().run_direct(Some(version), connection, false).await;
    done.map_err(|error| StoreError::Other(error.to_string()))
}

/// Returns the last applied step; 0 for an empty store. Only reads.
async fn last_applied_version(
    connection: &mut AnyConnection,
    engine: Engine,
    migrator: &Migrator,
) -> Result<i64, StoreError> {
    let known: Option<i64> =
        sqlx::query_scalar(engine.has_table()).bind(MIGRATIONS_TABLE).fetch_optional(&mut *connection).await?;
    if known.is_none() {
        return Ok(0);
    }
    let steps = connection
        .list_applied_migrations(MIGRATIONS_TABLE)
        .await
        .map_err(|error| StoreError::Other(error.to_string()))?;
    let last = steps.iter().map(|step| step.version).max().unwrap_or(0);
    if last > latest_version() {
        return Err(StoreError::NewerSchema { found: last, known: latest_version() });
    }
    for step in &steps {
        let ours = migrator.iter().find(|ours| ours.version == step.version);
        if ours.is_none_or(|ours| ours.checksum != step.checksum) {
            return Err(StoreError::ForeignSchema(step.version));
        }
    }
    Ok(last)
}
