//! The product's own program, run as a person would run it, in a home of its own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{NOBODY_UID, TestRepo, TestStore, bare_env, is_root};

/// A repository, a GROVE_HOME and a store, and the program that works on them.
pub struct Sandbox {
    pub repo: TestRepo,
    program: PathBuf,
    store: Option<TestStore>,
}

/// The exit code and the output of a run of the program.
#[derive(Debug)]
pub struct ProgramOutput {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl ProgramOutput {
    #[track_caller]
    pub fn assert_success(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn assert_exit_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\nstderr: {}", self.stdout, self.stderr))
    }

    /// Returns the code of a `--json` error and its message with the hint. Panics unless the message is one
    /// line and the hint says what to do.
    #[track_caller]
    pub fn json_error(&self) -> (String, String) {
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

    /// Uses this store instead of the SQLite file in GROVE_HOME.
    pub fn with_store(mut self, store: TestStore) -> Self {
        self.store = Some(store);
        self
    }

    pub fn grove_home(&self) -> PathBuf {
        self.repo.temp_dir().join("grove")
    }

    pub fn worktrees_dir(&self) -> PathBuf {
        self.grove_home().join("worktrees")
    }

    /// Runs `grove ARGS` in the canonical checkout.
    pub fn grove<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> ProgramOutput {
        run_command(&mut self.grove_command(args))
    }

    /// Returns the program, ready to run, for tests that want another directory or variable.
    pub fn grove_command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().envs(bare_env(&self.repo.home_dir())).env("GROVE_HOME", self.grove_home());
        if let Some(store) = &self.store {
            command.env("DATABASE_URL", &store.url);
        }
        command.current_dir(self.repo.path()).args(args);
        command
    }

    /// Returns the program, ready to run as an unprivileged user if the tests run as root. Afterwards that
    /// user owns the files that it must be able to write.
    pub fn unprivileged_command<I: IntoIterator<Item: AsRef<OsStr>>>(&self, args: I) -> Command {
        let mut command = self.grove_command(args);
        if is_root() {
            let program = self.repo.temp_dir().join("grove-program");
            if !program.exists() {
                fs::copy(&self.program, &program).expect("copy the program");
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("chmod");
                fs::create_dir_all(self.grove_home()).expect("GROVE_HOME");
                give_to_nobody(&self.repo.temp_dir());
            }
            let mut as_nobody = Command::new(&program);
            as_nobody.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            as_nobody.current_dir(self.repo.path()).args(command.get_args()).uid(NOBODY_UID).gid(NOBODY_UID);
            command = as_nobody;
        }
        command
    }
}

pub fn run_command(command: &mut Command) -> ProgramOutput {
    let output = command.output().expect("the program starts");
    ProgramOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl From<&mut Command> for ProgramOutput {
    fn from(command: &mut Command) -> ProgramOutput {
        run_command(command)
    }
}

fn give_to_nobody(path: &Path) {
    chown(path, Some(NOBODY_UID), Some(NOBODY_UID)).expect("chown");
    let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    if is_dir {
        for entry in fs::read_dir(path).expect("read a directory") {
            let entry = entry.expect("an entry");
            if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                give_to_nobody(&entry.path());
            }
        }
    }
}
