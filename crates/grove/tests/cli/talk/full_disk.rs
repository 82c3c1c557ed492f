//! A disk that is full, and free again later.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::Command;

use grove_testkit::{Sandbox, TestRepo, TestServer, wait_for};
use serde_json::json;

use crate::new_sandbox;

/// Runs a server whose GROVE_HOME is a small disk of its own, which only that server sees.
fn start_on_small_disk(grove: &Sandbox) -> TestServer {
    let allowed = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).status();
    assert!(
        allowed.is_ok_and(|status| status.success()),
        "this kernel forbids user namespaces, so this test has no small disk to fill: allow them \
         (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
    );
    let serve = grove.grove_command(["serve", "--listen", "127.0.0.1:0", "--test-adapter"]);
    fs::create_dir_all(grove.grove_home()).unwrap();
    let script = r#"mount -t tmpfs -o size=16m grove "$GROVE_HOME" && "$0" codebase add >&2 && exec "$0" "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    command.arg(serve.get_program()).args(serve.get_args()).current_dir(grove.repo.path());
    command.env_clear().envs(serve.get_envs().filter_map(|(name, value)| Some((name, value?))));
    TestServer::start_command(command, grove)
}

/// Writes a file until the disk is full.
fn fill_disk(file: &PathBuf) {
    let mut ballast = File::create(file).unwrap();
    // The last pages too: the store must not find one.
    for size in [1 << 20, 4096, 1] {
        let piece = vec![7; size];
        let failed = (0..100_000).find_map(|_| ballast.write_all(&piece).err()).expect("a disk that gets full");
        assert_eq!(failed.kind(), ErrorKind::StorageFull, "{failed}");
    }
}

#[test]
fn after_a_full_disk_everything_works_without_a_restart() {
    let grove = new_sandbox(TestRepo::new());
    let server = start_on_small_disk(&grove);
    let ready = || server.send_request("GET", "/ready", &[], None).status;
    let say = |conversation: &str| {
        let body = json!({ "conversationId": conversation, "message": "/help" }).to_string();
        server.send_request("POST", "/test/message", &[("content-type", "application/json")], Some(&body)).status
    };
    assert_eq!((ready(), say("before")), (200, 202));
    let help = server.wait_until_settled("before");
    let disk = PathBuf::from(format!("/proc/{}/root{}", server.process_id(), grove.grove_home().display()));
    let ballast = disk.join("ballast");
    fill_disk(&ballast);
    // As many at once as the store has connections, and more.
    let refused: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..12).map(|_| scope.spawn(|| say("meanwhile"))).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    // A connection that is closed may free a page, in which a later message finds room.
    assert!(refused.contains(&503) && refused.iter().all(|status| [202, 503].contains(status)), "{refused:?}");
    // What was asked a moment ago may be remembered for a second.
    wait_for(|| ready() == 503);
    fs::remove_file(&ballast).unwrap();
    let taken: Vec<u16> = (0..12).map(|number| say(&format!("after-{number}"))).collect();
    assert_eq!(taken, [202; 12], "{:#?}", server.take_log_lines());
    wait_for(|| ready() == 200);
    for number in 0..12 {
        assert_eq!(server.wait_until_settled(&format!("after-{number}")), help);
    }
}
