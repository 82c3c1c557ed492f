//! `/status`

use std::collections::BTreeMap;

use grove_environments::problem::Problem;
use grove_environments::words::settings_notice;
use grove_model::State;
use grove_store::AgentUsage;

use crate::commands::environment_of;
use crate::replies;
use crate::turn_context::TurnContext;

pub async fn show_status(context: &TurnContext<'_>) -> Result<String, Problem> {
    let (conversations, conversation) = (context.conversations, context.conversation);
    let codebase = conversations.codebase_of(conversation).await?;
    let environment = environment_of(context).await?;
    let session = conversations.store.active_session(conversation.id).await?;
    let or = |value: Option<String>, without: &str| value.unwrap_or_else(|| without.to_owned());
    let cwd = environment.as_ref().map(|e| e.path.display().to_string()).or_else(|| conversation.cwd.clone());
    let mut lines = vec![
        format!("Codebase: {}", or(codebase.as_ref().map(|c| format!("`{}`", c.name)), "none")),
        format!("Directory: {}", or(cwd, "chosen by the next message")),
        format!("Branch: {}", or(environment.as_ref().map(|e| format!("`{}`", e.branch)), "none")),
        format!("Agent session: {}", or(session.map(|s| format!("`{}`, active", s.agent)), "none")),
    ];
    let usage = conversations.store.conversation_usage(conversation.id).await?;
    if usage != AgentUsage::default() {
        lines.push(format!("Usage: {}", replies::usage_summary(usage)));
    }
    if let Some(codebase) = &codebase {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let views = conversations.environments.environment_views(codebase, false).await?;
        for view in &views {
            *counts.entry(State::as_str(view.state)).or_default() += 1;
        }
        let parts: Vec<String> = counts.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let breakdown = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        lines.push(format!("Worktrees: {}{breakdown}", views.len()));
    }
    let (running, waiting) = conversations.store.queue_counts().await?;
    lines.push(format!("Queue: {running} running, {waiting} waiting"));
    if let Some(notice) = settings_notice(&conversations.settings.last_reload()) {
        lines.push(format!("Settings: {notice}"));
    }
    Ok(lines.join("\n"))
}
