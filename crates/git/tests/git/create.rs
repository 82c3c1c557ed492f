use std::fs;
use std::os::unix::fs::PermissionsExt;

use grove_git::base::FetchPolicy;
use grove_git::worktree::{
    self, AddWorktreeError, PreparedWorktree, TargetError, WorktreeFlaw, WorktreeRequest, WorktreeSource,
};
use grove_git::{Git, Repository};
use grove_model::{CommitSha, Nonce};
use grove_testkit::TestRepo;

use crate::{GitTest, SilentJournal, parse_branch, want_own_branch, with_every_git};

fn parse_sha(text: &str) -> CommitSha {
    text.parse().unwrap()
}

#[tokio::test]
async fn an_issue_gets_a_branch_from_the_base_without_upstream() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let tip = world.test.push_commit("refs/heads/main", "origin/main", "later");
        let name = parse_branch("issue-42");
        let made = world.add_worktree(want_own_branch(&name, Some("origin"))).await.unwrap();
        assert_eq!(made.head.as_str(), tip);
        assert!(made.path.join("later").is_file());
        let upstream = world.test.git_command(&made.path, &["rev-parse", "--abbrev-ref", "@{u}"]).output().unwrap();
        assert!(!upstream.status.success(), "no upstream");
    })
    .await;
}

#[tokio::test]
async fn the_result_is_what_git_itself_would_have_made() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.write_file("deep/er/file", "x\n");
        std::os::unix::fs::symlink("../README.md", test.path().join("src/link")).unwrap();
        test.write_file("run.sh", "#!/bin/sh\n");
        fs::set_permissions(test.path().join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        test.commit_all("more");
        let name = parse_branch("ours");
        let ours = world.add_worktree(want_own_branch(&name, None)).await.unwrap();
        let theirs = test.temp_dir().join("theirs");
        test.git(&["worktree", "add", "-q", theirs.to_str().unwrap()]);
        let picture = |dir: &std::path::Path| {
            let files = test.git_in(dir, &["ls-files", "--stage", "--debug"]);
            // Times, inodes and devices differ; modes, sizes, ids and flags must not.
            let stable: Vec<&str> =
                files.lines().filter(|l| !l.contains("time:") && !l.contains("dev:") && !l.contains("uid:")).collect();
            stable.join("\n")
        };
        assert_eq!(picture(&ours.path), picture(&theirs));
        let entry = |dir: &std::path::Path| {
            let admin = test.git_in(dir, &["rev-parse", "--absolute-git-dir"]);
            let mut names: Vec<String> =
                fs::read_dir(admin).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.retain(|name| name != "refs");
            names.sort();
            names
        };
        assert_eq!(entry(&ours.path), entry(&theirs));
        assert_eq!(test.git_in(&ours.path, &["ls-files", "-s"]), test.git(&["ls-files", "-s"]));
    })
    .await;
}

#[tokio::test]
async fn an_existing_branch_is_used_as_it_is_and_never_moved() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.git(&["checkout", "-q", "-b", "issue-1"]);
        let tip = test.commit_all("work");
        test.git(&["checkout", "-q", "main"]);
        test.commit_all("main goes on");
        let name = parse_branch("issue-1");
        let made = world.add_worktree(want_own_branch(&name, None)).await.unwrap();
        assert_eq!(made.head.as_str(), tip);
    })
    .await;
}

#[tokio::test]
async fn an_existing_branch_with_a_start_is_an_error() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        world.test.git(&["branch", "here"]);
        world.test.push_commit("refs/heads/there", "origin/main", "there");
        for name in ["here", "there"] {
            let name = parse_branch(name);
            let mut wanted = want_own_branch(&name, Some("origin"));
            wanted.base.explicit = Some("main");
            assert!(matches!(world.expect_refusal(wanted).await, AddWorktreeError::BranchExists(_)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_branch_that_only_the_remote_has_starts_at_the_remotes_commit() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        // Also right after another creation, when the base counts as fresh.
        let first = parse_branch("first");
        let wanted = WorktreeRequest { fetch: FetchPolicy::Auto, ..want_own_branch(&first, Some("origin")) };
        world.add_worktree(wanted).await.unwrap();
        let tip = world.test.push_commit("refs/heads/feature/x", "origin/main", "theirs");
        let name = parse_branch("feature/x");
        let made = world
            .add_worktree(WorktreeRequest { fetch: FetchPolicy::Auto, ..want_own_branch(&name, Some("origin")) })
            .await
            .unwrap();
        assert_eq!(made.head.as_str(), tip);
    })
    .await;
}

