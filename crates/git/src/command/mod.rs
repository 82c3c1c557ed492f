//! The one builder that spawns git.
//!
//! Every call has these guarantees:
//! * git's environment is built from an empty one (`environment.rs`): no secret of the server reaches
//!   it, the locale is pinned, prompts, hooks, fsmonitor, pagers, external diff, signatures, automatic
//!   maintenance and recursion into submodules are off;
//! * a call that exceeds its timeout is ended together with everything it started, also processes that left
//!   its process group;
//! * at most two git processes per core run at once; one that waits for a remote or for a broken worktree
//!   gives its slot to the others after a second;
//! * where Grovekeeper only inspects a worktree, one call at a time runs there (`inspections.rs`), and
//!   none of the programs that the repository's own config names (`planted.rs`);
//! * a failure is typed and carries git's useful line, without credentials.
//!
//! Names that come from outside go after `--end-of-options` or `--`; the caller is responsible for that.

pub mod credentials;
mod environment;
mod inspections;
pub(crate) mod planted;
mod reason;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use credentials::{CredentialProvider, RemoteCredential, SecretPipe};
use inspections::InspectionQueues;
use planted::{BlockedPrograms, ConfigFiles};
use reason::useful_line;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::sync::{Notify, Semaphore};

use crate::error::GitError;
use crate::progress::{ProgressCallback, ProgressParser};
use crate::{processes, redact};

/// For reads and small writes.
const QUICK_CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// For checkouts, fetches, clones.
const LONG_CALL_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// The minimum number of bytes of git's output to read at once.
const PIPE_READ_SIZE: usize = 8 * 1024;
/// The time from asking a process to end until killing it, and from git's exit until giving up on
/// its pipes.
const PROCESS_EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// For status, diff and the like in a worktree that an agent can write, unless
/// [`Git::with_inspect_timeout`] says otherwise.
const INSPECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The time that a call that may be waiting for something else keeps its slot among the running
/// calls.
const CALL_SLOT_DURATION: Duration = Duration::from_secs(1);

const PINNED_CONFIG: [&str; 17] = [
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
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "push.gpgSign=false",
    "log.showSignature=false",
];

/// The location that git runs in.
#[derive(Clone, Copy, Debug)]
pub enum GitLocation<'a> {
    /// A directory: git looks for the repository itself. For paths that a person gave.
    Dir(&'a Path),
    /// A repository's common directory: refs, objects, config. No index, no files.
    Repository(&'a Path),
    /// A worktree with all three directories pinned, so that nothing inside the tree (a rewritten
    /// `.git`) can send git elsewhere.
    Worktree { work_tree: &'a Path, git_dir: &'a Path, common_dir: &'a Path },
}

/// A git program and the limit of its concurrent processes. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Git {
    program: PathBuf,
    permits: Arc<Semaphore>,
    interrupt: Arc<InterruptSignal>,
    inspections: Arc<InspectionQueues>,
    inspect_timeout: Duration,
    pub(crate) configs: Arc<ConfigFiles>,
    pub(crate) keyring: Option<Arc<dyn CredentialProvider>>,
    progress: Option<ProgressCallback>,
}

/// A request to end the running calls.
#[derive(Debug, Default)]
struct InterruptSignal {
    running: AtomicUsize,
    /// The request came while nothing ran: it applies to the next call.
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
        let (interrupt, inspections, configs) = (Arc::default(), Arc::default(), Arc::default());
        let (program, inspect_timeout) = (find_program(program.into()), INSPECT_TIMEOUT);
        Self { program, permits, interrupt, inspections, inspect_timeout, configs, keyring: None, progress: None }
    }

    /// Sets the time that a call which inspects a worktree may take; if it takes longer, the result is
    /// unknown.
    pub fn with_inspect_timeout(mut self, limit: Duration) -> Self {
        self.inspect_timeout = limit;
        self
    }

    /// Reports the progress of long calls to this callback.
    pub fn with_progress(mut self, callback: ProgressCallback) -> Self {
        self.progress = Some(callback);
        self
    }

    pub(crate) fn progress_callback(&self) -> Option<&ProgressCallback> {
        self.progress.as_ref()
    }

    /// Ends the calls that are running now, each with everything it started, or else the next one.
    /// Calls made later run as usual: the interrupted caller still has to clean up.
    pub fn interrupt_calls(&self) {
        if self.interrupt.running.load(Ordering::SeqCst) == 0 {
            self.interrupt.pending.store(true, Ordering::SeqCst);
        }
        self.interrupt.now.notify_waiters();
    }

    /// Creates a call of `git <subcommand>`.
    pub fn new_command<'a>(&'a self, place: GitLocation<'a>, subcommand: &'static str) -> GitInvocation<'a> {
        GitInvocation {
            git: self,
            place,
            subcommand,
            args: Vec::new(),
            config: Vec::new(),
            settings: Vec::new(),
            env: Vec::new(),
            stdin: None,
            limit: QUICK_CALL_TIMEOUT,
            silence_limit: None,
            reports_progress: false,
            session: false,
            may_wait: false,
            inspects: false,
            disarmed: None,
            shown: None,
        }
    }

    /// Returns the numbers of `git --version`.
    pub async fn git_version(&self) -> Result<(u32, u32), GitError> {
        let said = self.new_command(GitLocation::Dir(Path::new("/")), "version").run_to_text().await?;
        let mut numbers = said.split_whitespace().nth(2).unwrap_or_default().split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Ok((major, minor)),
            _ => Err(GitError::unreadable_output("version", said)),
        }
    }
}

