//! Records, git and the disk, brought together again.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use grove_testkit::{Sandbox, TestRepo, both_engines};
use serde_json::Value;

use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

/// What `grove doctor` found, as "verdict name: detail".
fn run_doctor(grove: &Sandbox, well: bool) -> Vec<String> {
    let ran = grove.grove(["doctor", "--json"]);
    assert_eq!(ran.code, i32::from(!well), "{ran:?}");
    let told = ran.json();
    assert_eq!(told["well"], well);
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = told["checks"].as_array().unwrap().iter();
    checks
        .map(|check| {
            let verdict = text(check, "verdict");
            assert_eq!(text(check, "hint").is_empty(), verdict == "good" || verdict == "fixed", "{check}");
            format!("{verdict} {}: {}", text(check, "name"), text(check, "detail"))
        })
        .collect()
}

fn fixed_checks(checks: &[String]) -> Vec<&String> {
    checks.iter().filter(|check| check.starts_with("fixed")).collect()
}

both_engines! {
    fn what_a_crash_left_is_put_right_once(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        create_worktree(&grove, &["whole"]);
        let steps = ["claimed", "branch", "branched", "staged", "checked-out", "entry-published", "published", "verified", "furnished", "activated", "unlocked"];
        for step in steps {
            let mut command = grove.grove_command(["worktree", "create", &format!("x-{step}")]);
            let status = command.env("GROVE_FAULT_AT", step).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert!(!status.success());
        }
        let before = grove.repo.snapshot_checkout();
        let checks = run_doctor(&grove, true);
        assert_eq!(fixed_checks(&checks).len(), steps.len(), "{checks:#?}");
        before.assert_untouched();
        let listing = || (grove.repo.list_branches(), grove.repo.git(&["worktree", "list", "--porcelain"]), crate::worktree_folders(&grove));
        let after = listing();
        assert_eq!(after.0.lines().count(), 1 + 1 + 2, "main, and the three that came to their end: {}", after.0);
        assert!(!after.1.lines().any(|line| line.starts_with("locked")), "{}", after.1);
        // A second run changes nothing.
        let checks = run_doctor(&grove, true);
        assert_eq!(fixed_checks(&checks), Vec::<&String>::new());
        assert_eq!(listing(), after);
        println!("killed at {} steps, reconciled, 0 violations, second run changed nothing", steps.len());
    }

    fn a_broken_entry_is_put_aside_and_its_siblings_work(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let sibling = worktree_path(&create_worktree(&grove, &["sibling"]));
        for (name, breaks) in [
            ("commondir", (|admin: &str, _: &str| fs::write(format!("{admin}/commondir"), "").unwrap()) as fn(&str, &str)),
            ("head", |admin, _| fs::write(format!("{admin}/HEAD"), "").unwrap()),
            ("gitdir", |admin, _| fs::write(format!("{admin}/gitdir"), "").unwrap()),
            ("dotgit", |_, tree| fs::remove_file(format!("{tree}/.git")).unwrap()),
        ] {
            let broken = worktree_path(&create_worktree(&grove, &[name]));
            fs::write(broken.join("notes"), "mine").unwrap();
            // A commit that no branch holds, and a file that is only staged.
            grove.repo.git_in(&broken, &["checkout", "-q", "--detach"]);
            grove.repo.git_in(&broken, &["commit", "-q", "--allow-empty", "-m", name]);
            let commit = grove.repo.git_in(&broken, &["rev-parse", "HEAD"]);
            fs::write(broken.join("staged"), format!("only staged in {name}")).unwrap();
            grove.repo.git_in(&broken, &["add", "staged"]);
            let blob = grove.repo.git_in(&broken, &["rev-parse", ":staged"]);
            let admin = grove.repo.git_in(&broken, &["rev-parse", "--absolute-git-dir"]);
            breaks(&admin, broken.to_str().unwrap());
            // Work for others goes on, and puts the entry aside on its way.
            let next = format!("after-{name}");
            create_worktree(&grove, &[&next]);
            assert_eq!(grove.repo.git_in(&sibling, &["status", "--porcelain"]), "");
            grove.repo.git(&["worktree", "list"]);
            grove.repo.git(&["branch", "--list"]);
            // An entry that breaks git in every worktree is quarantined; one that breaks no other
            // worktree stays where git can repair it. Nothing is deleted, and gc removes nothing.
            let aside = if name == "dotgit" { ".git/worktrees" } else { ".git/grove/quarantine" };
            assert!(grove.repo.path().join(aside).join(name).join("index").exists(), "{name}");
            grove.repo.git(&["gc", "--quiet", "--prune=now"]);
            for object in [&commit, &blob] {
                grove.repo.git(&["cat-file", "-e", object]);
            }
            assert_eq!(fs::read_to_string(broken.join("notes")).unwrap(), "mine");
            let shown = grove.grove(["worktree", "show", name, "--json"]).assert_success().json();
            assert_eq!(shown["state"], "broken", "{name}");
            let (code, _) = grove.grove(["worktree", "create", name, "--json"]).assert_exit_code(1).json_error();
            assert_eq!(code, "environment_broken", "{name}");
        }
        let checks = run_doctor(&grove, false);
        assert_eq!(checks.iter().filter(|check| check.starts_with("bad worktree")).count(), 4, "{checks:#?}");
    }
}