#[tokio::test]
async fn a_pull_request_of_this_repository_is_on_its_own_branch_with_upstream() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let tip = world.test.push_commit("refs/heads/feature/auth", "origin/main", "auth");
        let name = parse_branch("feature/auth");
        let wanted =
            WorktreeRequest { source: WorktreeSource::PullRequestBranch, ..want_own_branch(&name, Some("origin")) };
        let made = world.add_worktree(wanted).await.unwrap();
        assert_eq!(made.head.as_str(), tip);
        let upstream = world.test.git_in(&made.path, &["rev-parse", "--abbrev-ref", "@{u}"]);
        assert_eq!(upstream, "origin/feature/auth");
    })
    .await;
}

/// Clones of one branch, with its whole history or only its newest commit, fetch no other branch by
/// themselves.
#[tokio::test]
async fn a_clone_of_a_single_branch_gets_a_pull_requests_branch_too() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        let older = test.push_commit("refs/heads/main", "origin/main", "older");
        test.push_commit("refs/heads/main", &older, "newest");
        let url = format!("file://{}", test.origin_path().display());
        for (number, flags) in
            [&["--single-branch"][..], &["--depth=1"], &["--depth=1", "--no-single-branch"]].into_iter().enumerate()
        {
            // It began before the newest commit that a shallow clone has.
            let tip = test.push_commit(&format!("refs/heads/feature/{number}"), &older, &format!("work-{number}"));
            let (clone, path) =
                (test.temp_dir().join(format!("clone-{number}")), test.temp_dir().join(format!("wt-{number}")));
            let at = clone.to_str().unwrap();
            test.git_in(&test.temp_dir(), &[&["clone", "-q"], flags, &[&url, at]].concat());
            let repo = Repository::discover_repository(&world.git, &clone).await.unwrap();
            let before = grove_testkit::CheckoutSnapshot::from_checkout(&clone);
            let shallow = fs::read(clone.join(".git/shallow")).ok();
            let name = parse_branch(&format!("feature/{number}"));
            let wanted =
                WorktreeRequest { source: WorktreeSource::PullRequestBranch, ..want_own_branch(&name, Some("origin")) };
            let prepared = PreparedWorktree::find_source(&repo, &wanted).await.unwrap();
            let made = worktree::add_worktree(&repo, &path, prepared, Nonce::new(), &SilentJournal).await;
            let made = made.unwrap_or_else(|error| panic!("{flags:?}: {error}"));
            made.unlock_worktree().unwrap();
            assert_eq!(made.head.as_str(), tip, "{flags:?}");
            before.assert_only_upstream_added(name.as_str());
            assert_eq!(fs::read(clone.join(".git/shallow")).ok(), shallow, "{flags:?}");
            test.git_in(&clone, &["fsck", "--no-dangling"]);
            assert_eq!(test.git_in(&path, &["status", "--porcelain"]), "");
            let followed = repo.upstream_of(&name).await.unwrap();
            assert_eq!(followed, Some(format!("origin/{name}")), "{flags:?}");
            // A person works there as in any other worktree.
            let newer = test.push_commit(&name.full_ref(), &tip, "by-a-colleague");
            test.git_in(&path, &["pull", "-q"]);
            assert_eq!(test.git_in(&path, &["rev-parse", "HEAD"]), newer, "{flags:?}");
            fs::write(path.join("mine"), "mine").unwrap();
            test.git_in(&path, &["add", "mine"]);
            test.git_in(&path, &["commit", "-q", "-m", "mine"]);
            test.git_in(&path, &["push", "-q"]);
            let pushed = test.git_in(&test.origin_path(), &["rev-parse", name.as_str()]);
            assert_eq!(pushed, test.git_in(&path, &["rev-parse", "HEAD"]), "{flags:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_pull_requests_branch_goes_forward_but_keeps_what_is_only_here() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        test.push_commit("refs/heads/behind", "origin/main", "one");
        test.git(&["fetch", "-q"]);
        test.git(&["branch", "-q", "--no-track", "behind", "origin/behind"]);
        let newer = test.push_commit("refs/heads/behind", "origin/behind", "two");
        let name = parse_branch("behind");
        let made = world
            .add_worktree(WorktreeRequest {
                source: WorktreeSource::PullRequestBranch,
                ..want_own_branch(&name, Some("origin"))
            })
            .await
            .unwrap();
        assert_eq!(made.head.as_str(), newer);

        test.push_commit("refs/heads/apart", "origin/main", "three");
        test.git(&["checkout", "-q", "-b", "apart"]);
        let ours = test.commit_all("only here");
        test.git(&["checkout", "-q", "main"]);
        let name = parse_branch("apart");
        let made = world
            .add_worktree(WorktreeRequest {
                source: WorktreeSource::PullRequestBranch,
                ..want_own_branch(&name, Some("origin"))
            })
            .await
            .unwrap();
        assert_eq!(made.head.as_str(), ours);
        assert!(made.warnings.iter().any(|w| w.contains("used as it is")), "{:?}", made.warnings);
    })
    .await;
}

