//! What waits in the trash, for how long, and who keeps an environment from going there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use grove_environments::create::CreateMethod;
use grove_environments::error::{EnvironmentError, RemoveError};
use grove_environments::remove::{RemovalPlan, RemovalRequester, RemoveOptions, RemoveOutcome};
use grove_model::{Moment, Question, Status};
use grove_store::ConversationRef;
use grove_testkit::{DirectorySnapshot, TestEngine, TestRepo, TestStore, both_engines};
use jiff::SignedDuration;

use crate::{EnvironmentsTest, task_request};

fn days_from_now(days: i64) -> Moment {
    Moment::now().add_duration(SignedDuration::from_hours(24 * days))
}

fn forced_removal() -> RemoveOptions {
    RemoveOptions { force: true, ..RemoveOptions::default() }
}

#[tokio::test]
async fn after_a_day_tracked_files_wait_in_git_alone_and_come_back_with_mode_and_time() {
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    test.write_file(".gitattributes", "*.txt text eol=crlf\n");
    test.write_file("text.txt", "one\ntwo\n");
    test.write_file("deep/er/file", "tracked\n");
    test.write_file("big", &"0123456789abcdef".repeat(100_000));
    test.commit_all("files");
    let world = EnvironmentsTest::open(&test, &store).await;
    let environment =
        world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap().environment;
    let path = &environment.path;
    fs::write(path.join("README.md"), "changed\n").unwrap();
    fs::write(path.join("staged"), "staged\n").unwrap();
    test.git_in(path, &["add", "staged"]);
    fs::write(path.join("untracked"), "untracked\n").unwrap();
    fs::set_permissions(path.join("deep/er/file"), fs::Permissions::from_mode(0o640)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::open(path.join("deep/er/file")).unwrap().set_modified(old).unwrap();
    fs::File::open(path.join("deep/er")).unwrap().set_modified(old).unwrap();
    let before = DirectorySnapshot::from_directory(path);
    world.isolation.remove_environment(&world.codebase, &environment, &forced_removal()).await.unwrap();
    let item = world.isolation.list_trash(&world.codebase).await.unwrap().remove(0);
    let files = item.manifest.files.clone();

    // Not on the first day.
    let swept = world.isolation.sweep_trash(&world.codebase, Moment::now()).await.unwrap();
    assert_eq!((swept.compacted, files.join("big").exists()), (0, true));
    let swept = world.isolation.sweep_trash(&world.codebase, days_from_now(2)).await.unwrap();
    assert_eq!((swept.compacted, swept.expired.len()), (1, 0));
    let gone = ["big", "deep/er/file", "src/main.c", "staged"];
    // What differs from its object, is filtered or unknown to git stays.
    let kept = ["README.md", "text.txt", "untracked", ".git"];
    for name in gone {
        assert!(!files.join(name).exists(), "{name}");
    }
    for name in kept {
        assert!(files.join(name).exists(), "{name}");
    }
    let smaller = world.isolation.list_trash(&world.codebase).await.unwrap().remove(0);
    assert!(smaller.compacted && smaller.bytes + 1_000_000 < item.bytes);
    assert_eq!(world.isolation.sweep_trash(&world.codebase, days_from_now(3)).await.unwrap().compacted, 0, "once");

    test.git(&["gc", "--quiet", "--prune=now"]);
    world.isolation.undo_removal(&world.codebase, &environment).await.unwrap();
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(path)), Vec::<String>::new());
}

