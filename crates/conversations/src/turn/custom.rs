//! `/run NAME [ARGS]`: the words of a custom command, for the agent.

use grove_agents::agent::Cancel;
use grove_environments::problem::Problem;
use grove_store::TurnKey;
use tokio::sync::watch;

use crate::command_line::Call;
use crate::commands::codebase_of;
use crate::custom::{Catalogue, CustomError};
use crate::turn::agent::{Said, Written};
use crate::turn::{Broken, Ending};
use crate::turn_context::Desk;

impl Desk<'_> {
    pub(super) async fn custom(
        &self,
        key: &TurnKey,
        call: &Call,
        written: Written<'_>,
        cancelled: watch::Receiver<Option<Cancel>>,
    ) -> Result<Ending, Broken> {
        let codebase = codebase_of(self).await?;
        let agent = self.agent(Some(&codebase))?;
        // A remote may be asked, which may take long.
        let mut stop = cancelled.clone();
        let catalogue = tokio::select! {
            biased;
            catalogue = Catalogue::of_codebase(&self.talks.isolation, &codebase, None) => catalogue.map_err(Broken::blocked)?,
            () = async { drop(stop.wait_for(Option::is_some).await) } => return Ok(Ending::stopped()),
        };
        let command = catalogue.find(&call.name).await.map_err(Problem::from)?;
        let words = command.words(&call.arguments).map_err(Problem::from)?;
        let tools = command.tools();
        let lists = !tools.allowed.is_empty() || !tools.disallowed.is_empty();
        if lists && !agent.keeps_to_tools() {
            let (file, agent) = (command.file, agent.name().to_owned());
            return Err(Problem::from(CustomError::ToolsNotKept { file, agent }).into());
        }
        let Written { text: typed, context, hints } = written;
        let said = Said { text: &words, typed, context, hints, tools, command: Some(&command.name) };
        if command.runs_apart() {
            self.read(key, &codebase, &*agent, &said, cancelled).await
        } else {
            Box::pin(self.work(key, said, cancelled)).await
        }
    }
}
