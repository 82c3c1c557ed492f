//! Words for the agent: the right place, then the agent in it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grove_agents::agent::{Agent, AgentError, Cancel, Tools};
use grove_environments::create::{CreatedBy, Wish};
use grove_environments::integrate::pull_request::PullRequestNews;
use grove_environments::problem::Problem;
use grove_environments::ready::{Folder, Ready, WorkDir};
use grove_model::{Codebase, Hints, Moment};
use grove_store::TurnKey;
use jiff::SignedDuration;
use tokio::sync::watch;

use crate::conversations::TalkEvent;
use crate::replies;
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

/// What somebody wrote, and what an adapter knows beside it.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    pub text: &'a str,
    pub context: Option<&'a str>,
    pub hints: &'a Hints,
}

/// What is said to the agent.
pub struct Said<'a> {
    pub text: &'a str,
    /// What the person typed for that.
    pub typed: &'a str,
    pub context: Option<&'a str>,
    pub hints: &'a Hints,
    /// What the agent may use for it.
    pub tools: Tools,
    /// The custom command that it comes from.
    pub command: Option<&'a str>,
}

impl<'a> From<Written<'a>> for Said<'a> {
    fn from(Written { text, context, hints }: Written<'a>) -> Self {
        Self { text, typed: text, context, hints, tools: Tools::default(), command: None }
    }
}

/// Where an agent can go.
enum Found {
    Place(WorkDir),
    /// It was moved away meanwhile: choose again.
    Moved,
    /// Somebody does not want it any more.
    Stopped,
}

/// What is not worth a word in the store.
const BRIEF: Duration = Duration::from_millis(200);

/// How long a place that is moved away under us is chosen anew: a removal or an undo may take a while.
const RESTLESS: Duration = Duration::from_secs(30);

/// A size that is not older than this is not measured again after a run.
const MEASURED: SignedDuration = SignedDuration::from_mins(1);

