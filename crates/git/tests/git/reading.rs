//! Worktrees to look at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use grove_git::reading::{self, SnapshotMark, SnapshotOutcome, SnapshotWorktree};
use grove_git::removal::RegenerableNames;
use grove_model::{Moment, Nonce, ProcessOwner};
use grove_testkit::{TestRepo, is_long_run};

use super::{GitTest, with_every_git};

fn test_owner() -> ProcessOwner {
    "host 1b4e28ba 4026531836 17 12345".parse().unwrap()
}

impl GitTest {
    fn readings_dir(&self) -> PathBuf {
        self.test.temp_dir().join("readings")
    }

    async fn begin_reading(&self, at: &str) -> SnapshotWorktree {
        let nonce = Nonce::new();
        let at = self.test.resolve_sha(at).parse().unwrap();
        let mark = SnapshotMark { nonce, at, until: Moment::now(), owner: test_owner() };
        let path = self.readings_dir().join("app").join(nonce.to_string());
        reading::create_snapshot(&self.repo, &path, mark).await.expect("it is made")
    }

    async fn end_reading(&self, reading: SnapshotWorktree) -> SnapshotOutcome {
        let names = RegenerableNames { names: vec!["target/".to_owned()], chosen_by_person: false };
        reading::end_snapshot(&self.repo, reading, &names).await.expect("it ends")
    }

    /// Lists the snapshots that are found after the process that made them was killed.
    fn find_readings(&self) -> Vec<SnapshotWorktree> {
        reading::list_snapshots(&self.repo).unwrap()
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.test.git(&["worktree", "list"]).lines().count(), 1);
        assert!(!self.readings_dir().exists());
        let ours = self.repo.common_dir.join("grove").read_dir().into_iter().flatten();
        let names: Vec<String> = ours.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        assert!(!names.iter().any(|name| name.starts_with("reading-")), "{names:?}");
        assert!(self.find_readings().is_empty());
    }
}

/// Root writes whatever the permissions say.
fn force_write(path: &Path, text: &str) {
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path, text).unwrap();
}

#[tokio::test]
async fn a_commit_is_looked_at_without_a_branch_and_nothing_is_left() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        let first = test.resolve_sha("HEAD");
        test.write_file("later", "x\n");
        test.commit_all("later");
        let (before, branches) = (test.snapshot_checkout(), test.list_branches());
        let one = world.begin_reading(&first).await;
        let other = world.begin_reading("HEAD").await;
        assert_eq!(test.git_in(&one.path, &["rev-parse", "HEAD"]), first);
        assert_eq!(test.git_in(&one.path, &["status", "--porcelain", "--branch"]), "## HEAD (no branch)");
        assert!(!one.path.join("later").exists() && other.path.join("later").exists());
        let mode = |path: &str| one.path.join(path).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("README.md"), mode("src") & 0o222), (0o444, 0));
        let listed = test.git(&["worktree", "list", "--porcelain"]);
        assert_eq!(listed.matches("\nlocked grove reading ").count(), 2, "{listed}");
        assert_eq!(world.find_readings().len(), 2);
        assert_eq!(world.end_reading(one).await, SnapshotOutcome::Gone);
        assert_eq!(world.end_reading(other).await, SnapshotOutcome::Gone);
        world.assert_nothing_left();
        before.assert_untouched();
        assert_eq!(test.list_branches(), branches);
        test.git(&["fsck", "--no-dangling"]);
    })
    .await;
}

#[tokio::test]
async fn what_holds_anything_stays() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.write_file(".gitignore", "*.log\ntarget/\n");
        test.add_submodule();
        test.commit_all("more");
        type WorktreeChange = fn(&TestRepo, &Path);
        let deeds: [(&str, WorktreeChange); 9] = [
            ("1 new or changed file", |_, path| force_write(&path.join("new"), "x")),
            ("1 new or changed file", |_, path| force_write(&path.join("src/main.c"), "changed")),
            ("1 ignored file", |_, path| force_write(&path.join("notes.log"), "x")),
            ("files in sub", |_, path| force_write(&path.join("sub/notes"), "x")),
            ("README.md, which is hidden from git", |test, path| {
                test.git_in(path, &["update-index", "--assume-unchanged", "README.md"]);
            }),
            ("commits that no branch has", |test, path| {
                test.git_in(path, &["commit", "-q", "--allow-empty", "-m", "x"]);
            }),
            ("commits that no branch has", |test, path| {
                test.git_in(path, &["commit", "-q", "--allow-empty", "-m", "x"]);
                test.git_in(path, &["checkout", "-q", "--detach", "main"]);
            }),
            ("a repository at inner", |test, path| {
                test.git_in(path, &["init", "-q", "inner"]);
            }),
            ("another `.git`", |_, path| force_write(&path.join(".git"), "gitdir: /nowhere\n")),
        ];
        for (what, deed) in deeds {
            let reading = world.begin_reading("HEAD").await;
            let path = reading.path.clone();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            deed(test, &path);
            assert_eq!(world.end_reading(reading).await, SnapshotOutcome::Kept(what.to_owned()));
            assert!(path.join("README.md").exists(), "{what}");
            assert!(!test.git(&["worktree", "list", "--porcelain"]).contains("locked"), "it is nobody's now");
            assert!(world.find_readings().is_empty());
            assert_ne!(path.join("README.md").metadata().unwrap().permissions().mode() & 0o200, 0);
            test.git(&["worktree", "list"]);
        }
    })
    .await;
}

