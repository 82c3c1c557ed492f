use grove_model::{CommitSha, Nonce, Status, WorkKind};
use grove_store::{ClaimOutcome, ConversationRef, StoreError};
use grove_testkit::both_engines;

use crate::{claim_environment, new_environment, open_store, register_codebase, test_owner};

fn repeated_sha(digit: char) -> CommitSha {
    digit.to_string().repeat(40).parse().unwrap()
}

both_engines! {
    async fn a_claim_becomes_an_active_environment_that_reads_back_whole(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        let creating = claim_environment(&store, &new).await;
        assert_eq!((creating.status, creating.head_sha), (Status::Creating, None));
        let active = store.activate_environment(new.id, new.nonce, Some(("origin/main", &repeated_sha('a'))), &repeated_sha('b'), None).await.unwrap();
        assert_eq!(active.status, Status::Active);
        assert_eq!((active.base_ref.as_deref(), active.base_sha, active.head_sha), (Some("origin/main"), Some(repeated_sha('a')), Some(repeated_sha('b'))));
        assert_eq!(active.created_by_platform.as_deref(), Some("github"));
        assert_eq!((active.branch, active.path, active.work), (new.branch, new.path, new.work.clone()));
        assert_eq!(store.list_environments(codebase.id, false).await.unwrap().iter().map(|e| e.id).collect::<Vec<_>>(), [new.id]);
    }

    async fn one_work_one_branch_one_path_has_one_environment(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let first = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &first).await;
        let same_work = new_environment(&codebase, WorkKind::Issue, "42", "other");
        let same_branch = new_environment(&codebase, WorkKind::Task, "x", "issue-42");
        let mut same_path = new_environment(&codebase, WorkKind::Task, "y", "y");
        same_path.path = first.path.clone();
        for new in [same_work, same_branch, same_path] {
            match store.claim_environment(&new).await.unwrap() {
                ClaimOutcome::Held(holder) => assert_eq!(holder.id, first.id),
                ClaimOutcome::Won(_) => panic!("{new:?} was won too"),
            }
        }
        assert_eq!(store.list_environments(codebase.id, true).await.unwrap().len(), 1);
        // The same claim again, after an answer that was lost on the way.
        claim_environment(&store, &first).await;
    }

    async fn of_many_claims_at_once_one_wins(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let calls: Vec<_> = (0..20).map(|_| {
            let (store, new) = (store.clone(), new_environment(&codebase, WorkKind::Issue, "42", "issue-42"));
            tokio::spawn(async move { matches!(store.claim_environment(&new).await.unwrap(), ClaimOutcome::Won(_)) })
        }).collect();
        let mut winners = 0;
        for call in calls {
            winners += usize::from(call.await.unwrap());
        }
        assert_eq!(winners, 1);
    }

    async fn a_failed_creation_frees_the_work_and_keeps_why(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let first = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &first).await;
        store.abandon_environment(first.id, first.nonce, "disk full").await.unwrap();
        assert_eq!(store.list_environments(codebase.id, false).await.unwrap(), []);
        let kept = &store.list_environments(codebase.id, true).await.unwrap()[0];
        assert_eq!((kept.status, kept.error.as_deref()), (Status::Destroyed, Some("disk full")));
        // A reopened issue works.
        claim_environment(&store, &new_environment(&codebase, WorkKind::Issue, "42", "issue-42")).await;
    }

    async fn only_the_owner_of_the_nonce_finishes_a_creation(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &new).await;
        let stranger = store.activate_environment(new.id, Nonce::new(), None, &repeated_sha('b'), None).await;
        assert!(matches!(stranger, Err(StoreError::Moved { .. })), "{stranger:?}");
        store.abandon_environment(new.id, Nonce::new(), "not mine").await.unwrap();
        assert_eq!(store.find_environment(new.id).await.unwrap().unwrap().status, Status::Creating);
        store.abandon_environment(new.id, new.nonce, "mine").await.unwrap();
        assert!(store.activate_environment(new.id, new.nonce, None, &repeated_sha('b'), None).await.is_err());
    }

    async fn the_life_cycle_moves_by_compare_and_swap(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &new).await;
        store.activate_environment(new.id, new.nonce, None, &repeated_sha('b'), None).await.unwrap();
        store.advance_status(new.id, Status::Active, Status::Removing, None).await.unwrap();
        let late = store.advance_status(new.id, Status::Active, Status::Merging, None).await;
        assert!(matches!(late, Err(StoreError::Moved { expected: "active" })), "{late:?}");
        assert!(store.advance_status(new.id, Status::Removing, Status::Creating, None).await.is_err());
        store.advance_status(new.id, Status::Removing, Status::Failed, Some("why")).await.unwrap();
        assert_eq!(store.find_environment(new.id).await.unwrap().unwrap().error.as_deref(), Some("why"));
    }

    async fn an_unfinished_creation_is_taken_over_by_one(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &new).await;
        let until = grove_model::Moment::now();
        assert!(!store.take_over(new.id, &test_owner(9), &test_owner(2), until).await.unwrap(), "it is not nine's");
        assert!(store.take_over(new.id, &test_owner(1), &test_owner(2), until).await.unwrap());
        assert!(!store.take_over(new.id, &test_owner(1), &test_owner(3), until).await.unwrap(), "two was first");
        store.renew_environment_lease(new.id, &test_owner(1), grove_model::Moment::from_unix(4_000_000_000).unwrap()).await.unwrap();
        let now = store.find_environment(new.id).await.unwrap().unwrap();
        assert_eq!((now.owner, now.lease_until), (Some(test_owner(2)), Some(until)), "who lost it renews nothing");
    }

    async fn the_journal_keeps_its_order(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &new).await;
        for step in ["branch", "staged", "published"] {
            store.record_journal_line(new.id, step, (step == "branch").then_some("{}")).await.unwrap();
        }
        let lines = store.journal_lines(new.id).await.unwrap();
        let steps: Vec<_> = lines.iter().map(|line| (line.step.as_str(), line.detail.as_deref())).collect();
        assert_eq!(steps, [("branch", Some("{}")), ("staged", None), ("published", None)]);
    }

    async fn links_and_conversations_are_found_again(store: TestStore) {
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Pr, "99", "feature");
        claim_environment(&store, &new).await;
        for (kind, number) in [(WorkKind::Issue, 42), (WorkKind::Issue, 7), (WorkKind::Pr, 100), (WorkKind::Issue, 42)] {
            store.link_environment(new.id, kind, number).await.unwrap();
        }
        let found = store.find_environment(new.id).await.unwrap().unwrap();
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
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let first = new_environment(&codebase, WorkKind::Task, "Fix login", "task-fix-login");
        claim_environment(&store, &first).await;
        store.abandon_environment(first.id, first.nonce, "x").await.unwrap();
        let other = new_environment(&codebase, WorkKind::Task, "fix: login", "x");
        assert_eq!(store.branches_of_others(codebase.id, &other.work).await.unwrap(), ["task-fix-login"]);
        assert_eq!(store.branches_of_others(codebase.id, &first.work).await.unwrap(), Vec::<String>::new());
    }

    async fn a_row_that_makes_no_sense_is_an_error_that_names_it(store: TestStore) {
        let url = store.url.clone();
        let store = open_store(&store).await;
        let codebase = register_codebase(&store).await;
        let new = new_environment(&codebase, WorkKind::Issue, "42", "issue-42");
        claim_environment(&store, &new).await;
        sqlx::any::install_default_drivers();
        let pool = sqlx::AnyPool::connect(&url).await.unwrap();
        sqlx::query("UPDATE remote_agent_isolation_environments SET status = 'suspended'").execute(&pool).await.unwrap();
        let error = store.find_environment(new.id).await.unwrap_err().to_string();
        assert!(error.contains(&new.id.to_string()) && error.contains("suspended"), "{error}");
        pool.close().await;
    }
}
