//! The store in trouble, seen from outside.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use grove_testkit::{ProgramOutput, TestPostgres, TestRepo};

use crate::{create_worktree, new_sandbox, run_create};

#[test]
fn a_locked_sqlite_is_waited_for_and_then_said() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["first"]);
    let database = grove.grove_home().join("grove.db");
    // Another process that holds the lock until its standard input ends.
    let script = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1],isolation_level=None); c.execute('BEGIN EXCLUSIVE'); print('locked',flush=True); sys.stdin.read(); c.execute('COMMIT')";
    let Ok(mut holder) = Command::new("python3")
        .args(["-c", script])
        .arg(&database)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
    else {
        eprintln!("skipped: python3 is not here to hold the lock");
        return;
    };
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.take().unwrap()), &mut line).unwrap();
    assert_eq!(line.trim(), "locked");
    let (code, _) = crate::expect_create_refused(&grove, &["second"]);
    assert_eq!(code, "store_busy");
    // The lock is released while another process waits.
    let waiting = grove
        .grove_command(["worktree", "create", "third", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert!(waiting.wait_with_output().unwrap().status.success());
}

#[test]
fn a_corrupt_or_newer_store_is_refused_and_left_alone() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["first"]);
    let database = grove.grove_home().join("grove.db");
    let good = fs::read(&database).unwrap();
    let mut bad = good.clone();
    bad[..64].fill(b'#');
    for (bytes, wanted) in
        [(bad, "store_corrupt"), (b"hello".to_vec(), "store_corrupt"), (good[..5000].to_vec(), "store_corrupt")]
    {
        fs::write(&database, &bytes).unwrap();
        let before = list_files(&grove.grove_home());
        let (code, message) = crate::expect_create_refused(&grove, &["second"]);
        assert_eq!(code, wanted, "{message}");
        assert_eq!(fs::read(&database).unwrap(), bytes);
        assert_eq!(list_files(&grove.grove_home()), before);
    }
    fs::write(&database, &good).unwrap();
    create_worktree(&grove, &["second"]);
}

fn list_files(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_postgres_that_is_away_is_said_and_one_that_comes_back_is_used() {
    let server = TestPostgres::start();
    let grove = new_sandbox(TestRepo::new());
    let command = |args: &[&str], connect_timeout: &str| {
        let mut command = grove.grove_command(args);
        command.env("DATABASE_URL", server.database_url("postgres"));
        command.env("GROVE_STORE_CONNECT_TIMEOUT", connect_timeout);
        command
    };
    let run = |args: &[&str]| ProgramOutput::from(&mut command(args, "1s"));
    run(&["worktree", "create", "first", "--json"]).assert_success();
    server.stop();
    // It is waited for, then said.
    let before = grove.repo.list_branches();
    let (code, message) = run(&["worktree", "create", "second", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "store_unreachable", "{message}");
    assert_eq!(grove.repo.list_branches(), before);
    // PostgreSQL starts again while another process waits.
    let mut command = command(&["worktree", "create", "second", "--json"], "60s");
    let waiting = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    server.start_again();
    assert!(waiting.wait_with_output().unwrap().status.success());
    assert_eq!(run(&["worktree", "list", "--json"]).assert_success().json().as_array().unwrap().len(), 2);
}

#[test]
fn an_unreachable_postgres_is_reported_soon_with_the_cause() {
    let grove = new_sandbox(TestRepo::new());
    // No program listens at the first address; at the second, one accepts connections and sends nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port().to_string();
    for (port, cause) in [("1", "Connection refused"), (&silent_port, "it did not answer within 3 s")] {
        let mut command = grove.grove_command(["worktree", "list", "--json"]);
        command.env("DATABASE_URL", format!("postgres://me@127.0.0.1:{port}/x"));
        let began = Instant::now();
        let (code, message) = ProgramOutput::from(&mut command).assert_exit_code(1).json_error();
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        assert_eq!(code, "store_unreachable", "{message}");
        assert!(message.contains(cause), "{message}");
    }
}

#[test]
fn bad_addresses_do_not_repeat_secrets() {
    let grove = new_sandbox(TestRepo::new());
    for url in ["mysql://me:s3cret@h/x", "postgres://me:s3cret@127.0.0.1:1/x"] {
        let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
        command.env("DATABASE_URL", url).env("GROVE_STORE_CONNECT_TIMEOUT", "1s");
        let ran = ProgramOutput::from(&mut command).assert_exit_code(1);
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
        ran.json_error();
    }
    assert_eq!(run_create(&grove, &["x"]).code, 0);
}
