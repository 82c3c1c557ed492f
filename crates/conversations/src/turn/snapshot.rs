//! Messages for an agent that only reads: it gets a snapshot of a commit, apart from the conversation's own
//! environment and session.

use grove_agents::agent::{Agent, AgentError};
use grove_environments::problem::Problem;
use grove_environments::ready::WorkDir;
use grove_model::Codebase;

use crate::replies;
use crate::turn::agent::AgentRequest;
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;
use crate::words;

impl TurnContext<'_> {
    pub(super) async fn run_on_snapshot(
        &self,
        codebase: &Codebase,
        agent: &dyn Agent,
        said: &AgentRequest<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let environments = &self.conversations.environments;
        let sight = tokio::select! {
            biased;
            sight = environments.snapshot_target(codebase, self.conversation.environment) => sight.map_err(TurnError::from_blocked)?,
            () = self.wait_for_cancellation() => return Ok(TurnOutcome::stopped_early()),
        };
        if let Some(branch) = &sight.uncommitted_on {
            self.send_notices(&[replies::reads_commit(&sight.at, branch)]).await?;
        }
        // Not cancelled halfway, so that nothing is left behind.
        let ready = environments
            .begin_reading(codebase, &sight.at, agent.agent_settings().timeout)
            .await
            .map_err(TurnError::from_blocked)?;
        let reading = ready.reading.clone();
        let place = WorkDir::Reading(Box::new(ready));
        let read = self.read_there(agent, &place, said).await;
        drop(place);
        let Some(left) = environments.end_reading(codebase, reading).await else { return read };
        let words = replies::not_taken_away(&left);
        tracing::warn!(reason = words, "snapshot kept");
        match read {
            Ok(TurnOutcome { answer, end, .. }) => {
                let answer = replies::with_text(&answer.unwrap_or_default(), &words);
                Ok(TurnOutcome::new(Some(answer), end))
            }
            Err(TurnError::Problem(problem)) => {
                let message = format!("{} {words}", problem.message);
                Err(problem.with_message(message).into())
            }
            Err(broken) => Err(broken),
        }
    }

    async fn read_there(
        &self,
        agent: &dyn Agent,
        place: &WorkDir,
        said: &AgentRequest<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        if let Some(stopped) = self.begin_agent_run().await? {
            return Ok(stopped);
        }
        match self.run_once(agent, place, said).await? {
            Ok(outcome) => self.to_turn_outcome(agent, said, outcome),
            Err(AgentError::Moved(_)) => Err(words::unstable_place().into()),
            Err(error) => Err(Problem::from(error).into()),
        }
    }
}