#[test]
fn everything_that_is_not_well_is_said_with_what_to_do() {
    let grove = new_sandbox(TestRepo::new());
    let text = grove.grove(["doctor"]).assert_success().stdout;
    assert!(text.contains("ok  git: 2.") && text.contains("ok  store: SQLite, schema "), "{text}");
    let mut command = grove.grove_command(["doctor"]);
    let ran = grove_testkit::ProgramOutput::from(
        command.env("DATABASE_URL", "sqlite:///nonexistent/x/grove.db").env("GROVE_HOME", "/dev/null/x"),
    );
    assert!(ran.code == 1, "{ran:?}");
    fs::write(grove.grove_home().join("grove.db"), "broken").unwrap();
    let ran = grove.grove(["doctor"]).assert_exit_code(1);
    assert!(ran.stdout.contains("ok  git: 2.") && ran.stdout.contains("bad  store: "), "{}", ran.stdout);
    fs::remove_file(grove.grove_home().join("grove.db")).unwrap();
    let gone = worktree_path(&create_worktree(&grove, &["gone"]));
    fs::remove_dir_all(gone).unwrap();
    grove.repo.git(&["worktree", "add", "-q", "-b", "theirs", grove.repo.temp_dir().join("theirs").to_str().unwrap()]);
    let checks = run_doctor(&grove, true);
    assert!(checks.iter().any(|check| check.starts_with("warning worktree gone:")), "{checks:#?}");
    assert!(checks.iter().any(|check| check.contains("1 worktree that no record knows")), "{checks:#?}");
    fs::rename(grove.repo.path(), grove.repo.temp_dir().join("moved")).unwrap();
    let mut command = grove.grove_command(["doctor", "--json"]);
    let ran = grove_testkit::ProgramOutput::from(command.current_dir("/")).assert_exit_code(1);
    assert!(ran.stdout.contains("is not there"), "{}", ran.stdout);
}

#[test]
fn a_half_made_entry_of_plain_git_is_left_alone() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["first"]);
    let entry = grove.repo.path().join(".git/worktrees/half");
    fs::create_dir(&entry).unwrap();
    fs::write(entry.join("locked"), "initializing\n").unwrap();
    fs::write(entry.join("HEAD"), "").unwrap();
    run_doctor(&grove, true);
    assert!(entry.exists());
}