/// Finds the path of a program that is given by name only. It is searched for once: with an environment of
/// its own, a child that is given by name would have to be forked, which is slower than spawning it.
fn find_program(program: PathBuf) -> PathBuf {
    if program.components().count() > 1 {
        return program;
    }
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(&program));
    found.find(is_program).unwrap_or(program)
}

#[derive(Debug)]
pub struct GitOutput {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// One call of git that is being assembled.
#[derive(Debug)]
pub struct GitInvocation<'a> {
    git: &'a Git,
    place: GitLocation<'a>,
    subcommand: &'static str,
    args: Vec<OsString>,
    config: Vec<String>,
    /// Settings whose names may contain any character, such as `=`.
    settings: Vec<(String, String)>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    limit: Duration,
    silence_limit: Option<Duration>,
    reports_progress: bool,
    session: bool,
    /// It may be waiting for a remote or for a broken worktree: it gives its slot to the others.
    may_wait: bool,
    inspects: bool,
    disarmed: Option<BlockedPrograms>,
    shown: Option<RemoteCredential>,
}

/// The exit status of a call, and its stdout and stderr.
pub(crate) type FinishedCall = (ExitStatus, Vec<u8>, String);

impl GitInvocation<'_> {
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Adds one `-c key=value`.
    pub fn with_config(mut self, setting: impl Into<String>) -> Self {
        self.config.push(setting.into());
        self
    }

    /// Adds settings for this call; their names may contain any character.
    pub(crate) fn with_settings(mut self, settings: impl IntoIterator<Item = (String, String)>) -> Self {
        self.settings.extend(settings);
        self
    }

    /// Sets a variable for this call only, such as `GIT_INDEX_FILE`.
    pub fn with_env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    pub fn with_stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Allows the time for work that grows with the repository.
    pub fn with_long_timeout(mut self) -> Self {
        self.limit = LONG_CALL_TIMEOUT;
        self
    }

    /// Marks the call as one that connects to a remote: it may take long, and runs in a session of
    /// its own so that ssh finds no terminal to prompt on.
    pub fn with_network_access(mut self) -> Self {
        self.session = true;
        self.may_wait = true;
        self.with_long_timeout()
    }

    /// Marks the call as one that only inspects a worktree that an agent can write: one call at a time runs
    /// there, equal calls share an answer, none takes longer than [`Git::with_inspect_timeout`] allows, and
    /// nothing that the repository's own config names is run or fetched.
    pub fn inspecting_worktree(mut self) -> Self {
        self.inspects = true;
        self.inspecting_index()
    }

    /// Marks the call as an inspection that reads none of the worktree's own `.gitattributes` and
    /// `.gitignore`. They cannot make it wait, so it does not wait for other inspections.
    pub fn inspecting_index(mut self) -> Self {
        self.limit = self.git.inspect_timeout;
        self.may_wait = true;
        let fixed = [("GIT_NO_LAZY_FETCH", "1"), ("GIT_ALLOW_PROTOCOL", "none"), ("GIT_SSH_COMMAND", "false")];
        self.env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        self.without_programs(BlockedPrograms::All)
    }

    /// Prevents these programs, which the repository's own config names, from running.
    pub(crate) fn without_programs(mut self, programs: BlockedPrograms) -> Self {
        self.disarmed = Some(programs);
        self
    }

    /// Sends this credential to the remote.
    pub(crate) fn with_credential(mut self, shown: Option<RemoteCredential>) -> Self {
        self.shown = shown;
        self
    }

    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Ends the call when it writes nothing for this long: for a call that reports its progress.
    pub(crate) fn silence_limit(mut self, limit: Duration) -> Self {
        self.silence_limit = Some(limit);
        self
    }

    /// Reports what the call writes about its progress, if the caller asked for reports. The caller adds the
    /// flag that makes git write it.
    pub(crate) fn reporting_progress(mut self) -> Self {
        self.reports_progress = true;
        self
    }

    /// Runs the call and requires exit code 0.
    pub async fn run(self) -> Result<GitOutput, GitError> {
        self.run_for(&[0]).await
    }

    /// Runs the call and requires one of `codes`: for commands whose exit code is an answer.
    pub async fn run_for(self, codes: &[i32]) -> Result<GitOutput, GitError> {
        let what = self.call_name();
        // Boxed: a call is part of every future that runs git.
        let (status, stdout, stderr) = Box::pin(self.spawn_and_wait()).await?;
        match status.code() {
            Some(code) if codes.contains(&code) => Ok(GitOutput { code, stdout, stderr }),
            code => Err(GitError::Failed { what, code, line: useful_line(&stderr, status), stderr }),
        }
    }

    /// Runs the call and returns its output as text without the newline at the end.
    pub async fn run_to_text(self) -> Result<String, GitError> {
        let what = self.call_name();
        let output = self.run().await?;
        let text = String::from_utf8(output.stdout).map_err(|e| GitError::unreadable_output(&what, e.to_string()))?;
        Ok(text.trim_end_matches('\n').to_owned())
    }

    /// Returns the subcommand and its first plain word, which errors name.
    fn call_name(&self) -> String {
        let verb = self.args.first().and_then(|arg| arg.to_str());
        match verb {
            Some(verb) if verb.bytes().all(|b| b.is_ascii_lowercase()) && self.subcommand == "worktree" => {
                format!("{} {verb}", self.subcommand)
            }
            _ => self.subcommand.to_owned(),
        }
    }

    fn build_process(&self, mark: &str, secret: Option<&SecretPipe>) -> tokio::process::Command {
        let mut command = std::process::Command::new(&self.git.program);
        command.env_clear().envs(environment::of_call(self.session)).env(processes::CALL_MARK_VARIABLE, mark);
        match self.place {
            GitLocation::Dir(dir) => {
                command.current_dir(dir);
            }
            GitLocation::Repository(common_dir) => {
                command.current_dir(common_dir).env("GIT_DIR", common_dir);
            }
            GitLocation::Worktree { work_tree, git_dir, common_dir } => {
                command
                    .current_dir(work_tree)
                    .env("GIT_DIR", git_dir)
                    .env("GIT_COMMON_DIR", common_dir)
                    .env("GIT_WORK_TREE", work_tree);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        let mut settings = self.settings.clone();
        if let (Some(shown), Some(secret)) = (&self.shown, secret) {
            command.env("GIT_ALLOW_PROTOCOL", shown.allowed_protocol());
            settings.extend(shown.helper_settings(secret));
        }
        command.envs(environment::of_settings(&settings));
        for setting in PINNED_CONFIG.iter().copied().chain(self.config.iter().map(String::as_str)) {
            command.arg("-c").arg(setting);
        }
        command.arg(self.subcommand).args(&self.args);
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        if !self.session {
            command.process_group(0);
        }
        prepare_child(&mut command, self.session, secret.map(SecretPipe::reader_fd));
        command.into()
    }

    async fn spawn_and_wait(mut self) -> Result<FinishedCall, GitError> {
        if let Some(programs) = self.disarmed {
            let settings = planted::disarm_programs(self.git, self.place, programs).await?;
            self.settings.extend(settings);
        }
        match (self.inspects, self.place) {
            (true, GitLocation::Worktree { work_tree, .. }) => {
                let (inspections, work_tree) = (Arc::clone(&self.git.inspections), work_tree.to_owned());
                let (key, what, limit) = (self.equality_key(), self.call_name(), self.limit);
                inspections.take_turn(&work_tree, key, what, limit, |left| self.start_and_wait(left)).await
            }
            _ => {
                let limit = self.limit;
                self.start_and_wait(limit).await
            }
        }
    }

    /// Returns the key by which two calls are equal.
    fn equality_key(&self) -> String {
        format!(
            "{:?} {} {:?} {:?} {:?} {:?}",
            self.place, self.subcommand, self.args, self.config, self.env, self.stdin
        )
    }

    /// Runs the call for at most `left`: its time limit less the time that it waited for its turn.
    async fn start_and_wait(self, left: Duration) -> Result<FinishedCall, GitError> {
        let mut permit = Some(self.git.permits.acquire().await.expect("the limit is never closed"));
        if self.git.interrupt.pending.swap(false, Ordering::SeqCst) {
            return Err(GitError::Interrupted { what: self.call_name() });
        }
        let _counted = RunningCallCounter::new(&self.git.interrupt.running);
        let mark = processes::new_mark();
        let failed = |error: io::Error| GitError::Spawn(Arc::new(error));
        let secret = self.shown.as_ref().map(RemoteCredential::open_secret_pipe).transpose().map_err(failed)?;
        let child = self.build_process(&mark, secret.as_ref()).spawn().map_err(|error| match error.kind() {
            // `NotFound` is also the error of a missing directory, which does not mean that git is
            // missing.
            io::ErrorKind::NotFound if self.working_directory().is_dir() => GitError::NotInstalled,
            _ => failed(error),
        })?;
        tracing::trace!(
            subcommand = self.subcommand,
            args = redact::redact_credentials(&format!("{:?}", self.args)),
            "git"
        );
        let mut running = RunningGit { group: child.id().and_then(|id| Pid::from_raw(id as i32)), child };

        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let stdin = self.stdin.clone();
        let status = {
            let heard = Notify::new();
            let progress = self.git.progress_callback().filter(|_| self.reports_progress).map(ProgressParser::new);
            let finish = running.wait_for_exit(stdin, &mut stdout, (&mut stderr, progress), &heard);
            tokio::pin!(finish);
            let silence_limit = self.silence_limit.unwrap_or(self.limit);
            let silence = tokio::time::sleep(silence_limit);
            tokio::pin!(silence);
            let (limit, kept) = (tokio::time::sleep(left), tokio::time::sleep(CALL_SLOT_DURATION));
            tokio::pin!(limit, kept);
            let interrupted = self.git.interrupt.now.notified();
            tokio::pin!(interrupted);
            loop {
                tokio::select! {
                    status = &mut finish => break Ok(status.map_err(failed)?),
                    () = &mut limit => break Err(GitError::TimedOut { what: self.call_name(), after: self.limit }),
                    () = heard.notified() => silence.as_mut().reset(tokio::time::Instant::now() + silence_limit),
                    () = &mut silence => {
                        break Err(GitError::TimedOut { what: self.call_name(), after: silence_limit });
                    }
                    () = &mut interrupted => break Err(GitError::Interrupted { what: self.call_name() }),
                    () = &mut kept, if self.may_wait && permit.is_some() => drop(permit.take()),
                }
            }
        };
        let status = match status {
            Ok(status) => status,
            Err(ended) => {
                running.end_everything(&mark).await;
                return Err(ended);
            }
        };
        running.group = None;
        let stderr = redact::redact_credentials(&String::from_utf8_lossy(&stderr));
        Ok((status, stdout, stderr))
    }

    fn working_directory(&self) -> &Path {
        match self.place {
            GitLocation::Dir(dir) | GitLocation::Repository(dir) | GitLocation::Worktree { work_tree: dir, .. } => dir,
        }
    }
}

/// Counts a call while it runs.
struct RunningCallCounter<'a>(&'a AtomicUsize);

