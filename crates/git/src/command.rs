//! The one builder that spawns git.
//!
//! Promises, for every call:
//! * the outcome depends on the repository and the arguments, not on the caller's environment:
//!   `GIT_*` is scrubbed, the locale is pinned, prompts, hooks, fsmonitor, pagers, external diff,
//!   automatic maintenance and recursion into submodules are off;
//! * a call that does not end in its time is ended together with everything it started, also
//!   what left its process group;
//! * at most two git processes per core run at once;
//! * a failure is typed and carries git's useful line, without credentials.
//!
//! Names that come from outside go behind `--end-of-options` or `--`; that is the caller's part.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::{Notify, Semaphore};

use crate::credentials::{Keyring, Shown};
use crate::{processes, redact};

/// Reads and small writes.
const QUICK: Duration = Duration::from_secs(60);
/// Checkouts, fetches, clones.
const LONG: Duration = Duration::from_secs(15 * 60);
/// From asking a process to end to ending it, and from git's end to giving up on its pipes.
const GRACE: Duration = Duration::from_secs(2);

/// Variables of the caller that only say how to trust a server and cannot make git run anything.
const KEPT: [&str; 2] = ["GIT_SSL_CAINFO", "GIT_SSL_CAPATH"];

const PINNED_ENV: [(&str, &str); 11] = [
    ("LC_ALL", "C"),
    ("LANGUAGE", ""),
    ("TERM", "dumb"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_COMMITTER_NAME", "Grovekeeper"),
    ("GIT_COMMITTER_EMAIL", "grove@localhost"),
    ("GIT_AUTHOR_NAME", "Grovekeeper"),
    ("GIT_AUTHOR_EMAIL", "grove@localhost"),
];

const PINNED_CONFIG: [&str; 13] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.askPass=",
    "core.alternateRefsCommand=true",
    "credential.interactive=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "protocol.ext.allow=never",
    "color.ui=false",
    "advice.detachedHead=false",
];

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git was not found; install it (Debian: `apt-get install git`) or put it on PATH")]
    NotInstalled,
    #[error("git could not be started: {0}")]
    Spawn(#[source] io::Error),
    #[error("`git {what}` did not finish within {} s and was ended", after.as_secs())]
    TimedOut { what: String, after: Duration },
    #[error("`git {what}` was interrupted")]
    Interrupted { what: String },
    #[error("`git {what}` failed: {line}")]
    Failed {
        what: String,
        /// `None` when a signal ended it.
        code: Option<i32>,
        /// The line of stderr that says why.
        line: String,
        stderr: String,
    },
    #[error("git's answer to `{what}` could not be read: {detail}")]
    Unreadable { what: String, detail: String },
    #[error("there is nothing to show to the remote: {why}")]
    NoCredential { why: String },
    /// Whoever works in the repository can write there.
    #[error("`{key}` in the repository's own config could lead a token astray, so none is shown")]
    Astray { key: String },
}

impl GitError {
    pub(crate) fn unreadable(what: &str, detail: impl Into<String>) -> Self {
        GitError::Unreadable { what: what.to_owned(), detail: detail.into() }
    }

    /// Git's own useful line where there is one.
    pub fn line(&self) -> String {
        match self {
            GitError::Failed { line, .. } => line.clone(),
            other => other.to_string(),
        }
    }
}

/// Where git runs.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// In a directory: git looks for the repository itself. For paths that a person gave.
    Dir(&'a Path),
    /// In a repository's common directory: refs, objects, config. No index, no files.
    Repository(&'a Path),
    /// In a worktree with all three directories pinned, so that nothing inside the tree (a
    /// rewritten `.git`) can send git elsewhere.
    Worktree { work_tree: &'a Path, git_dir: &'a Path, common_dir: &'a Path },
}

/// A git program and the right to run so many of it at once. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    permits: Arc<Semaphore>,
    interrupt: Arc<Interrupt>,
    pub(crate) keyring: Option<Arc<dyn Keyring>>,
}

/// The wish that what runs now ends.
#[derive(Debug, Default)]
struct Interrupt {
    running: AtomicUsize,
    /// Asked for while nothing ran: the next call has it.
    pending: AtomicBool,
    now: Notify,
}

impl Default for Git {
    fn default() -> Self {
        Self::with_program("git")
    }
}

impl Git {
    pub fn with_program(program: impl Into<PathBuf>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let permits = Arc::new(Semaphore::new(2 * cores));
        Self { program: program.into(), permits, interrupt: Arc::default(), keyring: None }
    }

    /// Ends the calls that are running now, each with everything it started, or else the next one.
    /// Calls made later run as usual: whoever was interrupted still has to clean up.
    pub fn interrupt(&self) {
        if self.interrupt.running.load(Ordering::SeqCst) == 0 {
            self.interrupt.pending.store(true, Ordering::SeqCst);
        }
        self.interrupt.now.notify_waiters();
    }

    /// Begins a call of `git <subcommand>`.
    pub fn command<'a>(&'a self, place: Place<'a>, subcommand: &'static str) -> Invocation<'a> {
        Invocation {
            git: self,
            place,
            subcommand,
            args: Vec::new(),
            config: Vec::new(),
            env: Vec::new(),
            stdin: None,
            limit: QUICK,
            session: false,
            shown: None,
        }
    }

    /// `git --version` as numbers.
    pub async fn version(&self) -> Result<(u32, u32), GitError> {
        let said = self.command(Place::Dir(Path::new("/")), "version").text().await?;
        let mut numbers = said.split_whitespace().nth(2).unwrap_or_default().split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
            _ => Err(GitError::unreadable("version", said)),
        }
    }
}

