//! The store in trouble, seen from outside.

use std::fs;
use std::process::Command;

use grove_testkit::{Postgres, Ran, TestRepo};

use crate::{create, created, sandbox};

#[test]
fn a_locked_sqlite_is_waited_for_and_then_said() {
    let grove = sandbox(TestRepo::new());
    created(&grove, &["first"]);
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
    let (code, _) = crate::refused(&grove, &["second"]);
    assert_eq!(code, "store_busy");
    // Let go while somebody waits.
    let waiting =
        grove.command(["worktree", "create", "third", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert!(waiting.wait_with_output().unwrap().status.success());
}

#[test]
fn a_corrupt_or_newer_store_is_refused_and_left_alone() {
    let grove = sandbox(TestRepo::new());
    created(&grove, &["first"]);
    let database = grove.grove_home().join("grove.db");
    let good = fs::read(&database).unwrap();
    let mut bad = good.clone();
    bad[..64].fill(b'#');
    for (bytes, wanted) in
        [(bad, "store_corrupt"), (b"hello".to_vec(), "store_corrupt"), (good[..5000].to_vec(), "store_corrupt")]
    {
        fs::write(&database, &bytes).unwrap();
        let before = listing(&grove.grove_home());
        let (code, message) = crate::refused(&grove, &["second"]);
        assert_eq!(code, wanted, "{message}");
        assert_eq!(fs::read(&database).unwrap(), bytes);
        assert_eq!(listing(&grove.grove_home()), before);
    }
    fs::write(&database, &good).unwrap();
    created(&grove, &["second"]);
}

fn listing(dir: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_postgres_that_is_away_is_said_and_one_that_comes_back_is_used() {
    let server = Postgres::start();
    let grove = sandbox(TestRepo::new());
    let run = |args: &[&str]| Ran::from(grove.command(args).env("DATABASE_URL", server.url("postgres")));
    run(&["worktree", "create", "first", "--json"]).ok();
    server.stop();
    // It is waited for, then said.
    let before = grove.repo.branches();
    let (code, message) = run(&["worktree", "create", "second", "--json"]).fails(1).error();
    assert_eq!(code, "store_unreachable", "{message}");
    assert_eq!(grove.repo.branches(), before);
    // Started while somebody waits.
    let mut command = grove.command(["worktree", "create", "second", "--json"]);
    let waiting =
        command.env("DATABASE_URL", server.url("postgres")).stdout(std::process::Stdio::piped()).spawn().unwrap();
    server.start_again();
    assert!(waiting.wait_with_output().unwrap().status.success());
    assert_eq!(run(&["worktree", "list", "--json"]).ok().json().as_array().unwrap().len(), 2);
}

#[test]
fn bad_addresses_do_not_repeat_secrets() {
    let grove = sandbox(TestRepo::new());
    for url in ["mysql://me:s3cret@h/x", "postgres://me:s3cret@127.0.0.1:1/x?connect_timeout=1"] {
        let mut command = grove.command(["worktree", "create", "x", "--json"]);
        let ran = Ran::from(command.env("DATABASE_URL", url)).fails(1);
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
        ran.error();
    }
    assert_eq!(create(&grove, &["x"]).code, 0);
}
