use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, process};

use grove_git::{Git, GitError, GitLocation};
use grove_model::BranchName;
use grove_testkit::{TestRepo, first_git, installed_gits, is_alive};
use proptest::prelude::*;

use crate::with_every_git;

/// A program that stands in for git and does what `script` says.
fn write_program(dir: &std::path::Path, script: &str) -> PathBuf {
    let path = dir.join("fake-git");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_call_past_its_time_ends_with_everything_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let pids = dir.path().join("pids");
    let script = format!(
        "trap '' TERM\nsleep 600 & echo $! >> {0}\nsetsid sh -c 'trap \"\" TERM; echo $$ >> {0}; sleep 600' &\necho $$ >> {0}\n\
         while [ $(wc -l < {0}) -lt 3 ]; do :; done; touch {1}; sleep 600",
        pids.display(),
        dir.path().join("ready").display()
    );
    let git = Git::with_program(write_program(dir.path(), &script));
    let began = Instant::now();
    let error = git
        .new_command(GitLocation::Dir(dir.path()), "status")
        .with_timeout(Duration::from_secs(1))
        .run()
        .await
        .unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error}");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(dir.path().join("ready").exists(), "all three had started");
    let pids = fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 3);
    for pid in pids.lines() {
        assert!(!is_alive(pid), "{pid} of {} is still there", process::id());
    }
}

