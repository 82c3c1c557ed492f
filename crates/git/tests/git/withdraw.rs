//! A creation cut short at every step, and taken back by its nonce.

use std::fs;
use std::sync::Mutex;

use grove_git::base::FetchPolicy;
use grove_git::worktree::{
    self, AddWorktreeError, BranchIntent, CreationJournal, CreationStep, PreparedWorktree, WithdrawOutcome,
    WorktreeRequest, WorktreeSource,
};
use grove_git::{RemoteOptions, Repository};
use grove_model::Nonce;
use grove_testkit::{DirectorySnapshot, TestRepo, installed_gits, is_long_run};

use crate::{GitTest, parse_branch, want_own_branch, with_every_git};

/// Stops the creation for good at the n-th step, as a crash would: nothing runs afterwards.
struct CrashingJournal {
    step: usize,
    seen: Mutex<Vec<CreationStep>>,
}

#[async_trait::async_trait]
impl CreationJournal for CrashingJournal {
    async fn record_step(&self, step: CreationStep) -> Result<(), AddWorktreeError> {
        let seen = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(step);
            seen.len()
        };
        if seen == self.step {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// Begins a creation and abandons it at the given step; `None` when it has fewer steps.
async fn cut_creation_at(
    world: &GitTest,
    wanted: &WorktreeRequest<'_>,
    step: usize,
    nonce: Nonce,
) -> Option<Vec<CreationStep>> {
    let repo = of_creation(world, nonce);
    let prepared = PreparedWorktree::find_source(&repo, wanted).await.unwrap();
    let journal = CrashingJournal { step, seen: Mutex::default() };
    let path = world.worktree_path("x");
    let add = worktree::add_worktree(&repo, &path, prepared, nonce, &journal);
    tokio::pin!(add);
    loop {
        let wait = tokio::time::sleep(std::time::Duration::from_millis(2));
        tokio::select! {
            done = &mut add => {
                done.unwrap();
                return None;
            }
            () = wait => {
                if journal.seen.lock().unwrap().len() >= step {
                    return Some(journal.seen.lock().unwrap().clone());
                }
            }
        }
    }
}

/// The repository as a creation with this nonce uses it.
fn of_creation(world: &GitTest, nonce: Nonce) -> Repository {
    world.repo.clone().with_remote_options(RemoteOptions { creation: Some(nonce), ..RemoteOptions::default() })
}

/// Refuses the n-th step, as a store that cannot be written would.
struct RefusingJournal {
    step: usize,
    seen: Mutex<usize>,
}

#[async_trait::async_trait]
impl CreationJournal for RefusingJournal {
    async fn record_step(&self, _: CreationStep) -> Result<(), AddWorktreeError> {
        let mut seen = self.seen.lock().unwrap();
        *seen += 1;
        if *seen == self.step { Err(AddWorktreeError::Journal("it cannot be written".to_owned())) } else { Ok(()) }
    }
}

/// Cut short by a crash or by an error, at every step, for every kind of branch: config, refs and our
/// own directory are byte for byte as they were. In the quick run the gits of the machine share the points.
#[tokio::test]
async fn the_git_directory_is_as_it_was() {
    let gits = installed_gits();
    for (number, git) in gits.iter().enumerate() {
        let is_taken = |point: usize| is_long_run() || point % gits.len() == number;
        let world = &GitTest::open(TestRepo::with_git_and_origin(git)).await;
        let test = &world.test;
        for name in ["feat", "deep/er/feat", "known", "followed", "task"] {
            test.push_commit(&format!("refs/heads/{name}"), "origin/main", &name.replace('/', "-"));
        }
        test.git(&["fetch", "-q", "origin", "known:refs/remotes/origin/known"]);
        test.git(&["branch", "-q", "--no-track", "followed", "main"]);
        test.git(&["config", "branch.followed.description", "mine"]);
        test.git(&["config", "branch.followed.remote", "elsewhere"]);
        test.git(&["config", "--add", "branch.followed.merge", "refs/heads/one"]);
        test.git(&["config", "--add", "branch.followed.merge", "refs/heads/two"]);
        test.git(&["checkout", "-q", "-b", "pr-7-review"]);
        test.commit_all("notes of the reviewer");
        test.git(&["checkout", "-q", "main"]);
        test.push_commit("refs/pull/7/head", "origin/main", "one");
        // What every creation leaves in our own directory: locks of the repository, stamps of its fetches.
        let warm = parse_branch("warm");
        test.push_commit("refs/heads/warm", "origin/main", "warm");
        let same = |name| WorktreeRequest {
            source: WorktreeSource::PullRequestBranch,
            ..want_own_branch(name, Some("origin"))
        };
        let made = world.add_worktree(same(&warm)).await.unwrap();
        test.git(&["worktree", "remove", "--force", made.path.to_str().unwrap()]);
        test.git(&["branch", "-q", "-D", "warm"]);

        let names = ["feat", "deep/er/feat", "known", "followed", "task", "pr-7-review"].map(parse_branch);
        let [feat, deep, known, followed, task, review] = &names;
        let pull = WorktreeSource::PullRequestHead { number: 7, pinned: None };
        let wishes = [
            same(feat),
            same(deep),
            same(known),
            same(followed),
            want_own_branch(task, Some("origin")),
            WorktreeRequest { source: pull, ..want_own_branch(review, Some("origin")) },
        ];
        let path = world.worktree_path("x");
        let mut points = 0;
        for (kind, wanted) in wishes.into_iter().enumerate() {
            let before = DirectorySnapshot::of_git_dir(&world.repo.common_dir);
            let as_before = |when: String| {
                let differences = before.describe_differences(&DirectorySnapshot::of_git_dir(&world.repo.common_dir));
                assert_eq!(differences, Vec::<String>::new(), "{} {when}", wanted.branch);
            };
            // The fetch was all that happened.
            let nonce = Nonce::new();
            PreparedWorktree::find_source(&of_creation(world, nonce), &wanted).await.unwrap();
            worktree::withdraw_creation(&world.repo, &path, wanted.branch, None, nonce).await.unwrap();
            as_before("cut after its fetch".to_owned());
            for step in (1..=7).filter(|step| is_taken(kind + step)) {
                let nonce = Nonce::new();
                let steps = cut_creation_at(world, &wanted, step, nonce).await.unwrap();
                let done = worktree::withdraw_creation(
                    &world.repo,
                    &path,
                    wanted.branch,
                    branch_intent(&steps).as_ref(),
                    nonce,
                )
                .await;
                assert_eq!(done.unwrap(), WithdrawOutcome::Whole, "{steps:?}");
                as_before(format!("cut at {:?}", steps.last()));
                points += 1;
            }
            for step in (1..=7).filter(|step| is_taken(kind + step + 1)) {
                let nonce = Nonce::new();
                let repo = of_creation(world, nonce);
                let prepared = PreparedWorktree::find_source(&repo, &wanted).await.unwrap();
                let journal = RefusingJournal { step, seen: Mutex::default() };
                let refused = worktree::add_worktree(&repo, &path, prepared, nonce, &journal).await;
                assert!(matches!(refused, Err(AddWorktreeError::Journal(_))), "{refused:?}");
                as_before(format!("refused at step {step}"));
                points += 1;
            }
            // Before the first step: something stands at the path.
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("mine"), "mine").unwrap();
            let nonce = Nonce::new();
            let repo = of_creation(world, nonce);
            let prepared = PreparedWorktree::find_source(&repo, &wanted).await.unwrap();
            let refused = worktree::add_worktree(&repo, &path, prepared, nonce, &crate::SilentJournal).await;
            assert!(matches!(refused, Err(AddWorktreeError::Target(_))), "{refused:?}");
            as_before("with a folder in the way".to_owned());
            fs::remove_dir_all(&path).unwrap();
            points += 1;
        }
        // The fetch succeeds, and then it is refused.
        let before = DirectorySnapshot::of_git_dir(&world.repo.common_dir);
        let mut wanted = want_own_branch(task, Some("origin"));
        wanted.base.explicit = Some("main");
        let refused = PreparedWorktree::find_source(&of_creation(world, Nonce::new()), &wanted).await;
        assert!(matches!(refused, Err(AddWorktreeError::BranchExists(_))), "{refused:?}");
        assert_eq!(
            before.describe_differences(&DirectorySnapshot::of_git_dir(&world.repo.common_dir)),
            Vec::<String>::new()
        );
        println!("{points} points, nothing left at any");
    }
}

#[tokio::test]
async fn what_a_person_fetched_or_set_meanwhile_stays() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        let tip = test.push_commit("refs/heads/feat", "origin/main", "one");
        let (name, nonce) = (parse_branch("feat"), Nonce::new());
        let wanted =
            WorktreeRequest { source: WorktreeSource::PullRequestBranch, ..want_own_branch(&name, Some("origin")) };
        let steps = cut_creation_at(world, &wanted, 7, nonce).await.unwrap();
        let newer = test.push_commit("refs/heads/feat", &tip, "two");
        test.git(&["fetch", "-q"]);
        test.git(&["config", "branch.feat.remote", "elsewhere"]);
        let path = world.worktree_path("x");
        let done = worktree::withdraw_creation(&world.repo, &path, &name, branch_intent(&steps).as_ref(), nonce)
            .await
            .unwrap();
        assert_eq!(done, WithdrawOutcome::Whole);
        assert_eq!(test.resolve_sha("refs/remotes/origin/feat"), newer);
        assert_eq!(test.git(&["config", "--get-regexp", "^branch.feat"]), "branch.feat.remote elsewhere");
    })
    .await;
}

