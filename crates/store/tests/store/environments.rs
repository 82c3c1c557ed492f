use grove_model::{CommitSha, Kind, Nonce, Status};
use grove_store::{Claim, ConversationRef, StoreError};
use grove_testkit::both_engines;

use crate::{new_environment, open, owner, registered, won};

fn sha(digit: char) -> CommitSha {
    digit.to_string().repeat(40).parse().unwrap()
}

both_engines! {
    async fn a_claim_becomes_an_active_environment_that_reads_back_whole(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        let creating = won(&store, &new).await;
        assert_eq!((creating.status, creating.head_sha), (Status::Creating, None));
        let active = store.activate(new.id, new.nonce, Some(("origin/main", &sha('a'))), &sha('b')).await.unwrap();
        assert_eq!(active.status, Status::Active);
        assert_eq!((active.base_ref.as_deref(), active.base_sha, active.head_sha), (Some("origin/main"), Some(sha('a')), Some(sha('b'))));
        assert_eq!(active.created_by_platform.as_deref(), Some("github"));
        assert_eq!((active.branch, active.path, active.work), (new.branch, new.path, new.work.clone()));
        assert_eq!(store.environments(codebase.id, false).await.unwrap().iter().map(|e| e.id).collect::<Vec<_>>(), [new.id]);
    }

    async fn one_work_one_branch_one_path_has_one_environment(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let first = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &first).await;
        let same_work = new_environment(&codebase, Kind::Issue, "42", "other");
        let same_branch = new_environment(&codebase, Kind::Task, "x", "issue-42");
        let mut same_path = new_environment(&codebase, Kind::Task, "y", "y");
        same_path.path = first.path.clone();
        for new in [same_work, same_branch, same_path] {
            match store.claim(&new).await.unwrap() {
                Claim::Held(holder) => assert_eq!(holder.id, first.id),
                Claim::Won(_) => panic!("{new:?} was won too"),
            }
        }
        assert_eq!(store.environments(codebase.id, true).await.unwrap().len(), 1);
        // The same claim again, after an answer that was lost on the way.
        won(&store, &first).await;
    }

    async fn of_many_claims_at_once_one_wins(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let calls: Vec<_> = (0..20).map(|_| {
            let (store, new) = (store.clone(), new_environment(&codebase, Kind::Issue, "42", "issue-42"));
            tokio::spawn(async move { matches!(store.claim(&new).await.unwrap(), Claim::Won(_)) })
        }).collect();
        let mut winners = 0;
        for call in calls {
            winners += usize::from(call.await.unwrap());
        }
        assert_eq!(winners, 1);
    }

    async fn a_failed_creation_frees_the_work_and_keeps_why(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let first = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &first).await;
        store.abandon(first.id, first.nonce, "disk full").await.unwrap();
        assert_eq!(store.environments(codebase.id, false).await.unwrap(), []);
        let kept = &store.environments(codebase.id, true).await.unwrap()[0];
        assert_eq!((kept.status, kept.error.as_deref()), (Status::Destroyed, Some("disk full")));
        // A reopened issue works.
        won(&store, &new_environment(&codebase, Kind::Issue, "42", "issue-42")).await;
    }

    async fn only_the_owner_of_the_nonce_finishes_a_creation(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &new).await;
        let stranger = store.activate(new.id, Nonce::new(), None, &sha('b')).await;
        assert!(matches!(stranger, Err(StoreError::Moved { .. })), "{stranger:?}");
        store.abandon(new.id, Nonce::new(), "not mine").await.unwrap();
        assert_eq!(store.environment(new.id).await.unwrap().unwrap().status, Status::Creating);
        store.abandon(new.id, new.nonce, "mine").await.unwrap();
        assert!(store.activate(new.id, new.nonce, None, &sha('b')).await.is_err());
    }

    async fn the_life_cycle_moves_by_compare_and_swap(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &new).await;
        store.activate(new.id, new.nonce, None, &sha('b')).await.unwrap();
        store.advance(new.id, Status::Active, Status::Removing, None).await.unwrap();
        let late = store.advance(new.id, Status::Active, Status::Merging, None).await;
        assert!(matches!(late, Err(StoreError::Moved { expected: "active" })), "{late:?}");
        assert!(store.advance(new.id, Status::Removing, Status::Creating, None).await.is_err());
        store.advance(new.id, Status::Removing, Status::Failed, Some("why")).await.unwrap();
        assert_eq!(store.environment(new.id).await.unwrap().unwrap().error.as_deref(), Some("why"));
    }

    async fn an_unfinished_creation_is_taken_over_by_one(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &new).await;
        let until = grove_model::Moment::now();
        assert!(!store.take_over(new.id, &owner(9), &owner(2), until).await.unwrap(), "it is not nine's");
        assert!(store.take_over(new.id, &owner(1), &owner(2), until).await.unwrap());
        assert!(!store.take_over(new.id, &owner(1), &owner(3), until).await.unwrap(), "two was first");
        store.renew(new.id, &owner(1), grove_model::Moment::from_unix(4_000_000_000).unwrap()).await.unwrap();
        let now = store.environment(new.id).await.unwrap().unwrap();
        assert_eq!((now.owner, now.lease_until), (Some(owner(2)), Some(until)), "who lost it renews nothing");
    }

    async fn the_journal_keeps_its_order(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &new).await;
        for step in ["branch", "staged", "published"] {
            store.record(new.id, step, (step == "branch").then_some("{}")).await.unwrap();
        }
        let lines = store.journal(new.id).await.unwrap();
        let steps: Vec<_> = lines.iter().map(|line| (line.step.as_str(), line.detail.as_deref())).collect();
        assert_eq!(steps, [("branch", Some("{}")), ("staged", None), ("published", None)]);
    }

    async fn links_and_conversations_are_found_again(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Pr, "99", "feature");
        won(&store, &new).await;
        for (kind, number) in [(Kind::Issue, 42), (Kind::Issue, 7), (Kind::Pr, 100), (Kind::Issue, 42)] {
            store.link(new.id, kind, number).await.unwrap();
        }
        let found = store.environment(new.id).await.unwrap().unwrap();
        assert_eq!((found.related_issues, found.related_prs), (vec![7, 42], vec![100]));
        let conversation = |id: &str| ConversationRef { platform: "github".to_owned(), id: id.to_owned() };
        for id in ["acme/app#42", "acme/app#99", "acme/app#42"] {
            store.bind_conversation(&conversation(id), codebase.id, new.id).await.unwrap();
        }
        let conversations = store.conversations_in(codebase.id).await.unwrap();
        assert_eq!(conversations[&new.id], ["acme/app#42", "acme/app#99"]);
        assert_eq!(store.bound_environment(&conversation("acme/app#42")).await.unwrap(), Some(new.id));
        assert_eq!(store.bound_environment(&conversation("acme/app#1")).await.unwrap(), None);
        store.clear_references(new.id).await.unwrap();
        assert_eq!(store.bound_environment(&conversation("acme/app#42")).await.unwrap(), None);
    }

    async fn branches_of_other_works_are_remembered_for_ever(store: TestStore) {
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let first = new_environment(&codebase, Kind::Task, "Fix login", "task-fix-login");
        won(&store, &first).await;
        store.abandon(first.id, first.nonce, "x").await.unwrap();
        let other = new_environment(&codebase, Kind::Task, "fix: login", "x");
        assert_eq!(store.branches_of_others(codebase.id, &other.work).await.unwrap(), ["task-fix-login"]);
        assert_eq!(store.branches_of_others(codebase.id, &first.work).await.unwrap(), Vec::<String>::new());
    }

    async fn a_row_that_makes_no_sense_is_an_error_that_names_it(store: TestStore) {
        let url = store.url.clone();
        let store = open(&store).await;
        let codebase = registered(&store).await;
        let new = new_environment(&codebase, Kind::Issue, "42", "issue-42");
        won(&store, &new).await;
        sqlx::any::install_default_drivers();
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        sqlx::query("UPDATE remote_agent_isolation_environments SET status = 'suspended'").execute(&pool).await.unwrap();
        let error = store.environment(new.id).await.unwrap_err().to_string();
        assert!(error.contains(&new.id.to_string()) && error.contains("suspended"), "{error}");
        pool.close().await;
    }
}
