//! The engine on real repositories and real stores.

mod choosing;
mod cleanup;
mod forge;
mod many;
mod provider;
mod restore;
mod size;
mod stuck;
mod trash;

use grove_environments::codebases::Codebases;
use grove_environments::create::{CreateHints, CreateRequest, EnvironmentCreator};
use grove_environments::environments::Environments;
use grove_environments::settings::{ProcessEnvironment, Settings};
use grove_git::Git;
use grove_model::{BranchName, Codebase, Work};
use grove_store::{Store, StoreOptions};
use grove_testkit::{TestRepo, TestStore};

/// The engine opened on a repository and a store.
struct EnvironmentsTest {
    isolation: Environments,
    codebase: Codebase,
    store: Store,
}

impl EnvironmentsTest {
    async fn open(test: &TestRepo, store: &TestStore) -> Self {
        Self::open_with(test, store, &[]).await
    }

    /// The same with more variables than GROVE_HOME.
    async fn open_with(test: &TestRepo, store: &TestStore, more: &[(&str, &str)]) -> Self {
        let home = test.temp_dir().join("grove");
        Self::open_in(&test.hermetic_git(), test.path(), &home, &store.url, more).await
    }

    async fn open_in(
        git: &std::path::Path,
        repo: &std::path::Path,
        home: &std::path::Path,
        store: &str,
        more: &[(&str, &str)],
    ) -> Self {
        let mut variables = vec![("GROVE_HOME".to_owned(), home.display().to_string())];
        variables.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let settings =
            Settings::load_settings(&ProcessEnvironment { variables, cwd: repo.to_owned() }).expect("settings");
        let git = Git::with_program(git).with_inspect_timeout(settings.inspect_timeout());
        let store = Store::open(store, StoreOptions::default()).await.expect("the store opens");
        let codebases = Codebases { git: git.clone(), store: store.clone(), settings: (&settings).into() };
        let codebase = codebases.add_codebase(".", None, repo).await.expect("registered");
        Self { isolation: Environments::new(git, store.clone(), settings), codebase, store }
    }
}

fn task_request(name: &str) -> CreateRequest {
    let branch = Some(BranchName::parse(name).expect("a branch"));
    CreateRequest {
        work: Work::for_task(name).expect("a task"),
        branch,
        from: None,
        hints: CreateHints::default(),
        conversation: None,
        by: EnvironmentCreator::default(),
    }
}
