//! The store's stories, each told on SQLite and on PostgreSQL.

mod browser_sessions;
mod codebases;
mod environments;
mod opening;
mod platforms;
mod trouble;

use std::path::PathBuf;
use std::time::Duration;

use grove_model::{BranchName, Codebase, EnvironmentId, Kind, Moment, Nonce, Owner, RepositoryFolders, WorkKey};
use grove_store::{Claim, NewCodebase, NewEnvironment, Options, Store};
use grove_testkit::TestStore;

async fn open(store: &TestStore) -> Store {
    Store::open(&store.url, options()).await.expect("the store opens")
}

fn options() -> Options {
    Options { busy_timeout: Duration::from_millis(300), ..Options::default() }
}

fn codebase(owner: &str, name: &str, path: &str) -> NewCodebase {
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

async fn registered(store: &Store) -> Codebase {
    store.register(&codebase("acme", "app", "/src/app")).await.expect("registered")
}

fn new_environment(codebase: &Codebase, kind: Kind, id: &str, branch: &str) -> NewEnvironment {
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
        owner: owner(1),
        lease_until: Moment::now(),
    }
}

fn owner(process: u32) -> Owner {
    Owner { node: "here".into(), boot: "boot".into(), namespace: "1".into(), process, started: 7 }
}

async fn won(store: &Store, new: &NewEnvironment) -> grove_model::Environment {
    match store.claim(new).await.expect("an answer") {
        Claim::Won(environment) => environment,
        Claim::Held(holder) => panic!("held by {holder:?}"),
    }
}
