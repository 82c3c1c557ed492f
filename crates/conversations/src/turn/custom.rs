//! `/run NAME [ARGS]`: runs a custom command with the agent.

use grove_environments::problem::Problem;

use crate::command_line::CommandArguments;
use crate::commands::codebase_of;
use crate::commands::slash_command::RunArgs;
use crate::custom::{CustomCommandCatalog, CustomCommandError};
use crate::turn::agent::{AgentRequest, WrittenMessage};
use crate::turn::{TurnError, TurnOutcome};
use crate::turn_context::TurnContext;

impl TurnContext<'_> {
    pub(super) async fn run_custom_command(
        &self,
        RunArgs { custom_command, arguments }: &RunArgs,
        written: WrittenMessage<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let codebase = codebase_of(self).await?;
        let agent = self.choose_agent(Some(&codebase))?;
        // This may query a remote, which may take long.
        let catalogue = tokio::select! {
            biased;
            catalogue = CustomCommandCatalog::of_codebase(&self.conversations.environments, &codebase, None) => catalogue.map_err(TurnError::from_blocked)?,
            () = self.wait_for_cancellation() => return Ok(TurnOutcome::stopped_early()),
        };
        let command = catalogue.find_command(custom_command).await.map_err(Problem::from)?;
        let arguments = CommandArguments::parse_arguments(arguments.as_ref().map_or("", |rest| &rest.0));
        let words = command.expand_prompt(&arguments).map_err(Problem::from)?;
        let tools = command.tool_policy();
        let lists = !tools.allowed.is_empty() || !tools.disallowed.is_empty();
        if lists && !agent.keeps_to_tools() {
            let (file, agent) = (command.file, agent.name().to_owned());
            return Err(Problem::from(CustomCommandError::ToolsNotKept { file, agent }).into());
        }
        let WrittenMessage { text: typed, context, hints, .. } = written;
        let said = AgentRequest { text: &words, typed, context, hints, tools, command: Some(&command.name) };
        if command.runs_apart() {
            self.run_on_snapshot(&codebase, &*agent, &said).await
        } else {
            Box::pin(self.answer_with_agent(said)).await
        }
    }
}
