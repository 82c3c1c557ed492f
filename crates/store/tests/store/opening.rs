use std::fs;
use std::os::unix::fs::PermissionsExt;

use grove_model::{ChoiceOption, IncomingPayload, Status, WorkKind};
use grove_store::{Store, StoreError, latest_version};
use grove_testkit::{TestEngine, TestStore, both_engines};
use sqlx::{Connection, Executor};

use crate::{claim_environment, new_environment, open_store, register_codebase, store_options};

both_engines! {
    async fn opening_twice_changes_nothing(store: TestStore) {
        let first = open_store(&store).await;
        let codebase = register_codebase(&first).await;
        first.close().await;
        let second = open_store(&store).await;
        assert_eq!(second.list_codebases().await.unwrap(), [codebase]);
    }

    async fn many_processes_may_start_on_a_new_store_at_once(store: TestStore) {
        let opens: Vec<_> = (0..8).map(|_| {
            let url = store.url.clone();
            tokio::spawn(async move { Store::open(&url, grove_store::StoreOptions::default()).await.map(drop) })
        }).collect();
        for open in opens {
            open.await.unwrap().unwrap();
        }
    }

    async fn a_newer_schema_is_refused_and_left_alone(store: TestStore) {
        let url = store.url.clone();
        let ours = open_store(&store).await;
        register_codebase(&ours).await;
        ours.close().await;
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        let newer = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
                     SELECT version + 100, 'from the future', success, checksum, execution_time FROM _sqlx_migrations";
        pool.execute(newer).await.unwrap();
        pool.close().await;
        let before = file_bytes(&url);
        let error = Store::open(&url, store_options()).await.unwrap_err();
        assert!(matches!(error, StoreError::NewerSchema { found, known } if found == latest_version() + 100 && known == latest_version()), "{error}");
        assert_eq!(file_bytes(&url), before);
    }

    async fn a_schema_that_was_tampered_with_is_refused(store: TestStore) {
        let url = store.url.clone();
        open_store(&store).await.close().await;
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        let other = if url.starts_with("sqlite") { "X'00'" } else { "'\\x00'::bytea" };
        pool.execute(sqlx::AssertSqlSafe(format!("UPDATE _sqlx_migrations SET checksum = {other}"))).await.unwrap();
        pool.close().await;
        assert!(matches!(Store::open(&url, store_options()).await, Err(StoreError::ForeignSchema(1))));
    }

    async fn rows_of_every_earlier_version_survive_the_way_up(store: TestStore) {
        // Each version's rows are put in when the schema has come that far, and read at the end.
        let url = store.url.clone();
        sqlx::any::install_default_drivers();
        let create = if url.starts_with("sqlite") { format!("{url}?mode=rwc") } else { url.clone() };
        let seeds = [
            include_str!("seeds/0001_ground.sql"),
            include_str!("seeds/0002_journal.sql"),
            include_str!("seeds/0003_resolutions.sql"),
            include_str!("seeds/0004_trash.sql"),
            include_str!("seeds/0005_verdicts.sql"),
            include_str!("seeds/0006_sizes.sql"),
            include_str!("seeds/0007_talk.sql"),
            include_str!("seeds/0008_usage.sql"),
            include_str!("seeds/0009_platforms.sql"),
            include_str!("seeds/0010_browser_sessions.sql"),
            include_str!("seeds/0011_choices.sql"),
            include_str!("seeds/0012_titles.sql"),
            include_str!("seeds/0013_trust.sql"),
        ];
        assert_eq!(seeds.len() as i64, latest_version(), "every version brings its rows");
        for (version, rows) in (1..).zip(seeds) {
            let mut connection = sqlx::AnyConnection::connect(&create).await.unwrap();
            grove_store::migrate_to(&mut connection, version).await.unwrap();
            connection.execute(rows).await.unwrap();
            connection.close().await.unwrap();
        }
        let store = open_store(&store).await;
        let codebases = store.list_codebases().await.unwrap();
        assert_eq!(codebases.len(), 1);
        let environments = store.list_environments(codebases[0].id, true).await.unwrap();
        let states: Vec<(Status, Vec<u64>, bool)> =
            environments.iter().map(|e| (e.status, e.related_issues.clone(), e.owner.is_some())).collect();
        assert_eq!(states, [
            (Status::Destroyed, vec![], false),
            (Status::Active, vec![41, 42], false),
            (Status::Creating, vec![], true),
        ]);
        let sizes: Vec<_> = environments.iter().map(|e| (e.size_bytes, e.size_at.map(|at| at.to_string()))).collect();
        assert_eq!(sizes, [(None, None), (Some(8192), Some("2026-01-06T00:00:00.000000Z".to_owned())), (None, None)]);
        assert_eq!(store.journal_lines(environments[2].id).await.unwrap().len(), 1);
        assert_eq!(store.last_resolution(environments[1].id).await.unwrap().as_deref(), Some("[]"));
        let conversations = store.conversations_in(codebases[0].id).await.unwrap();
        assert_eq!(conversations.values().flatten().collect::<Vec<_>>(), ["acme/app#42"]);
        let conversation = store.conversations_called("acme/app#42").await.unwrap();
        assert_eq!(store.conversation_usage(conversation[0].id).await.unwrap().cost_microdollars, 5600);
        assert_eq!(store.waiting_events("github", None, 9).await.unwrap()[0].delivery, "d-1");
        assert_eq!(store.find_mark("github", "since").await.unwrap().as_deref(), Some("2026-01-09T00:00:00Z"));
        assert_eq!(store.next_unsent("github", 9).await.unwrap()[0].text, "hello");
        assert!(store.is_approved(codebases[0].id, ".grove/worktree-init.sh", "abc").await.unwrap());
        let now = grove_model::Moment::now();
        assert!(store.has_browser_session("session-digest", "grove-1.localhost", now).await.unwrap());
        let kept = store.kept_messages(conversation[0].id, i64::MAX).await.unwrap();
        assert!(matches!(&kept[0].event, IncomingPayload::Message { text, .. } if text == "fix the login"), "{kept:?}");
        let asked = store.said_to(&kept[0]).await.unwrap().remove(0).choice.expect("a choice");
        assert_eq!(conversation[0].title.as_deref(), Some("Fix the login"));
        assert_eq!((asked.question.as_str(), asked.options), ("Which one?", ["a", "b"].map(|name| ChoiceOption::new(name, name)).to_vec()));
    }
}

