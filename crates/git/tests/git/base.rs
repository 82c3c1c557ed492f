use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use grove_git::RemoteOptions;
use grove_git::base::{BaseCommit, BaseError, BasePreference, FetchPolicy, choose_remote};
use grove_testkit::{SilentServer, TestRepo};

use crate::{GitTest, parse_branch, want_own_branch, with_every_git};

async fn find_base(world: &GitTest, wish: BasePreference<'_>, policy: FetchPolicy) -> Result<BaseCommit, BaseError> {
    let remotes = world.repo.list_remotes().await?;
    let remote = choose_remote(None, &remotes)?;
    world.repo.find_base(&wish, remote.as_deref(), policy, None).await.map(|(base, _)| base)
}

fn explicit_base(name: &str) -> BasePreference<'_> {
    BasePreference { explicit: Some(name), ..BasePreference::default() }
}

#[tokio::test]
async fn what_was_said_beats_the_setting_beats_the_record_beats_the_remote() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        for name in ["said", "set", "recorded"] {
            test.push_commit(&format!("refs/heads/{name}"), "origin/main", name);
        }
        let mut wish = BasePreference { explicit: Some("said"), setting: Some("set"), recorded: Some("recorded") };
        assert_eq!(find_base(world, wish, FetchPolicy::Always).await.unwrap().name, "origin/said");
        wish.explicit = None;
        assert_eq!(find_base(world, wish, FetchPolicy::Always).await.unwrap().name, "origin/set");
        wish.setting = None;
        assert_eq!(find_base(world, wish, FetchPolicy::Always).await.unwrap().name, "origin/recorded");
        wish.recorded = None;
        assert_eq!(find_base(world, wish, FetchPolicy::Always).await.unwrap().name, "origin/main");
    })
    .await;
}

#[tokio::test]
async fn the_base_is_fetched_first() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let new = world.test.push_commit("refs/heads/main", "origin/main", "later");
        let found = find_base(world, BasePreference::default(), FetchPolicy::Always).await.unwrap();
        assert_eq!(found.sha.as_str(), new);
        assert_eq!(found.not_fetched, None);
        assert_eq!(world.test.resolve_sha("main"), world.test.resolve_sha("HEAD"), "the local branch did not move");
        assert_ne!(world.test.resolve_sha("main"), new);
        assert!(!world.test.path().join(".git/FETCH_HEAD").exists());
    })
    .await;
}

#[tokio::test]
async fn auto_fetches_once_a_minute_and_never_does_not() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let first = find_base(world, BasePreference::default(), FetchPolicy::Auto).await.unwrap();
        let new = world.test.push_commit("refs/heads/main", "origin/main", "later");
        for policy in [FetchPolicy::Auto, FetchPolicy::Never] {
            assert_eq!(find_base(world, BasePreference::default(), policy).await.unwrap().sha, first.sha);
        }
        // A minute later, by the stamp's own clock.
        let stamps = fs::read_dir(world.repo.common_dir.join("grove/fetched")).unwrap();
        for stamp in stamps {
            let file = fs::File::open(stamp.unwrap().path()).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(61)).unwrap();
        }
        assert_eq!(find_base(world, BasePreference::default(), FetchPolicy::Auto).await.unwrap().sha.as_str(), new);
    })
    .await;
}

#[tokio::test]
async fn an_unreachable_remote_is_a_warning_while_the_base_is_known_and_an_error_otherwise() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        fs::rename(world.test.origin_path(), world.test.temp_dir().join("gone.git")).unwrap();
        let found = find_base(world, BasePreference::default(), FetchPolicy::Always).await.unwrap();
        assert!(found.not_fetched.is_some_and(|line| line.contains("does not appear to be a git repository")));
        assert!(found.committed.is_some(), "its age can be told");
        let error = find_base(world, explicit_base("develop"), FetchPolicy::Always).await.unwrap_err();
        assert!(matches!(error, BaseError::Unreachable { .. }), "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_remote_without_head_and_nothing_configured_is_an_error() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        world.test.git(&["remote", "set-head", "origin", "--delete"]);
        let error = find_base(world, BasePreference::default(), FetchPolicy::Always).await.unwrap_err();
        assert!(matches!(&error, BaseError::NoBase { remote } if remote == "origin"), "{error}");
        assert_eq!(world.repo.default_branch(Some("origin")).await.unwrap(), None);
        let name = parse_branch("issue-1");
        world.expect_refusal(want_own_branch(&name, Some("origin"))).await;
    })
    .await;
}

