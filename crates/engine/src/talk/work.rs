//! Words for the agent: the right place, then the agent in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use grove_model::{Codebase, Hints, Moment};
use grove_store::{End, TurnKey};
use jiff::SignedDuration;
use tokio::sync::watch;

use super::turn::{Broken, Ending};
use super::{Desk, TalkEvent};
use crate::agent::{Agent, AgentError, AgentEvent, Cancel, Ended, Folder, Outcome, Ready, Run, WorkDir};
use crate::isolation::{self, CreatedBy, IsolationError, Wish};
use crate::{Problem, reply_text};

/// What somebody said to the agent.
pub struct Said<'a> {
    pub text: &'a str,
    pub context: Option<&'a str>,
    pub hints: &'a Hints,
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

/// How often a place that was moved away under us is chosen anew.
const CHOICES: usize = 5;

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
            return Err(reply_text::codebase_gone().into());
        }
        let wanted =
            self.conversation.agent.as_deref().or(codebase.as_ref().and_then(|c| c.ai_assistant_type.as_deref()));
        let agent = self.talks.agents.choose(wanted, &self.message.via).map_err(Problem::from)?;
        let mut told = false;
        for _ in 0..CHOICES {
            let place = match &codebase {
                None => {
                    let path = self.without_codebase(key).await?;
                    let ready = Folder::ready(self.talks.settings.home(), path.clone()).await;
                    WorkDir::NoCodebase(ready.map_err(|error| reply_text::no_scratch(&path, &error))?)
                }
                Some(codebase) => match self.isolated(key, codebase, &said, &mut told, &cancelled).await? {
                    Found::Place(place) => place,
                    Found::Moved => {
                        tokio::time::sleep(BRIEF).await;
                        continue;
                    }
                    Found::Stopped => {
                        return Ok(Ending { answer: Some(reply_text::stopped("")), end: End::Interrupted });
                    }
                },
            };
            self.session(agent.name(), place.path()).await?;
            // Nothing begins that somebody has stopped already, or after the end has begun.
            if cancelled.borrow().is_some() {
                return Ok(Ending { answer: Some(reply_text::stopped("")), end: End::Interrupted });
            }
            if *self.talks.ending.borrow() {
                return Err(Broken::PutBack);
            }
            store.agent_starts(key, self.message.id).await?;
            let ran = self.run(&*agent, &place, &said, cancelled.clone()).await;
            self.measure(&place);
            match ran {
                Ok(outcome) => return self.answer(&*agent, &said, outcome),
                Err(AgentError::Moved(_)) if place.is_isolated() => continue,
                Err(error) => return Err(Problem::from(error).into()),
            }
        }
        Err(reply_text::restless().into())
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
            hints: isolation::Hints {
                linked_issues: hints.linked_issues.clone(),
                linked_prs: hints.linked_prs.clone(),
                suggested_branch: hints.suggested_branch.clone(),
                legacy_path: None,
            },
            conversation: Some(self.reference()),
            by: CreatedBy { platform: Some(self.conversation.platform.clone()), user: self.message.user.clone() },
        };
        let outcome = match self.talks.isolation.create(codebase, &wish).await {
            Ok(outcome) => outcome,
            Err(IsolationError::Store(error)) => return Err(Broken::Store(error)),
            Err(error) => return Err(reply_text::blocked(error.into()).into()),
        };
        if !*told {
            let mut notices = Vec::new();
            if let Some(branch) = &self.conversation.removed_branch {
                notices.push(reply_text::removed_meanwhile(branch));
            }
            let new_here = self.conversation.environment != Some(outcome.environment.id);
            notices.extend(reply_text::place(&outcome, hints, new_here));
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
                return Err(reply_text::no_cwd(&cwd).into());
            }
            // What was nobody's when it was chosen may be a codebase's by now.
            return Ok(self.allowed_folder(&cwd).await?);
        }
        let scratch = self.talks.scratch(self.conversation.id);
        if !scratch.is_dir() {
            let codebases = self.talks.store.codebases().await?;
            if !codebases.is_empty() {
                let names: Vec<&str> = codebases.iter().map(|codebase| codebase.name.as_str()).collect();
                self.say(key, &[reply_text::choose_codebase(&names)]).await?;
            }
            fs::create_dir_all(&scratch).map_err(|error| reply_text::no_scratch(&scratch, &error))?;
        }
        Ok(scratch)
    }

    /// The session goes on where it was; in another place, or with another agent, a new one begins.
    async fn session(&self, agent: &str, cwd: &Path) -> Result<(), Broken> {
        let (store, cwd) = (&self.talks.store, cwd.display().to_string());
        let session = store.session(self.conversation.id).await?;
        let goes_on =
            session.is_some_and(|session| session.agent == agent && session.facts.cwd.as_deref() == Some(&cwd));
        if !goes_on {
            store.start_session(self.conversation.id, agent, &cwd).await?;
        }
        Ok(())
    }

    async fn run(
        &self,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &Said<'_>,
        cancel: watch::Receiver<Option<Cancel>>,
    ) -> Result<Outcome, AgentError> {
        // Context first, the person's own words last.
        let prompt = match said.context {
            Some(context) if !context.trim().is_empty() => format!("{context}\n\n{}", said.text),
            _ => said.text.to_owned(),
        };
        let lines = std::sync::Mutex::new(String::new());
        let deliver = |text: &str| {
            let text = self.talks.redactor.clean(text);
            let (platform, conversation) = (self.conversation.platform.clone(), self.conversation.name.clone());
            let message = self.message.id;
            self.talks.tell_watchers(TalkEvent::Delta { platform, conversation, message, text });
        };
        let says = |event: AgentEvent| {
            // What nobody sees need not be made.
            if !self.talks.is_watched() {
                return;
            }
            let AgentEvent::Text(text) = event;
            let mut waiting = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            waiting.push_str(&text);
            // Whole lines, so that a secret is never cut in two.
            let whole = waiting.rfind('\n').map_or(0, |at| at + 1);
            // Or what must be one very long line; the stored answer is cleaned as a whole.
            let of_token = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let whole = match whole {
                0 if waiting.len() > 64 * 1024 => waiting.rfind(|c| !of_token(c)).unwrap_or(waiting.len()),
                whole => whole,
            };
            if whole > 0 {
                deliver(&waiting[..whole]);
                waiting.drain(..whole);
            }
        };
        agent.run(Run { place, prompt: &prompt, says: &says, cancel }).await
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

    fn answer(&self, agent: &dyn Agent, said: &Said<'_>, outcome: Outcome) -> Result<Ending, Broken> {
        let Outcome { text, left_out, ended } = outcome;
        // Cleaned before it is cut: half a secret is not known for one.
        let (text, dropped) = reply_text::last_part(&text);
        let text = reply_text::shortened(&self.talks.redactor.clean(text), left_out + dropped);
        let cut = |answer: String| Ending { answer: Some(answer), end: End::Interrupted };
        Ok(match ended {
            Ended::Well => Ending::done(reply_text::answer(&text)),
            Ended::Badly { code, last_lines } => Ending {
                answer: Some(reply_text::agent_failed(agent.name(), code, &text, &last_lines)),
                end: End::Failed,
            },
            Ended::TimedOut => cut(reply_text::timed_out(agent.name(), &text)),
            Ended::Cancelled(Cancel::Stopped) => cut(reply_text::stopped(&text)),
            Ended::Cancelled(Cancel::Draining) if self.talks.settings.retry_on_restart() => {
                return Err(Broken::PutBack);
            }
            Ended::Cancelled(Cancel::Draining) => cut(reply_text::interrupted(&self.talks.redactor.clean(said.text))),
            Ended::Cancelled(Cancel::LostTurn) => return Err(Broken::Store(grove_store::StoreError::LostTurn)),
        })
    }
}
