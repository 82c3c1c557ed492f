//! The store's stories, each told on SQLite and on PostgreSQL.

mod browser_sessions;
mod codebases;
mod conversations;
mod environments;
mod opening;
mod platforms;
mod trouble;

use std::path::PathBuf;
use std::time::Duration;

use grove_model::{
    BranchName, Codebase, EnvironmentId, Moment, Nonce, ProcessOwner, RepositoryFolders, WorkKey, WorkKind,
};
use grove_store::{ClaimOutcome, NewCodebase, NewEnvironment, Store, StoreOptions};
use grove_testkit::TestStore;

async fn open_store(store: &TestStore) -> Store {
    Store::open(&store.url, store_options()).await.expect("the store opens")
}

fn store_options() -> StoreOptions {
    StoreOptions { busy_timeout: Duration::from_millis(300), ..StoreOptions::default() }
}

fn new_codebase(owner: &str, name: &str, path: &str) -> NewCodebase {
    NewCodebase {
        given_name: None,
        name: name.to_owned(),
        repository_url: Some(format!("https://example.com/{owner}/{name}")),
        default_cwd: PathBuf::from(path),
        git_common_dir: PathBuf::from(path).join(".git"),
        default_branch: Some("main".to_owned()),
        cloned: false,
        folders: RepositoryFolders { owner: format!("{owner}/{name}"), project: name.to_owned() },
        hashed_folders: RepositoryFolders {
            owner: format!("{owner}/{name}-{}", path.len()),
            project: format!("{name}-{}", path.len()),
        },
        hashed_name: format!("{name}-{}", path.len()),
    }
}

async fn register_codebase(store: &Store) -> Codebase {
    store.register_codebase(&new_codebase("acme", "app", "/src/app")).await.expect("registered")
}

fn new_environment(codebase: &Codebase, kind: WorkKind, id: &str, branch: &str) -> NewEnvironment {
    NewEnvironment {
        id: EnvironmentId::new(),
        codebase_id: codebase.id,
        work: WorkKey::new(kind, id).expect("a work"),
        provider: "worktree",
        path: PathBuf::from(format!("/worktrees/{branch}")),
        branch: BranchName::parse(branch).expect("a branch"),
        created_by_platform: Some("github".to_owned()),
        created_by_user: None,
        node: "here".to_owned(),
        nonce: Nonce::new(),
        owner: test_owner(1),
        lease_until: Moment::now(),
    }
}

fn test_owner(process: u32) -> ProcessOwner {
    ProcessOwner { node: "here".into(), boot: "boot".into(), namespace: "1".into(), process, started: 7 }
}

async fn claim_environment(store: &Store, new: &NewEnvironment) -> grove_model::Environment {
    match store.claim_environment(new).await.expect("an answer") {
        ClaimOutcome::Won(environment) => environment,
        ClaimOutcome::Held(holder) => panic!("held by {holder:?}"),
    }
}
