//! The product's own program, run as a person would run it, in a home of its own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{NOBODY, TestRepo, TestStore, bare_env, is_root};

/// A repository, a GROVE_HOME and a store, and the program that works on them.
pub struct Sandbox {
    pub repo: TestRepo,
    program: PathBuf,
    store: Option<TestStore>,
}

/// What a run of the program left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\nstderr: {}", self.stdout, self.stderr))
    }

    /// The message of a `--json` error, checked to be one sentence that says what to do.
    #[track_caller]
    pub fn error(&self) -> (String, String) {
        let json = self.json();
        let field = |name: &str| json["error"][name].as_str().unwrap_or_else(|| panic!("no {name}: {json}")).to_owned();
        let (message, hint) = (field("message"), field("hint"));
        assert!(!message.contains('\n'), "one sentence: {message}");
        assert!(!hint.is_empty(), "it says what to do: {json}");
        (field("code"), format!("{message} {hint}"))
    }
}

impl Sandbox {
    pub fn new(program: &str, repo: TestRepo) -> Self {
        Self { repo, program: program.into(), store: None }
    }

    /// On this store instead of the SQLite file in GROVE_HOME.
    pub fn on(mut self, store: TestStore) -> Self {
        self.store = Some(store);
        self
    }

    pub fn grove_home(&self) -> PathBuf {
        self.repo.dir().join("grove")
    }

    pub fn worktrees(&self) -> PathBuf {
        self.grove_home().join("worktrees")
    }

    /// `grove ARGS` in the canonical checkout.
    pub fn grove<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Ran {
        ran(&mut self.command(args))
    }

    /// The program, ready to run, for tests that want another directory or variable.
    pub fn command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(bare_env(&self.repo.home())).env("GROVE_HOME", self.grove_home());
        if let Some(store) = &self.store {
            command.env("DATABASE_URL", &store.url);
        }
        command.current_dir(self.repo.path()).args(args);
        command
    }

    /// The same as an unprivileged user where the tests run as root. What that user must be able
    /// to write belongs to it afterwards.
    pub fn unprivileged<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Command {
        let mut command = self.command(args);
        if is_root() {
            let program = self.repo.dir().join("grove-program");
            if !program.exists() {
                fs::copy(&self.program, &program).expect("copy the program");
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
                fs::create_dir_all(self.grove_home()).expect("GROVE_HOME");
                give(&self.repo.dir());
            }
            let mut as_nobody = Command::new(&program);
            as_nobody.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            as_nobody.current_dir(self.repo.path()).args(command.get_args()).uid(NOBODY).gid(NOBODY);
            command = as_nobody;
        }
        command
    }
}

pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the program starts");
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl From<&mut Command> for Ran {
    fn from(command: &mut Command) -> Ran {
        ran(command)
    }
}

fn give(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).expect("chown");
    let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    if is_dir {
        for entry in fs::read_dir(path).expect("read a directory") {
            let entry = entry.expect("an entry");
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                give(&entry.path());
            }
        }
    }
}