fn want_pull_request<'a>(name: &'a grove_model::BranchName, number: u64, pinned: Option<&str>) -> WorktreeRequest<'a> {
    WorktreeRequest {
        source: WorktreeSource::PullRequestHead { number, pinned: pinned.map(parse_sha) },
        ..want_own_branch(name, Some("origin"))
    }
}

#[tokio::test]
async fn a_forks_pull_request_is_at_exactly_its_commit() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        let first = test.push_commit("refs/pull/7/head", "origin/main", "one");
        let second = test.push_commit("refs/pull/7/head", &first, "two");
        let name = parse_branch("pr-7-review");
        let made = world.add_worktree(want_pull_request(&name, 7, Some(&first))).await.unwrap();
        assert_eq!(made.head.as_str(), first, "the commit that was named");
        let name = parse_branch("pr-7-later");
        let made = world.add_worktree(want_pull_request(&name, 7, None)).await.unwrap();
        assert_eq!(made.head.as_str(), second, "the newest");
        // GitLab's name for the same.
        let gitlab = test.push_commit("refs/merge-requests/8/head", "origin/main", "three");
        let name = parse_branch("pr-8-review");
        assert_eq!(world.add_worktree(want_pull_request(&name, 8, None)).await.unwrap().head.as_str(), gitlab);
    })
    .await;
}

#[tokio::test]
async fn an_older_review_branch_is_pinned_before_it_is_replaced() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        test.git(&["checkout", "-q", "-b", "pr-7-review"]);
        let own_work = test.commit_all("notes of the reviewer");
        test.git(&["checkout", "-q", "main"]);
        let head = test.push_commit("refs/pull/7/head", "origin/main", "one");
        let name = parse_branch("pr-7-review");
        let made = world.add_worktree(want_pull_request(&name, 7, Some(&head))).await.unwrap();
        assert_eq!(made.head.as_str(), head);
        let pins = test.git(&["for-each-ref", "--format=%(objectname)", "refs/grove/trash"]);
        assert_eq!(pins, own_work);
        let said = made.warnings.iter().find(|said| said.contains("had commits of its own")).expect("it is said");
        let restore = said.split('`').find(|words| words.starts_with("git branch ")).expect("with what to do");
        test.git(&restore.split(' ').skip(1).collect::<Vec<_>>());
        let back = test.git(&["for-each-ref", "--format=%(objectname)", "refs/heads/pr-7-review-*"]);
        assert_eq!(back, own_work);
    })
    .await;
}