/// An access control list that lets user 1000 read, as the file system keeps it.
fn access_list() -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    let anybody = u32::MAX;
    for (tag, rights, id) in [(1u16, 6u16, anybody), (2, 4, 1000), (4, 4, anybody), (16, 4, anybody), (32, 4, anybody)]
    {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

#[tokio::test]
async fn files_with_attributes_lists_flags_or_owners_of_their_own_are_not_compacted() {
    use rustix::fs::{IFlags, XattrFlags, ioctl_getflags, ioctl_setflags, lsetxattr};
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    let names = ["plain", "attribute", "access-list", "flag", "owner", "group"];
    for name in names {
        test.write_file(name, name);
    }
    test.commit_all("files");
    let world = EnvironmentsTest::open(&test, &store).await;
    let environment =
        world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap().environment;
    let path = &environment.path;
    let set = |name: &str, key: &str, value: &[u8]| lsetxattr(path.join(name), key, value, XattrFlags::empty());
    let mut special = vec![];
    let mut note = |name: &'static str, done: bool| {
        if done {
            special.push(name);
        } else {
            eprintln!("left out: {name} cannot be set here");
        }
    };
    note("attribute", set("attribute", "user.mine", b"value").is_ok());
    note("access-list", set("access-list", "system.posix_acl_access", &access_list()).is_ok());
    let flagged = fs::File::open(path.join("flag")).unwrap();
    let flags = ioctl_getflags(&flagged).map(|flags| flags | IFlags::NODUMP);
    note("flag", flags.is_ok_and(|flags| ioctl_setflags(&flagged, flags).is_ok()));
    note("owner", std::os::unix::fs::chown(path.join("owner"), Some(12_345), None).is_ok());
    note("group", std::os::unix::fs::chown(path.join("group"), None, Some(12_345)).is_ok());
    assert!(!special.is_empty(), "nothing can be set here");
    let before = DirectorySnapshot::from_directory(path);

    let compacted = |files: &std::path::Path| {
        assert!(!files.join("plain").exists(), "what git holds whole is compacted");
        for name in &special {
            assert!(files.join(name).exists(), "{name}");
        }
    };
    let files = path.parent().unwrap().join(".grove-trash").join(environment.id.to_string());
    world.isolation.hibernate_environment(&world.codebase, &environment).await.unwrap();
    compacted(&files);
    world.isolation.wake_environment(&world.codebase, &environment).await.unwrap();
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(path)), Vec::<String>::new());
    world.isolation.remove_environment(&world.codebase, &environment, &RemoveOptions::default()).await.unwrap();
    assert_eq!(world.isolation.sweep_trash(&world.codebase, days_from_now(2)).await.unwrap().compacted, 1);
    compacted(&files);
    world.isolation.undo_removal(&world.codebase, &environment).await.unwrap();
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(path)), Vec::<String>::new());
    if special.contains(&"flag") {
        let flagged = fs::File::open(path.join("flag")).unwrap();
        assert!(ioctl_getflags(&flagged).unwrap().contains(IFlags::NODUMP));
    }
}

#[tokio::test]
async fn after_its_days_it_goes_for_good_unless_a_process_still_writes_there() {
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    let world = EnvironmentsTest::open(&test, &store).await;
    let mut made = Vec::new();
    for name in ["gone", "written"] {
        let environment =
            world.isolation.create_environment(&world.codebase, &task_request(name)).await.unwrap().environment;
        fs::write(environment.path.join("notes"), "mine").unwrap();
        made.push(environment);
    }
    for environment in &made {
        world.isolation.remove_environment(&world.codebase, environment, &forced_removal()).await.unwrap();
    }
    assert_eq!(
        world.isolation.sweep_trash(&world.codebase, days_from_now(29)).await.unwrap().expired,
        Vec::<String>::new()
    );
    // As if it had been removed long ago, and written to after that.
    let written = world.store.trash_row(made[1].id).await.unwrap().unwrap();
    let earlier = written.removed_at.add_duration(SignedDuration::from_hours(-24 * 20));
    let pool = sqlx::AnyPool::connect(&store.url).await.unwrap();
    let update = sqlx::query("UPDATE grove_trash SET removed_at = $1, keep_until = $2 WHERE environment_id = $3");
    let update = update.bind(earlier.to_string()).bind(days_from_now(-1).to_string()).bind(made[1].id.to_string());
    update.execute(&pool).await.unwrap();
    pool.close().await;
    let swept = world.isolation.sweep_trash(&world.codebase, Moment::now()).await.unwrap();
    assert_eq!(swept.expired, Vec::<String>::new(), "something was written there since");
    let kept = world.store.trash_row(made[1].id).await.unwrap().unwrap();
    assert!(kept.keep_until.unwrap() > Moment::now());

    let swept = world.isolation.sweep_trash(&world.codebase, days_from_now(31)).await.unwrap();
    assert_eq!(swept.expired, ["written", "gone"], "the oldest first");
    assert!(world.isolation.list_trash(&world.codebase).await.unwrap().is_empty());
    assert_eq!(test.git(&["for-each-ref", "refs/grove"]), "");
    assert!(!made[0].path.parent().unwrap().join(".grove-trash").exists());
    let error = world.isolation.undo_removal(&world.codebase, &made[0]).await.unwrap_err();
    assert!(matches!(error, EnvironmentError::Remove(RemoveError::NotInTrash(_))), "{error}");
}

