//! `/run NAME [ARGS]`: runs a custom command with the agent.

use grove_agents::agent::CancelReason;
use grove_environments::problem::Problem;
use grove_store::TurnKey;
use tokio::sync::watch;

use crate::command_line::CustomCommandCall;
use crate::commands::codebase_of;
use crate::custom::{CustomCommandCatalog, CustomCommandError};
use crate::turn::agent::{AgentRequest, WrittenMessage};
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    pub(super) async fn run_custom_command(
        &self,
        key: &TurnKey,
        call: &CustomCommandCall,
        written: WrittenMessage<'_>,
        cancelled: watch::Receiver<Option<CancelReason>>,
    ) -> Result<TurnOutcome, TurnError> {
        let codebase = codebase_of(self).await?;
        let agent = self.choose_agent(Some(&codebase))?;
        // This may query a remote, which may take long.
        let mut stop = cancelled.clone();
        let catalogue = tokio::select! {
            biased;
            catalogue = CustomCommandCatalog::of_codebase(&self.conversations.environments, &codebase, None) => catalogue.map_err(TurnError::from_blocked)?,
            () = async { drop(stop.wait_for(Option::is_some).await) } => return Ok(TurnOutcome::stopped_early()),
        };
        let command = catalogue.find_command(&call.name).await.map_err(Problem::from)?;
        let words = command.expand_prompt(&call.arguments).map_err(Problem::from)?;
        let tools = command.tool_policy();
        let lists = !tools.allowed.is_empty() || !tools.disallowed.is_empty();
        if lists && !agent.keeps_to_tools() {
            let (file, agent) = (command.file, agent.name().to_owned());
            return Err(Problem::from(CustomCommandError::ToolsNotKept { file, agent }).into());
        }
        let WrittenMessage { text: typed, context, hints } = written;
        let said = AgentRequest { text: &words, typed, context, hints, tools, command: Some(&command.name) };
        if command.runs_apart() {
            self.run_on_snapshot(key, &codebase, &*agent, &said, cancelled).await
        } else {
            Box::pin(self.answer_with_agent(key, said, cancelled)).await
        }
    }
}
