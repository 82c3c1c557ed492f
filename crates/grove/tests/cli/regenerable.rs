//! Ignored folders that tools make again: which ones they are, how long they stay, and who is told.

use std::fs;
use std::path::{Path, PathBuf};

use grove_testkit::{DirectorySnapshot, ProgramOutput, Sandbox, TestRepo};
use serde_json::{Value, json};

use crate::remove::{remove_worktree, undo_removal};
use crate::remove_attacked::swept_after;
use crate::{create_worktree, new_sandbox, worktree_path};

pub(crate) const CACHE_TAG_CONTENT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# made by a tool\n";

/// Files of folders that their tool makes again, with what proves it.
const TOOL_MADE_FILES: [(&str, &str); 12] = [
    (".gradle/8.5/checksums", "x"),
    (".mypy_cache/CACHEDIR.TAG", CACHE_TAG_CONTENT),
    (".pytest_cache/CACHEDIR.TAG", CACHE_TAG_CONTENT),
    (".tox/py312/bin/python", "x"),
    (".venv/pyvenv.cfg", "home = /usr/bin\n"),
    (".venv/lib/site.py", "x"),
    ("node_modules/left-pad/index.js", "x"),
    ("src/__pycache__/main.cpython-312.pyc", "x"),
    ("target/CACHEDIR.TAG", CACHE_TAG_CONTENT),
    ("target/debug/program", "0123456789"),
    ("tools/target/CACHEDIR.TAG", CACHE_TAG_CONTENT),
    ("tools/target/debug/deep/er/program", "x"),
];
const REGENERABLE_FOLDERS: [&str; 9] = [
    ".gradle",
    ".mypy_cache",
    ".pytest_cache",
    ".tox",
    ".venv",
    "node_modules",
    "src/__pycache__",
    "target",
    "tools/target",
];
/// Ignored too, and nothing proves that a tool made them.
const UNPROVEN_FILES: [(&str, &str); 9] = [
    ("dist/precious.zip", "made by hand"),
    ("build/report.pdf", "made by hand"),
    ("mine/target/notes", "no CACHEDIR.TAG"),
    ("other/target/CACHEDIR.TAG", "not the signature"),
    ("mine/node_modules/notes", "no package.json beside it"),
    ("mine/.venv/notes", "no pyvenv.cfg"),
    ("mine/__pycache__/x.pyc", "x"),
    ("mine/__pycache__/notes", "not only *.pyc"),
    ("mine/.gradle/notes", "no build.gradle beside it"),
];

/// A repository with the files that tools leave their folders beside, and all such folders ignored.
fn with_tools() -> Sandbox {
    let repo = TestRepo::new();
    for file in ["package.json", "tox.ini", "build.gradle.kts"] {
        repo.write_file(file, "{}\n");
    }
    let ignored = "target/\nnode_modules/\n.venv\n__pycache__/\n.tox/\n.pytest_cache/\n.mypy_cache/\n.gradle/\n";
    repo.write_file(".gitignore", &format!("{ignored}dist/\nbuild/\nout/\ncache/\n"));
    repo.commit_all("tools");
    new_sandbox(repo)
}

fn write_files(dir: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let file = dir.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

/// The paths in a list of folders.
pub(crate) fn folders_of(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|folder| folder["path"].as_str().unwrap()).collect()
}

fn trash_of(grove: &Sandbox) -> (PathBuf, Value) {
    let shown = grove.grove(["worktree", "trash", "show", "x", "--json"]).assert_success().json();
    (PathBuf::from(shown["files"].as_str().unwrap()), shown)
}

