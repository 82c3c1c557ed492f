//! What goes by itself, what stays, and what is made room for.

use std::fs;

use grove_environments::cleanup::CleanupReport;
use grove_environments::cleanup::on_close::CloseOutcome;
use grove_environments::cleanup::select::CleanupScope;
use grove_environments::error::{CreateError, EnvironmentError, RemoveError};
use grove_environments::remove::RemoveOptions;
use grove_model::{Environment, MergeMethod, Moment, State, Status};
use grove_store::ConversationRef;
use grove_testkit::{DirectorySnapshot, TestRepo, TestStore, both_engines, is_long_run};
use jiff::SignedDuration;

use crate::{EnvironmentsTest, task_request};

/// For stories in which things go as soon as they are merged.
const NO_GRACE_PERIOD: [(&str, &str); 1] = [("GROVE_CLEANUP_GRACE", "0")];

async fn create_environment(world: &EnvironmentsTest, name: &str) -> Environment {
    world.isolation.create_environment(&world.codebase, &task_request(name)).await.unwrap().environment
}

fn commit_file(test: &TestRepo, environment: &Environment, file: &str) {
    commit_at(test, environment, file, None);
}

fn commit_at(test: &TestRepo, environment: &Environment, file: &str, at: Option<&str>) {
    fs::write(environment.path.join(file), file).unwrap();
    test.git_in(&environment.path, &["add", file]);
    let mut command = test.git_command(&environment.path, &["commit", "-q", "-m", file]);
    assert!(command.envs(at.map(|at| ("GIT_COMMITTER_DATE", at))).status().unwrap().success());
}

fn squash_merge(test: &TestRepo, branch: &str) {
    test.git(&["merge", "-q", "--squash", branch]);
    test.git(&["commit", "-q", "-m", "squash"]);
}

/// Makes an environment look unused for so many days.
async fn make_older(world: &EnvironmentsTest, store: &TestStore, environment: &Environment, days: i64) {
    let then = Moment::now().add_duration(SignedDuration::from_hours(-24 * days));
    let pool = sqlx::AnyPool::connect(&store.url).await.unwrap();
    for statement in [
        "UPDATE remote_agent_isolation_environments SET last_activity_at = $1, created_at = $1 WHERE id = $2",
        "UPDATE remote_agent_conversations SET last_activity_at = $1 WHERE isolation_env_id = $2",
    ] {
        sqlx::query(statement).bind(then.to_string()).bind(environment.id.to_string()).execute(&pool).await.unwrap();
    }
    pool.close().await;
    age_files(environment, days);
    let _ = world;
}

fn age_files(environment: &Environment, days: i64) {
    let touched = std::time::SystemTime::now() - std::time::Duration::from_secs(days.unsigned_abs() * 86_400);
    let mut open = vec![environment.path.clone()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
            } else {
                fs::File::open(entry.path()).unwrap().set_modified(touched).unwrap();
            }
        }
    }
}

/// As if the clock had been put forward by a day since the last clean-up.
async fn put_clock_forward(world: &EnvironmentsTest) {
    let name = format!("clock {}", grove_environments::lease::node_name());
    let seen = world.store.find_fact(&name).await.unwrap().expect("a clean-up has run");
    let mut fields: Vec<String> = seen.split(' ').map(str::to_owned).collect();
    fields[0] = Moment::now().add_duration(SignedDuration::from_hours(-24)).to_string();
    world.store.set_fact(&name, &fields.join(" ")).await.unwrap();
}

/// A repository whose commits were made long ago.
fn old_repository() -> TestRepo {
    let test = TestRepo::new();
    let mut command =
        test.git_command(test.path(), &["commit", "-q", "--amend", "--no-edit", "--date=2020-01-01T00:00:00Z"]);
    assert!(command.env("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z").status().unwrap().success());
    test
}

async fn run_cleanup(world: &EnvironmentsTest, scope: CleanupScope) -> CleanupReport {
    world.isolation.clean_up(&world.codebase, scope, false, &|_, _| {}).await.unwrap()
}