#[tokio::test]
async fn the_only_remote_is_used_whatever_its_name() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        world.test.git(&["remote", "rename", "origin", "upstream"]);
        let found = find_base(world, BasePreference::default(), FetchPolicy::Always).await.unwrap();
        assert_eq!(found.name, "upstream/main");
    })
    .await;
}

#[tokio::test]
async fn without_a_remote_the_current_branch_is_the_base() {
    with_every_git(TestRepo::with_git, async |world| {
        world.test.git(&["checkout", "-q", "-b", "trunk"]);
        let tip = world.test.commit_all("on trunk");
        let found = find_base(world, BasePreference::default(), FetchPolicy::Auto).await.unwrap();
        assert_eq!((found.name.as_str(), found.sha.as_str()), ("trunk", tip.as_str()));
        world.test.git(&["checkout", "-q", "--detach"]);
        assert!(matches!(
            find_base(world, BasePreference::default(), FetchPolicy::Auto).await,
            Err(BaseError::Detached)
        ));
    })
    .await;
}

#[tokio::test]
async fn a_repository_without_commits_says_so() {
    for git in grove_testkit::installed_gits() {
        let test = TestRepo::with_git(git);
        let empty = test.temp_dir().join("empty");
        test.git_in(&test.temp_dir(), &["init", "-q", "empty"]);
        let git = grove_git::Git::with_program(test.hermetic_git());
        let repo = grove_git::Repository::discover_repository(&git, &empty).await.unwrap();
        let error = repo.find_base(&BasePreference::default(), None, FetchPolicy::Auto, None).await.unwrap_err();
        assert!(matches!(&error, BaseError::Unborn(name) if name == "main"), "{error}");
    }
}

#[tokio::test]
async fn a_bare_clone_starts_from_its_own_head() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        test.git_in(&test.temp_dir(), &["clone", "-q", "--bare", "origin.git", "bare.git"]);
        let bare =
            grove_git::Repository::discover_repository(&world.git, &test.temp_dir().join("bare.git")).await.unwrap();
        let new = test.push_commit("refs/heads/main", "origin/main", "later");
        let (found, _) =
            bare.find_base(&BasePreference::default(), Some("origin"), FetchPolicy::Always, None).await.unwrap();
        assert_eq!(found.sha.as_str(), new);
    })
    .await;
}

#[tokio::test]
async fn words_of_a_person_may_be_anything_that_names_a_commit() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        let old = test.resolve_sha("main");
        test.git(&["tag", "-a", "v1", "-m", "one"]);
        test.git(&["branch", "local-only"]);
        let new = test.commit_all("unpushed");
        for (words, sha) in [
            ("v1", &old),
            ("local-only", &old),
            (old.as_str(), &old),
            (&old[..12], &old),
            ("HEAD", &new),
            ("HEAD~1", &old),
            ("origin/main", &old),
            ("refs/heads/main", &new),
            ("refs/tags/v1", &old),
            // The newer of the two: here is ahead of the remote.
            ("main", &new),
        ] {
            let found = find_base(world, explicit_base(words), FetchPolicy::Always).await.unwrap();
            assert_eq!(found.sha.as_str(), sha, "{words}");
            assert_eq!(found.not_fetched, None, "{words}");
            let lasting = match words {
                "HEAD" => "main",
                "HEAD~1" => &old,
                words if old.starts_with(words) => &old,
                words => words,
            };
            assert_eq!(found.name, lasting, "{words}");
            assert!(found.committed.is_some(), "{words}");
        }
        let newest = test.push_commit("refs/heads/main", "origin/main", "elsewhere");
        let error = find_base(world, explicit_base("main"), FetchPolicy::Always).await.unwrap_err();
        assert!(matches!(error, BaseError::Diverged { .. }), "{error}");
        assert_eq!(
            find_base(world, explicit_base("origin/main"), FetchPolicy::Always).await.unwrap().sha.as_str(),
            newest
        );
        for nonsense in ["nothing-like-that", "--upload-pack=touch /tmp/x", "-x", "main..x", ""] {
            let error = find_base(world, explicit_base(nonsense), FetchPolicy::Always).await.unwrap_err();
            assert!(matches!(error, BaseError::Unknown(_)), "{nonsense}: {error}");
        }
    })
    .await;
}

