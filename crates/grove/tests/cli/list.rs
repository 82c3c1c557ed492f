use std::fs;
use std::process::Command;

use grove_testkit::{ProgramOutput, TestRepo, TestTerminal, on_sqlite};

use crate::{create_worktree, new_sandbox, sandbox_on, worktree_path};

on_sqlite! {
    fn the_list_shows_what_git_and_the_disk_say(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        assert_eq!(grove.grove(["worktree", "list", "--json"]).assert_success().json(), serde_json::json!([]));
        let fresh = create_worktree(&grove, &["fresh"]);
        let active = worktree_path(&create_worktree(&grove, &["active"]));
        grove.repo.git_in(&active, &["commit", "-q", "--allow-empty", "-m", "work"]);
        let dirty = worktree_path(&create_worktree(&grove, &["dirty"]));
        fs::write(dirty.join("README.md"), "changed").unwrap();
        let untracked = worktree_path(&create_worktree(&grove, &["untracked"]));
        fs::write(untracked.join("a"), "").unwrap();
        fs::write(untracked.join("b"), "").unwrap();
        let missing = worktree_path(&create_worktree(&grove, &["missing"]));
        fs::remove_dir_all(&missing).unwrap();
        let rewritten = worktree_path(&create_worktree(&grove, &["rewritten"]));
        fs::write(rewritten.join(".git"), "gitdir: /nonexistent\n").unwrap();
        let broken = worktree_path(&create_worktree(&grove, &["broken"]));
        let admin = grove.repo.git_in(&broken, &["rev-parse", "--absolute-git-dir"]);
        fs::remove_file(format!("{admin}/HEAD")).unwrap();
        let list = grove.grove(["worktree", "list", "--json"]).assert_success().json();
        let seen: Vec<_> = list.as_array().unwrap().iter().map(|e| {
            (e["branch"].as_str().unwrap(), e["state"].as_str().unwrap(), e["dirty"].as_bool().unwrap(), e["untracked"].as_u64().unwrap(), e["ahead"].as_u64())
        }).collect();
        assert_eq!(seen, [
            ("fresh", "fresh", false, 0, Some(0)),
            ("active", "active", false, 0, Some(1)),
            ("dirty", "dirty", true, 0, Some(0)),
            ("untracked", "dirty", true, 2, Some(0)),
            ("missing", "missing", false, 0, Some(0)),
            ("rewritten", "broken", false, 0, Some(0)),
            // Without a HEAD it is not known what its commits are.
            ("broken", "broken", false, 0, None),
        ]);
        assert!(list[6]["error"].as_str().is_some());
        // Every key that scripts rely on.
        let keys = ["id","codebase","workflow_type","workflow_id","branch","path","provider","status","state","merged_by","ahead","behind","dirty","untracked","adopted","base","base_sha","base_at","head_sha","title","conversations","created_by_platform","created_at","last_activity_at","size_bytes","metadata"];
        for key in keys {
            assert!(fresh.get(key).is_some(), "{key}: {fresh}");
        }
        let text = grove.grove(["worktree", "list"]).assert_success().stdout;
        assert!(text.contains("SIZE") && text.contains("KiB"), "{text}");
        assert_eq!(text.lines().count(), 8, "{text}");
        assert!(!text.contains('\u{1b}'), "no colours where there is no terminal");
    }

    fn worktrees_are_found_by_branch_work_and_id(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let made = create_worktree(&grove, &["fix/login", "--kind", "issue", "--id", "42"]);
        create_worktree(&grove, &["other"]);
        let id = made["id"].as_str().unwrap();
        for name in ["fix/login", "issue-42", id] {
            assert_eq!(grove.grove(["worktree", "show", name, "--json"]).assert_success().json()["id"], made["id"], "{name}");
            assert_eq!(grove.grove(["worktree", "path", name]).assert_success().stdout, format!("{}\n", worktree_path(&made).display()));
        }
        let (code, _) = grove.grove(["worktree", "show", "nothing", "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, "not_found");
        let (code, _) = grove.grove(["worktree", "show", &id[..8], "--json"]).assert_exit_code(1).json_error();
        assert_eq!(code, "ambiguous", "two ids made in one second share their start");
        let text = grove.grove(["worktree", "show", "issue-42"]).assert_success().stdout;
        assert!(text.contains("issue 42") && text.contains("fresh") && text.contains("KiB"), "{text}");
    }
}

on_sqlite! {
    fn the_age_of_each_base_is_told_and_one_that_is_gone_spoils_no_other(store: TestStore) {
        let grove = sandbox_on(store, TestRepo::new());
        let commit = |file: &str, date: &str| {
            grove.repo.write_file(file, file);
            grove.repo.git(&["add", "."]);
            let mut command = grove.repo.git_command(grove.repo.path(), &["commit", "-q", "-m", file]);
            assert!(command.env("GIT_COMMITTER_DATE", date).status().unwrap().success());
        };
        commit("old", "2020-02-02T02:02:02Z");
        create_worktree(&grove, &["early"]);
        commit("lost", "2021-02-02T02:02:02Z");
        let lost = create_worktree(&grove, &["lost"]);
        grove.repo.git(&["reset", "-q", "--hard", "HEAD~"]);
        commit("new", "2022-02-02T02:02:02Z");
        create_worktree(&grove, &["late"]);
        let ages = |all: &[&str]| -> Vec<Option<String>> {
            let list = grove.grove(["worktree", "list", "--json"].iter().chain(all)).assert_success().json();
            list.as_array().unwrap().iter().map(|e| e["base_at"].as_str().map(str::to_owned)).collect()
        };
        let [early, middle, late] =
            ["2020", "2021", "2022"].map(|year| Some(format!("{year}-02-02T02:02:02.000000Z")));
        assert_eq!(ages(&[]), [early.clone(), middle, late.clone()]);
        let text = grove.grove(["worktree", "list"]).assert_success().stdout;
        assert!(text.contains("main -1, of 2020-02-02T02:02Z"), "{text}");
        // The commit is dropped for good, together with its environment.
        grove.grove(["worktree", "remove", "lost"]).assert_success();
        grove.grove(["worktree", "trash", "drop", "lost"]).assert_success();
        grove.repo.git(&["update-ref", "-d", "refs/heads/lost"]);
        grove.repo.git(&["reflog", "expire", "--expire=now", "--all"]);
        grove.repo.git(&["gc", "--quiet", "--prune=now"]);
        let missing = grove.repo.git_command(grove.repo.path(), &["cat-file", "-e", lost["base_sha"].as_str().unwrap()]);
        assert!(!{missing}.status().unwrap().success(), "the commit is gone");
        assert_eq!(ages(&["--all"]), [early, None, late]);
    }
}

#[test]
fn what_is_mounted_in_a_worktree_is_not_part_of_its_size() {
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-e", "-c", script, "sh"]);
        command
    };
    if !inside("mount -t tmpfs none /mnt").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let grove = new_sandbox(TestRepo::new());
    let mounted = worktree_path(&create_worktree(&grove, &["x"])).join("mounted");
    fs::create_dir(&mounted).unwrap();
    let show = grove.grove_command(["worktree", "show", "x", "--json"]);
    let mut command =
        inside("mount -t tmpfs none \"$1\"; head -c 9000000 /dev/zero > \"$1/large\"; shift; exec \"$@\"");
    command.arg(&mounted).arg(show.get_program()).args(show.get_args()).current_dir(grove.repo.path()).env_clear();
    command.envs(show.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let size = ProgramOutput::from(&mut command).assert_success().json()["size_bytes"].as_i64().unwrap();
    assert!((1..1_000_000).contains(&size), "{size}");
}

#[test]
fn exec_runs_there_and_is_the_command() {
    let grove = new_sandbox(TestRepo::new());
    let made = worktree_path(&create_worktree(&grove, &["x"]));
    let ran = grove.grove(["worktree", "exec", "x", "--", "sh", "-c", "pwd; echo $GROVE_BRANCH; exit 7"]);
    assert_eq!((ran.code, ran.stdout), (7, format!("{}\nx\n", made.display())));
    let (code, _) =
        grove.grove(["worktree", "exec", "x", "--json", "--", "/nonexistent/program"]).assert_exit_code(1).json_error();
    assert_eq!(code, "exec_failed");
    fs::remove_file(made.join(".git")).unwrap();
    let ran = grove.grove(["worktree", "exec", "x", "--", "touch", "here"]).assert_exit_code(1);
    assert!(ran.stderr.contains("not a worktree") && !made.join("here").exists(), "{}", ran.stderr);
    fs::remove_dir_all(&made).unwrap();
    let ran = grove.grove(["worktree", "exec", "x", "--", "touch", "here"]).assert_exit_code(1);
    assert!(ran.stderr.contains("nothing was run"), "{}", ran.stderr);
    assert!(!grove.repo.path().join("here").exists(), "never in the main checkout");
}

#[test]
fn several_codebases_are_listed_together_from_outside_and_apart_from_inside() {
    let grove = new_sandbox(TestRepo::new());
    create_worktree(&grove, &["one"]);
    grove.repo.git(&["clone", "-q", ".", "../second"]);
    let second = grove.repo.temp_dir().join("second");
    ProgramOutput::from(grove.grove_command(["worktree", "create", "two", "--from", "main"]).current_dir(&second))
        .assert_success();
    let branches = |ran: ProgramOutput| -> Vec<String> {
        ran.assert_success()
            .json()
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["branch"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(branches(grove.grove(["worktree", "list", "--json"])), ["one"]);
    assert_eq!(
        branches(ProgramOutput::from(grove.grove_command(["worktree", "list", "--json"]).current_dir(&second))),
        ["two"]
    );
    assert_eq!(
        branches(ProgramOutput::from(grove.grove_command(["worktree", "list", "--json"]).current_dir("/"))),
        ["one", "two"]
    );
    assert_eq!(branches(grove.grove(["worktree", "list", "--json", "--codebase", "second"])), ["two"]);
    // From inside a worktree, its codebase is meant.
    let inside = worktree_path(&create_worktree(&grove, &["three"]));
    assert_eq!(
        branches(ProgramOutput::from(grove.grove_command(["worktree", "list", "--json"]).current_dir(inside))),
        ["one", "three"]
    );
}

#[test]
fn each_worktree_has_one_line_on_any_terminal() {
    let grove = new_sandbox(TestRepo::new());
    let here = worktree_path(&create_worktree(&grove, &["here"]));
    let changed = worktree_path(&create_worktree(&grove, &["a-branch/with-quite-a-long-name-that-does-not-fit"]));
    fs::write(changed.join("README.md"), "changed").unwrap();
    fs::write(changed.join("new"), "new").unwrap();
    create_worktree(&grove, &["--kind", "issue", "--id", "42"]);
    for columns in [60, 80, 120, 200] {
        let mut command = grove.grove_command(["worktree", "list"]);
        command.current_dir(&here);
        let text = TestTerminal::start_with_columns(&command, columns).read_to_end();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{columns}: {text}");
        assert!(lines.iter().all(|line| line.chars().count() <= usize::from(columns)), "{columns}: {text}");
        assert!(lines[1].starts_with("*  fresh") && lines[2].starts_with("   dirty"), "{columns}: {text}");
        assert!(text.contains("1 modified, 1 untr"), "{columns}: {text}");
        assert_eq!(text.contains("WORK"), columns >= 120, "{columns}: {text}");
    }
    let mut full = grove.grove_command(["worktree", "list", "--full"]);
    full.current_dir(&here);
    let text = TestTerminal::start_with_columns(&full, 60).read_to_end();
    assert!(text.contains("PATH") && text.contains("1 modified, 1 untracked"), "{text}");
}

#[test]
fn kinds_of_changes_are_told_apart() {
    let grove = new_sandbox(TestRepo::new());
    let create = |name: &str| worktree_path(&create_worktree(&grove, &[name]));
    let [mixed, conflict, detached, bisected] = ["mixed", "conflict", "detached", "bisected"].map(create);
    let git = |path: &std::path::Path, args: &[&str]| grove.repo.git_in(path, args);
    fs::write(mixed.join("README.md"), "changed").unwrap();
    fs::write(mixed.join("staged"), "").unwrap();
    git(&mixed, &["add", "staged"]);
    fs::write(mixed.join("new.rs"), "").unwrap();
    grove.repo.write_file("README.md", "of the base");
    grove.repo.git(&["commit", "-qam", "base"]);
    fs::write(conflict.join("README.md"), "of the branch").unwrap();
    git(&conflict, &["commit", "-qam", "branch"]);
    assert!(!grove.repo.git_command(&conflict, &["merge", "-q", "main"]).status().unwrap().success());
    git(&detached, &["checkout", "-q", "--detach"]);
    git(&bisected, &["bisect", "start"]);
    let list = grove.grove(["worktree", "list", "--json"]).assert_success().json();
    let facts = |index: usize| {
        let view = &list[index];
        let counts = ["changed", "staged", "untracked", "conflicted"].map(|key| view[key].as_u64().unwrap());
        let operation = view["operation"].as_str().unwrap_or("-").to_owned();
        (view["state"].as_str().unwrap().to_owned(), counts, operation, view["detached"].as_bool().unwrap())
    };
    assert_eq!(facts(0), ("dirty".into(), [1, 1, 1, 0], "-".into(), false));
    assert_eq!(facts(1), ("dirty".into(), [0, 0, 0, 1], "merge".into(), false));
    assert_eq!(facts(2), ("active".into(), [0; 4], "-".into(), true));
    assert_eq!(facts(3), ("fresh".into(), [0; 4], "bisect".into(), false));
    let text = grove.grove(["worktree", "list"]).assert_success().stdout;
    for words in ["1 staged, 1 modified, 1 untracked", "1 conflict, merge in progress", "detached at "] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