fn removed_branches(report: &CleanupReport) -> Vec<&str> {
    report.removed.iter().map(|gone| gone.branch.as_str()).collect()
}

async fn environment_state(world: &EnvironmentsTest, environment: &Environment) -> State {
    let views = world.isolation.environment_views(&world.codebase, true).await.unwrap();
    views.into_iter().find(|view| view.id == environment.id.to_string()).unwrap().state
}

both_engines! {
    async fn branches_of_a_reftable_repository_tell_of_their_commits_too(store: TestStore) {
        for git in grove_testkit::installed_gits() {
            let test = TestRepo::with_git(git);
            let root = test.temp_dir().join("reftable");
            let init = ["init", "-q", "-b", "main", "--ref-format=reftable", root.to_str().unwrap()];
            if !test.git_command(&test.temp_dir(), &init).output().unwrap().status.success() {
                continue;
            }
            test.git_in(&root, &["commit", "-q", "--allow-empty", "-m", "first"]);
            let home = test.temp_dir().join("grove");
            let world = EnvironmentsTest::open_in(&test.hermetic_git(), &root, &home, &store.url, &[]).await;
            let mut made = Vec::new();
            for name in ["fresh", "followed", "merged", "forwarded", "unmerged", "without-log"] {
                made.push(create_environment(&world, name).await);
            }
            for environment in &made[2..] {
                commit_file(&test, environment, environment.branch.as_str());
            }
            test.git_in(&root, &["merge", "-q", "--no-ff", "-m", "merge", "merged"]);
            test.git_in(&root, &["merge", "-q", "--no-ff", "-m", "merge", "forwarded"]);
            test.git_in(&root, &["merge", "-q", "--no-ff", "-m", "merge", "without-log"]);
            // Brought up to date is not worked on.
            for environment in [&made[1], &made[3]] {
                test.git_in(&environment.path, &["merge", "-q", "--ff-only", "main"]);
            }
            test.git_in(&root, &["reflog", "expire", "--expire=now", "refs/heads/without-log"]);
            let views = world.isolation.environment_views(&world.codebase, false).await.unwrap();
            let states: Vec<_> = views.iter().map(|view| (view.branch.as_str(), view.state, view.merged_by)).collect();
            let ancestor = Some(MergeMethod::Ancestor);
            assert_eq!(states, [
                ("fresh", State::Fresh, None),
                ("followed", State::Fresh, None),
                ("merged", State::Merged, ancestor),
                ("forwarded", State::Merged, ancestor),
                ("unmerged", State::Active, None),
                ("without-log", State::Fresh, None),
            ]);
            assert_eq!(removed_branches(&run_cleanup(&world, CleanupScope::Merged).await), ["merged", "forwarded"]);
            world.isolation.undo_removal(&world.codebase, &made[2]).await.unwrap();
            assert!(made[2].path.join("merged").exists());
        }
    }

    async fn merged_ones_go_with_their_branches_and_come_back(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open_with(&test, &store, &NO_GRACE_PERIOD).await;
        let [fresh, ancestor, squashed, unmerged, dirty] = {
            let mut made = Vec::new();
            for name in ["fresh", "ancestor", "squashed", "unmerged", "dirty"] {
                made.push(create_environment(&world, name).await);
            }
            <[Environment; 5]>::try_from(made).unwrap()
        };
        for environment in [&ancestor, &squashed, &unmerged, &dirty] {
            commit_file(&test, environment, environment.branch.as_str());
        }
        test.git(&["merge", "-q", "--no-ff", "-m", "merge", "ancestor"]);
        squash_merge(&test, "squashed");
        test.git(&["merge", "-q", "--no-ff", "-m", "merge", "dirty"]);
        fs::write(dirty.path.join("new"), "unsaved").unwrap();
        assert_eq!(environment_state(&world, &squashed).await, State::Merged);
        assert_eq!(environment_state(&world, &fresh).await, State::Fresh);

        let dry = world.isolation.clean_up(&world.codebase, CleanupScope::Merged, true, &|_, _| {}).await.unwrap();
        assert_eq!(removed_branches(&dry), ["ancestor", "squashed"]);
        assert!(ancestor.path.exists() && squashed.path.exists(), "only said");
        let before = DirectorySnapshot::from_directory(&squashed.path);
        let report = run_cleanup(&world, CleanupScope::Merged).await;
        assert_eq!(removed_branches(&report), ["ancestor", "squashed"]);
        assert_eq!(report.skipped.len(), 1);
        assert_eq!(report.skipped[0].branch, "dirty");
        assert!(report.skipped[0].reason.contains("files that git does not know"), "{report:?}");
        assert_eq!(report.failed, []);
        assert!(fresh.path.exists() && unmerged.path.exists() && dirty.path.exists());
        // Proven merged by squash: the branch goes too, its tip pinned.
        assert_eq!(test.git(&["branch", "--list", "squashed", "ancestor"]), "");
        test.git(&["reflog", "expire", "--expire=now", "--all"]);
        test.git(&["gc", "--quiet", "--prune=now"]);
        world.isolation.undo_removal(&world.codebase, &squashed).await.unwrap();
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&squashed.path)), Vec::<String>::new());
        assert_eq!(removed_branches(&run_cleanup(&world, CleanupScope::Everything).await), ["squashed"], "and goes again");
        assert_eq!(run_cleanup(&world, CleanupScope::Everything).await.removed, []);
    }

    async fn an_environment_is_stale_without_activity_by_any_measure(store: TestStore) {
        let test = old_repository();
        let world = EnvironmentsTest::open(&test, &store).await;
        let talks = |platform: &str, name: &str| {
            let mut request = task_request(name);
            request.conversation = Some(ConversationRef { platform: platform.into(), id: name.into() });
            request
        };
        let mut made = Vec::new();
        for (platform, name) in [("slack", "idle"), ("telegram", "permanent"), ("slack", "edited"), ("slack", "committed"), ("slack", "spoken")] {
            made.push(world.isolation.create_environment(&world.codebase, &talks(platform, name)).await.unwrap().environment);
        }
        for environment in &made {
            make_older(&world, &store, environment, 15).await;
        }
        fs::write(made[2].path.join("README.md"), "yesterday\n").unwrap();
        test.git_in(&made[2].path, &["checkout", "-q", "--", "README.md"]);
        commit_file(&test, &made[3], "committed");
        world.isolation.create_environment(&world.codebase, &talks("slack", "spoken")).await.unwrap();
        let mut states = Vec::new();
        for environment in &made {
            states.push(environment_state(&world, environment).await);
        }
        assert_eq!(states, [State::Stale, State::Fresh, State::Fresh, State::Active, State::Fresh]);
        let report = run_cleanup(&world, CleanupScope::Stale).await;
        assert_eq!(removed_branches(&report), ["idle"]);
        assert_eq!((report.skipped.len(), report.failed.len()), (0, 0));
        // A clock that was put forward makes nothing stale.
        make_older(&world, &store, &made[4], 15).await;
        put_clock_forward(&world).await;
        let dry = world.isolation.clean_up(&world.codebase, CleanupScope::Stale, true, &|_, _| {}).await.unwrap();
        assert_eq!(removed_branches(&dry), Vec::<&str>::new());
        assert_eq!(removed_branches(&run_cleanup(&world, CleanupScope::Stale).await), Vec::<&str>::new());
        assert_eq!(removed_branches(&run_cleanup(&world, CleanupScope::Stale).await), ["spoken"], "the next time it is believed again");
    }

    async fn what_was_touched_lately_is_spared_by_the_cycle_and_by_the_limit(store: TestStore) {
        let test = old_repository();
        let world = EnvironmentsTest::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "5")]).await;
        let mut made = Vec::new();
        for name in ["idle", "spoken", "committed", "written", "new"] {
            let mut request = task_request(name);
            request.conversation = Some(ConversationRef { platform: "slack".into(), id: name.into() });
            made.push(world.isolation.create_environment(&world.codebase, &request).await.unwrap().environment);
        }
        for environment in &made {
            commit_at(&test, environment, environment.branch.as_str(), Some("2020-01-02T00:00:00Z"));
            test.git(&["merge", "-q", "--no-ff", "-m", "merge", environment.branch.as_str()]);
        }
        for environment in &made[..4] {
            make_older(&world, &store, environment, 1).await;
        }
        let mut request = task_request("spoken");
        request.conversation = Some(ConversationRef { platform: "slack".into(), id: "spoken".into() });
        world.isolation.create_environment(&world.codebase, &request).await.unwrap();
        commit_at(&test, &made[2], "again", None);
        test.git(&["merge", "-q", "--no-ff", "-m", "merge", "committed"]);
        age_files(&made[2], 1);
        fs::write(made[3].path.join("written"), "written").unwrap();

        let kept = ["spoken", "committed", "written", "new"];
        let dry = world.isolation.clean_up(&world.codebase, CleanupScope::Everything, true, &|_, _| {}).await.unwrap();
        assert_eq!(removed_branches(&dry), ["idle"]);
        assert_eq!(dry.skipped.iter().map(|skipped| skipped.branch.as_str()).collect::<Vec<_>>(), kept);
        // The limit takes the same one, and then nothing.
        create_environment(&world, "sixth").await;
        assert!(!made[0].path.exists() && made[1..].iter().all(|environment| environment.path.exists()));
        let full = world.isolation.create_environment(&world.codebase, &task_request("seventh")).await.unwrap_err();
        assert!(matches!(&full, EnvironmentError::Create(CreateError::Full(full)) if (full.merged, full.active) == (4, 1)), "{full}");
        let report = run_cleanup(&world, CleanupScope::Everything).await;
        assert_eq!((removed_branches(&report), report.failed.len()), (vec![], 0));
        for skipped in &report.skipped {
            assert_eq!(skipped.reason, "It was created, spoken to or changed less than 1h ago.", "{}", skipped.branch);
        }
        assert_eq!(report.skipped.len(), 4);
        // A clock that was put forward makes nothing old.
        for environment in &made[1..] {
            make_older(&world, &store, environment, 1).await;
        }
        put_clock_forward(&world).await;
        let report = run_cleanup(&world, CleanupScope::Everything).await;
        assert_eq!(removed_branches(&report), Vec::<&str>::new());
        assert!(report.skipped.iter().any(|skipped| skipped.reason.contains("The clock jumped")), "{report:?}");
        // A cleanup that is asked for explicitly removes all of them.
        assert_eq!(removed_branches(&run_cleanup(&world, CleanupScope::Merged).await), kept);
    }

    async fn only_one_cycle_runs_at_a_time(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let name = format!("cleanup {} {}", world.codebase.id, grove_environments::lease::node_name());
        let owner = grove_environments::lease::this_process();
        let until = Moment::now().add_duration(SignedDuration::from_mins(1));
        let lease = world.store.take_lease(&name, owner, until).await.unwrap().unwrap();
        let run = async || world.isolation.run_scheduled(&world.codebase, false, &|_, _| {}).await.unwrap();
        assert_eq!(run().await, None, "somebody is at it");
        world.store.end_lease(&name, &lease).await.unwrap();
        assert_eq!(run().await, Some(CleanupReport::default()));
        // One that ended without a word is not waited for for ever.
        let past = Moment::now().add_duration(SignedDuration::from_secs(-1));
        world.store.take_lease(&name, owner, past).await.unwrap().unwrap();
        assert_eq!(run().await, Some(CleanupReport::default()));
    }

    async fn one_that_fails_does_not_stop_the_rest(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open_with(&test, &store, &NO_GRACE_PERIOD).await;
        let mut made = Vec::new();
        for name in ["a", "b", "c", "d"] {
            let environment = create_environment(&world, name).await;
            commit_file(&test, &environment, name);
            test.git(&["merge", "-q", "--no-ff", "-m", "merge", name]);
            made.push(environment);
        }
        // Another repository stands at one path; another one is gone.
        fs::remove_dir_all(&made[1].path).unwrap();
        test.git(&["init", "-q", made[1].path.to_str().unwrap()]);
        fs::remove_dir_all(&made[2].path).unwrap();
        fs::write(made[3].path.join("new"), "x").unwrap();
        let report = run_cleanup(&world, CleanupScope::Everything).await;
        assert_eq!(removed_branches(&report), ["a", "c"]);
        assert_eq!(report.skipped.iter().map(|s| s.branch.as_str()).collect::<Vec<_>>(), ["d"]);
        assert_eq!(report.failed.iter().map(|f| f.branch.as_str()).collect::<Vec<_>>(), ["b"]);
        assert!(made[1].path.join(".git").is_dir());
    }

    async fn a_close_removes_what_no_other_conversation_uses(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let [issue, pr] = ["o/r#42", "o/r#99"].map(|id| ConversationRef { platform: "github".into(), id: id.into() });
        let with = |conversation: &ConversationRef| {
            let mut request = task_request("x");
            request.conversation = Some(conversation.clone());
            request
        };
        let environment = world.isolation.create_environment(&world.codebase, &with(&issue)).await.unwrap().environment;
        world.isolation.create_environment(&world.codebase, &with(&pr)).await.unwrap();
        let closed = world.isolation.on_conversation_closed(&issue, false).await.unwrap();
        assert!(matches!(closed, CloseOutcome::Shared { with, .. } if with == ["o/r#99"]));
        assert!(environment.path.exists());
        fs::write(environment.path.join("new"), "unsaved").unwrap();
        let closed = world.isolation.on_conversation_closed(&pr, true).await.unwrap();
        let CloseOutcome::Kept { reason, .. } = closed else { panic!("{closed:?}") };
        assert!(reason.contains("files that git does not know"), "{reason}");
        fs::remove_file(environment.path.join("new")).unwrap();
        world.isolation.create_environment(&world.codebase, &with(&pr)).await.unwrap();
        let closed = world.isolation.on_conversation_closed(&pr, true).await.unwrap();
        assert!(matches!(closed, CloseOutcome::Removed(_)), "{closed:?}");
        assert!(!environment.path.exists());
        assert!(matches!(world.isolation.on_conversation_closed(&pr, true).await.unwrap(), CloseOutcome::None));
    }

    async fn at_the_limit_merged_ones_go_then_stale_ones_sleep_then_nothing_is_made(store: TestStore) {
        let test = old_repository();
        let world = EnvironmentsTest::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "3"), NO_GRACE_PERIOD[0]]).await;
        let (merged, idle) = (create_environment(&world, "merged").await, create_environment(&world, "idle").await);
        create_environment(&world, "busy").await;
        commit_file(&test, &merged, "merged");
        squash_merge(&test, "merged");
        create_environment(&world, "fourth").await;
        assert!(!merged.path.exists(), "merged ones go first");
        fs::write(idle.path.join("unsaved"), "mine").unwrap();
        make_older(&world, &store, &idle, 20).await;
        let before = DirectorySnapshot::from_directory(&idle.path);
        // Not while the clock cannot be trusted.
        run_cleanup(&world, CleanupScope::Merged).await;
        world.isolation.clock_is_steady(Moment::now()).await.unwrap();
        put_clock_forward(&world).await;
        let error = world.isolation.create_environment(&world.codebase, &task_request("fifth")).await.unwrap_err();
        assert!(matches!(&error, EnvironmentError::Create(CreateError::Full(full)) if full.stale == 1), "{error}");
        assert!(idle.path.exists());
        create_environment(&world, "fifth").await;
        assert!(!idle.path.exists());
        assert_eq!(world.store.find_environment(idle.id).await.unwrap().unwrap().status, Status::Hibernated);
        assert_eq!(environment_state(&world, &idle).await, State::Hibernated);
        let error = world.isolation.create_environment(&world.codebase, &task_request("sixth")).await.unwrap_err();
        let EnvironmentError::Create(CreateError::Full(full)) = &error else { panic!("{error}") };
        assert_eq!((full.limit, full.merged, full.stale, full.active), (3, 0, 0, 3));
        let problem = grove_environments::problem::Problem::from(error);
        assert_eq!(problem.message.as_str(), format!("You have 3 active worktrees for **{}** (limit reached).", world.codebase.name));
        assert!(problem.hint.as_str().contains("cleanup merged") && problem.reasons.len() == 3);
        assert_eq!(problem.options.iter().map(|option| option.count).collect::<Vec<_>>(), [0, 0, 3, 3]);
        // A request for the hibernated work wakes it, and it is as it was.
        let woken = create_environment(&world, "idle").await;
        assert_eq!((woken.id, woken.status), (idle.id, Status::Active));
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&idle.path)), Vec::<String>::new());
    }
}

