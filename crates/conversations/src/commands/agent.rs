//! `/agent [NAME]`

use grove_environments::problem::Problem;

use crate::turn_context::TurnContext;

pub async fn show_or_choose_agent(desk: &TurnContext<'_>, name: Option<String>) -> Result<String, Problem> {
    let agents = &desk.talks.agents;
    let Some(name) = name else {
        let codebase = desk.talks.codebase_of(desk.conversation).await?;
        let of_codebase = codebase.as_ref().and_then(|codebase| codebase.ai_assistant_type.as_deref());
        let wanted = desk.conversation.agent.as_deref().or(of_codebase);
        let now = agents.choose_agent(wanted, &desk.message.via)?;
        return Ok(format!(
            "This conversation talks to `{}`. There are: {}.",
            now.name(),
            agents.agent_names().join(", ")
        ));
    };
    let chosen = agents.choose_agent(Some(&name), &desk.message.via)?;
    chosen.check_installed()?;
    let (store, conversation) = (&desk.talks.store, desk.conversation);
    store.choose_agent(conversation.id, Some(chosen.name())).await?;
    if conversation.agent.as_deref() != Some(chosen.name()) {
        store.end_sessions(&desk.conversation_ref()).await?;
    }
    Ok(format!("This conversation talks to `{}` from now on.", chosen.name()))
}