/// Far below a minute, and far above what git needs.
const MAX_GIVE_UP_TIME: Duration = Duration::from_secs(30);

fn short_timeout_repository(world: &GitTest) -> grove_git::Repository {
    let fetch_timeout = Some(Duration::from_secs(1));
    world.repo.clone().with_remote_options(RemoteOptions { fetch_timeout, ..RemoteOptions::default() })
}

#[tokio::test]
async fn a_silent_remote_is_given_up_soon_where_the_base_is_known() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let silent = SilentServer::start();
        world.test.git(&["remote", "set-url", "origin", &silent.repository_url()]);
        let repo = short_timeout_repository(world);
        let known = ["origin/main", &world.test.resolve_sha("main")[..10]];
        let find_known = async |name: &str| {
            let began = Instant::now();
            let found = repo
                .find_base(&explicit_base(name), Some("origin"), FetchPolicy::Always, Some(&parse_branch("new")))
                .await;
            let (found, _) = found.unwrap();
            assert_eq!(found.sha.as_str(), world.test.resolve_sha("main"), "{name}");
            assert!(began.elapsed() < MAX_GIVE_UP_TIME, "{name}: {:?}", began.elapsed());
        };
        tokio::join!(find_known(known[0]), find_known(known[1]));
        let (found, _) =
            repo.find_base(&BasePreference::default(), Some("origin"), FetchPolicy::Always, None).await.unwrap();
        assert_eq!(found.not_fetched.as_deref(), Some("it did not answer within 1 s"));
        assert!(silent.call_count() > known.len());
    })
    .await;
}

#[tokio::test]
async fn a_remote_that_falls_silent_in_a_fetch_is_given_up_soon_too() {
    with_every_git(TestRepo::with_git_and_origin, async |world| {
        let test = &world.test;
        let old = test.resolve_sha("origin/main");
        test.push_commit("refs/heads/main", "origin/main", "later");
        // In the place of ssh: answers the first call, and never the second.
        let (ssh, called) = (test.temp_dir().join("ssh"), test.temp_dir().join("called"));
        let text = format!(
            "#!/bin/sh\nif [ -e {0} ]; then exec sleep 600; fi\ntouch {0}\nexec sh -c \"$2\"\n",
            called.display()
        );
        fs::write(&ssh, text).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
        let config = test.home_dir().join(".gitconfig");
        let lines = format!("[core]\n\tsshCommand = {}\n[ssh]\n\tvariant = simple\n", ssh.display());
        fs::write(&config, fs::read_to_string(&config).unwrap() + &lines).unwrap();
        test.git(&["remote", "set-url", "origin", &format!("ssh://host{}", test.origin_path().display())]);
        let began = Instant::now();
        let found = short_timeout_repository(world)
            .find_base(&BasePreference::default(), Some("origin"), FetchPolicy::Always, None)
            .await;
        let (found, _) = found.unwrap();
        assert!(called.exists() && began.elapsed() < MAX_GIVE_UP_TIME, "{:?}", began.elapsed());
        assert_eq!(found.not_fetched.as_deref(), Some("it did not answer within 1 s"));
        assert_eq!(found.sha.as_str(), old);
    })
    .await;
}