#[tokio::test]
async fn a_failed_fetch_of_a_pull_request_is_an_error_and_makes_no_other_branch() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let name = parse_branch("pr-9-review");
        assert!(matches!(
            world.expect_refusal(want_pull_request(&name, 9, None)).await,
            AddWorktreeError::NoSuchPullRequest { number: 9, .. }
        ));
        world.test.push_commit("refs/pull/9/head", "origin/main", "one");
        let lost = "1".repeat(40);
        assert!(matches!(
            world.expect_refusal(want_pull_request(&name, 9, Some(&lost))).await,
            AddWorktreeError::NoSuchCommit { .. }
        ));
        let gone = parse_branch("gone");
        let same =
            || WorktreeRequest { source: WorktreeSource::PullRequestBranch, ..want_own_branch(&gone, Some("origin")) };
        assert!(matches!(world.expect_refusal(same()).await, AddWorktreeError::NoSuchBranch { .. }));
        fs::rename(world.test.origin_path(), world.test.temp_dir().join("away.git")).unwrap();
        assert!(matches!(
            world.expect_refusal(want_pull_request(&name, 9, None)).await,
            AddWorktreeError::FetchFailed { .. }
        ));
        assert!(matches!(world.expect_refusal(same()).await, AddWorktreeError::FetchFailed { .. }));
        let alone = WorktreeRequest { source: WorktreeSource::PullRequestBranch, ..want_own_branch(&gone, None) };
        assert!(matches!(world.expect_refusal(alone).await, AddWorktreeError::NoRemote));
    })
    .await;
}

#[tokio::test]
async fn a_branch_that_is_checked_out_elsewhere_is_left_there() {
    with_every_git(TestRepo::with_git, async |world| {
        let name = parse_branch("main");
        let error = world.expect_refusal(want_own_branch(&name, None)).await;
        assert!(matches!(&error, AddWorktreeError::BranchHeld { at, .. } if at == world.test.path()), "{error}");
    })
    .await;
}

