//! What goes by itself, what stays, and what is made room for.

use std::fs;

use grove_environments::cleanup::Report;
use grove_environments::cleanup::on_close::Closed;
use grove_environments::cleanup::select::Scope;
use grove_environments::error::IsolationError;
use grove_environments::remove::RemovalWish;
use grove_model::{Environment, MergeMethod, Moment, State, Status};
use grove_store::ConversationRef;
use grove_testkit::{Picture, TestRepo, TestStore, both_engines};
use jiff::SignedDuration;

use crate::{World, task};

/// For stories in which things go as soon as they are merged.
const WITHOUT_GRACE: [(&str, &str); 1] = [("GROVE_CLEANUP_GRACE", "0")];

async fn make(world: &World, name: &str) -> Environment {
    world.isolation.create(&world.codebase, &task(name)).await.unwrap().environment
}

fn commit(test: &TestRepo, environment: &Environment, file: &str) {
    commit_at(test, environment, file, None);
}

fn commit_at(test: &TestRepo, environment: &Environment, file: &str, at: Option<&str>) {
    fs::write(environment.path.join(file), file).unwrap();
    test.git_in(&environment.path, &["add", file]);
    let mut command = test.command(&environment.path, &["commit", "-q", "-m", file]);
    assert!(command.envs(at.map(|at| ("GIT_COMMITTER_DATE", at))).status().unwrap().success());
}

fn squash(test: &TestRepo, branch: &str) {
    test.git(&["merge", "-q", "--squash", branch]);
    test.git(&["commit", "-q", "-m", "squash"]);
}

