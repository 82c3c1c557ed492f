use std::fs;

use grove_git::Repository;
use grove_git::repository::RepositoryError;
use grove_testkit::TestRepo;

use crate::with_every_git;

#[tokio::test]
async fn the_canonical_checkout_is_found_from_anywhere_inside() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        let linked = test.temp_dir().join("linked");
        test.git(&["worktree", "add", "-q", linked.to_str().unwrap()]);
        let link = test.temp_dir().join("symlink");
        std::os::unix::fs::symlink(test.path(), &link).unwrap();
        for inside in [test.path().join("src"), linked.clone(), linked.join("src"), link, test.path().join(".git")] {
            let found = Repository::discover_repository(&world.git, &inside).await.unwrap();
            assert_eq!(found.root, test.path(), "from {}", inside.display());
            assert_eq!(found.common_dir, test.path().join(".git"));
            assert!(!found.bare);
        }
    })
    .await;
}

#[tokio::test]
async fn a_bare_repository_is_its_own_canonical_place_also_from_its_worktrees() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let (test, origin) = (&world.test, world.test.origin_path());
        let linked = test.temp_dir().join("linked");
        test.git_in(&origin, &["worktree", "add", "-q", linked.to_str().unwrap(), "main"]);
        for inside in [&origin, &linked] {
            let found = Repository::discover_repository(&world.git, inside).await.unwrap();
            assert_eq!((found.root, found.bare), (origin.clone(), true), "from {}", inside.display());
        }
    })
    .await;
}

#[tokio::test]
async fn a_submodule_is_a_repository_of_its_own() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        test.git(&["submodule", "--quiet", "add", test.origin_path().to_str().unwrap(), "lib"]);
        let found = Repository::discover_repository(&world.git, &test.path().join("lib")).await.unwrap();
        assert_eq!(found.root, test.path().join("lib"));
        assert_eq!(found.common_dir, test.path().join(".git/modules/lib"));
    })
    .await;
}

#[tokio::test]
async fn what_is_no_repository_is_told_apart() {
    with_every_git(TestRepo::with_git, async |world| {
        let dir = world.test.temp_dir();
        let plain = dir.join("plain");
        fs::create_dir(&plain).unwrap();
        fs::write(dir.join("file"), "").unwrap();
        for (name, there) in [("plain", true), ("file", true), ("nothing", false)] {
            let error = Repository::discover_repository(&world.git, &dir.join(name)).await.unwrap_err();
            assert_eq!(matches!(error, RepositoryError::NotARepository(_)), there, "{name}: {error}");
            assert_eq!(matches!(error, RepositoryError::NotThere(_)), !there, "{name}: {error}");
        }
    })
    .await;
}

#[tokio::test]
async fn files_are_read_from_commits_and_links_are_not_followed() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.git(&["branch", "before"]);
        test.write_file(".grove/config.toml", "[worktree]\n");
        std::os::unix::fs::symlink("/etc/hostname", test.path().join("link")).unwrap();
        test.commit_all("settings");
        test.write_file(".grove/config.toml", "changed since");
        let read = async |refs: &[&str], path: &str| {
            let refs: Vec<String> = refs.iter().map(|name| format!("refs/heads/{name}")).collect();
            world.repo.file_of_first(&refs, path).await.unwrap().map(|(_, bytes)| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(read(&["nothing", "main"], ".grove/config.toml").await.as_deref(), Some("[worktree]\n"));
        assert_eq!(read(&["before", "main"], ".grove/config.toml").await, None, "the first that exists counts");
        assert_eq!(read(&["main"], "src").await, None);
        assert_eq!(read(&["main"], "link").await.as_deref(), Some("/etc/hostname"));
        assert_eq!(read(&[], "src").await, None);
    })
    .await;
}

#[tokio::test]
async fn remotes_are_listed_without_credentials() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        assert_eq!(world.repo.list_remotes().await.unwrap(), []);
        test.git(&["remote", "add", "origin", "https://me:secret@example.com/acme/app.git"]);
        test.git(&["remote", "add", "fork", "git@example.com:me/app.git"]);
        let remotes = world.repo.list_remotes().await.unwrap();
        let shown: Vec<String> = remotes.iter().map(|remote| format!("{} {}", remote.name, remote.url)).collect();
        assert_eq!(shown, ["origin https://***@example.com/acme/app.git", "fork git@example.com:me/app.git"]);
    })
    .await;
}