#[tokio::test]
async fn names_that_are_file_and_folder_at_once_are_refused_with_the_other_name() {
    with_every_git(TestRepo::with_git, async |world| {
        world.test.git(&["branch", "D/x"]);
        world.test.git(&["branch", "a"]);
        for (name, other) in [("D", "D/x"), ("a/b", "a"), ("a/b/c", "a")] {
            let wanted = parse_branch(name);
            let error = world.expect_refusal(want_own_branch(&wanted, None)).await;
            assert!(
                matches!(&error, AddWorktreeError::BranchInTheWay { other: found, .. } if found == other),
                "{error}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn what_stands_at_the_path_is_refused_with_the_reason_and_left() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        let parent = world.worktree_path("");
        fs::create_dir_all(&parent).unwrap();
        fs::write(parent.join("file"), "mine").unwrap();
        fs::create_dir(parent.join("files")).unwrap();
        fs::write(parent.join("files/a"), "mine").unwrap();
        std::os::unix::fs::symlink(test.path(), parent.join("link")).unwrap();
        test.git_in(&test.temp_dir(), &["clone", "-q", "repo", parent.join("clone").to_str().unwrap()]);
        test.git_in(&test.temp_dir(), &["clone", "-q", "--bare", "repo", parent.join("bare").to_str().unwrap()]);
        test.git_in(&test.temp_dir(), &["clone", "-q", "repo", "other"]);
        let foreign = parent.join("foreign");
        test.git_in(&test.temp_dir().join("other"), &["worktree", "add", "-q", foreign.to_str().unwrap()]);
        test.git(&["worktree", "add", "-q", "-b", "elsewhere", parent.join("taken").to_str().unwrap()]);
        let host = test.temp_dir().join("host");
        test.git_in(&test.temp_dir(), &["clone", "-q", "repo", "host"]);
        test.git_in(&host, &["submodule", "--quiet", "add", test.path().to_str().unwrap(), "sub"]);
        fs::rename(host.join("sub"), parent.join("sub")).unwrap();
        fs::write(parent.join("sub/.git"), format!("gitdir: {}/.git/modules/sub\n", host.display())).unwrap();

        type ErrorPredicate = fn(&TargetError) -> bool;
        let cases: [(&str, ErrorPredicate); 8] = [
            ("file", |e| matches!(e, TargetError::File(_))),
            ("files", |e| matches!(e, TargetError::Files(_))),
            ("link", |e| matches!(e, TargetError::Link(_))),
            ("clone", |e| matches!(e, TargetError::Clone(_))),
            ("bare", |e| matches!(e, TargetError::Clone(_))),
            ("foreign", |e| matches!(e, TargetError::ForeignWorktree(_))),
            ("taken", |e| matches!(e, TargetError::Worktree(_))),
            ("sub", |e| matches!(e, TargetError::Submodule(_))),
        ];
        for (name, is) in cases {
            let listing = |name: &str| {
                let path = parent.join(name);
                std::process::Command::new("find").arg(&path).arg("-ls").output().unwrap().stdout
            };
            let before = listing(name);
            let wanted = parse_branch(name);
            let error = world.expect_refusal(want_own_branch(&wanted, None)).await;
            assert!(matches!(&error, AddWorktreeError::Target(target) if is(target)), "{name}: {error}");
            assert_eq!(listing(name), before, "{name} was touched");
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_folder_is_replaced_and_an_orphan_of_ours_is_moved_aside() {
    with_every_git(TestRepo::with_git, async |world| {
        let empty = parse_branch("empty");
        fs::create_dir_all(world.worktree_path("empty")).unwrap();
        world.add_worktree(want_own_branch(&empty, None)).await.unwrap();

        let path = world.worktree_path("orphan");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join(".git"), format!("gitdir: {}/worktrees/orphan\n", world.repo.common_dir.display()))
            .unwrap();
        fs::write(path.join("notes"), "somebody wrote this").unwrap();
        let name = parse_branch("orphan");
        let made = world.add_worktree(want_own_branch(&name, None)).await.unwrap();
        assert!(!made.path.join("notes").exists());
        let kept = world.worktree_path(".orphaned/orphan.1/notes");
        assert_eq!(fs::read_to_string(kept).unwrap(), "somebody wrote this");
        assert!(made.warnings.iter().any(|w| w.contains(".orphaned")), "{:?}", made.warnings);
    })
    .await;
}

#[tokio::test]
async fn an_undone_creation_leaves_nothing() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let (test, path) = (&world.test, world.worktree_path("issue-1"));
        test.git(&["checkout", "-q", "-b", "pr-7-review"]);
        let old = test.commit_all("notes");
        test.git(&["checkout", "-q", "main"]);
        let head = test.push_commit("refs/pull/7/head", "origin/main", "one");
        let name = parse_branch("issue-1");
        let review = parse_branch("pr-7-review");
        for wanted in [want_own_branch(&name, Some("origin")), want_pull_request(&review, 7, Some(&head))] {
            let prepared = PreparedWorktree::find_source(&world.repo, &wanted).await.unwrap();
            let before = (test.list_branches(), test.snapshot_checkout());
            let mut made =
                worktree::add_worktree(&world.repo, &path, prepared, Nonce::new(), &SilentJournal).await.unwrap();
            assert!(test.git(&["worktree", "list", "--porcelain"]).contains("locked"), "locked until it is finished");
            assert_eq!(made.undo_creation(&world.repo).await, Vec::<String>::new());
            assert_eq!(test.list_branches(), before.0);
            before.1.assert_untouched();
            assert!(!test.temp_dir().join("worktrees").exists(), "not even the folders above");
            assert_eq!(test.git(&["worktree", "list"]).lines().count(), 1);
            assert_eq!(test.resolve_sha("pr-7-review"), old);
        }
    })
    .await;
}

/// A git that fails, or lies, in one subcommand and is the real one otherwise.
async fn with_bad_git(world: &GitTest, subcommand: &str, instead: &str) -> Repository {
    let script = world.test.temp_dir().join(format!("bad-{subcommand}"));
    let real = world.test.hermetic_git();
    let text = format!(
        "#!/bin/bash\nfor a in \"$@\"; do [ \"$a\" = {subcommand} ] && {{ real() {{ {real} \"$@\"; }}; {instead}; }}; done\nexec {real} \"$@\"\n",
        real = real.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Repository::discover_repository(&Git::with_program(script), world.test.path()).await.unwrap()
}

#[tokio::test]
async fn gits_exit_code_is_not_taken_for_proof() {
    type ErrorPredicate = fn(&AddWorktreeError) -> bool;
    let cases: [(&str, ErrorPredicate); 6] = [
        (
            "echo 'error: unable to write file x: No space left on device' >&2; exit 128",
            |e| matches!(e, AddWorktreeError::Checkout { line } if line.contains("No space left")),
        ),
        ("real \"$@\"; rm README.md; exit 0", |e| {
            matches!(e, AddWorktreeError::Flawed(WorktreeFlaw::Changed { files: 1 }))
        }),
        ("real \"$@\"; echo x >> README.md; exit 0", |e| {
            matches!(e, AddWorktreeError::Flawed(WorktreeFlaw::Changed { files: 1 }))
        }),
        ("real \"$@\"; echo x > new; exit 0", |e| {
            matches!(e, AddWorktreeError::Flawed(WorktreeFlaw::Untracked { files: 1 }))
        }),
        ("real \"$@\"; touch $GIT_DIR/index.lock; exit 0", |e| {
            matches!(e, AddWorktreeError::Flawed(WorktreeFlaw::LockFile(_)))
        }),
        ("real \"$@\"; : > $GIT_DIR/commondir; exit 0", |e| {
            matches!(e, AddWorktreeError::Flawed(WorktreeFlaw::Link { .. }))
        }),
    ];
    for git in grove_testkit::installed_gits() {
        for (instead, is) in cases {
            let mut world = GitTest::open(TestRepo::with_git(git)).await;
            world.repo = with_bad_git(&world, "reset", instead).await;
            let name = parse_branch("issue-1");
            let error = world.expect_refusal(want_own_branch(&name, None)).await;
            assert!(is(&error), "{instead}: {error}");
            assert!(!world.test.temp_dir().join("worktrees").exists(), "{instead}");
            assert!(!world.repo.common_dir.join("worktrees").exists(), "{instead}");
        }
    }
}

#[tokio::test]
async fn a_repository_that_git_itself_shows_as_changed_is_a_warning() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.write_file("dos.txt", "one\r\ntwo\r\n");
        test.commit_all("line endings as they come");
        test.write_file(".gitattributes", "*.txt text=auto eol=lf\n");
        test.git(&["add", ".gitattributes"]);
        test.git(&["commit", "-qm", "rules that do not fit"]);
        let name = parse_branch("issue-1");
        let path = world.worktree_path("issue-1");
        let made = world.try_add(&path, &want_own_branch(&name, None)).await.unwrap();
        // Whether git calls this a change depends on its version; if it does, it is said.
        let changed = !test.git_in(&path, &["status", "--porcelain"]).is_empty();
        assert_eq!(changed, made.warnings.iter().any(|w| w.contains("line-ending")), "{:?}", made.warnings);
    })
    .await;
}