/// As if nobody had been there for so many days.
async fn age(world: &World, store: &TestStore, environment: &Environment, days: i64) {
    let then = Moment::now().plus(SignedDuration::from_hours(-24 * days));
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
async fn put_clock_forward(world: &World) {
    let name = format!("clock {}", grove_environments::lease::node());
    let seen = world.store.fact(&name).await.unwrap().expect("a clean-up has run");
    let mut fields: Vec<String> = seen.split(' ').map(str::to_owned).collect();
    fields[0] = Moment::now().plus(SignedDuration::from_hours(-24)).to_string();
    world.store.set_fact(&name, &fields.join(" ")).await.unwrap();
}

/// A repository whose commits were made long ago.
fn old_repository() -> TestRepo {
    let test = TestRepo::new();
    let mut command =
        test.command(test.path(), &["commit", "-q", "--amend", "--no-edit", "--date=2020-01-01T00:00:00Z"]);
    assert!(command.env("GIT_COMMITTER_DATE", "2020-01-01T00:00:00Z").status().unwrap().success());
    test
}

async fn clean(world: &World, scope: Scope) -> Report {
    world.isolation.clean_up(&world.codebase, scope, false, &|_, _| {}).await.unwrap()
}

fn branches(report: &Report) -> Vec<&str> {
    report.removed.iter().map(|gone| gone.branch.as_str()).collect()
}

async fn state(world: &World, environment: &Environment) -> State {
    let views = world.isolation.views(&world.codebase, true).await.unwrap();
    views.into_iter().find(|view| view.id == environment.id.to_string()).unwrap().state
}

both_engines! {
    async fn branches_of_a_reftable_repository_tell_of_their_commits_too(store: TestStore) {
        for git in grove_testkit::gits() {
            let test = TestRepo::with_git(&git);
            let root = test.dir().join("reftable");
            let init = ["init", "-q", "-b", "main", "--ref-format=reftable", root.to_str().unwrap()];
            if !test.command(&test.dir(), &init).output().unwrap().status.success() {
                continue;
            }
            test.git_in(&root, &["commit", "-q", "--allow-empty", "-m", "first"]);
            let home = test.dir().join("grove");
            let world = World::open_in(&test.hermetic_git(), &root, &home, &store.url, &[]).await;
            let mut made = Vec::new();
            for name in ["fresh", "followed", "merged", "forwarded", "unmerged", "without-log"] {
                made.push(make(&world, name).await);
            }
            for environment in &made[2..] {
                commit(&test, environment, environment.branch.as_str());
            }
            test.git_in(&root, &["merge", "-q", "--no-ff", "-m", "merge", "merged"]);
            test.git_in(&root, &["merge", "-q", "--no-ff", "-m", "merge", "forwarded"]);
            test.git_in(&root, &["merge", "-q", "--no-ff", "-m", "merge", "without-log"]);
            // Brought up to date is not worked on.
            for environment in [&made[1], &made[3]] {
                test.git_in(&environment.path, &["merge", "-q", "--ff-only", "main"]);
            }
            test.git_in(&root, &["reflog", "expire", "--expire=now", "refs/heads/without-log"]);
            let views = world.isolation.views(&world.codebase, false).await.unwrap();
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
            assert_eq!(branches(&clean(&world, Scope::Merged).await), ["merged", "forwarded"]);
            world.isolation.undo(&world.codebase, &made[2]).await.unwrap();
            assert!(made[2].path.join("merged").exists());
        }
    }

    async fn merged_ones_go_with_their_branches_and_come_back(store: TestStore) {
        let test = TestRepo::new();
        let world = World::open_with(&test, &store, &WITHOUT_GRACE).await;
        let [fresh, ancestor, squashed, unmerged, dirty] = {
            let mut made = Vec::new();
            for name in ["fresh", "ancestor", "squashed", "unmerged", "dirty"] {
                made.push(make(&world, name).await);
            }
            <[Environment; 5]>::try_from(made).unwrap()
        };
        for environment in [&ancestor, &squashed, &unmerged, &dirty] {
            commit(&test, environment, environment.branch.as_str());
        }
        test.git(&["merge", "-q", "--no-ff", "-m", "merge", "ancestor"]);
        squash(&test, "squashed");
        test.git(&["merge", "-q", "--no-ff", "-m", "merge", "dirty"]);
        fs::write(dirty.path.join("new"), "unsaved").unwrap();
        assert_eq!(state(&world, &squashed).await, State::Merged);
        assert_eq!(state(&world, &fresh).await, State::Fresh);

        let dry = world.isolation.clean_up(&world.codebase, Scope::Merged, true, &|_, _| {}).await.unwrap();
        assert_eq!(branches(&dry), ["ancestor", "squashed"]);
        assert!(ancestor.path.exists() && squashed.path.exists(), "only said");
        let before = Picture::of(&squashed.path);
        let report = clean(&world, Scope::Merged).await;
        assert_eq!(branches(&report), ["ancestor", "squashed"]);
        assert_eq!(report.skipped.len(), 1);
        assert_eq!(report.skipped[0].branch, "dirty");
        assert!(report.skipped[0].reason.contains("files that git does not know"), "{report:?}");
        assert_eq!(report.failed, []);
        assert!(fresh.path.exists() && unmerged.path.exists() && dirty.path.exists());
        // Proven merged by squash: the branch goes too, its tip pinned.
        assert_eq!(test.git(&["branch", "--list", "squashed", "ancestor"]), "");
        test.git(&["reflog", "expire", "--expire=now", "--all"]);
        test.git(&["gc", "--quiet", "--prune=now"]);
        world.isolation.undo(&world.codebase, &squashed).await.unwrap();
        assert_eq!(before.differences(&Picture::of(&squashed.path)), Vec::<String>::new());
        assert_eq!(branches(&clean(&world, Scope::Everything).await), ["squashed"], "and goes again");
        assert_eq!(clean(&world, Scope::Everything).await.removed, []);
    }

    async fn stale_is_when_nobody_was_there_by_any_measure(store: TestStore) {
        let test = old_repository();
        let world = World::open(&test, &store).await;
        let talks = |platform: &str, name: &str| {
            let mut wish = task(name);
            wish.conversation = Some(ConversationRef { platform: platform.into(), id: name.into() });
            wish
        };
        let mut made = Vec::new();
        for (platform, name) in [("slack", "idle"), ("telegram", "permanent"), ("slack", "edited"), ("slack", "committed"), ("slack", "spoken")] {
            made.push(world.isolation.create(&world.codebase, &talks(platform, name)).await.unwrap().environment);
        }
        for environment in &made {
            age(&world, &store, environment, 15).await;
        }
        fs::write(made[2].path.join("README.md"), "yesterday\n").unwrap();
        test.git_in(&made[2].path, &["checkout", "-q", "--", "README.md"]);
        commit(&test, &made[3], "committed");
        world.isolation.create(&world.codebase, &talks("slack", "spoken")).await.unwrap();
        let mut states = Vec::new();
        for environment in &made {
            states.push(state(&world, environment).await);
        }
        assert_eq!(states, [State::Stale, State::Fresh, State::Fresh, State::Active, State::Fresh]);
        let report = clean(&world, Scope::Stale).await;
        assert_eq!(branches(&report), ["idle"]);
        assert_eq!((report.skipped.len(), report.failed.len()), (0, 0));
        // A clock that was put forward makes nothing stale.
        age(&world, &store, &made[4], 15).await;
        put_clock_forward(&world).await;
        let dry = world.isolation.clean_up(&world.codebase, Scope::Stale, true, &|_, _| {}).await.unwrap();
        assert_eq!(branches(&dry), Vec::<&str>::new());
        assert_eq!(branches(&clean(&world, Scope::Stale).await), Vec::<&str>::new());
        assert_eq!(branches(&clean(&world, Scope::Stale).await), ["spoken"], "the next time it is believed again");
    }

    async fn what_was_touched_lately_is_spared_by_the_cycle_and_by_the_limit(store: TestStore) {
        let test = old_repository();
        let world = World::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "5")]).await;
        let mut made = Vec::new();
        for name in ["idle", "spoken", "committed", "written", "new"] {
            let mut wish = task(name);
            wish.conversation = Some(ConversationRef { platform: "slack".into(), id: name.into() });
            made.push(world.isolation.create(&world.codebase, &wish).await.unwrap().environment);
        }
        for environment in &made {
            commit_at(&test, environment, environment.branch.as_str(), Some("2020-01-02T00:00:00Z"));
            test.git(&["merge", "-q", "--no-ff", "-m", "merge", environment.branch.as_str()]);
        }
        for environment in &made[..4] {
            age(&world, &store, environment, 1).await;
        }
        let mut wish = task("spoken");
        wish.conversation = Some(ConversationRef { platform: "slack".into(), id: "spoken".into() });
        world.isolation.create(&world.codebase, &wish).await.unwrap();
        commit_at(&test, &made[2], "again", None);
        test.git(&["merge", "-q", "--no-ff", "-m", "merge", "committed"]);
        age_files(&made[2], 1);
        fs::write(made[3].path.join("written"), "written").unwrap();

        let kept = ["spoken", "committed", "written", "new"];
        let dry = world.isolation.clean_up(&world.codebase, Scope::Everything, true, &|_, _| {}).await.unwrap();
        assert_eq!(branches(&dry), ["idle"]);
        assert_eq!(dry.skipped.iter().map(|skipped| skipped.branch.as_str()).collect::<Vec<_>>(), kept);
        // The limit takes the same one, and then nothing.
        make(&world, "sixth").await;
        assert!(!made[0].path.exists() && made[1..].iter().all(|environment| environment.path.exists()));
        let full = world.isolation.create(&world.codebase, &task("seventh")).await.unwrap_err();
        assert!(matches!(&full, IsolationError::Full(full) if (full.merged, full.active) == (4, 1)), "{full}");
        let report = clean(&world, Scope::Everything).await;
        assert_eq!((branches(&report), report.failed.len()), (vec![], 0));
        for skipped in &report.skipped {
            assert_eq!(skipped.reason, "It was created, spoken to or changed less than 1h ago.", "{}", skipped.branch);
        }
        assert_eq!(report.skipped.len(), 4);
        // A clock that was put forward makes nothing old.
        for environment in &made[1..] {
            age(&world, &store, environment, 1).await;
        }
        put_clock_forward(&world).await;
        let report = clean(&world, Scope::Everything).await;
        assert_eq!(branches(&report), Vec::<&str>::new());
        assert!(report.skipped.iter().any(|skipped| skipped.reason.contains("The clock jumped")), "{report:?}");
        // Whoever asks for it gets it all.
        assert_eq!(branches(&clean(&world, Scope::Merged).await), kept);
    }

    async fn only_one_cycle_runs_at_a_time(store: TestStore) {
        let test = TestRepo::new();
        let world = World::open(&test, &store).await;
        let name = format!("cleanup {} {}", world.codebase.id, grove_environments::lease::node());
        let owner = grove_environments::lease::this_process();
        let until = Moment::now().plus(SignedDuration::from_mins(1));
        let lease = world.store.take_lease(&name, owner, until).await.unwrap().unwrap();
        let run = async || world.isolation.run_scheduled(&world.codebase, false, &|_, _| {}).await.unwrap();
        assert_eq!(run().await, None, "somebody is at it");
        world.store.end_lease(&name, &lease).await.unwrap();
        assert_eq!(run().await, Some(Report::default()));
        // One that ended without a word is not waited for for ever.
        let past = Moment::now().plus(SignedDuration::from_secs(-1));
        world.store.take_lease(&name, owner, past).await.unwrap().unwrap();
        assert_eq!(run().await, Some(Report::default()));
    }

    async fn one_that_fails_does_not_stop_the_rest(store: TestStore) {
        let test = TestRepo::new();
        let world = World::open_with(&test, &store, &WITHOUT_GRACE).await;
        let mut made = Vec::new();
        for name in ["a", "b", "c", "d"] {
            let environment = make(&world, name).await;
            commit(&test, &environment, name);
            test.git(&["merge", "-q", "--no-ff", "-m", "merge", name]);
            made.push(environment);
        }
        // Another repository stands at one path; another one is gone.
        fs::remove_dir_all(&made[1].path).unwrap();
        test.git(&["init", "-q", made[1].path.to_str().unwrap()]);
        fs::remove_dir_all(&made[2].path).unwrap();
        fs::write(made[3].path.join("new"), "x").unwrap();
        let report = clean(&world, Scope::Everything).await;
        assert_eq!(branches(&report), ["a", "c"]);
        assert_eq!(report.skipped.iter().map(|s| s.branch.as_str()).collect::<Vec<_>>(), ["d"]);
        assert_eq!(report.failed.iter().map(|f| f.branch.as_str()).collect::<Vec<_>>(), ["b"]);
        assert!(made[1].path.join(".git").is_dir());
    }

    async fn a_close_removes_what_nobody_else_uses(store: TestStore) {
        let test = TestRepo::new();
        let world = World::open(&test, &store).await;
        let [issue, pr] = ["o/r#42", "o/r#99"].map(|id| ConversationRef { platform: "github".into(), id: id.into() });
        let with = |conversation: &ConversationRef| {
            let mut wish = task("x");
            wish.conversation = Some(conversation.clone());
            wish
        };
        let environment = world.isolation.create(&world.codebase, &with(&issue)).await.unwrap().environment;
        world.isolation.create(&world.codebase, &with(&pr)).await.unwrap();
        let closed = world.isolation.on_conversation_closed(&issue, false).await.unwrap();
        assert!(matches!(closed, Closed::Shared { with, .. } if with == ["o/r#99"]));
        assert!(environment.path.exists());
        fs::write(environment.path.join("new"), "unsaved").unwrap();
        let closed = world.isolation.on_conversation_closed(&pr, true).await.unwrap();
        let Closed::Kept { reason, .. } = closed else { panic!("{closed:?}") };
        assert!(reason.contains("files that git does not know"), "{reason}");
        fs::remove_file(environment.path.join("new")).unwrap();
        world.isolation.create(&world.codebase, &with(&pr)).await.unwrap();
        let closed = world.isolation.on_conversation_closed(&pr, true).await.unwrap();
        assert!(matches!(closed, Closed::Removed(_)), "{closed:?}");
        assert!(!environment.path.exists());
        assert!(matches!(world.isolation.on_conversation_closed(&pr, true).await.unwrap(), Closed::None));
    }

    async fn at_the_limit_merged_ones_go_then_stale_ones_sleep_then_nothing_is_made(store: TestStore) {
        let test = old_repository();
        let world = World::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "3"), WITHOUT_GRACE[0]]).await;
        let (merged, idle) = (make(&world, "merged").await, make(&world, "idle").await);
        make(&world, "busy").await;
        commit(&test, &merged, "merged");
        squash(&test, "merged");
        make(&world, "fourth").await;
        assert!(!merged.path.exists(), "merged ones go first");
        fs::write(idle.path.join("unsaved"), "mine").unwrap();
        age(&world, &store, &idle, 20).await;
        let before = Picture::of(&idle.path);
        // Not while the clock cannot be trusted.
        clean(&world, Scope::Merged).await;
        world.isolation.clock_is_steady(Moment::now()).await.unwrap();
        put_clock_forward(&world).await;
        let error = world.isolation.create(&world.codebase, &task("fifth")).await.unwrap_err();
        assert!(matches!(&error, IsolationError::Full(full) if full.stale == 1), "{error}");
        assert!(idle.path.exists());
        make(&world, "fifth").await;
        assert!(!idle.path.exists());
        assert_eq!(world.store.environment(idle.id).await.unwrap().unwrap().status, Status::Hibernated);
        assert_eq!(state(&world, &idle).await, State::Hibernated);
        let error = world.isolation.create(&world.codebase, &task("sixth")).await.unwrap_err();
        let IsolationError::Full(full) = &error else { panic!("{error}") };
        assert_eq!((full.limit, full.merged, full.stale, full.active), (3, 0, 0, 3));
        let problem = grove_environments::problem::Problem::from(error);
        assert_eq!(problem.message, format!("You have 3 active worktrees for **{}** (limit reached).", world.codebase.name));
        assert!(problem.hint.contains("cleanup merged") && problem.reasons.len() == 3);
        // The work that sleeps is woken by whoever asks for it, and is as it was.
        let woken = make(&world, "idle").await;
        assert_eq!((woken.id, woken.status), (idle.id, Status::Active));
        assert_eq!(before.differences(&Picture::of(&idle.path)), Vec::<String>::new());
    }
}