/// What a kernel check says, as "verdict: detail".
fn kernel_check(told: &Value, name: &str) -> String {
    let checks = told["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == format!("kernel: {name}")).unwrap();
    format!("{}: {}", found["verdict"].as_str().unwrap(), found["detail"].as_str().unwrap())
}

/// Perl makes the same system call by itself.
#[test]
fn landlock_is_told_as_the_kernel_tells_it() {
    let asked = Command::new("perl").args(["-e", "print syscall(444, 0, 0, 1)"]).output().unwrap();
    let version: i64 = String::from_utf8(asked.stdout).unwrap().parse().unwrap();
    let said = kernel_check(&new_sandbox(TestRepo::new()).grove(["doctor", "--json"]).json(), "landlock");
    if version > 0 {
        assert_eq!(said, format!("good: Landlock ABI version {version}"));
    } else {
        assert!(said.starts_with("warning: ") && !said.contains("ABI version"), "{said}");
    }
}

/// Perl makes one by itself: the system call, then the map of users that gives it a meaning.
#[test]
fn user_namespaces_are_told_as_this_user_has_them() {
    let call = if cfg!(target_arch = "x86_64") { 272 } else { 97 };
    let program = format!(
        "my $user = $>; syscall({call}, 0x10000000) == 0 or exit 1; \
         open(my $map, '>', '/proc/self/uid_map') or exit 1; print $map \"0 $user 1\"; close($map) or exit 1;"
    );
    let can = Command::new("perl").args(["-e", &program]).status().unwrap().success();
    let grove = new_sandbox(TestRepo::new());
    let said = kernel_check(&grove.grove(["doctor", "--json"]).json(), "user namespaces");
    if !can {
        assert!(said.starts_with("warning: this user cannot make user namespaces"), "{said}");
        return;
    }
    assert_eq!(said, "good: this user can make user namespaces");
    // The limit of a namespace holds in all below it, of which no file there tells.
    let limited = "echo 1 > /proc/sys/user/max_user_namespaces && exec unshare --user --map-root-user \"$@\"";
    let doctor = grove.grove_command(["doctor", "--json"]);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", limited, "sh"]).arg(doctor.get_program());
    command.args(doctor.get_args()).env_clear().current_dir(grove.repo.path());
    command.envs(doctor.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let said = kernel_check(&grove_testkit::ProgramOutput::from(&mut command).json(), "user namespaces");
    assert!(said.starts_with("warning: this user cannot make user namespaces (unshare: "), "{said}");
}

#[test]
fn what_others_can_read_is_closed_and_told() {
    let grove = new_sandbox(TestRepo::new());
    let home = grove.grove_home();
    let mode = |name: &str| fs::metadata(home.join(name)).unwrap().permissions().mode() & 0o777;
    let open = |name: &str, mode: u32| {
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    // A home that a person made by hand.
    fs::create_dir_all(&home).unwrap();
    open("", 0o755);
    create_worktree(&grove, &["first"]);
    assert_eq!((mode(""), mode("grove.db")), (0o700, 0o600));
    assert!(run_doctor(&grove, true).contains(&format!("good privacy: only you can read {}", home.display())));

    fs::write(home.join("token"), "0123456789abcdef0123456789abcdef\n").unwrap();
    [("", 0o755), ("grove.db", 0o644), ("token", 0o640)].into_iter().for_each(|(name, mode)| open(name, mode));
    let told = run_doctor(&grove, true);
    for (name, mode) in [("", "755"), ("grove.db", "644"), ("token", "640")] {
        let path = home.join(name);
        let path = path.display().to_string();
        let path = path.trim_end_matches('/');
        let warning = format!("warning privacy: {path} had the mode {mode}, so that others could read it");
        assert!(told.contains(&warning), "{warning}: {told:#?}");
    }
    assert_eq!((mode(""), mode("grove.db"), mode("token")), (0o700, 0o600, 0o600));
    assert!(!run_doctor(&grove, true).iter().any(|check| check.starts_with("warning privacy")));
    create_worktree(&grove, &["second"]);
}

#[test]
fn a_store_elsewhere_is_closed_and_its_folder_is_left_alone() {
    let grove = new_sandbox(TestRepo::new());
    let folder = grove.repo.temp_dir().join("elsewhere");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let url = format!("sqlite://{}", folder.join("my.db").display());
    let run = |arguments: &[&str]| grove.grove_command(arguments).env("DATABASE_URL", &url).output().unwrap();
    assert!(run(&["worktree", "create", "first"]).status.success());
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(folder.join("my.db"), fs::Permissions::from_mode(0o666)).unwrap();
    let told = String::from_utf8(run(&["doctor"]).stdout).unwrap();
    assert!(told.contains("my.db had the mode 666, so that others could read it"), "{told}");
    assert_eq!((mode(&folder), mode(&folder.join("my.db"))), (0o755, 0o600));
}
