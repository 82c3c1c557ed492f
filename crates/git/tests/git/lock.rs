//! Locks whose files are deleted while others want them.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use grove_git::lock::{EnvironmentHolder, EnvironmentLock, LockFiles};
use grove_model::EnvironmentId;

/// Many take the lock of an environment, and delete its file while they have it: never two at once.
#[test]
fn a_deleted_lock_is_never_held_by_two() {
    const THREAD_COUNT: usize = 8;
    const ROUND_COUNT: usize = 300;
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let id = EnvironmentId::new();
    let inside = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREAD_COUNT)
        .map(|thread| {
            let (dir, inside) = (Arc::clone(&dir), Arc::clone(&inside));
            std::thread::spawn(move || {
                for round in 0..ROUND_COUNT {
                    let lock = EnvironmentLock::open(dir.path(), id).unwrap();
                    let mut tries = 0;
                    while lock.try_alone().unwrap() != EnvironmentHolder::Us {
                        tries += 1;
                        assert!(tries < 1_000_000, "the lock becomes free");
                        std::thread::yield_now();
                    }
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two have it");
                    std::thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    // Some delete it, some only let go.
                    if (thread + round) % 3 != 0 {
                        lock.delete_files().unwrap();
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[tokio::test]
async fn files_that_are_held_stay_and_the_rest_goes() {
    let dir = tempfile::tempdir().unwrap();
    let id = EnvironmentId::new();
    let names = || {
        let mut names: Vec<String> = fs::read_dir(dir.path().join("grove/locks"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap().replace(&id.to_string(), "id"))
            .collect();
        names.sort();
        names
    };
    let locks = LockFiles::of_environment(dir.path(), id).unwrap();
    let turn = locks.wait_for_turn().await.unwrap();
    let run = locks.try_hold_run().unwrap().expect("nothing runs there");
    assert_eq!(names(), ["id", "id.run", "id.turn"]);
    assert_eq!(LockFiles::locked_environments(dir.path()).unwrap().into_iter().collect::<Vec<_>>(), [id]);
    locks.delete_files().unwrap();
    EnvironmentLock::open(dir.path(), id).unwrap().delete_files().unwrap();
    assert_eq!(names(), ["id", "id.run", "id.turn"], "all are held");
    drop(run);
    EnvironmentLock::open(dir.path(), id).unwrap().delete_files().unwrap();
    assert_eq!(names(), ["id.turn"]);
    drop(turn);
    locks.delete_files().unwrap();
    assert_eq!(names(), Vec::<String>::new());
    assert!(LockFiles::locked_environments(dir.path()).unwrap().is_empty());
}
