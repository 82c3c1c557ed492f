//! Runs the init script of an environment and records the outcome.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use grove_model::{Codebase, Environment, EnvironmentId, InitStatus, Status};

use crate::environments::Environments;
use crate::error::{CreateError, EnvironmentError};
use crate::init::script::{InitScriptFile, find_init_script};
use crate::mirror;
use crate::ready::WorkDir;
use crate::redact::Redactor;
use crate::scripts::{ScriptExit, ScriptOutput, ScriptRun, ScriptRunner};

/// The number of last lines that an error shows.
const SHOWN_LINES: usize = 15;

/// The variables that a script inherits.
const INHERITED_VARIABLES: [&str; 7] = ["PATH", "HOME", "USER", "TMPDIR", "SHELL", "LANG", "LC_ALL"];

/// The time to wait for the lock of an initialization that may have been interrupted.
const INTERRUPTED_CHECK_TIMEOUT: Duration = Duration::from_millis(100);

/// The error of a script whose process was killed.
const INTERRUPTED_INIT: &str = "the init script was interrupted by a restart";

/// The reason why a script did not succeed.
struct InitFailure {
    why: String,
    last_lines: String,
}

/// The outcome of preparing an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitOutcome {
    /// There is no script, or it succeeded before.
    NothingToDo,
    Succeeded,
    /// The script's content is not approved; it was not run.
    NotApproved {
        path: &'static str,
    },
}

impl Environments {
    /// Sets how scripts are run.
    pub fn running_scripts_with(self, runner: Arc<dyn ScriptRunner>) -> Self {
        Self { scripts: Some(runner), ..self }
    }

