//! One environment in which git does not answer holds up no other.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_environments::remove::{RemovalPlan, RemovalRequester};
use grove_model::State;
use grove_testkit::{TestEngine, TestRepo, TestStore};

use crate::{EnvironmentsTest, task_request};

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_that_git_reads_for_ever_is_unknown_and_stops_nothing_else() {
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    let limit = [("GROVE_WORKTREE_INSPECT_TIMEOUT", "6s")];
    let world = Arc::new(EnvironmentsTest::open_with(&test, &store, &limit).await);
    let stuck = world.isolation.create_environment(&world.codebase, &task_request("stuck")).await.unwrap().environment;
    let fine = world.isolation.create_environment(&world.codebase, &task_request("fine")).await.unwrap().environment;
    let pipe = stuck.path.join(".gitattributes");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::write(fine.path.join("new"), "new\n").unwrap();
    let began = Instant::now();
    let lists: Vec<_> = (0..5)
        .map(|_| {
            let world = Arc::clone(&world);
            tokio::spawn(async move { world.isolation.environment_views(&world.codebase, false).await })
        })
        .collect();
    // All of them have begun once git waits for the pipe.
    let waits = async {
        while !is_read(&pipe) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waits).await.expect("git reads the pipe");
    let other = async {
        let made =
            world.isolation.create_environment(&world.codebase, &task_request("other")).await.unwrap().environment;
        let plan = world.isolation.plan_removal(&world.codebase, &fine, &RemovalRequester::Person).await.unwrap();
        assert!(matches!(plan, RemovalPlan::Remove(_)));
        fs::metadata(made.path).unwrap();
    };
    let done = tokio::time::timeout(Duration::from_secs(5), other).await;
    let lists = tokio::time::timeout(Duration::from_secs(20), wait_for_lists(lists)).await;
    // Whatever came of it, no git is left waiting.
    release_readers(&pipe);
    done.expect("other work goes on meanwhile");
    for views in lists.expect("an answer, though one environment gives none") {
        let view = |branch: &str| views.iter().find(|view| view.branch == branch).unwrap();
        assert_eq!(view("stuck").state, State::Broken);
        let why = view("stuck").error.clone().unwrap();
        assert!(why.contains("6 s"), "{why}");
        assert_eq!((view("fine").state, view("fine").untracked), (State::Dirty, 1));
    }
    assert!(began.elapsed() < Duration::from_secs(25));
}

async fn wait_for_lists(
    lists: Vec<
        tokio::task::JoinHandle<
            Result<
                Vec<grove_environments::inspect::list::EnvironmentView>,
                grove_environments::error::EnvironmentError,
            >,
        >,
    >,
) -> Vec<Vec<grove_environments::inspect::list::EnvironmentView>> {
    let mut all = Vec::new();
    for list in lists {
        all.push(list.await.unwrap().unwrap());
    }
    all
}

/// Whether a git runs in the folder of the pipe: it waits there.
fn is_read(pipe: &std::path::Path) -> bool {
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    processes.any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| Some(&*cwd) == pipe.parent()))
}

/// Ends the wait of everyone who reads the pipe.
fn release_readers(pipe: &std::path::Path) {
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    for _ in 0..100 {
        if rustix::fs::open(pipe, flags, rustix::fs::Mode::empty()).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