#[tokio::test]
async fn sparse_and_per_worktree_configured_repositories_take_plain_git() {
    with_every_git(TestRepo::with_git, async |world| {
        world.test.git(&["sparse-checkout", "set", "src"]);
        let name = parse_branch("issue-1");
        let path = world.worktree_path("issue-1");
        let before = world.test.snapshot_checkout();
        let made = world.try_add(&path, &want_own_branch(&name, None)).await.unwrap();
        before.assert_untouched();
        world.assert_sound(&made);
        assert!(made.path.join("src/main.c").exists());
    })
    .await;
}

#[tokio::test]
async fn reftable_repositories_work_where_git_has_them() {
    for git in grove_testkit::installed_gits() {
        let test = TestRepo::with_git(git);
        let init = test.git_command(&test.temp_dir(), &["init", "-q", "--ref-format=reftable", "rt"]).output().unwrap();
        if !init.status.success() {
            continue;
        }
        let root = test.temp_dir().join("rt");
        test.git_in(&root, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let git = Git::with_program(test.hermetic_git());
        let repo = Repository::discover_repository(&git, &root).await.unwrap();
        let name = parse_branch("issue-1");
        let prepared = PreparedWorktree::find_source(&repo, &want_own_branch(&name, None)).await.unwrap();
        let mut made =
            worktree::add_worktree(&repo, &test.temp_dir().join("wt"), prepared, Nonce::new(), &SilentJournal)
                .await
                .unwrap();
        assert_eq!(test.git_in(&made.path, &["symbolic-ref", "--short", "HEAD"]), "issue-1");
        assert_eq!(made.undo_creation(&repo).await, Vec::<String>::new());
        assert_eq!(test.git_in(&root, &["worktree", "list"]).lines().count(), 1);
    }
}

#[tokio::test]
async fn two_worktrees_of_one_folder_name_get_two_entries() {
    with_every_git(TestRepo::with_git, async |world| {
        let (one, two) = (parse_branch("one"), parse_branch("two"));
        let first = world.add_at(&world.test.temp_dir().join("a/x"), want_own_branch(&one, None)).await.unwrap();
        let second = world.add_at(&world.test.temp_dir().join("b/x"), want_own_branch(&two, None)).await.unwrap();
        assert_ne!(first.admin_dir, second.admin_dir);
    })
    .await;
}

#[tokio::test]
async fn a_dirty_canonical_checkout_stays_as_it_is() {
    with_every_git(TestRepo::with_git, async |world| {
        let test = &world.test;
        test.write_file("README.md", "changed\n");
        test.write_file("staged", "staged\n");
        test.git(&["add", "staged"]);
        test.write_file("untracked", "x");
        test.git(&["rm", "-q", "--cached", "src/main.c"]);
        let name = parse_branch("issue-1");
        let made = world.add_worktree(want_own_branch(&name, None)).await.unwrap();
        assert_eq!(fs::read_to_string(made.path.join("README.md")).unwrap(), "# A project\n");
        assert!(!made.path.join("untracked").exists());
    })
    .await;
}

#[tokio::test]
async fn a_bare_repository_gives_worktrees() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let bare = Repository::discover_repository(&world.git, &world.test.origin_path()).await.unwrap();
        let before = grove_testkit::CheckoutSnapshot::from_checkout(&world.test.origin_path());
        let name = parse_branch("issue-1");
        let prepared = PreparedWorktree::find_source(&bare, &want_own_branch(&name, None)).await.unwrap();
        let path = world.test.temp_dir().join("from-bare");
        let made = worktree::add_worktree(&bare, &path, prepared, Nonce::new(), &SilentJournal).await.unwrap();
        made.unlock_worktree().unwrap();
        before.assert_untouched();
        assert_eq!(world.test.git_in(&path, &["status", "--porcelain"]), "");
    })
    .await;
}