/// The database file, for SQLite.
fn file_bytes(url: &str) -> Option<Vec<u8>> {
    url.strip_prefix("sqlite://").map(|path| fs::read(path).unwrap())
}

#[tokio::test]
async fn corrupt_files_are_refused_and_left_alone() {
    let store = TestStore::new(TestEngine::Sqlite);
    let path = store.url.strip_prefix("sqlite://").unwrap().to_owned();
    let sound = open_store(&store).await;
    let codebase = register_codebase(&sound).await;
    for n in 1..40 {
        let new = new_environment(&codebase, WorkKind::Issue, &n.to_string(), &format!("issue-{n}"));
        claim_environment(&sound, &new).await;
    }
    sound.close().await;
    let good = fs::read(&path).unwrap();
    let page = 4096;
    assert!(good.len() > 8 * page);
    let mut header = good.clone();
    header[..16].fill(b'x');
    let mut schema = good.clone();
    schema[100..page].fill(0xff);
    let mut middle = good.clone();
    middle[3 * page..6 * page].fill(0xab);
    let cut = good[..page * 2 + 100].to_vec();
    let text = b"not a database at all".to_vec();
    for (what, bytes) in [("header", header), ("schema", schema), ("middle", middle), ("cut", cut), ("text", text)] {
        fs::write(&path, &bytes).unwrap();
        let error = Store::open(&store.url, store_options()).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{what}: {error:?}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{what} was touched");
    }
    fs::write(&path, &good).unwrap();
    open_store(&store).await;
}

#[tokio::test]
async fn the_stores_folder_is_private_and_the_file_is_in_wal_mode() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er #%?/grove.db");
    let url = format!("sqlite://{}", path.display().to_string().split('?').next().unwrap());
    let store = Store::open(&url, store_options()).await.unwrap();
    register_codebase(&store).await;
    let folder = dir.path().join("deep");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let wal = walk_files(&folder).into_iter().any(|file| file.ends_with("-wal"));
    assert!(wal, "{:?}", walk_files(&folder));
}

#[tokio::test]
async fn the_files_of_a_store_are_for_this_user_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("grove.db");
    let url = format!("sqlite://{}", path.display());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let is_private = || {
        let files = walk_files(dir.path());
        assert_eq!(files.len(), 3, "{files:?}");
        files.iter().for_each(|file| assert_eq!(mode(file.as_ref()), 0o600, "{file}"));
    };
    let first = Store::open(&url, store_options()).await.unwrap();
    register_codebase(&first).await;
    is_private();
    // Files that an older program, or a copy, left readable for others; also while a process uses them.
    for file in walk_files(dir.path()) {
        fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    }
    let second = Store::open(&url, store_options()).await.unwrap();
    second.list_codebases().await.unwrap();
    is_private();
    assert_eq!(mode(dir.path()), 0o755, "a folder that is not the store's own is left as it is");
}

fn walk_files(dir: &std::path::Path) -> Vec<String> {
    fs::read_dir(dir)
        .unwrap()
        .flat_map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { walk_files(&path) } else { vec![path.display().to_string()] }
        })
        .collect()
}

#[tokio::test]
async fn nonsense_addresses_are_refused_without_repeating_them() {
    for url in ["mysql://me:secret@host/x", "grove.db", "sqlite:", "sqlite::memory:", ""] {
        let error = Store::open(url, store_options()).await.unwrap_err();
        assert!(matches!(error, StoreError::BadAddress(_)), "{url}: {error}");
        assert!(!error.to_string().contains("secret"));
    }
}