fn branch_intent(steps: &[CreationStep]) -> Option<BranchIntent> {
    steps.iter().find_map(|step| if let CreationStep::Branch(intent) = step { Some(intent.clone()) } else { None })
}

#[tokio::test]
async fn at_every_step_nothing_is_left() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        test.git(&["checkout", "-q", "-b", "pr-7-review"]);
        test.commit_all("notes of the reviewer");
        test.git(&["checkout", "-q", "main"]);
        let head = test.push_commit("refs/pull/7/head", "origin/main", "one");
        test.git(&["branch", "kept"]);
        let (new, kept, review) = (parse_branch("new"), parse_branch("kept"), parse_branch("pr-7-review"));
        let pull = WorktreeSource::PullRequestHead { number: 7, pinned: Some(head.parse().unwrap()) };
        let wishes = [
            want_own_branch(&new, None),
            want_own_branch(&kept, None),
            WorktreeRequest { source: pull, ..want_own_branch(&review, Some("origin")) },
        ];
        for wanted in wishes.map(|wanted| WorktreeRequest { fetch: FetchPolicy::Never, ..wanted }) {
            let mut points = 0;
            loop {
                let (nonce, before) =
                    (Nonce::new(), (test.list_branches(), test.git(&["worktree", "list", "--porcelain"])));
                let canonical = test.snapshot_checkout();
                let Some(steps) = cut_creation_at(world, &wanted, points + 1, nonce).await else { break };
                points += 1;
                let path = world.worktree_path("x");
                let done = worktree::withdraw_creation(
                    &world.repo,
                    &path,
                    wanted.branch,
                    branch_intent(&steps).as_ref(),
                    nonce,
                )
                .await;
                assert_eq!(done.unwrap(), WithdrawOutcome::Whole, "{steps:?}");
                assert_eq!((test.list_branches(), test.git(&["worktree", "list", "--porcelain"])), before, "{steps:?}");
                canonical.assert_untouched();
                assert!(!path.parent().unwrap().exists(), "{steps:?}");
                let left: Vec<_> =
                    fs::read_dir(world.repo.common_dir.join("grove")).into_iter().flatten().flatten().collect();
                assert!(
                    !left.iter().any(|e| e.file_name().to_string_lossy().contains("staging")),
                    "{steps:?}: {left:?}"
                );
                // Again: nothing to do.
                worktree::withdraw_creation(&world.repo, &path, wanted.branch, branch_intent(&steps).as_ref(), nonce)
                    .await
                    .unwrap();
                assert_eq!(test.list_branches(), before.0);
            }
            assert_eq!(points, 7, "the steps of a creation");
            let created = world.worktree_path("x");
            test.git(&["worktree", "unlock", created.to_str().unwrap()]);
            test.git(&["worktree", "remove", "--force", created.to_str().unwrap()]);
            fs::remove_dir(created.parent().unwrap()).unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn files_written_meanwhile_stay() {
    with_every_git(TestRepo::with_git, async |world| {
        let (name, nonce) = (parse_branch("x"), Nonce::new());
        let steps = cut_creation_at(world, &want_own_branch(&name, None), 6, nonce).await.unwrap();
        assert_eq!(steps.last(), Some(&CreationStep::Published));
        let path = world.worktree_path("x");
        fs::write(path.join("notes"), "mine").unwrap();
        let done = worktree::withdraw_creation(&world.repo, &path, &name, branch_intent(&steps).as_ref(), nonce)
            .await
            .unwrap();
        assert_eq!(done, WithdrawOutcome::Kept(path.clone()));
        assert_eq!(fs::read_to_string(path.join("notes")).unwrap(), "mine");
        assert_eq!(world.test.git_in(&path, &["status", "--porcelain"]), "?? notes");
    })
    .await;
}

#[tokio::test]
async fn a_branch_that_was_moved_meanwhile_stays() {
    with_every_git(TestRepo::with_git, async |world| {
        let (name, nonce) = (parse_branch("x"), Nonce::new());
        let steps = cut_creation_at(world, &want_own_branch(&name, None), 2, nonce).await.unwrap();
        let moved = world.test.commit_all("work");
        world.test.git(&["branch", "-f", "x", &moved]);
        worktree::withdraw_creation(
            &world.repo,
            &world.worktree_path("x"),
            &name,
            branch_intent(&steps).as_ref(),
            nonce,
        )
        .await
        .unwrap();
        assert_eq!(world.test.resolve_sha("x"), moved);
        // And one that was there under that name without us.
        let other = Nonce::new();
        worktree::withdraw_creation(
            &world.repo,
            &world.worktree_path("x"),
            &name,
            branch_intent(&steps).as_ref(),
            other,
        )
        .await
        .unwrap();
        assert_eq!(world.test.resolve_sha("x"), moved);
    })
    .await;
}

#[tokio::test]
async fn a_branch_that_was_checked_out_meanwhile_stays() {
    with_every_git(TestRepo::with_git, async |world| {
        let (name, nonce) = (parse_branch("x"), Nonce::new());
        let steps = cut_creation_at(world, &want_own_branch(&name, None), 2, nonce).await.unwrap();
        world.test.git(&["checkout", "-q", "x"]);
        let canonical = world.test.snapshot_checkout();
        worktree::withdraw_creation(
            &world.repo,
            &world.worktree_path("x"),
            &name,
            branch_intent(&steps).as_ref(),
            nonce,
        )
        .await
        .unwrap();
        canonical.assert_untouched();
        assert_eq!(world.test.git(&["status", "--porcelain", "--branch"]), "## x");
    })
    .await;
}

#[tokio::test]
async fn work_that_status_does_not_show_is_kept_too() {
    with_every_git(TestRepo::with_git, async |world| {
        type ConcurrentWrite = fn(&TestRepo, &std::path::Path);
        let writes: [ConcurrentWrite; 3] = [
            |test, path| {
                test.git_in(path, &["checkout", "-q", "--detach"]);
                test.git_in(path, &["commit", "-q", "--allow-empty", "-m", "on no branch"]);
            },
            |test, path| {
                test.git_in(path, &["update-index", "--skip-worktree", "README.md"]);
                fs::write(path.join("README.md"), "hidden").unwrap();
            },
            |test, path| {
                test.git_in(path, &["bisect", "start"]);
            },
        ];
        for (number, write) in writes.into_iter().enumerate() {
            let (name, nonce) = (parse_branch(&format!("x{number}")), Nonce::new());
            let prepared = PreparedWorktree::find_source(&world.repo, &want_own_branch(&name, None)).await.unwrap();
            let path = world.worktree_path(name.as_str());
            let journal = CrashingJournal { step: usize::MAX, seen: Mutex::default() };
            worktree::add_worktree(&world.repo, &path, prepared, nonce, &journal).await.unwrap();
            write(&world.test, &path);
            let steps = journal.seen.lock().unwrap().clone();
            let done = worktree::withdraw_creation(&world.repo, &path, &name, branch_intent(&steps).as_ref(), nonce)
                .await
                .unwrap();
            assert_eq!(done, WithdrawOutcome::Kept(path.clone()), "{number}");
            assert!(path.join("README.md").exists());
        }
    })
    .await;
}

#[tokio::test]
async fn files_put_at_the_path_before_plain_git_runs_stay() {
    with_every_git(TestRepo::with_git, async |world| {
        world.test.git(&["sparse-checkout", "set", "src"]);
        let (name, path) = (parse_branch("x"), world.worktree_path("x"));
        let prepared = PreparedWorktree::find_source(&world.repo, &want_own_branch(&name, None)).await.unwrap();
        /// Puts a file at the path once the branch is made.
        struct PathTakingJournal(std::path::PathBuf);
        #[async_trait::async_trait]
        impl CreationJournal for PathTakingJournal {
            async fn record_step(&self, step: CreationStep) -> Result<(), AddWorktreeError> {
                if step == CreationStep::Branched {
                    fs::create_dir_all(&self.0).unwrap();
                    fs::write(self.0.join("notes"), "mine").unwrap();
                }
                Ok(())
            }
        }
        let failed =
            worktree::add_worktree(&world.repo, &path, prepared, Nonce::new(), &PathTakingJournal(path.clone())).await;
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(path.join("notes")).unwrap(), "mine");
        assert_eq!(world.test.git(&["branch", "--list", "x"]), "");
    })
    .await;
}
