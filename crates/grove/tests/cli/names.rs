//! Names from outside: refused with the reason before git starts, or harmless.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use grove_testkit::{ProgramOutput, TestRepo};

use crate::{create_worktree, new_sandbox};

#[test]
fn bad_names_are_refused_before_git_starts() {
    let grove = new_sandbox(TestRepo::new());
    // A git that tells when it was started.
    let bin = grove.repo.temp_dir().join("bin");
    fs::create_dir(&bin).unwrap();
    let marker = grove.repo.temp_dir().join("git-ran");
    fs::write(bin.join("git"), format!("#!/bin/sh\ntouch {}\nexit 1\n", marker.display())).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let long = "x".repeat(300);
    let names = [
        "-evil",
        "--upload-pack=x",
        "..",
        "a..b",
        "x.lock",
        "a/x.lock/b",
        "@",
        "@{u}",
        "a\u{1}b",
        "a\nb",
        "",
        &long,
        "a b",
        "/a",
        "a~1",
        "a^",
        "a:b",
        "HEAD",
    ];
    for name in names {
        for args in [
            &["worktree", "create", "--json", name][..],
            &["worktree", "create", "--json", name, "--kind", "issue", "--id", "1"],
        ] {
            let mut command = grove.grove_command(args);
            let ran = ProgramOutput::from(command.env("PATH", &bin));
            assert_eq!(ran.code, 2, "{name:?}: {ran:?}");
            let (code, message) = ran.json_error();
            assert_eq!(code, "bad_branch_name", "{name:?}: {message}");
        }
        assert!(!marker.exists(), "git was started for {name:?}");
        assert!(!grove.grove_home().exists(), "something was made for {name:?}");
    }
    for id in ["", "x", "-1", "0", "1; rm -rf /"] {
        let mut command =
            grove.grove_command(["worktree", "create", "--json", "--kind", "issue", &format!("--id={id}")]);
        let ran = ProgramOutput::from(command.env("PATH", &bin)).assert_exit_code(2);
        assert_eq!(ran.json_error().0, "bad_work", "{id:?}");
    }
    assert!(!marker.exists());
}

#[test]
fn texts_of_people_are_harmless() {
    let grove = new_sandbox(TestRepo::new());
    let proof = grove.repo.temp_dir().join("pwned");
    let texts = [
        format!("$(touch {})", proof.display()),
        format!("`touch {}`; touch {}", proof.display(), proof.display()),
        "\"quotes\" 'and' \\backslashes\\".to_owned(),
        "größe 日本語 🦀".to_owned(),
        "../../../etc/passwd".to_owned(),
        "--upload-pack=x".to_owned(),
        "line one\nline two\ttab".to_owned(),
        "🦀🦀🦀".to_owned(),
    ];
    for text in &texts {
        for kind in ["task", "thread"] {
            let made = create_worktree(&grove, &["--kind", kind, &format!("--id={text}")]);
            assert_eq!(made["workflow_id"].as_str(), Some(text.as_str()));
            let path = crate::worktree_path(&made);
            assert!(path.starts_with(grove.worktrees_dir()) && path.components().all(|part| part.as_os_str() != ".."));
        }
    }
    assert!(!proof.exists());
    // As branches, where git takes them.
    for name in ["$(id)", "it's", "größe/日本", "a;b", "a&b", "😀"] {
        assert_eq!(create_worktree(&grove, &[name])["branch"].as_str(), Some(name));
    }
}
