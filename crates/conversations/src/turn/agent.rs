//! Messages for the agent: finds the environment, then runs the agent in it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_agents::agent::{Agent, AgentError, ToolPolicy};
use grove_environments::create::{CreateRequest, EnvironmentCreator};
use grove_environments::init::InitOutcome;
use grove_environments::integrate::pull_request::PullRequestUpdate;
use grove_environments::problem::Problem;
use grove_environments::ready::{EnvironmentReadiness, ReadyFolder, WorkDir};
use grove_model::{Codebase, Moment, WorkHints};
use jiff::SignedDuration;

use crate::conversations::ConversationEvent;
use crate::linked_work::{LinkedWork, linked_work};
use crate::replies;
use crate::title::message_title;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;
use crate::words;

/// The message of a person, and the context that an adapter adds.
#[derive(Clone, Copy)]
pub struct WrittenMessage<'a> {
    pub text: &'a str,
    pub context: Option<&'a str>,
    pub hints: &'a WorkHints,
    /// Its place in the conversation.
    pub seq: i64,
}

/// A request to the agent.
pub struct AgentRequest<'a> {
    pub text: &'a str,
    /// The text that the person typed.
    pub typed: &'a str,
    pub context: Option<&'a str>,
    pub hints: &'a WorkHints,
    /// The tools that the agent may use.
    pub tools: ToolPolicy,
    /// The custom command that the request comes from.
    pub command: Option<&'a str>,
}

impl<'a> From<WrittenMessage<'a>> for AgentRequest<'a> {
    fn from(WrittenMessage { text, context, hints, .. }: WrittenMessage<'a>) -> Self {
        Self { text, typed: text, context, hints, tools: ToolPolicy::default(), command: None }
    }
}

/// The result of looking for an environment.
enum FoundPlace {
    Place(WorkDir),
    /// The environment was moved meanwhile: choose again.
    Moved,
    /// The user stopped the turn.
    Stopped,
    /// The repository's init script waits for approval.
    NotApproved(&'static str),
}

/// The longest wait for an environment that is not recorded in the store; also the pause between retries.
const PLACE_WAIT_INTERVAL: Duration = Duration::from_millis(200);

/// The time during which an environment that was moved is chosen again: a removal or an undo may take a
/// while.
const PLACE_RETRY_TIMEOUT: Duration = Duration::from_secs(30);

/// A size that is newer than this is not measured again after a run.
const REMEASURE_INTERVAL: SignedDuration = SignedDuration::from_mins(1);

impl TurnContext<'_> {
    /// Finds the environment, runs the agent in it, and returns its answer. If anything prevents that, the
    /// answer describes the problem and no agent runs.
    pub(super) async fn answer_with_agent(&self, said: AgentRequest<'_>) -> Result<TurnOutcome, TurnError> {
        let codebase = self.conversations.codebase_of(self.conversation).await?;
        if codebase.is_none() && self.conversation.codebase.is_some() {
            return Err(words::codebase_gone().into());
        }
        let agent = self.choose_agent(codebase.as_ref())?;
        let mut told = false;
        let began = Instant::now();
        while began.elapsed() < PLACE_RETRY_TIMEOUT {
            let place = match &codebase {
                None => {
                    let path = self.without_codebase().await?;
                    let ready =
                        ReadyFolder::wait_for_turn(self.conversations.settings.current().home_path(), path.clone())
                            .await;
                    WorkDir::NoCodebase(ready.map_err(|error| words::no_scratch(&path, &error))?)
                }
                Some(codebase) => match Box::pin(self.prepare_environment(codebase, &said, &mut told)).await? {
                    FoundPlace::Place(place) => place,
                    FoundPlace::Moved => {
                        tokio::time::sleep(PLACE_WAIT_INTERVAL).await;
                        continue;
                    }
                    FoundPlace::Stopped => return Ok(TurnOutcome::stopped_early()),
                    FoundPlace::NotApproved(path) => return Ok(TurnOutcome::asking_for_approval(path)),
                },
            };
            if let Some(stopped) = self.begin_agent_run().await? {
                return Ok(stopped);
            }
            let left = self.to_be_left(&place).await?;
            let ran = self.run_agent(&*agent, &place, &said).await?;
            self.measure_environment(&place);
            match ran {
                Ok(outcome) => {
                    let ending = self.to_turn_outcome(&*agent, &said, outcome)?;
                    let left = left.filter(|_| !self.is_cancelled());
                    return Ok(TurnOutcome { left, ..ending });
                }
                Err(AgentError::Moved(_)) if place.is_isolated() => tokio::time::sleep(PLACE_WAIT_INTERVAL).await,
                Err(error) => return Err(Problem::from(error).into()),
            }
        }
        Err(words::unstable_place().into())
    }

    /// Records that an agent starts now. Returns the outcome instead if the user stopped the turn: nothing
    /// starts after that, nor after the shutdown began.
    pub(super) async fn begin_agent_run(&self) -> Result<Option<TurnOutcome>, TurnError> {
        if self.is_cancelled() {
            return Ok(Some(TurnOutcome::stopped_early()));
        }
        if self.is_shutting_down() {
            return Err(TurnError::PutBack);
        }
        self.conversations.store.agent_starts(self.key, self.message.id).await?;
        Ok(None)
    }

