//! Locked, restarted, gone.

use std::time::{Duration, Instant};

use grove_model::Kind;
use grove_store::{Options, Store, StoreError};
use grove_testkit::{Engine, Postgres, TestStore};
use sqlx::{Connection, Executor};

use crate::{new_environment, open, options, registered, won};

#[tokio::test]
async fn a_locked_sqlite_is_waited_for_and_then_a_typed_error() {
    let test = TestStore::new(Engine::Sqlite);
    let store = open(&test).await;
    let codebase = registered(&store).await;
    let mut other = sqlx::AnyConnection::connect(&test.url).await.unwrap();
    other.execute("BEGIN EXCLUSIVE").await.unwrap();
    let new = new_environment(&codebase, Kind::Issue, "1", "issue-1");
    let began = Instant::now();
    let error = store.claim(&new).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy), "{error:?}");
    assert!(began.elapsed() >= options().busy_timeout, "it waited");
    // Let go while somebody waits: they get through.
    let patient = Store::open(&test.url, Options { busy_timeout: Duration::from_secs(30), ..options() }).await.unwrap();
    let waiting = tokio::spawn(async move { won(&patient, &new).await });
    other.execute("COMMIT").await.unwrap();
    waiting.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postgres_that_restarts_under_load_loses_nothing() {
    let server = Postgres::start();
    let store =
        Store::open(&server.url("postgres"), Options { patience: Duration::from_secs(60), ..Options::default() })
            .await
            .unwrap();
    let codebase = registered(&store).await;
    let calls: Vec<_> = (1..=200)
        .map(|n| {
            let (store, new) =
                (store.clone(), new_environment(&codebase, Kind::Issue, &n.to_string(), &format!("issue-{n}")));
            tokio::spawn(async move {
                won(&store, &new).await;
                store.activate(new.id, new.nonce, None, &"a".repeat(40).parse().unwrap()).await.unwrap().id
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
    let mut stored: Vec<_> = store.environments(codebase.id, true).await.unwrap().into_iter().map(|e| e.id).collect();
    done.sort();
    stored.sort();
    assert_eq!(stored, done, "every answer that was given is in the store, once");
    drop(server);
}

#[tokio::test]
async fn a_postgres_that_is_not_there_is_a_typed_error() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("postgres://me:secret@localhost/x?host={}", dir.path().display());
    let options = Options { patience: Duration::from_millis(100), ..options() };
    let error = Store::open(&url, options).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
