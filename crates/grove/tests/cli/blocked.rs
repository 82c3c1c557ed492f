//! Creation that cannot be: one clear sentence, and nothing changed.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grove_testkit::{ProgramOutput, SilentServer, TestRepo, on_sqlite};

use crate::{create_worktree, expect_create_refused, new_sandbox, sandbox_on, worktree_folders};

on_sqlite! {
    fn no_base_branch(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        grove.repo.git(&["remote", "set-head", "origin", "--delete"]);
        let (code, message) = expect_create_refused(&grove, &["x"]);
        assert_eq!(code, "no_base");
        assert!(message.contains("git remote set-head origin --auto") && message.contains("worktree.base_branch"), "{message}");
        create_worktree(&grove, &["x", "--from", "main"]);
    }

    fn an_unreachable_remote(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::with_origin());
        fs::rename(grove.repo.origin_path(), grove.repo.temp_dir().join("gone.git")).unwrap();
        let (code, _) = expect_create_refused(&grove, &["x", "--from", "develop"]);
        assert_eq!(code, "remote_unreachable");
        let (code, _) = expect_create_refused(&grove, &["--kind", "pr", "--id", "3", "--fork"]);
        assert_eq!(code, "remote_unreachable");
        // The base is known: a warning that says how old it is.
        let ran = crate::run_create(&grove, &["x"]).assert_success();
        assert!(ran.stderr.contains("warning:") && ran.stderr.contains("`origin/main` is used as it was last seen"), "{}", ran.stderr);
        assert!(ran.stderr.contains("its newest commit is"), "{}", ran.stderr);
        // A failed creation is kept with its error, and the next one tries again.
        let all = grove.grove(["worktree", "list", "--all", "--json"]).assert_success().json();
        assert_eq!(all[0]["status"].as_str(), Some("destroyed"));
        assert!(all[0]["error"].as_str().unwrap().contains("develop"), "{all}");
    }

    fn what_stands_at_the_path(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let first = create_worktree(&grove, &["first"]);
        let parent = crate::worktree_path(&first).parent().unwrap().to_owned();
        fs::write(parent.join("file"), "mine").unwrap();
        fs::create_dir(parent.join("files")).unwrap();
        fs::write(parent.join("files/x"), "mine").unwrap();
        grove.repo.git(&["clone", "-q", ".", parent.join("clone").to_str().unwrap()]);
        for (name, what) in [("file", "is a file"), ("files", "holds files"), ("clone", "holds a full clone")] {
            let (code, message) = expect_create_refused(&grove, &[name]);
            assert_eq!(code, "path_taken");
            assert!(message.contains(what) && message.contains("left alone"), "{message}");
        }
        assert_eq!(fs::read_to_string(parent.join("file")).unwrap(), "mine");
    }
}

const WAITING_MESSAGE: &str = "Waiting for `origin` to answer…";

#[test]
fn a_remote_that_does_not_answer_is_named_and_given_up_where_the_base_is_known() {
    let grove = new_sandbox(TestRepo::with_origin());
    let silent = SilentServer::start();
    grove.repo.git(&["remote", "set-url", "origin", &silent.repository_url()]);
    let began = Instant::now();
    let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
    let ran = ProgramOutput::from(command.env("GROVE_WORKTREE_FETCH_TIMEOUT", "4s")).assert_success();
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert_eq!(ran.json()["branch"], "x", "standard output is JSON alone");
    assert_eq!(ran.stderr.matches(WAITING_MESSAGE).count(), 1, "{}", ran.stderr);
    let warning = "the remote could not be asked (it did not answer within 4 s), so `origin/main` is used as it was \
                   last seen; its newest commit is";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    assert_eq!(grove.repo.git(&["rev-parse", "x"]), grove.repo.resolve_sha("origin/main"));
}

#[test]
fn a_remote_that_is_needed_is_waited_for_longer() {
    let grove = new_sandbox(TestRepo::with_origin());
    let silent = SilentServer::start();
    grove.repo.git(&["remote", "set-url", "origin", &silent.repository_url()]);
    grove.repo.git(&["branch", "other"]);
    for args in
        [&["x", "--from", "develop"][..], &["other", "--kind", "pr", "--id", "5"], &["--kind", "review", "--id", "6"]]
    {
        let silent = SilentServer::start();
        grove.repo.git(&["remote", "set-url", "origin", &silent.repository_url()]);
        let mut command = grove.grove_command(["worktree", "create", "--json"].iter().chain(args));
        command.env("GROVE_WORKTREE_FETCH_TIMEOUT", "1s").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Comes after three seconds, when it would have been given up.
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        silent.hang_up();
        let mut stdout = String::new();
        child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{args:?}: {stdout}");
        assert_eq!(line.trim_end(), WAITING_MESSAGE, "{args:?}");
        assert!(
            stdout.contains("remote_unreachable") && !stdout.contains("did not answer within"),
            "{args:?}: {stdout}"
        );
    }
}

