//! Locked, restarted, gone.

use std::time::{Duration, Instant};

use grove_model::WorkKind;
use grove_store::{Store, StoreError, StoreOptions};
use grove_testkit::{TestEngine, TestPostgres, TestStore};
use sqlx::{Connection, Executor};

use crate::{claim_environment, new_environment, open_store, register_codebase, store_options};

#[tokio::test]
async fn a_locked_sqlite_is_waited_for_and_then_a_typed_error() {
    let test = TestStore::new(TestEngine::Sqlite);
    let store = open_store(&test).await;
    let codebase = register_codebase(&store).await;
    let mut other = sqlx::AnyConnection::connect(&test.url).await.unwrap();
    other.execute("BEGIN EXCLUSIVE").await.unwrap();
    let new = new_environment(&codebase, WorkKind::Issue, "1", "issue-1");
    let began = Instant::now();
    let error = store.claim_environment(&new).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy), "{error:?}");
    assert!(began.elapsed() >= store_options().busy_timeout, "it waited");
    // The lock is released while another store waits: it gets through.
    let patient = Store::open(&test.url, StoreOptions { busy_timeout: Duration::from_secs(30), ..store_options() })
        .await
        .unwrap();
    let waiting = tokio::spawn(async move { claim_environment(&patient, &new).await });
    other.execute("COMMIT").await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_restarts_under_load_loses_nothing() {
    let server = TestPostgres::start();
    let store = Store::open(
        &server.database_url("postgres"),
        StoreOptions { patience: Duration::from_secs(60), ..StoreOptions::default() },
    )
    .await
    .unwrap();
    let codebase = register_codebase(&store).await;
    let calls: Vec<_> = (1..=200)
        .map(|n| {
            let (store, new) =
                (store.clone(), new_environment(&codebase, WorkKind::Issue, &n.to_string(), &format!("issue-{n}")));
            tokio::spawn(async move {
                claim_environment(&store, &new).await;
                store
                    .activate_environment(new.id, new.nonce, None, &"a".repeat(40).parse().unwrap(), None)
                    .await
                    .unwrap()
                    .id
            })
        })
        .collect();
    let server = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            server.restart();
        }
        server
    })
    .await
    .unwrap();
    let mut done = Vec::new();
    for call in calls {
        done.push(call.await.unwrap());
    }
    let mut stored: Vec<_> =
        store.list_environments(codebase.id, true).await.unwrap().into_iter().map(|e| e.id).collect();
    done.sort();
    stored.sort();
    assert_eq!(stored, done, "every answer that was given is in the store, once");
    drop(server);
}

#[tokio::test]
async fn a_postgres_that_is_not_there_is_a_typed_error() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("postgres://me:secret@localhost/x?host={}", dir.path().display());
    let options = StoreOptions { connect_timeout: Duration::from_millis(100), ..store_options() };
    let error = Store::open(&url, options).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unreachable(why) if why.contains("No such file")), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
