//! Messages for an agent that only reads: it gets a snapshot of a commit, apart from the conversation's own
//! environment and session.

use grove_agents::agent::{Agent, AgentError, CancelReason};
use grove_environments::problem::Problem;
use grove_environments::ready::WorkDir;
use grove_model::Codebase;
use grove_store::TurnKey;
use tokio::sync::watch;

use crate::replies;
use crate::turn::agent::AgentRequest;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    pub(super) async fn run_on_snapshot(
        &self,
        key: &TurnKey,
        codebase: &Codebase,
        agent: &dyn Agent,
        said: &AgentRequest<'_>,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        let environments = &self.conversations.environments;
        let mut stop = cancelled.clone();
        let sight = tokio::select! {
            biased;
            sight = environments.snapshot_target(codebase, self.conversation.environment) => sight.map_err(TurnError::from_blocked)?,
            () = async { drop(stop.wait_for(Option::is_some).await) } => return Ok(TurnOutcome::stopped_early()),
        };
        if let Some(branch) = &sight.uncommitted_on {
            self.send_notices(key, &[replies::reads_commit(&sight.at, branch)]).await?;
        }
        // Not cancelled halfway, so that nothing is left behind.
        let ready = environments
            .begin_reading(codebase, &sight.at, agent.agent_settings().timeout)
            .await
            .map_err(TurnError::from_blocked)?;
        let reading = ready.reading.clone();
        let place = WorkDir::Reading(Box::new(ready));
        let read = self.read_there(key, agent, &place, said, &cancelled).await;
        drop(place);
        let Some(left) = environments.end_reading(codebase, reading).await else { return read };
        let words = replies::not_taken_away(&left);
        tracing::warn!("{words}");
        match read {
            Ok(TurnOutcome { answer, end, .. }) => {
                let answer = replies::with_text(&answer.unwrap_or_default(), &words);
                Ok(TurnOutcome::new(Some(answer), end))
            }
            Err(TurnError::Problem(problem)) => {
                let message = format!("{} {words}", problem.message);
                Err(Problem { message, ..problem }.into())
            }
            Err(broken) => Err(broken),
        }
    }

    async fn read_there(
        &self,
        key: &TurnKey,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &AgentRequest<'_>,
        cancelled: &watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        // Nothing starts after the user stopped the turn or the shutdown began.
        if cancelled.borrow().is_some() {
            return Ok(TurnOutcome::stopped_early());
        }
        if *self.conversations.ending.borrow() {
            return Err(TurnError::PutBack);
        }
        self.conversations.store.agent_starts(key, self.message.id).await?;
        match self.run_once(agent, place, said, cancelled).await? {
            Ok(outcome) => self.to_turn_outcome(agent, said, outcome),
            Err(AgentError::Moved(_)) => Err(replies::unstable_place_problem().into()),
            Err(error) => Err(Problem::from(error).into()),
        }
    }
}
