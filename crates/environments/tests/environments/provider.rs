//! The worktree provider behind its seam.

use std::fs;

use grove_environments::provider::worktree::WorktreeProvider;
use grove_environments::provider::{EnvironmentHealth, IsolationProvider};
use grove_git::Git;
use grove_testkit::{TestEngine, TestRepo, TestStore};

use crate::{EnvironmentsTest, task_request};

#[tokio::test]
async fn what_it_made_is_found_and_looked_after() {
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    test.write_file(".gitignore", "cache/\n");
    test.commit_all("ignore");
    let world = EnvironmentsTest::open(&test, &store).await;
    let provider = WorktreeProvider::new(Git::with_program(test.hermetic_git()));
    let environment =
        world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap().environment;
    let (codebase, path) = (&world.codebase, &environment.path);

    let found = provider.find_at_path(codebase, path).await.unwrap().unwrap();
    assert_eq!((found.branch.as_deref(), found.head), (Some("x"), environment.head_sha.clone()));
    assert_eq!(provider.list_environments(codebase).await.unwrap().len(), 1, "never the canonical checkout");
    assert_eq!(provider.find_at_path(codebase, test.path()).await.unwrap(), None);
    assert!(provider.check_adoptable(codebase, path).await.unwrap().is_some());
    assert_eq!(provider.health_check(codebase, &environment).await.unwrap(), EnvironmentHealth::Good);

    let dot_git = fs::read(path.join(".git")).unwrap();
    fs::remove_file(path.join(".git")).unwrap();
    assert!(matches!(provider.health_check(codebase, &environment).await.unwrap(), EnvironmentHealth::Bad(_)));
    fs::write(path.join(".git"), dot_git).unwrap();
    fs::remove_dir_all(path).unwrap();
    assert_eq!(provider.health_check(codebase, &environment).await.unwrap(), EnvironmentHealth::Missing);
    fs::remove_dir(path.parent().unwrap()).unwrap();
    assert_eq!(provider.health_check(codebase, &environment).await.unwrap(), EnvironmentHealth::NotMounted);
}