impl Desk<'_> {
    /// Finds the place, runs the agent there, and gives its answer. Whatever stands in the way is the
    /// answer instead, and no agent runs.
    pub(super) async fn work(
        &self,
        key: &TurnKey,
        said: Said<'_>,
        cancelled: watch::Receiver<Option<Cancel>>,
    ) -> Result<Ending, Broken> {
        let store = &self.talks.store;
        let codebase = self.talks.codebase_of(self.conversation).await?;
        if codebase.is_none() && self.conversation.codebase.is_some() {
            return Err(replies::codebase_gone().into());
        }
        let agent = self.agent(codebase.as_ref())?;
        let mut told = false;
        let began = Instant::now();
        while began.elapsed() < RESTLESS {
            let place = match &codebase {
                None => {
                    let path = self.without_codebase(key).await?;
                    let ready = Folder::ready(self.talks.settings.home(), path.clone()).await;
                    WorkDir::NoCodebase(ready.map_err(|error| replies::no_scratch(&path, &error))?)
                }
                Some(codebase) => match Box::pin(self.isolated(key, codebase, &said, &mut told, &cancelled)).await? {
                    Found::Place(place) => place,
                    Found::Moved => {
                        tokio::time::sleep(BRIEF).await;
                        continue;
                    }
                    Found::Stopped => return Ok(Ending::stopped()),
                },
            };
            // Nothing begins that somebody has stopped already, or after the end has begun.
            if cancelled.borrow().is_some() {
                return Ok(Ending::stopped());
            }
            if *self.talks.ending.borrow() {
                return Err(Broken::PutBack);
            }
            store.agent_starts(key, self.message.id).await?;
            let left = self.to_be_left(&place).await?;
            let ran = self.run(key, &*agent, &place, &said, &cancelled).await?;
            self.measure(&place);
            match ran {
                Ok(outcome) => {
                    let ending = self.answer(&*agent, &said, outcome)?;
                    let left = left.filter(|_| cancelled.borrow().is_none());
                    return Ok(Ending { left, ..ending });
                }
                Err(AgentError::Moved(_)) if place.is_isolated() => tokio::time::sleep(BRIEF).await,
                Err(error) => return Err(Problem::from(error).into()),
            }
        }
        Err(replies::restless().into())
    }

    /// Whom the conversation talks to, if it is there.
    pub(super) fn agent(&self, codebase: Option<&Codebase>) -> Result<Arc<dyn Agent>, Problem> {
        let of_codebase = codebase.and_then(|codebase| codebase.ai_assistant_type.as_deref());
        let wanted = self.conversation.agent.as_deref().or(of_codebase);
        let agent = self.talks.agents.choose(wanted, &self.message.via)?;
        agent.installed()?;
        Ok(agent)
    }

    /// The environment of the work, ready for an agent.
    async fn isolated(
        &self,
        key: &TurnKey,
        codebase: &Codebase,
        said: &Said<'_>,
        told: &mut bool,
        cancelled: &watch::Receiver<Option<Cancel>>,
    ) -> Result<Found, Broken> {
        let hints = said.hints;
        let wish = Wish {
            work: hints.work(&self.conversation.name)?,
            branch: None,
            from: None,
            hints: grove_environments::create::Hints {
                linked_issues: hints.linked_issues.clone(),
                linked_prs: hints.linked_prs.clone(),
                suggested_branch: hints.suggested_branch.clone(),
                legacy_path: None,
            },
            conversation: Some(self.reference()),
            by: CreatedBy { platform: Some(self.conversation.platform.clone()), user: self.message.user.clone() },
        };
        let outcome = self.isolation().create(codebase, &wish).await.map_err(Broken::blocked)?;
        if let Some(pull_request) = &hints.pull_request {
            let branch = hints.pr_branch.clone().filter(|_| !hints.is_fork_pr);
            let news = PullRequestNews { pull_request: (**pull_request).clone(), branch };
            self.talks.isolation.pull_request_changed(codebase, &news).await?;
        }
        if !*told {
            let mut notices = Vec::new();
            if let Some(branch) = &self.conversation.removed_branch {
                notices.push(replies::removed_meanwhile(branch));
            }
            let new_here = self.conversation.environment != Some(outcome.environment.id);
            notices.extend(replies::place(&outcome, hints, new_here));
            self.say(key, &notices).await?;
            if self.conversation.removed_branch.is_some() {
                self.talks.store.told_of_removal(self.conversation.id).await?;
            }
            self.talks.tell_watchers(TalkEvent::Worktrees);
            *told = true;
        }
        let ready = self.talks.isolation.ready(codebase, &outcome.environment);
        tokio::pin!(ready);
        let (mut ending, mut cancelled) = (self.talks.ending.subscribe(), cancelled.clone());
        let mut waits = false;
        loop {
            tokio::select! {
                biased;
                ready = &mut ready => return Ok(match ready? {
                    Ready::Here(ready) => Found::Place(WorkDir::Isolated(ready)),
                    Ready::Changed => Found::Moved,
                }),
                () = async { drop(cancelled.wait_for(Option::is_some).await) } => return Ok(Found::Stopped),
                () = async { drop(ending.wait_for(|ending| *ending).await) } => return Err(Broken::PutBack),
                // Another conversation works there, which may take long.
                () = tokio::time::sleep(BRIEF), if !waits => {
                    waits = true;
                    self.talks.store.is_harmless(key, self.message.id).await?;
                }
            }
        }
    }

    /// The conversation's own folder, or one made for it.
    async fn without_codebase(&self, key: &TurnKey) -> Result<PathBuf, Broken> {
        if let Some(cwd) = &self.conversation.cwd {
            let cwd = PathBuf::from(cwd);
            if !cwd.is_dir() {
                return Err(replies::no_cwd(&cwd).into());
            }
            // What was nobody's when it was chosen may be a codebase's by now.
            return Ok(self.allowed_folder(&cwd).await?);
        }
        let scratch = self.talks.scratch(self.conversation.id);
        if !scratch.is_dir() {
            let codebases = self.talks.store.codebases().await?;
            if !codebases.is_empty() {
                let names: Vec<&str> = codebases.iter().map(|codebase| codebase.name.as_str()).collect();
                self.say(key, &[replies::choose_codebase(&names)]).await?;
            }
            fs::create_dir_all(&scratch).map_err(|error| replies::no_scratch(&scratch, &error))?;
        }
        Ok(scratch)
    }

    /// Sees how large the environment has become, without anybody waiting for it.
    fn measure(&self, place: &WorkDir) {
        let WorkDir::Isolated(ready) = place else { return };
        if ready.environment.size_at.is_some_and(|at| Moment::now().since(at) < MEASURED) {
            return;
        }
        let (isolation, codebase) = (self.talks.isolation.clone(), ready.codebase.clone());
        let environment = ready.environment.clone();
        tokio::spawn(async move {
            isolation.measure(&codebase, &[environment]).await;
        });
    }
}