both_engines! {
    async fn other_conversations_keep_it_and_an_undo_gives_it_back_to_them(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let [ours, theirs] = ["ours", "theirs"].map(|id| ConversationRef { platform: "test".into(), id: id.into() });
        let with = |conversation: &ConversationRef| {
            let mut request = task_request("x");
            request.conversation = Some(conversation.clone());
            request
        };
        let environment = world.isolation.create_environment(&world.codebase, &with(&ours)).await.unwrap().environment;
        world.isolation.create_environment(&world.codebase, &with(&theirs)).await.unwrap();
        let request = RemoveOptions { requester: RemovalRequester::Conversation(ours.clone()), ..RemoveOptions::default() };
        let error = world.isolation.remove_environment(&world.codebase, &environment, &request).await.unwrap_err();
        let EnvironmentError::Refused(refusal) = error else { panic!("{error}") };
        assert_eq!(refusal.reasons.len(), 1);
        assert_eq!(refusal.reasons[0].0, Question::Conversations);
        // From the terminal a conversation that only remembers it is no reason.
        let removed = world.isolation.remove_environment(&world.codebase, &environment, &RemoveOptions::default()).await.unwrap();
        assert!(matches!(removed, RemoveOutcome::Trashed { .. }));
        assert_eq!(world.store.bound_environment(&ours).await.unwrap(), None);
        // One of them goes on elsewhere; the other is given back.
        let mut other = task_request("y");
        other.conversation = Some(theirs.clone());
        let elsewhere = world.isolation.create_environment(&world.codebase, &other).await.unwrap().environment;
        world.isolation.undo_removal(&world.codebase, &environment).await.unwrap();
        assert_eq!(world.store.bound_environment(&ours).await.unwrap(), Some(environment.id));
        assert_eq!(world.store.bound_environment(&theirs).await.unwrap(), Some(elsewhere.id));
    }

    async fn a_message_during_a_removal_gets_a_fresh_environment(store: TestStore) {
        let test = TestRepo::new();
        let world = EnvironmentsTest::open(&test, &store).await;
        let conversation = ConversationRef { platform: "test".into(), id: "c".into() };
        let mut request = task_request("x");
        request.conversation = Some(conversation.clone());
        for round in 0..20 {
            let first = world.isolation.create_environment(&world.codebase, &request).await.unwrap().environment;
            let none = RemoveOptions::default();
            let (removed, second) = tokio::join!(
                world.isolation.remove_environment(&world.codebase, &first, &none),
                world.isolation.create_environment(&world.codebase, &request),
            );
            let second = second.unwrap();
            let now = world.store.find_environment(second.environment.id).await.unwrap().unwrap();
            let bound = world.store.bound_environment(&conversation).await.unwrap();
            match removed {
                // A request that chose the environment before the removal began learns of the removal
                // from the lock and the status; no caller is left with a deleted folder.
                Ok(_) if now.id == first.id => {
                    assert_eq!((now.status, bound), (Status::Destroyed, None), "round {round}");
                }
                _ => {
                    assert_eq!((now.status, bound), (Status::Active, Some(now.id)), "round {round}");
                    assert!(now.path.join(".git").exists(), "round {round}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_plan_that_changed_since_it_was_shown_is_asked_again() {
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    let world = EnvironmentsTest::open(&test, &store).await;
    let environment =
        world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap().environment;
    let seen = async || match world
        .isolation
        .plan_removal(&world.codebase, &environment, &RemovalRequester::Person)
        .await
        .unwrap()
    {
        RemovalPlan::Remove(removable) => removable.seen_fingerprint().clone(),
        other => panic!("{other:?}"),
    };
    let first = seen().await;
    assert_eq!(seen().await, first, "a look changes nothing");
    fs::write(environment.path.join("new"), "x").unwrap();
    let request = RemoveOptions { seen: Some(first), ..forced_removal() };
    let error = world.isolation.remove_environment(&world.codebase, &environment, &request).await.unwrap_err();
    assert!(matches!(error, EnvironmentError::Remove(RemoveError::ChangedMeanwhile { .. })), "{error}");
    assert!(environment.path.join("new").exists());
    let second = seen().await;
    test.git_in(&environment.path, &["add", "new"]);
    assert_ne!(seen().await, second, "the index");
    let request = RemoveOptions { seen: Some(seen().await), ..forced_removal() };
    world.isolation.remove_environment(&world.codebase, &environment, &request).await.unwrap();
    // A new one for the same work is made as ever.
    let next = world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap();
    assert!(matches!(next.how, CreateMethod::Created(_)));
}

/// The index of a worktree with one of its names replaced by another of the same length, as a program
/// that writes the file itself can make it; git refuses such names.
fn forge_index_name(index: &std::path::Path, name: &str, forged: &str) {
    assert_eq!(name.len(), forged.len());
    let mut bytes = fs::read(index).unwrap();
    let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).expect("the name is there");
    bytes[at..at + name.len()].copy_from_slice(forged.as_bytes());
    let body = bytes.len() - 20;
    let mut sum = std::process::Command::new("sha1sum");
    sum.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut sum = sum.spawn().unwrap();
    std::io::Write::write_all(&mut sum.stdin.take().unwrap(), &bytes[..body]).unwrap();
    let printed = String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap();
    let digest = (0..20).map(|n| u8::from_str_radix(&printed[2 * n..2 * n + 2], 16).unwrap());
    bytes.truncate(body);
    bytes.extend(digest);
    fs::write(index, bytes).unwrap();
}

#[tokio::test]
async fn an_index_with_names_outside_of_the_trash_reaches_no_file_there() {
    let (test, store) = (TestRepo::new(), TestStore::new(TestEngine::Sqlite));
    test.write_file("d2/a.txt", "precious\n");
    test.commit_all("files");
    let world = EnvironmentsTest::open(&test, &store).await;
    let environment =
        world.isolation.create_environment(&world.codebase, &task_request("x")).await.unwrap().environment;
    // Where the files will be, seen from the top of the file system.
    let files = environment.path.parent().unwrap().join(".grove-trash").join(environment.id.to_string());
    let up = "../".repeat(files.components().count() - 1);
    let outside = format!("{up}{}", test.path().join("d2/a.txt").strip_prefix("/").unwrap().display());
    let stand_in = "d2/a.txt".to_owned() + &"x".repeat(outside.len() - 8);
    let id = test.resolve_sha("HEAD:d2/a.txt");
    test.git_in(&environment.path, &["update-index", "--add", "--cacheinfo", &format!("100644,{id},{stand_in}")]);
    let index = test.git_in(&environment.path, &["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    forge_index_name(std::path::Path::new(&index), &stand_in, &outside);
    let listed = test.git_in(&environment.path, &["ls-files"]);
    assert!(listed.lines().any(|name| name.ends_with("d2/a.txt") && name.contains("..")), "{listed}");

    world.isolation.hibernate_environment(&world.codebase, &environment).await.unwrap();
    assert!(!files.join("d2/a.txt").exists(), "what git holds is compacted");
    assert_eq!(fs::read_to_string(test.path().join("d2/a.txt")).unwrap(), "precious\n", "deleted outside of the trash");

    // A list that names files outside is not followed either: nothing is written, the worktree stays
    // where it is.
    let list = world.codebase.git_common_dir.join("grove/trash").join(environment.id.to_string()).join("compacted");
    let good = fs::read(&list).unwrap();
    fs::remove_file(test.path().join("d2/a.txt")).unwrap();
    fs::write(&list, [good.as_slice(), format!("{id} 644 0 0 9\t{outside}\0").as_bytes()].concat()).unwrap();
    let error = world.isolation.wake_environment(&world.codebase, &environment).await.unwrap_err();
    assert!(error.to_string().contains("list cannot be read"), "{error}");
    assert!(!test.path().join("d2/a.txt").exists(), "written outside of the trash");
    fs::write(&list, good).unwrap();
    world.isolation.wake_environment(&world.codebase, &environment).await.unwrap();
    assert_eq!(fs::read_to_string(environment.path.join("d2/a.txt")).unwrap(), "precious\n");
}