#[tokio::test]
async fn submodules_are_initialised_without_a_word_in_the_shared_config() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        // A library with a library of its own, by absolute and by relative address.
        for name in ["inner", "lib"] {
            test.git_in(&test.temp_dir(), &["clone", "-q", "--bare", "repo", &format!("{name}.git")]);
        }
        let work = test.temp_dir().join("lib-work");
        test.git_in(&test.temp_dir(), &["clone", "-q", "lib.git", "lib-work"]);
        test.git_in(
            &work,
            &["submodule", "--quiet", "add", test.temp_dir().join("inner.git").to_str().unwrap(), "inner"],
        );
        test.git_in(&work, &["commit", "-qm", "inner"]);
        test.git_in(&work, &["push", "-q", "origin", "main"]);
        test.git(&["submodule", "--quiet", "add", test.temp_dir().join("lib.git").to_str().unwrap(), "lib"]);
        test.git(&["submodule", "--quiet", "add", "--name", "odd=name", "../inner.git", "relative"]);
        test.commit_all("submodules");
        test.git(&["push", "-q", "origin", "main"]);
        // A clone whose user has never initialised the submodules.
        test.git_in(&test.temp_dir(), &["clone", "-q", "origin.git", "fresh"]);
        let fresh = test.temp_dir().join("fresh");
        let repo = Repository::discover_repository(&world.git, &fresh).await.unwrap();
        let before = grove_testkit::CheckoutSnapshot::from_checkout(&fresh);
        let name = parse_branch("issue-1");
        let prepared = PreparedWorktree::find_source(&repo, &want_own_branch(&name, Some("origin"))).await.unwrap();
        let path = test.temp_dir().join("wt/issue-1");
        worktree::add_worktree(&repo, &path, prepared, Nonce::new(), &SilentJournal).await.unwrap();
        assert!(!path.join("lib/README.md").exists());
        assert_eq!(
            grove_git::submodules::initialise_submodules(&repo, &path, Some("origin")).await.unwrap(),
            Vec::<String>::new()
        );
        for file in ["lib/README.md", "lib/inner/README.md", "relative/README.md"] {
            assert!(path.join(file).exists(), "{file}");
        }
        assert_eq!(test.git_in(&path, &["status", "--porcelain"]), "");
        before.assert_untouched();
    })
    .await;
}
