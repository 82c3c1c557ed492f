//! Words for an agent that only looks: at a commit laid out for it alone, beside the conversation's own
//! environment and session.

use grove_agents::agent::{Agent, AgentError, Cancel};
use grove_environments::problem::Problem;
use grove_environments::ready::WorkDir;
use grove_model::Codebase;
use grove_store::TurnKey;
use tokio::sync::watch;

use crate::replies;
use crate::turn::agent::Said;
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

impl Desk<'_> {
    pub(super) async fn read(
        &self,
        key: &TurnKey,
        codebase: &Codebase,
        agent: &dyn Agent,
        said: &Said<'_>,
        cancelled: watch::Receiver<Option<Cancel>>,
    ) -> Result<Ending, Broken> {
        let isolation = &self.talks.isolation;
        let mut stop = cancelled.clone();
        let sight = tokio::select! {
            biased;
            sight = isolation.sight(codebase, self.conversation.environment) => sight.map_err(Broken::blocked)?,
            () = async { drop(stop.wait_for(Option::is_some).await) } => return Ok(Ending::stopped()),
        };
        if let Some(branch) = &sight.uncommitted_on {
            self.say(key, &[replies::reads_commit(&sight.at, branch)]).await?;
        }
        // Not given up half way, so that nothing is left.
        let ready =
            isolation.begin_reading(codebase, &sight.at, agent.settings().timeout).await.map_err(Broken::blocked)?;
        let reading = ready.reading.clone();
        let place = WorkDir::Reading(Box::new(ready));
        let read = self.read_there(key, agent, &place, said, &cancelled).await;
        drop(place);
        let Some(left) = isolation.end_reading(codebase, reading).await else { return read };
        let words = replies::not_taken_away(&left);
        tracing::warn!("{words}");
        match read {
            Ok(Ending { answer, end, .. }) => {
                let answer = replies::with_text(&answer.unwrap_or_default(), &words);
                Ok(Ending::new(Some(answer), end))
            }
            Err(Broken::Problem(problem)) => {
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
        said: &Said<'_>,
        cancelled: &watch::Receiver<Option<Cancel>>,
    ) -> Result<Ending, Broken> {
        // Nothing begins that somebody has stopped already, or after the end has begun.
        if cancelled.borrow().is_some() {
            return Ok(Ending::stopped());
        }
        if *self.talks.ending.borrow() {
            return Err(Broken::PutBack);
        }
        self.talks.store.agent_starts(key, self.message.id).await?;
        match self.run_once(agent, place, said, cancelled).await? {
            Ok(outcome) => self.answer(agent, said, outcome),
            Err(AgentError::Moved(_)) => Err(replies::restless().into()),
            Err(error) => Err(Problem::from(error).into()),
        }
    }
}
