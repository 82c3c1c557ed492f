//! Fifty at once, from two processes, while a person works in sibling worktrees.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use grove_environments::create::CreateMethod;
use grove_testkit::{TestRepo, TestStore, both_engines, is_long_run};

use crate::{EnvironmentsTest, task_request};

const ENVIRONMENTS_PER_PROCESS: usize = 25;

/// What a child process needs to know, one to a line.
const CHILD_ENV_VAR: &str = "GROVE_TEST_CHILD";

/// Runs this test binary again as a process of its own that makes `ENVIRONMENTS_PER_PROCESS`
/// environments at once.
fn child_command(which: &str, test: &TestRepo, store: &TestStore) -> Command {
    let facts = [
        which,
        test.hermetic_git().to_str().unwrap(),
        test.path().to_str().unwrap(),
        test.temp_dir().to_str().unwrap(),
        &store.url,
    ]
    .join("\n");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "many::as_a_child", "--nocapture"]).env(CHILD_ENV_VAR, facts).stdout(Stdio::null());
    command
}

/// More than a codebase may have otherwise.
const UNLIMITED_SETTING: [(&str, &str); 1] = [("MAX_WORKTREES_PER_CODEBASE", "10000")];

#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let Ok(facts) = std::env::var(CHILD_ENV_VAR) else { return };
    let [which, git, repo, dir, store] = facts.lines().collect::<Vec<_>>()[..] else { panic!("{facts}") };
    let world = EnvironmentsTest::open_in(
        git.as_ref(),
        repo.as_ref(),
        &PathBuf::from(dir).join("grove"),
        store,
        &UNLIMITED_SETTING,
    )
    .await;
    let makings: Vec<_> = (0..ENVIRONMENTS_PER_PROCESS)
        .map(|n| {
            let (isolation, codebase, request) =
                (world.isolation.clone(), world.codebase.clone(), task_request(&format!("{which}-{n}")));
            tokio::spawn(async move {
                isolation
                    .create_environment(&codebase, &request)
                    .await
                    .map(|outcome| matches!(outcome.how, CreateMethod::Created(_)))
            })
        })
        .collect();
    for making in makings {
        assert!(making.await.unwrap().unwrap(), "each is new");
    }
}

/// Plain git commands in sibling worktrees, over and over; gives how many ran and which failed.
fn work_beside(test: &TestRepo, siblings: &[PathBuf], done: &AtomicBool) -> (usize, Vec<String>) {
    let commands: [&[&str]; 6] = [
        &["status", "--porcelain"],
        &["worktree", "list", "--porcelain"],
        &["commit", "--quiet", "--allow-empty", "--message", "beside"],
        &["log", "--oneline", "--max-count=1"],
        &["branch", "--list"],
        &["stash", "list"],
    ];
    let (mut ran, mut failed) = (0, Vec::new());
    while !done.load(Ordering::Relaxed) {
        for (sibling, args) in siblings.iter().cycle().zip(commands) {
            let output = test.git_command(sibling, args).output().unwrap();
            ran += 1;
            if !output.status.success() {
                failed.push(format!("git {args:?}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    (ran, failed)
}

both_engines! {
    fn fifty_at_once_from_two_processes(store: TestStore) {
        let rounds = if is_long_run() { 20 } else { 1 };
        for round in 1..=rounds {
            one_round(&store, round);
        }
    }
}

fn one_round(store: &TestStore, round: usize) {
    let test = TestRepo::new();
    for n in 0..200 {
        test.write_file(&format!("src/file{n}.txt"), &format!("{n}\n").repeat(200));
    }
    test.commit_all("files");
    let siblings: Vec<PathBuf> = (0..2)
        .map(|n| {
            let path = test.temp_dir().join(format!("sibling{n}"));
            test.git(&["worktree", "add", "--quiet", "-b", &format!("sibling{n}"), path.to_str().unwrap()]);
            path
        })
        .collect();
    let canonical = test.snapshot_checkout();
    let done = AtomicBool::new(false);
    let (ran, failed) = std::thread::scope(|scope| {
        let beside = scope.spawn(|| work_beside(&test, &siblings, &done));
        let mut children: Vec<_> = ["a", "b"].map(|which| child_command(which, &test, store).spawn().unwrap()).into();
        let fine: Vec<bool> = children.iter_mut().map(|child| child.wait().unwrap().success()).collect();
        done.store(true, Ordering::Relaxed);
        let beside = beside.join().unwrap();
        assert!(fine.iter().all(|fine| *fine), "all 50 succeed");
        beside
    });
    assert_eq!(failed, Vec::<String>::new(), "of {ran} plain git commands beside");
    println!(
        "round {round}: {} environments, 0 failures; {ran} plain git commands beside, 0 failures",
        2 * ENVIRONMENTS_PER_PROCESS
    );
    canonical.assert_untouched();
    let listed = test.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(
        listed.lines().filter(|line| line.starts_with("worktree ")).count(),
        1 + 2 + 2 * ENVIRONMENTS_PER_PROCESS
    );
    assert!(!listed.lines().any(|line| line.starts_with("locked") || line.starts_with("prunable")), "{listed}");
    let branches = test.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]);
    assert_eq!(branches.lines().count(), 1 + 2 + 2 * ENVIRONMENTS_PER_PROCESS, "no orphan branch");
    let worktrees = test.temp_dir().join("grove/worktrees/_local");
    let folders =
        worktrees.read_dir().unwrap().flatten().flat_map(|dir| dir.path().read_dir().unwrap().flatten()).count();
    assert_eq!(folders, 2 * ENVIRONMENTS_PER_PROCESS, "no orphan folder");
    test.git(&["fsck", "--no-dangling"]);
}