#[test]
fn folders_that_tools_make_again_stay_for_a_day_and_are_named() {
    let grove = with_tools();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    write_files(&dir, &TOOL_MADE_FILES);
    write_files(&dir, &UNPROVEN_FILES);
    let before = DirectorySnapshot::from_directory(&dir);

    let plan = grove.grove(["worktree", "remove", "x", "--dry-run", "--json"]).assert_success().json();
    assert_eq!(folders_of(&plan["regenerable"]), REGENERABLE_FOLDERS);
    for folder in plan["regenerable"].as_array().unwrap() {
        assert!(folder["size_bytes"].as_u64().unwrap() >= 4096, "{folder}");
    }
    let said = grove.grove(["worktree", "remove", "x", "--dry-run"]).assert_success().stdout;
    for folder in REGENERABLE_FOLDERS {
        assert!(said.contains(&format!("`{folder}/` (")), "{folder}: {said}");
    }
    assert!(said.contains("kept for 24h only") && !said.contains("dist"), "{said}");

    // Everything is kept on the first day, even after a sweep.
    let answer = remove_worktree(&grove, &["x"]);
    assert_eq!(folders_of(&answer["regenerable"]), REGENERABLE_FOLDERS);
    let until = answer["regenerable"][0]["kept_until"].as_str().unwrap().to_owned();
    assert!(until.as_str() < answer["undo_until"].as_str().unwrap(), "{answer}");
    assert_eq!(grove.grove(["worktree", "trash", "sweep", "--json"]).assert_success().json()["shed"], 0);
    let (_, shown) = trash_of(&grove);
    assert_eq!(folders_of(&shown["regenerable"]), REGENERABLE_FOLDERS);
    assert!(shown["regenerable"].as_array().unwrap().iter().all(|folder| folder["gone"] == false), "{shown}");
    assert_eq!(shown["regenerable"][0]["kept_until"], until);
    let said = grove.grove(["worktree", "trash", "show", "x"]).assert_success().stdout;
    assert!(
        said.contains("target/") && said.contains("KiB") && said.contains(&until[..16].replace('T', " ")),
        "{said}"
    );
    assert_eq!(undo_removal(&grove, "x")["regenerable_gone"], json!([]));
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());

    // After it they go, but for one that something was written into.
    let said = grove.grove(["worktree", "remove", "x"]).assert_success().stdout;
    assert!(said.contains("`target/` (") && said.contains("can be made again"), "{said}");
    let (files, _) = trash_of(&grove);
    fs::write(files.join("node_modules/left-pad/new.js"), "written by a process that still stands there").unwrap();
    assert_eq!(swept_after(&grove, 2)["shed"], 1);
    let rest: Vec<&str> = REGENERABLE_FOLDERS.into_iter().filter(|folder| *folder != "node_modules").collect();
    let (_, shown) = trash_of(&grove);
    let gone = shown["regenerable"].as_array().unwrap().iter().filter(|folder| folder["gone"] == true);
    assert_eq!(gone.map(|folder| folder["path"].as_str().unwrap()).collect::<Vec<_>>(), rest);
    let said = grove.grove(["worktree", "trash", "show", "x"]).assert_success().stdout;
    assert!(said.lines().any(|line| line.contains("target/") && line.contains("gone")), "{said}");
    let said = grove.grove(["worktree", "undo", "x"]).assert_success().stdout;
    assert!(said.contains("`target/` (") && !said.contains("node_modules"), "{said}");
    for (name, _) in UNPROVEN_FILES.iter().chain([&("node_modules/left-pad/new.js", "")]) {
        assert!(dir.join(name).exists(), "{name}");
    }
    for folder in rest {
        assert!(!dir.join(folder).exists(), "{folder}");
    }
    // Nothing is left of them in the trash.
    assert!(!files.parent().unwrap().exists());
}

#[test]
fn what_git_tracks_or_does_not_ignore_is_not_to_be_made_again() {
    let grove = with_tools();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    write_files(
        &dir,
        &[
            ("target/CACHEDIR.TAG", CACHE_TAG_CONTENT),
            ("target/tracked", "x"),
            ("lib/target/CACHEDIR.TAG", CACHE_TAG_CONTENT),
        ],
    );
    grove.repo.git_in(&dir, &["add", "-f", "target/tracked"]);
    fs::write(dir.join("lib/.gitignore"), "!target/\n").unwrap();
    // A repository inside, and a link to a folder outside of the worktree.
    grove.repo.git_in(&dir, &["init", "-q", "node_modules/own"]);
    let outside = grove.repo.temp_dir().join("venv");
    write_files(&outside, &[("pyvenv.cfg", "home = /usr/bin\n"), ("precious", "x")]);
    std::os::unix::fs::symlink(&outside, dir.join(".venv")).unwrap();
    let before = DirectorySnapshot::from_directory(&dir);
    assert_eq!(remove_worktree(&grove, &["x", "--force"])["regenerable"], json!([]));
    assert_eq!(swept_after(&grove, 2)["shed"], 0);
    undo_removal(&grove, "x");
    assert_eq!(before.describe_differences(&DirectorySnapshot::from_directory(&dir)), Vec::<String>::new());
    assert!(outside.join("precious").exists());
}