both_engines! {
    async fn at_the_limit_untouched_ones_go_after_an_hour(store: TestStore) {
        let test = old_repository();
        fs::write(test.path().join(".gitignore"), "*.local\n").unwrap();
        fs::write(test.path().join(".worktreeinclude"), "env.local\n").unwrap();
        fs::write(test.path().join("env.local"), "KEY=1").unwrap();
        test.git(&["add", ".gitignore", ".worktreeinclude"]);
        let mut commit = test.git_command(test.path(), &["commit", "-q", "-m", "ignore"]);
        assert!(commit.env("GIT_COMMITTER_DATE", "2020-01-02T00:00:00Z").status().unwrap().success());
        let world = EnvironmentsTest::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "5")]).await;
        let mut made = Vec::new();
        for name in ["untouched", "committed", "ignored", "edited-copy", "asked"] {
            made.push(create_environment(&world, name).await);
        }
        assert!(made[0].path.join("env.local").exists(), "a copied file is not work");
        commit_at(&test, &made[1], "mine", Some("2020-01-03T00:00:00Z"));
        fs::write(made[2].path.join("notes.local"), "mine").unwrap();
        fs::write(made[3].path.join("env.local"), "KEY=2").unwrap();
        for environment in &made {
            make_older(&world, &store, environment, 1).await;
        }
        // A message within the hour keeps an untouched environment.
        let mut request = task_request("asked");
        request.conversation = Some(ConversationRef { platform: "slack".into(), id: "asked".into() });
        world.isolation.create_environment(&world.codebase, &request).await.unwrap();

        create_environment(&world, "sixth").await;
        let left: Vec<bool> = made.iter().map(|environment| environment.path.exists()).collect();
        assert_eq!(left, [false, true, true, true, true]);
        let full = world.isolation.create_environment(&world.codebase, &task_request("seventh")).await.unwrap_err();
        assert!(matches!(&full, EnvironmentError::Create(CreateError::Full(full)) if full.active == 5), "{full}");
    }
}

