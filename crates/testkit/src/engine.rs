//! One story on two engines.

use std::process::{Command, Stdio};

use tempfile::TempDir;

/// Where `scripts/test` keeps its PostgreSQL: an address with a database to connect to.
const POSTGRES: &str = "GROVE_TEST_POSTGRES";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// An empty store of one engine, gone with this value.
pub struct TestStore {
    pub url: String,
    database: Option<String>,
    _dir: TempDir,
}

impl TestStore {
    pub fn new(engine: Engine) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        match engine {
            Engine::Sqlite => {
                Self { url: format!("sqlite://{}/grove.db", dir.path().display()), database: None, _dir: dir }
            }
            Engine::Postgres => {
                let name = dir.path().file_name().expect("a name").to_string_lossy();
                let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
                let database = format!("grove_{}_{}", std::process::id(), name.to_lowercase());
                psql(&format!("CREATE DATABASE {database}"));
                let url = address().replace("/postgres?", &format!("/{database}?"));
                Self { url, database: Some(database), _dir: dir }
            }
        }
    }
}

impl Drop for TestStore {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            psql(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"));
        }
    }
}

fn address() -> String {
    std::env::var(POSTGRES)
        .unwrap_or_else(|_| panic!("{POSTGRES} is not set; run `scripts/test`, which starts PostgreSQL"))
}

fn psql(statement: &str) {
    let status = Command::new("psql")
        .args(["--no-psqlrc", "--quiet", "--dbname", &address(), "--command", statement])
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("psql starts");
    assert!(status.success(), "psql: {statement}");
}

/// Writes a test once and runs it on both engines: `both_engines! { async fn name(store: TestStore) { … } }`
#[macro_export]
macro_rules! both_engines {
    ($($(#[$meta:meta])* async fn $name:ident($store:ident: TestStore) $body:block)+) => {$(
        mod $name {
            use super::*;

            async fn story($store: $crate::TestStore) $body

            $(#[$meta])*
            #[tokio::test]
            async fn sqlite() {
                story($crate::TestStore::new($crate::Engine::Sqlite)).await;
            }

            $(#[$meta])*
            #[tokio::test]
            async fn postgres() {
                story($crate::TestStore::new($crate::Engine::Postgres)).await;
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
                story($crate::TestStore::new($crate::Engine::Sqlite));
            }

            $(#[$meta])*
            #[test]
            fn postgres() {
                story($crate::TestStore::new($crate::Engine::Postgres));
            }
        }
    )+};
}