both_engines! {
    async fn what_sleeps_can_be_removed_and_brought_back(store: TestStore) {
        let test = TestRepo::new();
        let world = World::open(&test, &store).await;
        let environment = make(&world, "x").await;
        commit(&test, &environment, "own");
        fs::write(environment.path.join("new"), "unsaved").unwrap();
        let before = Picture::of(&environment.path);
        let slept = world.isolation.hibernate(&world.codebase, &environment).await.unwrap();
        assert_eq!(slept.environment.status, Status::Hibernated);
        assert!(!environment.path.exists() && test.git(&["worktree", "list"]).lines().count() == 1);
        assert!(world.isolation.trash(&world.codebase).await.unwrap().is_empty(), "it is not trash");
        assert_ne!(test.git(&["branch", "--list", "x"]), "");
        // It never expires.
        let far = Moment::now().plus(SignedDuration::from_hours(24 * 400));
        assert_eq!(world.isolation.sweep_trash(&world.codebase, far).await.unwrap().expired, Vec::<String>::new());
        test.git(&["gc", "--quiet", "--prune=now"]);
        let woken = world.isolation.wake(&world.codebase, &environment).await.unwrap();
        assert_eq!(woken.environment.status, Status::Active);
        assert_eq!(before.differences(&Picture::of(&environment.path)), Vec::<String>::new());
        assert!(matches!(world.isolation.wake(&world.codebase, &environment).await, Err(IsolationError::NotHibernated { .. })));
        world.isolation.hibernate(&world.codebase, &environment).await.unwrap();
        // Asleep or not, unsaved work speaks against it.
        let refused = world.isolation.remove(&world.codebase, &environment, &Default::default()).await;
        assert!(matches!(refused, Err(IsolationError::Refused(_))), "{refused:?}");
        assert_eq!(world.store.environment(environment.id).await.unwrap().unwrap().status, Status::Hibernated);
        let forced = RemovalWish { force: true, ..RemovalWish::default() };
        world.isolation.remove(&world.codebase, &environment, &forced).await.unwrap();
        assert_eq!(world.store.environment(environment.id).await.unwrap().unwrap().status, Status::Destroyed);
        assert_eq!(world.isolation.trash(&world.codebase).await.unwrap().len(), 1);
        world.isolation.undo(&world.codebase, &environment).await.unwrap();
        assert_eq!(before.differences(&Picture::of(&environment.path)), Vec::<String>::new());
    }
}