    /// Returns the agent of the conversation, if it is installed.
    pub(super) fn choose_agent(&self, codebase: Option<&Codebase>) -> Result<Arc<dyn Agent>, Problem> {
        let of_codebase = codebase.and_then(|codebase| codebase.ai_assistant_type.as_deref());
        let wanted = self.conversation.agent.as_deref().or(of_codebase);
        let agent = self.conversations.agents.choose_agent(wanted, &self.message.via)?;
        agent.check_installed()?;
        Ok(agent)
    }

    /// Prepares the environment of the work for an agent.
    async fn prepare_environment(
        &self,
        codebase: &Codebase,
        said: &AgentRequest<'_>,
        told: &mut bool,
    ) -> Result<FoundPlace, TurnError> {
        let hints = said.hints;
        // A chat about an issue or a pull request works where that is worked on. GitHub tells its own links.
        let linked = match hints.workflow_type {
            None => linked_work(said.typed, codebase.repository_url.as_deref()),
            Some(_) => LinkedWork::default(),
        };
        let request = CreateRequest {
            work: hints.to_work(&self.conversation.name)?,
            branch: None,
            from: None,
            hints: grove_environments::create::CreateHints {
                linked_issues: [&hints.linked_issues[..], &linked.issues].concat(),
                linked_prs: [&hints.linked_prs[..], &linked.pull_requests].concat(),
                suggested_branch: hints.suggested_branch.clone(),
                legacy_path: None,
            },
            conversation: Some(self.conversation_ref()),
            by: EnvironmentCreator {
                platform: Some(self.conversation.platform.clone()),
                user: self.message.user.clone(),
            },
        };
        let outcome = self
            .environments_with_notices()
            .create_environment(codebase, &request)
            .await
            .map_err(TurnError::from_blocked)?;
        if outcome.environment.metadata.title.is_none()
            && let Some(title) = message_title(said.typed, hints)
        {
            self.conversations.store.title_environment(outcome.environment.id, &title).await?;
        }
        if let Some(pull_request) = &hints.pull_request {
            let branch = hints.pr_branch.clone().filter(|_| !hints.is_fork_pr);
            let news = PullRequestUpdate { pull_request: (**pull_request).clone(), branch };
            self.conversations.environments.pull_request_changed(codebase, &news).await?;
        }
        if !*told {
            let mut notices = Vec::new();
            if let Some(branch) = &self.conversation.removed_branch {
                notices.push(replies::removed_meanwhile(branch));
            }
            let new_here = self.conversation.environment != Some(outcome.environment.id);
            notices.extend(replies::place_notices(&outcome, hints, new_here));
            self.send_notices(&notices).await?;
            if self.conversation.removed_branch.is_some() {
                self.conversations.store.told_of_removal(self.conversation.id).await?;
            }
            self.conversations.tell_watchers(ConversationEvent::Worktrees);
            *told = true;
        }
        if outcome.environment.needs_init() {
            let environments = self.environments_with_notices();
            let initialized = self.initialize_environment(&environments, codebase, &outcome.environment, false).await;
            if let InitOutcome::NotApproved { path } = initialized.map_err(TurnError::from_blocked)? {
                return Ok(FoundPlace::NotApproved(path));
            }
        }
        let ready = self.conversations.environments.wait_for_environment(codebase, &outcome.environment);
        tokio::pin!(ready);
        let mut waits = false;
        loop {
            tokio::select! {
                biased;
                ready = &mut ready => return Ok(match ready? {
                    EnvironmentReadiness::Here(ready) => FoundPlace::Place(WorkDir::Isolated(ready)),
                    EnvironmentReadiness::Changed => FoundPlace::Moved,
                }),
                () = self.wait_for_cancellation() => return Ok(FoundPlace::Stopped),
                () = self.wait_for_shutdown() => return Err(TurnError::PutBack),
                // Another conversation uses the environment, which may take long.
                () = tokio::time::sleep(PLACE_WAIT_INTERVAL), if !waits => {
                    waits = true;
                    self.conversations.store.mark_repeatable(self.key, self.message.id).await?;
                }
            }
        }
    }

    /// Returns the conversation's own folder, which is created if needed.
    async fn without_codebase(&self) -> Result<PathBuf, TurnError> {
        if let Some(cwd) = &self.conversation.cwd {
            let cwd = PathBuf::from(cwd);
            if !cwd.is_dir() {
                return Err(words::no_cwd(&cwd).into());
            }
            // The folder may have become part of a codebase since it was chosen.
            return Ok(self.allowed_folder(&cwd).await?);
        }
        let scratch = self.conversations.scratch_folder(self.conversation.id);
        if !scratch.is_dir() {
            fs::create_dir_all(&scratch).map_err(|error| words::no_scratch(&scratch, &error))?;
        }
        Ok(scratch)
    }

    /// Measures the size of the environment in the background.
    fn measure_environment(&self, place: &WorkDir) {
        let WorkDir::Isolated(ready) = place else { return };
        if ready.environment.size_at.is_some_and(|at| Moment::now().duration_since(at) < REMEASURE_INTERVAL) {
            return;
        }
        let (environments, codebase) = (self.conversations.environments.clone(), ready.codebase.clone());
        let environment = ready.environment.clone();
        tokio::spawn(async move {
            environments.measure_environments(&codebase, &[environment]).await;
        });
    }
}