#[derive(Debug)]
pub struct Output {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// One call of git, being put together.
#[derive(Debug)]
pub struct Invocation<'a> {
    git: &'a Git,
    place: Place<'a>,
    subcommand: &'static str,
    args: Vec<OsString>,
    config: Vec<String>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    limit: Duration,
    session: bool,
    shown: Option<Shown>,
}

impl Invocation<'_> {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// One more `-c key=value`.
    pub fn config(mut self, setting: impl Into<String>) -> Self {
        self.config.push(setting.into());
        self
    }

    /// A variable for this call only, such as `GIT_INDEX_FILE`.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Work that grows with the repository.
    pub fn long(mut self) -> Self {
        self.limit = LONG;
        self
    }

    /// Talks to a remote: long, and in a session of its own so that ssh finds no terminal to ask.
    pub fn network(mut self) -> Self {
        self.session = true;
        self.long()
    }

    /// Shows this to the remote. For a call without settings of its own in the environment.
    pub(crate) fn showing(mut self, shown: Option<Shown>) -> Self {
        self.shown = shown;
        self
    }

    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs and insists on exit code 0.
    pub async fn run(self) -> Result<Output, GitError> {
        self.run_for(&[0]).await
    }

    /// Runs and insists on one of `codes`: for commands whose exit code is an answer.
    pub async fn run_for(self, codes: &[i32]) -> Result<Output, GitError> {
        let what = self.what();
        let (status, stdout, stderr) = self.spawn_and_wait().await?;
        match status.code() {
            Some(code) if codes.contains(&code) => Ok(Output { code, stdout, stderr }),
            code => Err(GitError::Failed { what, code, line: useful_line(&stderr, status), stderr }),
        }
    }

    /// Runs and gives the output as text without the newline at its end.
    pub async fn text(self) -> Result<String, GitError> {
        let what = self.what();
        let output = self.run().await?;
        let text = String::from_utf8(output.stdout).map_err(|e| GitError::unreadable(&what, e.to_string()))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// The subcommand and its first plain word: what an error names.
    fn what(&self) -> String {
        let verb = self.args.first().and_then(|arg| arg.to_str());
        match verb {
            Some(verb) if verb.bytes().all(|b| b.is_ascii_lowercase()) && self.subcommand == "worktree" => {
                format!("{} {verb}", self.subcommand)
            }
            _ => self.subcommand.to_owned(),
        }
    }

    fn build(&self, mark: &str) -> tokio::process::Command {
        let mut command = std::process::Command::new(&self.git.program);
        for (name, _) in std::env::vars_os() {
            let scrubbed = name.to_str().is_some_and(|name| name.starts_with("GIT_") && !KEPT.contains(&name));
            if scrubbed {
                command.env_remove(name);
            }
        }
        command.envs(PINNED_ENV).env("SSH_ASKPASS_REQUIRE", "never").env(processes::MARK, mark);
        match self.place {
            Place::Dir(dir) => {
                command.current_dir(dir);
            }
            Place::Repository(common_dir) => {
                command.current_dir(common_dir).env("GIT_DIR", common_dir);
            }
            Place::Worktree { work_tree, git_dir, common_dir } => {
                command
                    .current_dir(work_tree)
                    .env("GIT_DIR", git_dir)
                    .env("GIT_COMMON_DIR", common_dir)
                    .env("GIT_WORK_TREE", work_tree);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.envs(self.shown.iter().flat_map(Shown::variables));
        for setting in PINNED_CONFIG.iter().copied().chain(self.config.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        command.arg(self.subcommand).args(&self.args);
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if self.session {
            lead_a_session(&mut command);
        } else {
            command.process_group(0);
        }
        command.into()
    }

    async fn spawn_and_wait(self) -> Result<(ExitStatus, Vec<u8>, String), GitError> {
        let _permit = self.git.permits.acquire().await.expect("the limit is never closed");
        if self.git.interrupt.pending.swap(false, Ordering::SeqCst) {
            return Err(GitError::Interrupted { what: self.what() });
        }
        let _counted = Counted::new(&self.git.interrupt.running);
        let mark = processes::new_mark();
        let child = self.build(&mark).spawn().map_err(|error| match error.kind() {
            // The same kind means a missing directory, which is not git's fault.
            io::ErrorKind::NotFound if self.directory().is_dir() => GitError::NotInstalled,
            _ => GitError::Spawn(error),
        })?;
        tracing::trace!(subcommand = self.subcommand, args = redact::credentials(&format!("{:?}", self.args)), "git");
        let mut running = Running { group: child.id().and_then(|id| Pid::from_raw(id as i32)), child };

        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let stdin = self.stdin.clone();
        let (limit, interrupted) = (tokio::time::sleep(self.limit), self.git.interrupt.now.notified());
        let status = tokio::select! {
            status = running.finish(stdin, &mut stdout, &mut stderr) => Ok(status.map_err(GitError::Spawn)?),
            () = limit => Err(GitError::TimedOut { what: self.what(), after: self.limit }),
            () = interrupted => Err(GitError::Interrupted { what: self.what() }),
        };
        let status = match status {
            Ok(status) => status,
            Err(ended) => {
                running.end_everything(&mark).await;
                return Err(ended);
            }
        };
        running.group = None;
        let stderr = redact::credentials(&String::from_utf8_lossy(&stderr));
        Ok((status, stdout, stderr))
    }

    fn directory(&self) -> &Path {
        match self.place {
            Place::Dir(dir) | Place::Repository(dir) | Place::Worktree { work_tree: dir, .. } => dir,
        }
    }
}

/// Counts a call while it runs.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A new session has no controlling terminal: ssh and credential helpers cannot ask there.
#[expect(unsafe_code, reason = "only `setsid`, which is async-signal-safe, runs between fork and exec")]
fn lead_a_session(command: &mut std::process::Command) {
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

/// A started git. Dropped before its end (the caller was cancelled), it is asked to stop: git
/// then takes its lock files away.
struct Running {
    group: Option<Pid>,
    child: Child,
}

impl Running {
    async fn finish(
        &mut self,
        stdin: Option<Vec<u8>>,
        stdout: &mut Vec<u8>,
        stderr: &mut Vec<u8>,
    ) -> io::Result<ExitStatus> {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let input = self.child.stdin.take();
        let write = async {
            if let (Some(mut pipe), Some(bytes)) = (input, stdin) {
                // A git that needs no more input closes the pipe; its exit code tells the rest.
                let _ = pipe.write_all(&bytes).await;
            }
        };
        let pipes = async { tokio::join!(write, drain(out, stdout), drain(err, stderr)) };
        tokio::pin!(pipes);
        let status = tokio::select! {
            status = self.child.wait() => status?,
            _ = &mut pipes => return self.child.wait().await,
        };
        // Git has ended. A helper that it left behind (ssh's ControlPersist) may keep the pipes
        // open for ever; what git itself wrote is in them already.
        let _ = tokio::time::timeout(GRACE, pipes).await;
        Ok(status)
    }

    async fn end_everything(&mut self, mark: &str) {
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::TERM);
            let _ = tokio::time::timeout(GRACE, self.child.wait()).await;
            let _ = kill_process_group(group, Signal::KILL);
        }
        // What a signal to the group cannot reach: children that began a session of their own.
        processes::end_marked(mark, &[Signal::KILL]).await;
        let _ = self.child.wait().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

async fn drain(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(into).await;
    }
}

/// The line that says why: git's first `error:` or `fatal:`, since what follows is usually a
/// consequence.
fn useful_line(stderr: &str, status: ExitStatus) -> String {
    let lines = || stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let told =
        lines().find_map(|line| line.strip_prefix("fatal:").or_else(|| line.strip_prefix("error:"))).map(str::trim);
    let line = told.or_else(|| lines().rfind(|line| !line.starts_with("hint:")));
    match line {
        Some(line) => line.chars().take(400).collect(),
        None => format!("it ended with {status} and said nothing"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_useful_line_is_gits_reason() {
        let status = ExitStatus::from_raw(256);
        for (stderr, line) in [
            ("Preparing worktree\nfatal: 'x' is already checked out\nhint: y\n", "'x' is already checked out"),
            (
                "error: unable to create file a: No space left on device\nerror: b\n",
                "unable to create file a: No space left on device",
            ),
            ("ssh: connect to host h port 22: refused\n", "ssh: connect to host h port 22: refused"),
            ("", "it ended with exit status: 1 and said nothing"),
        ] {
            assert_eq!(useful_line(stderr, status), line);
        }
    }
}