    /// Runs the init script of an environment, unless it succeeded before. `again` runs it in any case.
    /// `show` gets the output as it comes.
    pub async fn initialize_environment(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        again: bool,
        show: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<InitOutcome, EnvironmentError> {
        if environment.metadata.init_script.is_none() && !again {
            return Ok(InitOutcome::NothingToDo);
        }
        // Waits for another process that runs the script at this moment.
        let place = self.lock_for_init(codebase, environment).await?;
        let environment = self.reload_environment(environment).await?;
        let succeeded = environment.init_status() == Some(InitStatus::Success);
        if succeeded && environment.status == Status::Active && !again {
            return Ok(InitOutcome::NothingToDo);
        }
        if environment.is_initializing() && !again {
            // The process that ran it is gone. A person decides whether it runs again.
            self.record_init(codebase, &environment, Some(INTERRUPTED_INIT)).await?;
        }
        if (environment.is_initializing() || environment.init_status() == Some(InitStatus::Failed)) && !again {
            let why = environment.metadata.init_script.and_then(|init| init.error);
            return Err(EnvironmentError::Create(CreateError::InitFailed {
                branch: environment.branch,
                why: why.unwrap_or_else(|| INTERRUPTED_INIT.to_owned()),
                last_lines: String::new(),
            }));
        }
        let Some(base) = &environment.base_sha else { return Ok(InitOutcome::NothingToDo) };
        let Some(script) = find_init_script(&self.open_repository(codebase), base).await? else {
            return Ok(InitOutcome::NothingToDo);
        };
        if !self.is_approved(codebase, &script).await? {
            return Ok(InitOutcome::NotApproved { path: script.path });
        }
        self.store.begin_init(environment.id).await?;
        mirror_init(codebase, &self.reload_environment(&environment).await?);
        let ended = self.run_init_script(codebase, &environment, &script, &place, show).await;
        let failure = ended.as_ref().err().map(|InitFailure { why, last_lines }| format!("{why}\n{last_lines}"));
        let recorded = self.record_init(codebase, &environment, failure.as_deref().map(str::trim_end)).await;
        drop(place);
        recorded?;
        ended.map(|()| InitOutcome::Succeeded).map_err(|InitFailure { why, last_lines }| {
            EnvironmentError::Create(CreateError::InitFailed { branch: environment.branch, why, last_lines })
        })
    }

    async fn run_init_script(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        script: &InitScriptFile,
        place: &WorkDir,
        show: &(dyn Fn(&str) + Send + Sync),
    ) -> Result<(), InitFailure> {
        let failed = |why: String| InitFailure { why, last_lines: String::new() };
        let runner = self.scripts.as_ref().ok_or_else(|| failed("this program cannot run scripts".to_owned()))?;
        let settings = self.settings.current();
        let file = TemporaryScript::write(settings.home_path(), environment.id, &script.content)
            .map_err(|error| failed(format!("it cannot be written: {error}")))?;
        let output = ScriptOutput::new(show);
        let timeout = settings.init_timeout();
        let run = ScriptRun {
            command: script.command_at(&file.0.display().to_string()),
            variables: script_variables(codebase, environment),
            cwd: place.path(),
            location: place.run_location(),
            timeout,
            output: &output,
        };
        let exit = runner.run_script(run).await;
        let text = Redactor::new(settings.configured_secrets()).redact_text(&output.into_text());
        if let Err(error) = fs::write(self.init_log_path(environment.id), &text) {
            tracing::warn!(environment = %environment.id, %error, "output of the init script not kept");
        }
        let why = match exit {
            Ok(ScriptExit::Success) => return Ok(()),
            Ok(ScriptExit::Failed { code }) => format!("it ended with exit code {code}"),
            Ok(ScriptExit::TimedOut) => format!("it took longer than {} seconds", timeout.as_secs()),
            Err(why) => why,
        };
        let lines: Vec<&str> = text.trim_end().lines().collect();
        Err(InitFailure { why, last_lines: lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n") })
    }

    async fn record_init(
        &self,
        codebase: &Codebase,
        environment: &Environment,
        failure: Option<&str>,
    ) -> Result<(), EnvironmentError> {
        self.store.end_init(environment.id, failure).await?;
        mirror_init(codebase, &self.reload_environment(environment).await?);
        let step = if failure.is_none() { "initialized" } else { "init failed" };
        self.store.record_journal_line(environment.id, step, failure).await?;
        Ok(())
    }

    /// Ends an initialization whose process is gone: it counts as failed. Returns whether it was one.
    pub(crate) async fn end_interrupted_init(
        &self,
        codebase: &Codebase,
        environment: &Environment,
    ) -> Result<bool, EnvironmentError> {
        let failed = |source| EnvironmentError::Io { what: "the environment cannot be locked".to_owned(), source };
        let locks = self.provider.run_locks(codebase, environment).map_err(failed)?;
        // A process that holds the lock is running the script.
        let Ok(turn) = tokio::time::timeout(INTERRUPTED_CHECK_TIMEOUT, locks.wait_for_turn()).await else {
            return Ok(false);
        };
        drop(turn.map_err(failed)?);
        let place = self.lock_for_init(codebase, environment).await?;
        let is_interrupted = self.reload_environment(environment).await?.is_initializing();
        if is_interrupted {
            self.record_init(codebase, environment, Some(INTERRUPTED_INIT)).await?;
        }
        drop(place);
        Ok(is_interrupted)
    }

    /// Returns the file with the last output of an environment's init script.
    pub fn init_log_path(&self, id: EnvironmentId) -> PathBuf {
        init_folder(self.settings.current().home_path()).join(format!("{id}.log"))
    }
}

fn mirror_init(codebase: &Codebase, environment: &Environment) {
    if let Err(error) = mirror::write_mirror(codebase, environment) {
        tracing::warn!(environment = %environment.id, %error, "mirror not written");
    }
}

fn init_folder(home: &Path) -> PathBuf {
    home.join("init")
}

fn script_variables(codebase: &Codebase, environment: &Environment) -> BTreeMap<String, String> {
    let inherited =
        INHERITED_VARIABLES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let own = [
        ("GIT_TERMINAL_PROMPT", "0".to_owned()),
        ("GROVE_WORKTREE", environment.path.display().to_string()),
        ("GROVE_BRANCH", environment.branch.to_string()),
        ("GROVE_CODEBASE", codebase.name.clone()),
        ("GROVE_WORK", environment.work.to_string()),
        ("GROVE_REPO", codebase.default_cwd.display().to_string()),
    ];
    inherited.chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
}

/// The script as a file outside of the worktree; dropping the value deletes it.
struct TemporaryScript(PathBuf);

impl TemporaryScript {
    fn write(home: &Path, id: EnvironmentId, content: &[u8]) -> io::Result<Self> {
        let folder = init_folder(home);
        fs::create_dir_all(&folder)?;
        let file = Self(folder.join(format!("{id}.sh")));
        // Left by a crash.
        match fs::remove_file(&file.0) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut writer = fs::File::options().write(true).create_new(true).mode(0o700).open(&file.0)?;
        io::Write::write_all(&mut writer, content)?;
        Ok(file)
    }
}

impl Drop for TemporaryScript {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "init script not deleted");
        }
    }
}