both_engines! {
    async fn what_sleeps_can_be_removed_and_brought_back(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let environment = create_environment(&world, "x").await;
        commit_file(&test, &environment, "own");
        fs::write(environment.path.join("new"), "unsaved").unwrap();
        let before = DirectorySnapshot::from_directory(&environment.path);
        let slept = world.isolation.hibernate_environment(&world.codebase, &environment).await.unwrap();
        assert_eq!(slept.environment.status, Status::Hibernated);
        assert!(!environment.path.exists() && test.git(&["worktree", "list"]).lines().count() == 1);
        assert!(world.isolation.list_trash(&world.codebase).await.unwrap().is_empty(), "it is not trash");
        assert_ne!(test.git(&["branch", "--list", "x"]), "");
        // It never expires.
        let far = Moment::now().add_duration(SignedDuration::from_hours(24 * 400));
        assert_eq!(world.isolation.sweep_trash(&world.codebase, far).await.unwrap().expired, Vec::<String>::new());
        test.git(&["gc", "--quiet", "--prune=now"]);
        let woken = world.isolation.wake_environment(&world.codebase, &environment).await.unwrap();
        assert_eq!(woken.environment.status, Status::Active);
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&environment.path)), Vec::<String>::new());
        assert!(matches!(world.isolation.wake_environment(&world.codebase, &environment).await, Err(EnvironmentError::Remove(RemoveError::NotHibernated { .. }))));
        world.isolation.hibernate_environment(&world.codebase, &environment).await.unwrap();
        // Asleep or not, unsaved work speaks against it.
        let refused = world.isolation.remove_environment(&world.codebase, &environment, &Default::default()).await;
        assert!(matches!(refused, Err(EnvironmentError::Refused(_))), "{refused:?}");
        assert_eq!(world.store.find_environment(environment.id).await.unwrap().unwrap().status, Status::Hibernated);
        let forced = RemoveOptions { force: true, ..RemoveOptions::default() };
        world.isolation.remove_environment(&world.codebase, &environment, &forced).await.unwrap();
        assert_eq!(world.store.find_environment(environment.id).await.unwrap().unwrap().status, Status::Destroyed);
        assert_eq!(world.isolation.list_trash(&world.codebase).await.unwrap().len(), 1);
        world.isolation.undo_removal(&world.codebase, &environment).await.unwrap();
        assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&environment.path)), Vec::<String>::new());
    }
}

