//! The worktree provider behind its seam.

use std::fs;

use grove_engine::isolation::{Health, IsolationProvider, WorktreeProvider};
use grove_git::Git;
use grove_testkit::{Engine, TestRepo, TestStore};

use crate::{World, task};

#[tokio::test]
async fn what_it_made_is_found_looked_after_and_destroyed_only_while_it_holds_nothing() {
    let (test, store) = (TestRepo::new(), TestStore::new(Engine::Sqlite));
    test.write(".gitignore", "cache/\n");
    test.commit("ignore");
    let world = World::open(&test, &store).await;
    let provider = WorktreeProvider::new(Git::with_program(test.hermetic_git()));
    let environment = world.isolation.create(&world.codebase, &task("x")).await.unwrap().environment;
    let (codebase, path) = (&world.codebase, &environment.path);

    let found = provider.get(codebase, path).await.unwrap().unwrap();
    assert_eq!((found.branch.as_deref(), found.head), (Some("x"), environment.head_sha.clone()));
    assert_eq!(provider.list(codebase).await.unwrap().len(), 1, "never the canonical checkout");
    assert_eq!(provider.get(codebase, test.path()).await.unwrap(), None);
    assert!(provider.adopt(codebase, path).await.unwrap().is_some());
    assert_eq!(provider.health_check(codebase, &environment).await.unwrap(), Health::Good);

    // Whatever somebody put there is a reason not to.
    let refuses = async |why: &str| {
        let error = provider.destroy(codebase, &environment).await.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        assert!(path.exists());
    };
    fs::write(path.join("notes"), "mine").unwrap();
    refuses("it has changes").await;
    fs::remove_file(path.join("notes")).unwrap();
    fs::create_dir(path.join("cache")).unwrap();
    fs::write(path.join("cache/x"), "mine").unwrap();
    refuses("git ignores").await;
    fs::remove_dir_all(path.join("cache")).unwrap();
    test.git_in(path, &["commit", "-q", "--allow-empty", "-m", "work"]);
    refuses("commits of its own").await;
    test.git_in(path, &["reset", "-q", "--hard", "HEAD~1"]);
    let dot_git = fs::read(path.join(".git")).unwrap();
    fs::remove_file(path.join(".git")).unwrap();
    refuses("missing").await;
    assert!(matches!(provider.health_check(codebase, &environment).await.unwrap(), Health::Bad(_)));
    fs::write(path.join(".git"), dot_git).unwrap();

    provider.destroy(codebase, &environment).await.unwrap();
    assert!(!path.exists());
    assert_eq!(provider.health_check(codebase, &environment).await.unwrap(), Health::Missing);
    provider.destroy(codebase, &environment).await.unwrap();
    fs::remove_dir(path.parent().unwrap()).unwrap();
    assert_eq!(provider.health_check(codebase, &environment).await.unwrap(), Health::NotMounted);
    assert!(provider.destroy(codebase, &environment).await.is_err());
}