#[tokio::test]
async fn a_helper_that_keeps_the_pipes_open_does_not_hold_us() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::with_program(write_program(dir.path(), "echo answer; setsid sleep 30 & echo $! > pid; exit 0"));
    let began = Instant::now();
    let text = git.new_command(GitLocation::Dir(dir.path()), "status").run_to_text().await.unwrap();
    assert_eq!(text, "answer");
    assert!(began.elapsed() < Duration::from_secs(20));
    let pid = fs::read_to_string(dir.path().join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn never_more_than_two_per_core_at_once() {
    let dir = tempfile::tempdir().unwrap();
    // Each says when it began and ended; the reader counts who was there together.
    let script = "echo begin >> log; sleep 0.05; echo end >> log";
    let git = Git::with_program(write_program(dir.path(), script));
    let calls = (0..40).map(|_| {
        let (git, dir) = (git.clone(), dir.path().to_owned());
        tokio::spawn(async move { git.new_command(GitLocation::Dir(&dir), "status").run().await.map(drop) })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    let (mut now, mut most) = (0usize, 0usize);
    for line in fs::read_to_string(dir.path().join("log")).unwrap().lines() {
        now = if line == "begin" { now + 1 } else { now - 1 };
        most = most.max(now);
    }
    let cores = std::thread::available_parallelism().unwrap().get();
    assert!(most > 1 && most <= 2 * cores, "{most} at once on {cores} cores");
}

#[tokio::test]
async fn a_missing_git_says_how_to_get_it() {
    let git = Git::with_program("/nonexistent/git");
    let error = git.new_command(GitLocation::Dir("/".as_ref()), "status").run().await.unwrap_err();
    assert!(matches!(error, GitError::NotInstalled), "{error}");
    assert!(error.to_string().contains("install"));
    // A missing directory is another matter, though the system's error is the same.
    let git = Git::with_program(first_git());
    let error = git.new_command(GitLocation::Dir("/nonexistent".as_ref()), "status").run().await.unwrap_err();
    assert!(matches!(error, GitError::Spawn(_)), "{error}");
}

#[tokio::test]
async fn a_failure_carries_gits_line_and_no_credentials() {
    with_every_git(TestRepo::with_git, async |world| {
        let url = "https://me:s3cret@127.0.0.1:1/x.git";
        let ask = world.repo.new_command("ls-remote").args(["--end-of-options", url]).with_network_access();
        let error = ask.run().await.unwrap_err();
        let GitError::Failed { line, stderr, .. } = &error else { panic!("{error}") };
        assert!(line.contains("unable to access"), "{line}");
        assert!(!format!("{error} {line} {stderr}").contains("s3cret"), "{stderr}");
    })
    .await;
}

#[tokio::test]
async fn the_callers_environment_does_not_reach_git() {
    // The product inherits its environment, so the poison is set for a program of its own: this
    // test binary, run again with only the test below.
    let exe = std::env::current_exe().unwrap();
    let test = TestRepo::new();
    let status = process::Command::new(exe)
        .args(["--exact", "command::in_a_poisoned_environment", "--include-ignored"])
        .env("GROVE_TEST_POISONED", test.path())
        .env("GIT_DIR", "/nonexistent")
        .env("GIT_WORK_TREE", "/nonexistent")
        .env("GIT_INDEX_FILE", "/nonexistent/index")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.bare")
        .env("GIT_CONFIG_VALUE_0", "true")
        .env("GIT_TRACE", "1")
        .env("LANG", "de_DE.UTF-8")
        .env("LC_ALL", "de_DE.UTF-8")
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn in_a_poisoned_environment() {
    let Some(path) = std::env::var_os("GROVE_TEST_POISONED") else { return };
    let git = Git::with_program(first_git());
    let output = git.new_command(GitLocation::Dir(path.as_ref()), "status").arg("--porcelain").run().await.unwrap();
    assert_eq!((output.stdout, output.stderr), (Vec::new(), String::new()));
}

#[tokio::test]
async fn the_callers_secrets_do_not_reach_git() {
    // Again in a program of its own: this process must not change its environment.
    let exe = std::env::current_exe().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let status = process::Command::new(exe)
        .args(["--exact", "command::among_secrets", "--include-ignored"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", dir.path())
        .env("GROVE_TEST_AMONG_SECRETS", dir.path())
        .env("GITHUB_TOKEN", "s3cret")
        .env("DATABASE_URL", "postgres://s3cret")
        .env("ANTHROPIC_API_KEY", "s3cret")
        .env("GROVE_SERVER_TOKEN", "s3cret")
        .env("LD_PRELOAD_X", "s3cret")
        .env("SSH_AUTH_SOCK", "/the/agent")
        .env("HTTPS_PROXY", "http://proxy.example")
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn among_secrets() {
    let Some(dir) = std::env::var_os("GROVE_TEST_AMONG_SECRETS").map(PathBuf::from) else { return };
    let git = Git::with_program(write_program(&dir, "env"));
    let names = |text: String| text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect();
    let local: Vec<String> = names(git.new_command(GitLocation::Dir(&dir), "status").run_to_text().await.unwrap());
    let remote: Vec<String> =
        names(git.new_command(GitLocation::Dir(&dir), "ls-remote").with_network_access().run_to_text().await.unwrap());
    for all in [&local, &remote] {
        let unexpected: Vec<&String> = all
            .iter()
            .filter(|name| {
                let known = [
                    "PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "TERM", "LC_ALL", "LANGUAGE", "PWD", "_", "SHLVL",
                    "OLDPWD",
                ];
                let ours = ["GIT_", "SSH_ASKPASS", "XDG_", "GROVE_GIT_RUN", "SSL_CERT_", "SSH_A", "HTTPS_PROXY", "TZ"];
                !known.contains(&name.as_str()) && !ours.iter().any(|start| name.starts_with(start))
            })
            .collect();
        assert_eq!(unexpected, Vec::<&String>::new());
    }
    // What is needed to reach a remote is given to calls that do, and to no other.
    for name in ["SSH_AUTH_SOCK", "HTTPS_PROXY"] {
        assert!(!local.contains(&name.to_owned()) && remote.contains(&name.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn hooks_and_monitors_of_the_repository_do_not_run() {
    with_every_git(TestRepo::with_git, async |world| {
        let marker = world.test.temp_dir().join("ran");
        for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
            let path = world.test.path().join(".git/hooks").join(hook);
            fs::write(&path, format!("#!/bin/sh\necho {hook} >> {}\n", marker.display())).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let monitor = write_program(&world.test.temp_dir(), &format!("echo fsmonitor >> {}", marker.display()));
        world.test.git(&["config", "core.fsmonitor", monitor.to_str().unwrap()]);
        let _ = fs::remove_file(&marker);
        let name = crate::parse_branch("issue-1");
        world.try_add(&world.worktree_path("issue-1"), &crate::want_own_branch(&name, None)).await.unwrap();
        assert!(!marker.exists(), "ran: {}", fs::read_to_string(&marker).unwrap_or_default());
    })
    .await;
}

#[test]
fn our_rules_for_branch_names_are_gits() {
    // One git answers for all names: `--branch` takes one name a call, so a few hundred suffice.
    let git = &first_git();
    let dir = tempfile::tempdir().unwrap();
    let accepts = |name: &str| {
        let mut command = process::Command::new(git);
        command.env_clear().current_dir(dir.path()).args(["check-ref-format", "--branch", name]);
        command.output().unwrap().status.success()
    };
    let pieces = proptest::collection::vec(
        prop_oneof![
            Just("a"),
            Just("/"),
            Just("."),
            Just(".."),
            Just("-"),
            Just("@"),
            Just("{"),
            Just(".lock"),
            Just("~"),
            Just(" "),
            Just("\\"),
            Just("["),
            Just("HEAD"),
            Just("ö"),
            Just("\u{1}"),
            Just("\u{7f}"),
            Just("*"),
            Just("$(id)"),
        ],
        1..6,
    );
    let config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&pieces, |pieces| {
            let name = pieces.concat();
            // The one name that git takes and we do not: it means HEAD.
            prop_assume!(name != "@");
            prop_assert_eq!(BranchName::parse(&name).is_ok(), accepts(&name), "{:?}", name);
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn the_version_is_read() {
    for git in installed_gits() {
        let (major, minor) = Git::with_program(git).git_version().await.unwrap();
        assert!((major, minor) >= (2, 39), "{major}.{minor}");
    }
}

#[tokio::test]
async fn a_cancelled_call_does_not_leave_git_running() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::with_program(write_program(dir.path(), "echo $$ > pid; mv pid started; exec sleep 600"));
    let started = dir.path().join("started");
    let command = git.new_command(GitLocation::Dir(dir.path()), "status");
    let wait = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = command.run() => panic!("it sleeps"),
        () = wait => {}
    }
    let pid = fs::read_to_string(&started).unwrap();
    let gone = async {
        while is_alive(pid.trim()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), gone).await.expect("it was asked to end");
}

#[tokio::test]
async fn an_interrupt_ends_what_runs_and_nothing_later() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::with_program(write_program(dir.path(), "[ -e started ] && exit 0; touch started; sleep 600"));
    let started = dir.path().join("started");
    let wait_and_interrupt = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        git.interrupt_calls();
    };
    let (ran, ()) = tokio::join!(git.new_command(GitLocation::Dir(dir.path()), "status").run(), wait_and_interrupt);
    assert!(matches!(ran.unwrap_err(), GitError::Interrupted { .. }));
    git.new_command(GitLocation::Dir(dir.path()), "status").run().await.unwrap();
    // Asked for between two calls, the next one has it, and only that one.
    git.interrupt_calls();
    let next = git.new_command(GitLocation::Dir(dir.path()), "status").run().await;
    assert!(matches!(next.unwrap_err(), GitError::Interrupted { .. }));
    git.new_command(GitLocation::Dir(dir.path()), "status").run().await.unwrap();
}

#[tokio::test]
async fn a_world_opens() {
    with_every_git(TestRepo::with_git, async |world| {
        assert_eq!(world.repo.root, world.test.path());
        assert!(!world.repo.bare && world.git.git_version().await.is_ok());
    })
    .await;
}
