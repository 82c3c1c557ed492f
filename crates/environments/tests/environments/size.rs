//! How much room environments take, and when they are measured.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use grove_environments::cleanup::select::CleanupScope;
use grove_environments::inspect::size::size_on_disk;
use grove_model::{Environment, Moment};
use grove_testkit::{TestRepo, TestStore, both_engines};
use jiff::SignedDuration;

use crate::{EnvironmentsTest, task_request};

async fn create_environment(world: &EnvironmentsTest, name: &str) -> Environment {
    world.isolation.create_environment(&world.codebase, &task_request(name)).await.unwrap().environment
}

/// What `du` says.
fn du_size(path: &Path) -> i64 {
    let output = Command::new("du").args(["-s", "-x", "--block-size=1"]).arg(path).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().split('\t').next().unwrap().parse().unwrap()
}

/// What a list shows, oldest environment first.
async fn listed_sizes(world: &EnvironmentsTest) -> Vec<Option<i64>> {
    world
        .isolation
        .environment_views(&world.codebase, false)
        .await
        .unwrap()
        .iter()
        .map(|view| view.size_bytes)
        .collect()
}

/// What the record says.
async fn recorded_sizes(world: &EnvironmentsTest) -> Vec<(Option<i64>, Option<Moment>)> {
    let environments = world.store.list_environments(world.codebase.id, false).await.unwrap();
    environments.iter().map(|environment| (environment.size_bytes, environment.size_at)).collect()
}

/// As if it had been measured at another time.
async fn measured_at(store: &TestStore, environment: &Environment, at: Moment) {
    let pool = sqlx::AnyPool::connect(&store.url).await.unwrap();
    let statement = "UPDATE remote_agent_isolation_environments SET size_at = $1 WHERE id = $2";
    sqlx::query(statement).bind(at.to_string()).bind(environment.id.to_string()).execute(&pool).await.unwrap();
    pool.close().await;
}

/// Makes folders so deep that their paths are too long for the kernel: no process can open them by name.
fn make_unreadable_folders(below: &Path) {
    let deep = vec!["d".repeat(200); 12].join("/");
    fs::create_dir_all(below.join("aside").join(&deep)).unwrap();
    fs::create_dir_all(below.join(&deep)).unwrap();
    fs::rename(below.join("aside"), below.join(&deep).join("aside")).unwrap();
}

#[test]
fn a_size_is_what_du_says() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("tree");
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/file"), vec![7; 100_000]).unwrap();
    fs::hard_link(root.join("a/file"), root.join("a/b/other name")).unwrap();
    fs::File::create(root.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    let outside = dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("big"), vec![7; 1_000_000]).unwrap();
    symlink(&outside, root.join("folder elsewhere")).unwrap();
    symlink(outside.join("big"), root.join("file elsewhere")).unwrap();
    symlink("nowhere", root.join("broken")).unwrap();
    let size = size_on_disk(&root, usize::MAX).unwrap().unwrap();
    assert_eq!((i64::try_from(size.bytes).unwrap(), size.files), (du_size(&root), 9));
    assert!(size.bytes < 200_000, "{size:?}");
    assert_eq!(size_on_disk(&root, 9).unwrap(), Some(size));
    assert_eq!(size_on_disk(&root, 8).unwrap(), None, "part of it is not a figure");
    make_unreadable_folders(&root);
    size_on_disk(&root, usize::MAX).unwrap_err();
    size_on_disk(&dir.path().join("gone"), usize::MAX).unwrap_err();
}