/// Five hundred environments, five of which fail or stay in different ways; fewer in the quick run.
#[tokio::test]
async fn a_cycle_over_many_removes_the_right_ones_and_reports_the_rest() {
    let count = if is_long_run() { 500 } else { 30 };
    let (test, store) = (TestRepo::new(), TestStore::new(grove_testkit::TestEngine::Sqlite));
    let world =
        EnvironmentsTest::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "10000"), NO_GRACE_PERIOD[0]])
            .await;
    let mut made = Vec::new();
    for n in 0..count {
        made.push(create_environment(&world, &format!("w{n}")).await);
    }
    // Every second one is merged, half of those by squash.
    for (n, environment) in made.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
        let name = environment.branch.as_str();
        commit_file(&test, environment, name);
        if n % 4 == 0 {
            test.git(&["merge", "-q", "--no-ff", "-m", "merge", name]);
        } else {
            squash_merge(&test, name);
        }
    }
    fs::write(made[0].path.join("dirty"), "x").unwrap();
    test.git_in(&made[2].path, &["worktree", "lock", "."]);
    fs::remove_dir_all(&made[4].path).unwrap();
    test.git(&["init", "-q", made[4].path.to_str().unwrap()]);
    fs::remove_file(made[6].path.join(".git")).unwrap();
    test.git_in(&made[8].path, &["worktree", "add", "-q", "-b", "inside", "inside"]);
    let began = std::time::Instant::now();
    let report = run_cleanup(&world, CleanupScope::Everything).await;
    let took = began.elapsed();
    let mut kept: Vec<&str> = report.skipped.iter().map(|s| s.branch.as_str()).collect();
    kept.extend(report.failed.iter().map(|f| f.branch.as_str()));
    kept.sort_unstable();
    assert_eq!(kept, ["w0", "w2", "w4", "w6", "w8"], "{:?} {:?}", report.skipped, report.failed);
    assert_eq!(report.removed.len(), count / 2 - 5);
    for (n, environment) in made.iter().enumerate() {
        assert_eq!(environment.path.exists(), n % 2 == 1 || n < 10, "{}", environment.branch);
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap().trim().to_owned();
    println!(
        "{count} environments cleaned up in {took:.1?}: {} removed, 5 kept, peak memory {peak}",
        report.removed.len()
    );
    let kilobytes: u64 = peak.split(' ').next().unwrap().parse().unwrap();
    assert!(kilobytes < 100 * 1024, "{peak}");
}