#[tokio::test]
async fn what_can_be_made_again_and_what_a_branch_has_keep_nothing() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.write_file(".gitignore", "target/\n");
        test.commit_all("ignored");
        let reading = world.begin_reading("HEAD").await;
        fs::set_permissions(&reading.path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(reading.path.join("target")).unwrap();
        fs::write(reading.path.join("target/object"), "x").unwrap();
        let tag = "Signature: 8a477f597d28d172789f06886806bc55";
        fs::write(reading.path.join("target/CACHEDIR.TAG"), tag).unwrap();
        assert_eq!(world.end_reading(reading).await, SnapshotOutcome::Gone);
        let reading = world.begin_reading("HEAD").await;
        test.git_in(&reading.path, &["checkout", "-q", "-b", "found"]);
        test.git_in(&reading.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
        assert_eq!(world.end_reading(reading).await, SnapshotOutcome::Gone);
        assert_eq!(test.git(&["log", "-1", "--format=%s", "found"]), "x");
        world.assert_nothing_left();
    })
    .await;
}

#[tokio::test]
async fn what_a_crash_leaves_is_found_by_its_mark_and_goes() {
    with_every_git(TestRepo::with_git, async |world| {
        let entries = world.repo.common_dir.join("worktrees");
        // Each as a kill leaves it: whole; entry without files; nothing in its place.
        for (files_aside, entry_aside) in [(false, false), (true, false), (true, true)] {
            let reading = world.begin_reading("HEAD").await;
            let nonce = reading.mark.nonce;
            if files_aside {
                fs::rename(&reading.path, reading.path.with_file_name(format!(".grove-{nonce}"))).unwrap();
            }
            if entry_aside {
                let aside = world.repo.common_dir.join("grove").join(format!("reading-{nonce}"));
                fs::rename(entries.join(nonce.to_string()), aside).unwrap();
            }
            drop(reading);
            let mut found = world.find_readings();
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].mark.owner, test_owner());
            assert_eq!(
                world.end_reading(found.pop().unwrap()).await,
                SnapshotOutcome::Gone,
                "{files_aside} {entry_aside}"
            );
            world.assert_nothing_left();
        }
        // The folder is gone, but not what was committed there.
        let reading = world.begin_reading("HEAD").await;
        world.test.git_in(&reading.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
        fs::remove_dir_all(&reading.path).unwrap();
        assert_eq!(world.end_reading(reading).await, SnapshotOutcome::Kept("commits that no branch has".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn a_failed_beginning_leaves_nothing() {
    with_every_git(TestRepo::with_git, async |world| {
        let nonce = Nonce::new();
        let at = "1".repeat(40).parse().unwrap();
        let mark = SnapshotMark { nonce, at, until: Moment::now(), owner: test_owner() };
        let path = world.readings_dir().join("app").join(nonce.to_string());
        reading::create_snapshot(&world.repo, &path, mark).await.unwrap_err();
        world.assert_nothing_left();
    })
    .await;
}

#[tokio::test]
async fn a_repository_that_git_alone_can_add_to_is_looked_at_too() {
    with_every_git(TestRepo::with_git, async |world| {
        fs::write(world.repo.common_dir.join("config.worktree"), "").unwrap();
        let reading = world.begin_reading("HEAD").await;
        assert_eq!(world.test.git_in(&reading.path, &["status", "--porcelain", "--branch"]), "## HEAD (no branch)");
        assert_eq!(world.end_reading(reading).await, SnapshotOutcome::Gone);
        world.assert_nothing_left();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_do_not_disturb_each_other_or_git() {
    let rounds_each = if is_long_run() { 8 } else { 3 };
    with_every_git(TestRepo::with_git, async |world| {
        let rounds = (0..8).map(async |_| {
            for _ in 0..rounds_each {
                assert_eq!(world.end_reading(world.begin_reading("HEAD").await).await, SnapshotOutcome::Gone);
            }
        });
        let (done, test, began) = (AtomicBool::new(false), &world.test, Instant::now());
        std::thread::scope(|scope| {
            let beside = || {
                while !done.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(60) {
                    let output = test.git_command(test.path(), &["worktree", "list"]).output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    // Git fails on an entry that any process removes while it lists them.
                    let gone_meanwhile = said.contains("No such file or directory") && said.contains(".git/worktrees");
                    assert!(output.status.success() || gone_meanwhile, "{said}");
                }
            };
            let others = [scope.spawn(beside), scope.spawn(beside)];
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(join_all(rounds)));
            done.store(true, Ordering::SeqCst);
            others.into_iter().for_each(|other| other.join().unwrap());
        });
        world.assert_nothing_left();
    })
    .await;
}

/// Waits for all.
async fn join_all(all: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut open: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        open.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if open.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn files_of_a_commit_are_listed_and_read_as_they_were_committed() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.write_file("a/one.md", "one\n");
        test.write_file("a/deep/two words.md", "two\n");
        test.write_file("b/three.md", "three\n");
        test.write_file("c/four.md", "four\n");
        std::os::unix::fs::symlink("/etc/hostname", test.path().join("a/link.md")).unwrap();
        test.add_submodule();
        test.git(&["mv", "sub", "a/sub"]);
        let commit = test.commit_all("files").parse().unwrap();
        test.write_file("a/one.md", "changed since");
        let files = world.repo.files_below(&commit, &["a", "b", "nothing"]).await.unwrap();
        let paths: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
        assert_eq!(paths, ["a/deep/two words.md", "a/one.md", "b/three.md"]);
        assert_eq!(files[1].size, 4);
        assert_eq!(
            world.repo.read_files(&files).await.unwrap(),
            [b"two\n".to_vec(), b"one\n".to_vec(), b"three\n".to_vec()]
        );
        assert!(world.repo.read_files(&[]).await.unwrap().is_empty());
    })
    .await;
}