#[test]
fn a_name_counts_if_the_person_chose_it_and_needs_a_marker_if_the_repository_did() {
    let grove = with_tools();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    write_files(&dir, &[("out/program", "x"), ("cache/CACHEDIR.TAG", CACHE_TAG_CONTENT), ("mine/target/notes", "x")]);
    write_files(&dir, &[("target/CACHEDIR.TAG", CACHE_TAG_CONTENT)]);
    let planned = |variable: Option<&str>| {
        let mut command = grove.grove_command(["worktree", "remove", "x", "--dry-run", "--json"]);
        if let Some(names) = variable {
            command.env("GROVE_CLEANUP_REGENERABLE", names);
        }
        let plan = ProgramOutput::from(&mut command).assert_success().json();
        folders_of(&plan["regenerable"]).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(planned(None), ["target"], "by default");
    // A known name needs its marker even if the user chose it.
    assert_eq!(planned(Some("out/, target/")), ["out", "target"]);
    assert_eq!(planned(Some(",")), Vec::<String>::new(), "an empty list");
    grove.repo.write_file(".grove/config.toml", "[cleanup]\nregenerable = [\"out/\", \"cache/\", \"target/\"]\n");
    grove.repo.commit_all("settings");
    assert_eq!(planned(None), ["cache", "target"], "the repository cannot have `out/` deleted");
    fs::write(grove.grove_home().join("config.toml"), "[cleanup]\nregenerable = [\"out/\"]\n").unwrap();
    assert_eq!(planned(None), ["cache", "target"], "the repository's list is in force, and needs its markers");
    grove.repo.git(&["rm", "-q", ".grove/config.toml"]);
    grove.repo.git(&["commit", "-q", "-m", "no settings"]);
    assert_eq!(planned(None), ["out"]);
}

#[test]
fn how_long_they_stay_is_a_setting() {
    let grove = with_tools();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    write_files(&dir, &[("target/CACHEDIR.TAG", CACHE_TAG_CONTENT)]);
    fs::write(grove.grove_home().join("config.toml"), "[cleanup]\nregenerable_keep = \"72h\"\n").unwrap();
    remove_worktree(&grove, &["x"]);
    assert_eq!(swept_after(&grove, 2)["shed"], 0);
    assert_eq!(swept_after(&grove, 4)["shed"], 1);
    undo_removal(&grove, "x");
    // With no time at all the removal itself lets them go, in the background.
    write_files(&dir, &[("target/CACHEDIR.TAG", CACHE_TAG_CONTENT)]);
    let mut command = grove.grove_command(["worktree", "remove", "x", "--json"]);
    ProgramOutput::from(command.env("GROVE_CLEANUP_REGENERABLE_KEEP", "0")).assert_success();
    let (files, _) = trash_of(&grove);
    let began = std::time::Instant::now();
    while files.join("target").exists() || files.with_extension("shed").exists() {
        assert!(began.elapsed().as_secs() < 20, "swept in the background");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(folders_of(&undo_removal(&grove, "x")["regenerable_gone"]), ["target"]);
}

#[test]
fn a_hibernated_worktree_keeps_them_for_a_day_too() {
    let grove = with_tools();
    let dir = worktree_path(&create_worktree(&grove, &["x"]));
    write_files(&dir, &[("node_modules/a/index.js", "x"), ("dist/precious.zip", "x")]);
    let said = grove.grove(["worktree", "hibernate", "x"]).assert_success().stdout;
    assert!(said.contains("`node_modules/` ("), "{said}");
    // The marker is a tracked file, which waits in git alone.
    assert_eq!(grove.grove(["worktree", "trash", "sweep", "--json"]).assert_success().json()["shed"], 0);
    assert_eq!(swept_after(&grove, 2)["shed"], 1);
    let said = grove.grove(["worktree", "wake", "x"]).assert_success().stdout;
    assert!(said.contains("`node_modules/` (") && said.contains("can be made again"), "{said}");
    assert!(!dir.join("node_modules").exists() && dir.join("dist/precious.zip").exists());
    assert_eq!(grove.repo.git_in(&dir, &["status", "--porcelain"]), "");
}