#[test]
fn the_remote_is_not_guessed() {
    let grove = new_sandbox(TestRepo::with_origin());
    grove.repo.git(&["remote", "rename", "origin", "upstream"]);
    create_worktree(&grove, &["only-remote"]);
    grove.repo.git(&["remote", "add", "fork", "https://example.com/me/app.git"]);
    let (code, message) = expect_create_refused(&grove, &["x"]);
    assert_eq!(code, "several_remotes");
    assert!(message.contains("upstream") && message.contains("fork"), "{message}");
    let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
    ProgramOutput::from(command.env("GROVE_WORKTREE_REMOTE", "upstream")).assert_success();
}

#[test]
fn permission_denied() {
    let grove = new_sandbox(TestRepo::new());
    grove.unprivileged_command(["codebase", "add", "--json"]).status().unwrap();
    let locked = grove.repo.temp_dir().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    let refuse = |command: &mut Command| {
        let before = (grove.repo.list_branches(), worktree_folders(&grove), grove.repo.snapshot_checkout());
        let ran = ProgramOutput::from(command);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert_eq!((grove.repo.list_branches(), worktree_folders(&grove)), (before.0, before.1));
        before.2.assert_untouched();
        ran.json_error()
    };
    // Where the worktrees go.
    let mut command = grove.unprivileged_command(["worktree", "create", "x", "--json"]);
    let (code, message) = refuse(command.env("WORKTREE_BASE", locked.join("trees")));
    assert_eq!(code, "permission_denied");
    assert!(message.contains("locked") && message.contains("worktree.base"), "{message}");
    // The repository's branches.
    let heads = grove.repo.path().join(".git/refs/heads");
    fs::set_permissions(&heads, fs::Permissions::from_mode(0o555)).unwrap();
    let (code, message) = refuse(&mut grove.unprivileged_command(["worktree", "create", "x", "--json"]));
    fs::set_permissions(&heads, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(code, "permission_denied", "{message}");
    // GROVE_HOME itself.
    let mut command = grove.unprivileged_command(["worktree", "create", "x", "--json"]);
    let (code, _) = refuse(command.env("GROVE_HOME", locked.join("home")));
    assert_eq!(code, "store_unopenable");
    ProgramOutput::from(&mut grove.unprivileged_command(["worktree", "create", "x", "--json"])).assert_success();
}

/// A small file system of its own, where the machine lets us mount one.
pub(crate) struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    pub(crate) fn mount(at: &std::path::Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=777");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn disk_full() {
    let grove = new_sandbox(TestRepo::new());
    grove.repo.write_file("big", &"0123456789abcdef".repeat(256 * 1024));
    grove.repo.commit_all("4 MiB");
    create_worktree(&grove, &["before"]);
    // Asked before git starts.
    let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
    let (code, message) =
        ProgramOutput::from(command.env("GROVE_LIMITS_MIN_FREE_DISK", "900TiB")).assert_exit_code(1).json_error();
    assert_eq!(code, "disk_full");
    assert!(message.contains("900.0 TiB") && message.contains("limits.min_free_disk"), "{message}");
    // Found out by git.
    let small = grove.repo.temp_dir().join("small");
    let Some(_disk) = SmallDisk::mount(&small, "1m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let before = grove.repo.list_branches();
    let mut command = grove.grove_command(["worktree", "create", "x", "--json"]);
    let ran = ProgramOutput::from(command.env("WORKTREE_BASE", &small).env("GROVE_LIMITS_MIN_FREE_DISK", "0"));
    let (code, message) = ran.assert_exit_code(1).json_error();
    assert_eq!(code, "disk_full", "{message}");
    assert_eq!(grove.repo.list_branches(), before);
    assert_eq!(fs::read_dir(&small).unwrap().count(), 0, "the small disk is empty again");
    assert_eq!(grove.repo.git(&["worktree", "list"]).lines().count(), 2);
}

#[test]
fn disk_full_at_every_step() {
    let grove = new_sandbox(TestRepo::new());
    let small = grove.repo.temp_dir().join("small");
    let Some(_disk) = SmallDisk::mount(&small, "2m") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    // Repository and worktrees on one small disk, the store elsewhere.
    for n in 0..20 {
        grove.repo.write_file(&format!("file{n}"), &"x".repeat(5000));
    }
    grove.repo.commit_all("files");
    let repo = small.join("repo");
    grove.repo.git(&["clone", "-q", "--no-hardlinks", ".", repo.to_str().unwrap()]);
    grove.repo.git_in(&repo, &["remote", "remove", "origin"]);
    let run = |args: &[&str]| {
        let mut command = grove.grove_command(args);
        command.current_dir(&repo).env("WORKTREE_BASE", small.join("trees")).env("GROVE_LIMITS_MIN_FREE_DISK", "0");
        ProgramOutput::from(&mut command)
    };
    run(&["codebase", "add", "--json"]).assert_success();
    let free = || rustix::fs::statvfs(&small).map(|stat| stat.f_bavail * stat.f_frsize).unwrap();
    let filler = small.join("filler");
    let mut points = 0;
    for left in (0u64..).step_by(4096) {
        fs::write(&filler, "").unwrap();
        let available = free();
        let fill = available.saturating_sub(left);
        fs::write(&filler, vec![0; fill as usize]).unwrap();
        let before = grove.repo.git_in(&repo, &["for-each-ref"]);
        let canonical = grove_testkit::CheckoutSnapshot::from_checkout(&repo);
        let ran = run(&["worktree", "create", "x", "--json"]);
        if ran.code == 0 {
            break;
        }
        points += 1;
        let (code, message) = ran.json_error();
        assert_eq!(code, "disk_full", "with {left} bytes left: {message}");
        assert!(message.contains("free"), "the space is named: {message}");
        fs::remove_file(&filler).unwrap();
        canonical.assert_untouched();
        assert_eq!(grove.repo.git_in(&repo, &["for-each-ref"]), before, "with {left} bytes left");
        assert_eq!(grove.repo.git_in(&repo, &["worktree", "list"]).lines().count(), 1, "with {left} bytes left");
        assert!(!small.join("trees").exists(), "with {left} bytes left");
        assert!(left < 2 << 20, "it fits at last");
    }
    println!("disk full at {points} points, all undone, the space named");
    assert!(points > 10, "{points}");
    assert_eq!(grove.repo.git_in(&repo, &["worktree", "list"]).lines().count(), 2);
}

#[test]
fn outside_of_the_allowed_root() {
    let grove = new_sandbox(TestRepo::new());
    let root = grove.repo.temp_dir().join("root");
    fs::create_dir(&root).unwrap();
    let with_root = |args: &[&str], root: &std::path::Path| {
        let mut command = grove.grove_command(args);
        ProgramOutput::from(command.env("ALLOWED_ROOT_DIRECTORY", root))
    };
    let (code, _) = with_root(&["codebase", "add", "--json"], &root).assert_exit_code(1).json_error();
    assert_eq!(code, "outside_root");
    with_root(&["codebase", "add", "--json"], &grove.repo.temp_dir()).assert_success();
    let (code, _) =
        with_root(&["worktree", "create", "x", "--json"], grove.repo.path()).assert_exit_code(1).json_error();
    assert_eq!(code, "outside_root");
    with_root(&["worktree", "create", "x", "--json"], &grove.repo.temp_dir()).assert_success();
}

#[test]
fn outside_of_any_repository() {
    let grove = new_sandbox(TestRepo::new());
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| ProgramOutput::from(grove.grove_command(args).current_dir(elsewhere.path()));
    let (code, message) = run(&["worktree", "create", "x", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "no_codebase");
    assert!(message.contains("grove codebase add"), "{message}");
    // The only one registered is meant.
    create_worktree(&grove, &["x"]);
    assert_eq!(run(&["worktree", "create", "y", "--json"]).assert_success().json()["branch"], "y");
    // Of several, one must be named.
    grove.repo.git(&["clone", "-q", ".", "../second"]);
    grove.grove(["codebase", "add", "../second"]).assert_success();
    let (code, message) = run(&["worktree", "create", "z", "--json"]).assert_exit_code(1).json_error();
    assert_eq!(code, "which_codebase");
    assert!(message.contains("repo") && message.contains("second"), "{message}");
}
