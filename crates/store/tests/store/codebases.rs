use grove_store::StoreError;
use grove_testkit::both_engines;

use crate::{new_codebase, open_store};

both_engines! {
    async fn a_repository_is_registered_once(store: TestStore) {
        let store = open_store(&store).await;
        let new = new_codebase("acme", "app", "/src/app");
        let first = store.register_codebase(&new).await.unwrap();
        let again = store.register_codebase(&new).await.unwrap();
        assert_eq!(first, again);
        assert_eq!(store.codebase_of_repository(&new.git_common_dir).await.unwrap().as_ref(), Some(&first));
        assert_eq!(store.list_codebases().await.unwrap(), [first]);
    }

    async fn two_clones_of_one_remote_never_share_folders_or_names(store: TestStore) {
        let store = open_store(&store).await;
        let first = store.register_codebase(&new_codebase("acme", "app", "/src/app")).await.unwrap();
        let second = store.register_codebase(&new_codebase("acme", "app", "/other/place/app")).await.unwrap();
        assert_eq!((first.name.as_str(), first.folders.owner.as_str()), ("app", "acme/app"));
        assert_eq!((second.name.as_str(), second.folders.owner.as_str()), ("app-16", "acme/app-16"));
        // Another owner's repository of that name shares only in the layout without owners.
        let third = store.register_codebase(&new_codebase("fork", "app", "/x/app")).await.unwrap();
        assert_eq!((third.folders.owner.as_str(), third.folders.project.as_str()), ("fork/app", "app-6"));
    }

    async fn a_name_given_by_a_person_is_theirs_or_an_error(store: TestStore) {
        let store = open_store(&store).await;
        let mut new = new_codebase("acme", "app", "/src/app");
        new.given_name = Some("backend".to_owned());
        assert_eq!(store.register_codebase(&new).await.unwrap().name, "backend");
        let mut other = new_codebase("acme", "other", "/src/other");
        other.given_name = Some("backend".to_owned());
        assert!(matches!(store.register_codebase(&other).await, Err(StoreError::NameTaken(name)) if name == "backend"));
        assert_eq!(store.list_codebases().await.unwrap().len(), 1);
    }

    async fn a_removed_codebase_comes_back_with_its_id_and_folders(store: TestStore) {
        let store = open_store(&store).await;
        let new = new_codebase("acme", "app", "/src/app");
        let first = store.register_codebase(&new).await.unwrap();
        store.unregister_codebase(first.id).await.unwrap();
        assert_eq!(store.list_codebases().await.unwrap(), []);
        // Meanwhile its name is free, its folders are not.
        let other = store.register_codebase(&new_codebase("acme", "app", "/elsewhere/app")).await.unwrap();
        assert_eq!((other.name.as_str(), other.folders.owner.as_str()), ("app", "acme/app-14"));
        let back = store.register_codebase(&new).await.unwrap();
        assert_eq!((back.id, &back.folders, back.name.as_str()), (first.id, &first.folders, "app-8"));
    }

    async fn registrations_at_once_end_in_one_row_each(store: TestStore) {
        let store = open_store(&store).await;
        let calls: Vec<_> = (0..20).map(|n| {
            let (store, new) = (store.clone(), new_codebase("acme", "app", ["/a/app", "/src/app"][n % 2]));
            tokio::spawn(async move { store.register_codebase(&new).await })
        }).collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        let all = store.list_codebases().await.unwrap();
        assert_eq!(all.len(), 2);
        assert_ne!(all[0].folders.owner, all[1].folders.owner);
    }
}