both_engines! {
    async fn a_list_measures_a_bounded_number_of_files_oldest_figure_first(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let (huge, small, other) = (create_environment(&world, "huge").await, create_environment(&world, "small").await, create_environment(&world, "other").await);
        fs::create_dir(huge.path.join("many")).unwrap();
        for n in 0..6_000 {
            fs::write(huge.path.join(format!("many/{n}")), "").unwrap();
        }
        assert_eq!(recorded_sizes(&world).await, [(None, None); 3]);
        assert_eq!(listed_sizes(&world).await, [Some(du_size(&huge.path)), None, None], "one that is larger than the bound, alone");
        let sizes = [&huge, &small, &other].map(|environment| Some(du_size(&environment.path)));
        assert_eq!(listed_sizes(&world).await, sizes);
        let before = recorded_sizes(&world).await;
        assert_eq!(before.iter().map(|(size, _)| *size).collect::<Vec<_>>(), sizes);
        // Good for an hour.
        fs::write(small.path.join("new"), vec![7; 50_000]).unwrap();
        measured_at(&store, &huge, Moment::now().add_duration(SignedDuration::from_mins(-59))).await;
        let before = recorded_sizes(&world).await;
        assert_eq!(listed_sizes(&world).await, sizes, "from the record");
        assert_eq!(recorded_sizes(&world).await, before);
        // Both are old; the older one takes all that one list looks at.
        measured_at(&store, &huge, Moment::now().add_duration(SignedDuration::from_mins(-62))).await;
        measured_at(&store, &small, Moment::now().add_duration(SignedDuration::from_mins(-61))).await;
        assert_eq!(listed_sizes(&world).await, sizes);
        let grown = [sizes[0], Some(du_size(&small.path)), sizes[2]];
        assert_ne!(sizes, grown);
        assert_eq!(listed_sizes(&world).await, grown);
        // A figure from before the clock was put back is old too.
        fs::remove_file(small.path.join("new")).unwrap();
        measured_at(&store, &small, Moment::now().add_duration(SignedDuration::from_hours(24))).await;
        assert_eq!(listed_sizes(&world).await, sizes);
    }

    async fn what_cannot_be_read_has_no_size_and_does_not_hold_up_the_rest(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let (odd, plain, gone) = (create_environment(&world, "odd").await, create_environment(&world, "plain").await, create_environment(&world, "gone").await);
        let sizes = [&odd, &plain, &gone].map(|environment| Some(du_size(&environment.path)));
        assert_eq!(listed_sizes(&world).await, sizes);
        make_unreadable_folders(&odd.path);
        fs::remove_dir_all(&gone.path).unwrap();
        let old = Moment::now().add_duration(SignedDuration::from_hours(-2));
        for environment in [&odd, &plain, &gone] {
            measured_at(&store, environment, old).await;
        }
        fs::write(plain.path.join("new"), vec![7; 50_000]).unwrap();
        assert_eq!(listed_sizes(&world).await, [None, Some(du_size(&plain.path)), None], "neither guessed nor kept");
        assert!(recorded_sizes(&world).await[0].1.unwrap() > old, "it is not tried again with every list");
    }

    async fn a_clean_up_measures_all_and_so_may_a_change(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let made = [create_environment(&world, "a").await, create_environment(&world, "b").await];
        let clean_up = async |scope, dry_run| {
            world.isolation.clean_up(&world.codebase, scope, dry_run, &|_, _| {}).await.unwrap();
            recorded_sizes(&world).await.iter().map(|(size, _)| *size).collect::<Vec<_>>()
        };
        assert_eq!(clean_up(CleanupScope::Everything, true).await, [None, None], "a dry run writes nothing");
        assert_eq!(clean_up(CleanupScope::Merged, false).await, [None, None]);
        assert_eq!(clean_up(CleanupScope::Everything, false).await, [Some(du_size(&made[0].path)), Some(du_size(&made[1].path))]);
        fs::write(made[1].path.join("new"), vec![7; 50_000]).unwrap();
        world.isolation.measure_environments(&world.codebase, &made[1..]).await;
        assert_eq!(listed_sizes(&world).await[1], Some(du_size(&made[1].path)));
        world.isolation.hibernate_environment(&world.codebase, &made[1]).await.unwrap();
        assert_eq!(listed_sizes(&world).await[1], None, "it takes no room there now");
    }
}