/// Five hundred environments, five of which fail or stay in different ways; fewer in the quick run.
#[tokio::test]
async fn a_cycle_over_many_removes_the_right_ones_and_reports_the_rest() {
    let long = std::env::var_os("GROVE_TEST_LONG").is_some();
    let count = if long { 500 } else { 30 };
    let (test, store) = (TestRepo::new(), TestStore::new(grove_testkit::Engine::Sqlite));
    let world = World::open_with(&test, &store, &[("MAX_WORKTREES_PER_CODEBASE", "10000"), WITHOUT_GRACE[0]]).await;
    let mut made = Vec::new();
    for n in 0..count {
        made.push(make(&world, &format!("w{n}")).await);
    }
    // Every second one is merged, half of those by squash.
    for (n, environment) in made.iter().enumerate().filter(|(n, _)| n % 2 == 0) {
        let name = environment.branch.as_str();
        commit(&test, environment, name);
        if n % 4 == 0 {
            test.git(&["merge", "-q", "--no-ff", "-m", "merge", name]);
        } else {
            squash(&test, name);
        }
    }
    fs::write(made[0].path.join("dirty"), "x").unwrap();
    test.git_in(&made[2].path, &["worktree", "lock", "."]);
    fs::remove_dir_all(&made[4].path).unwrap();
    test.git(&["init", "-q", made[4].path.to_str().unwrap()]);
    fs::remove_file(made[6].path.join(".git")).unwrap();
    test.git_in(&made[8].path, &["worktree", "add", "-q", "-b", "inside", "inside"]);
    let began = std::time::Instant::now();
    let report = clean(&world, Scope::Everything).await;
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