impl<'a> RunningCallCounter<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for RunningCallCounter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Prepares the child between fork and exec. A new session has no controlling terminal, so ssh and credential
/// helpers cannot prompt there. Only this child inherits the secret's pipe, not another child that is started
/// at the same moment.
#[expect(unsafe_code, reason = "only `setsid` and `fcntl`, which are async-signal-safe, run between fork and exec")]
fn prepare_child(command: &mut std::process::Command, session: bool, secret: Option<RawFd>) {
    if !session && secret.is_none() {
        return;
    }
    unsafe {
        command.pre_exec(move || {
            if session {
                rustix::process::setsid()?;
            }
            if let Some(secret) = secret {
                rustix::io::fcntl_setfd(BorrowedFd::borrow_raw(secret), rustix::io::FdFlags::empty())?;
            }
            Ok(())
        });
    }
}

/// A started git. If it is dropped before it ends (the caller was cancelled), it gets a request to
/// stop: git then removes its lock files.
struct RunningGit {
    group: Option<Pid>,
    child: Child,
}

impl RunningGit {
    async fn wait_for_exit(
        &mut self,
        stdin: Option<Vec<u8>>,
        stdout: &mut Vec<u8>,
        (stderr, progress): (&mut Vec<u8>, Option<ProgressParser<'_>>),
        heard: &Notify,
    ) -> io::Result<ExitStatus> {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let input = self.child.stdin.take();
        let write = async {
            if let (Some(mut pipe), Some(bytes)) = (input, stdin) {
                // A git that needs no more input closes the pipe; its exit code tells the rest.
                let _ = pipe.write_all(&bytes).await;
            }
        };
        let pipes = async {
            tokio::join!(write, drain_pipe(out, stdout, None, heard), drain_pipe(err, stderr, progress, heard))
        };
        tokio::pin!(pipes);
        let status = tokio::select! {
            status = self.child.wait() => status?,
            _ = &mut pipes => return self.child.wait().await,
        };
        // Git has ended. A helper that it left behind (ssh's ControlPersist) may keep the pipes
        // open forever; everything that git itself wrote is in them already.
        let _ = tokio::time::timeout(PROCESS_EXIT_TIMEOUT, pipes).await;
        Ok(status)
    }

    async fn end_everything(&mut self, mark: &str) {
        if let Some(group) = self.group.take() {
            let _ = kill_process_group(group, Signal::TERM);
            let _ = tokio::time::timeout(PROCESS_EXIT_TIMEOUT, self.child.wait()).await;
            let _ = kill_process_group(group, Signal::KILL);
        }
        // A signal to the group does not reach children that started a session of their own.
        processes::end_marked(mark, &[Signal::KILL]).await;
        let _ = self.child.wait().await;
    }
}

impl Drop for RunningGit {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}

/// Reads a pipe to its end, and notifies whenever data arrives.
async fn drain_pipe(
    pipe: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
    mut progress: Option<ProgressParser<'_>>,
    heard: &Notify,
) {
    let Some(mut pipe) = pipe else { return };
    loop {
        into.reserve(PIPE_READ_SIZE);
        let known = into.len();
        match pipe.read_buf(into).await {
            Ok(0) | Err(_) => return,
            Ok(_) => heard.notify_one(),
        }
        if let Some(progress) = &mut progress {
            progress.push_bytes(&into[known..]);
        }
    }
}
