//! `/agent [NAME]`

use grove_environments::problem::Problem;

use crate::commands::slash_command::AgentArgs;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn show_or_choose_agent(
    context: &TurnContext<'_>,
    AgentArgs { name }: &AgentArgs,
) -> Result<String, Problem> {
    let agents = &context.conversations.agents;
    let Some(name) = name else {
        let codebase = context.conversations.codebase_of(context.conversation).await?;
        let of_codebase = codebase.as_ref().and_then(|codebase| codebase.ai_assistant_type.as_deref());
        let wanted = context.conversation.agent.as_deref().or(of_codebase);
        let now = agents.choose_agent(wanted, &context.message.via)?;
        return Ok(format!(
            "This conversation talks to `{}`. There are: {}.",
            now.name(),
            agents.agent_names().join(", ")
        ));
    };
    let chosen = agents.choose_agent(Some(name), &context.message.via)?;
    chosen.check_installed()?;
    let (store, conversation) = (&context.conversations.store, context.conversation);
    store.choose_agent(conversation.id, Some(chosen.name())).await?;
    if conversation.agent.as_deref() != Some(chosen.name()) {
        store.end_sessions(&context.conversation_ref()).await?;
    }
    let channel = context.opened_channel();
    if let Some(channel) = &channel {
        store.choose_channel_agent(channel, chosen.name()).await?;
    }
    let answer = format!("This conversation talks to `{}` from now on.", chosen.name());
    Ok(answer + replies::channel_note(channel.is_some()))
}
