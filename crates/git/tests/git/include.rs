use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use grove_git::include::{IncludeOutcome, copy_ignored};
use grove_testkit::TestRepo;

use crate::{GitTest, parse_branch, want_own_branch, with_every_git};

/// A worktree of a repository that ignores `.env`, `*.local` and `cache/`.
async fn make_worktree(world: &GitTest) -> PathBuf {
    world.test.write_file(".gitignore", ".env\n*.local\ncache/\nlink-*\n");
    world.test.commit_all("ignore");
    let name = parse_branch("issue-1");
    world.add_worktree(want_own_branch(&name, None)).await.unwrap().path
}

async fn include_files(world: &GitTest, path: &std::path::Path, setting: &[&str]) -> IncludeOutcome {
    let setting: Vec<String> = setting.iter().map(|text| (*text).to_owned()).collect();
    let before = world.test.snapshot_checkout();
    let included = copy_ignored(&world.repo, path, &setting).await.unwrap();
    before.assert_untouched();
    assert_eq!(world.test.git_in(path, &["status", "--porcelain"]), "", "copies never show as changes");
    included
}

#[tokio::test]
async fn ignored_files_that_are_asked_for_come_along_with_their_mode() {
    with_every_git(TestRepo::with_git, async |world| {
        let path = make_worktree(world).await;
        let test = &world.test;
        test.write_file(".env", "KEY=1\n");
        fs::set_permissions(test.path().join(".env"), fs::Permissions::from_mode(0o600)).unwrap();
        test.write_file("deep/a.local", "a");
        test.write_file("deep/b.local", "b");
        test.write_file("cache/big", "x");
        test.write_file("untracked", "not ignored");
        test.write_file(".worktreeinclude", "# what agents need\n.env\n*.local\n!b.local\nuntracked\nREADME.md\n\n");
        let included = include_files(world, &path, &[]).await;
        assert_eq!(included, IncludeOutcome { copied: 2, refused: vec![] });
        assert_eq!(fs::read_to_string(path.join(".env")).unwrap(), "KEY=1\n");
        assert_eq!(fs::metadata(path.join(".env")).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(path.join("deep/a.local").exists() && !path.join("deep/b.local").exists());
        assert!(!path.join("cache").exists() && !path.join("untracked").exists());
    })
    .await;
}

#[tokio::test]
async fn paths_that_leave_the_repository_are_refused_and_the_rest_is_copied() {
    with_every_git(TestRepo::with_git, async |world| {
        let path = make_worktree(world).await;
        let test = &world.test;
        fs::write(test.temp_dir().join("secret"), "s3cret").unwrap();
        test.write_file(".env", "KEY=1\n");
        symlink(test.temp_dir().join("secret"), test.path().join("link-out")).unwrap();
        symlink("../secret", test.path().join("link-up")).unwrap();
        symlink(".env", test.path().join("link-in")).unwrap();
        test.write_file(".worktreeinclude", "../secret\n.env\nlink-*\n");
        let included = include_files(world, &path, &[]).await;
        assert_eq!(included.copied, 2, "{included:?}");
        assert_eq!(included.refused.len(), 3, "{included:?}");
        assert!(included.refused.iter().all(|why| why.contains("leaves the repository")));
        assert!(path.join("link-out").symlink_metadata().is_err() && path.join("link-up").symlink_metadata().is_err());
        assert_eq!(fs::read_to_string(path.join("link-in")).unwrap(), "KEY=1\n");
        assert!(fs::read_dir(&path).unwrap().all(|e| !e.unwrap().file_name().to_string_lossy().contains("secret")));
    })
    .await;
}

#[tokio::test]
async fn a_folder_that_is_a_link_is_not_entered() {
    with_every_git(TestRepo::with_git, async |world| {
        let path = make_worktree(world).await;
        let test = &world.test;
        let outside = test.temp_dir().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("a.local"), "s3cret").unwrap();
        symlink(&outside, test.path().join("link-dir")).unwrap();
        let included = include_files(world, &path, &["*.local", "link-dir", "link-dir/**"]).await;
        assert_eq!(included.copied, 0, "{included:?}");
        assert!(path.join("link-dir").symlink_metadata().is_err());
    })
    .await;
}

#[tokio::test]
async fn without_a_list_nothing_is_copied_and_the_setting_is_a_list_too() {
    with_every_git(TestRepo::with_git, async |world| {
        let path = make_worktree(world).await;
        world.test.write_file(".env", "KEY=1\n");
        assert_eq!(include_files(world, &path, &[]).await, IncludeOutcome::default());
        assert_eq!(include_files(world, &path, &[".env"]).await.copied, 1);
        fs::write(path.join(".env"), "changed by the work").unwrap();
        assert_eq!(include_files(world, &path, &[".env"]).await.copied, 0, "what is there stays");
        assert_eq!(fs::read_to_string(path.join(".env")).unwrap(), "changed by the work");
    })
    .await;
}
