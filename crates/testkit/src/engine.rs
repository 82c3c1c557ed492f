//! Runs the same test on two database engines.

use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The variable in which `scripts/test` passes its PostgreSQL: an address with a database to connect to.
const POSTGRES_URL_VARIABLE: &str = "GROVE_TEST_POSTGRES";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestEngine {
    Sqlite,
    Postgres,
}

/// An empty store of one engine, deleted when this value is dropped.
pub struct TestStore {
    pub url: String,
    database: Option<String>,
    _dir: TempDir,
}

impl TestStore {
    pub fn new(engine: TestEngine) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        match engine {
            TestEngine::Sqlite => {
                Self { url: format!("sqlite://{}/grove.db", dir.path().display()), database: None, _dir: dir }
            }
            TestEngine::Postgres => {
                let name = dir.path().file_name().expect("a name").to_string_lossy();
                let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
                let database = format!("grove_{}_{}", std::process::id(), name.to_lowercase());
                run_psql(&format!("CREATE DATABASE {database}"));
                let url = postgres_address().replace("/postgres?", &format!("/{database}?"));
                Self { url, database: Some(database), _dir: dir }
            }
        }
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            run_psql(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"));
        }
    }
}

fn postgres_address() -> String {
    std::env::var(POSTGRES_URL_VARIABLE)
        .unwrap_or_else(|_| panic!("{POSTGRES_URL_VARIABLE} is not set; run `scripts/test`, which starts PostgreSQL"))
}

fn run_psql(statement: &str) {
    let status = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--dbname", &postgres_address(), "--command", statement])
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("psql starts");
    assert!(status.success(), "psql: {statement}");
}

/// Runs one test on both engines: `both_engines! { async fn name(store: TestStore) { … } }`
#[macro_export]
macro_rules! both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($store:ident: TestStore) $body:block)+) => {$(
        mod $name {
            use super::*;

            async fn test_body($store: $crate::TestStore) $body

            $(#[$meta])*
            #[tokio::test]
            async fn sqlite() {
                test_body($crate::TestStore::new($crate::TestEngine::Sqlite)).await;
            }

            $(#[$meta])*
            #[tokio::test]
            async fn postgres() {
                test_body($crate::TestStore::new($crate::TestEngine::Postgres)).await;
            }
        }
    )+};
    ($($(#[$meta:meta])* fn $name:ident($store:ident: TestStore) $body:block)+) => {$(
        mod $name {
            use super::*;

            fn story($store: $crate::TestStore) $body

            $(#[$meta])*
            #[test]
            fn sqlite() {
                story($crate::TestStore::new($crate::TestEngine::Sqlite));
            }

            $(#[$meta])*
            #[test]
            fn postgres() {
                story($crate::TestStore::new($crate::TestEngine::Postgres));
            }
        }
    )+};
}

/// Writes a test once and runs it on SQLite alone: `on_sqlite! { fn name(store: TestStore) { … } }`. For
/// stories through the whole program, whose store behaves the same on both engines by its own tests.
#[macro_export]
macro_rules! on_sqlite {
    ($($(#[$meta:meta])* fn $name:ident($store:ident: TestStore) $body:block)+) => {$(
        mod $name {
            use super::*;

            $(#[$meta])*
            #[test]
            fn sqlite() {
                let $store = $crate::TestStore::new($crate::TestEngine::Sqlite);
                $body
            }
        }
    )+};
}
