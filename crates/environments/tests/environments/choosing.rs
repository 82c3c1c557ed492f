//! Conversations and the environments that they work in.

use std::fs;

use grove_environments::create::{CreateHints, CreateMethod, CreateRequest, EnvironmentCreator};
use grove_environments::problem::Problem;
use grove_model::{Status, Work};
use grove_store::ConversationRef;
use grove_testkit::{TestRepo, both_engines};
use sqlx::Executor;

use crate::{EnvironmentsTest, task_request};

fn request_from(platform: &str, id: &str, work: Work) -> CreateRequest {
    let conversation = Some(ConversationRef { platform: platform.to_owned(), id: id.to_owned() });
    CreateRequest {
        work,
        branch: None,
        from: None,
        hints: CreateHints::default(),
        conversation,
        by: EnvironmentCreator::default(),
    }
}

fn issue_request(platform: &str, id: &str) -> CreateRequest {
    request_from(platform, id, Work::for_issue("42").unwrap())
}

both_engines! {
    async fn one_work_asked_for_on_two_platforms_is_one_environment(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let canonical = test.snapshot_checkout();
        let first = world.isolation.create_environment(&world.codebase, &issue_request("github", "acme/app#42")).await.unwrap();
        let second = world.isolation.create_environment(&world.codebase, &issue_request("slack", "C1:2")).await.unwrap();
        assert!(matches!((first.how, second.how), (CreateMethod::Created(_), CreateMethod::Used)));
        assert_eq!(first.environment.id, second.environment.id);
        let conversations = world.store.conversations_in(world.codebase.id).await.unwrap();
        assert_eq!(conversations[&first.environment.id], ["acme/app#42", "C1:2"]);
        canonical.assert_untouched();
    }

    async fn two_who_ask_at_once_are_both_bound_to_the_one_that_is_made(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let (a, b) = (issue_request("github", "acme/app#42"), issue_request("slack", "C1:2"));
        let (a, b) = tokio::join!(world.isolation.create_environment(&world.codebase, &a), world.isolation.create_environment(&world.codebase, &b));
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!(a.environment.id, b.environment.id);
        assert_eq!([&a.how, &b.how].into_iter().filter(|how| matches!(how, CreateMethod::Created(_))).count(), 1);
        let mut conversations = world.store.conversations_in(world.codebase.id).await.unwrap().remove(&a.environment.id).unwrap();
        conversations.sort();
        assert_eq!(conversations, ["C1:2", "acme/app#42"]);
    }

    async fn a_conversation_goes_on_where_it_is_whatever_the_work_is_called(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let first = world.isolation.create_environment(&world.codebase, &issue_request("slack", "C1:2")).await.unwrap();
        let other = request_from("slack", "C1:2", Work::for_thread("C1:2").unwrap());
        let again = world.isolation.create_environment(&world.codebase, &other).await.unwrap();
        assert_eq!((again.environment.id, again.stale_reference), (first.environment.id, false));
    }

    async fn a_bound_worktree_that_was_deleted_is_cleared_and_made_again(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let first = world.isolation.create_environment(&world.codebase, &issue_request("github", "acme/app#42")).await.unwrap().environment;
        world.isolation.create_environment(&world.codebase, &issue_request("slack", "C1:2")).await.unwrap();
        fs::remove_dir_all(&first.path).unwrap();
        let again = world.isolation.create_environment(&world.codebase, &issue_request("github", "acme/app#42")).await.unwrap();
        assert!(again.stale_reference && matches!(again.how, CreateMethod::Created(_)));
        assert_ne!(again.environment.id, first.id);
        let old = world.store.find_environment(first.id).await.unwrap().unwrap();
        assert_eq!((old.status, old.error.as_deref()), (Status::Destroyed, Some("its folder is gone")));
        let slack = ConversationRef { platform: "slack".to_owned(), id: "C1:2".to_owned() };
        assert_eq!(world.store.bound_environment(&slack).await.unwrap(), None, "everybody's reference is cleared");
    }

    async fn a_disk_that_is_away_blocks_its_conversation(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let first = world.isolation.create_environment(&world.codebase, &issue_request("github", "acme/app#42")).await.unwrap().environment;
        let parent = first.path.parent().unwrap();
        fs::rename(parent, test.temp_dir().join("away")).unwrap();
        let error = world.isolation.create_environment(&world.codebase, &issue_request("github", "acme/app#42")).await.unwrap_err();
        assert_eq!(Problem::from(error).code, "not_mounted");
        assert_eq!(world.store.find_environment(first.id).await.unwrap().unwrap().status, Status::Active);
    }

    async fn a_legacy_path_is_taken_into_the_new_model(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let old = test.temp_dir().join("old-worktree");
        test.git(&["worktree", "add", "-q", "-b", "issue-42", old.to_str().unwrap()]);
        let mut request = issue_request("github", "acme/app#42");
        request.hints.legacy_path = Some(test.temp_dir().join("nothing"));
        request.work = Work::for_issue("7").unwrap();
        request.conversation = None;
        let new = world.isolation.create_environment(&world.codebase, &request).await.unwrap();
        assert!(matches!(new.how, CreateMethod::Created(_)), "a stale one is passed over");
        let mut request = issue_request("github", "acme/app#42");
        request.hints.legacy_path = Some(old.clone());
        let taken = world.isolation.create_environment(&world.codebase, &request).await.unwrap();
        assert_eq!((taken.environment.path.as_path(), taken.environment.branch.as_str()), (old.as_path(), "issue-42"));
        assert!(taken.environment.metadata.migrated_at.is_some());
        assert!(matches!(world.isolation.create_environment(&world.codebase, &request).await.unwrap().how, CreateMethod::Used));
    }

    async fn a_record_that_cannot_become_active_takes_everything_back(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let url = store.url.clone();
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        let refuse = if url.starts_with("sqlite") {
            "CREATE TRIGGER refuse BEFORE UPDATE ON remote_agent_isolation_environments WHEN NEW.status = 'active' \
             BEGIN SELECT RAISE(ABORT, 'the store says no'); END"
        } else {
            "CREATE FUNCTION refuse() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'the store says no'; END $$ LANGUAGE plpgsql; \
             CREATE TRIGGER refuse BEFORE UPDATE ON remote_agent_isolation_environments FOR EACH ROW \
             WHEN (NEW.status = 'active') EXECUTE FUNCTION refuse()"
        };
        pool.execute(refuse).await.unwrap();
        let (branches, canonical) = (test.list_branches(), test.snapshot_checkout());
        let error = world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap_err().to_string();
        assert!(error.contains("the store says no"), "the first error is told: {error}");
        assert_eq!(test.list_branches(), branches);
        canonical.assert_untouched();
        assert_eq!(test.git(&["worktree", "list"]).lines().count(), 1);
        assert!(!test.temp_dir().join("grove/worktrees").exists());
        let rows = world.store.list_environments(world.codebase.id, true).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.status).collect::<Vec<_>>(), [Status::Destroyed]);
        pool.execute(if url.starts_with("sqlite") { "DROP TRIGGER refuse" } else { "DROP TRIGGER refuse ON remote_agent_isolation_environments" }).await.unwrap();
        pool.close().await;
        world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap();
    }
}
