//! `grove config show`

use std::process::ExitCode;

use clap::Subcommand;
use grove_environments::environments::with_repository_settings;
use grove_environments::settings::{SettingKey, SettingOrigin, SettingValue, Settings};
use grove_git::Repository;
use grove_git::base::choose_remote;
use serde_json::json;

use super::{CliContext, CommandResult};
use crate::output::{self, OutputTable};

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the effective settings and where each comes from
    Show,
}

pub async fn run(context: &CliContext, command: ConfigCommand) -> CommandResult {
    match command {
        ConfigCommand::Show => show_settings(context).await,
    }
}

async fn show_settings(context: &CliContext) -> CommandResult {
    let settings = effective_settings(context).await?;
    if context.json {
        let entries: Vec<_> = settings
            .all_entries()
            .map(|(key, entry)| {
                let value = entry.map(|(value, _)| json_value(key, value));
                json!({ "key": key.name, "value": value, "origin": origin_text(entry), "variable": key.variable_name() })
            })
            .collect();
        output::print_json(&json!({ "home": settings.home_path(), "settings": entries }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = OutputTable::new(["setting", "value", "from"]);
    table.add_row(["GROVE_HOME".to_owned(), settings.home_path().display().to_string(), String::new()]);
    for (key, entry) in settings.all_entries() {
        let value = match (entry, key.name) {
            (Some((value, _)), _) => masked_value(key, value),
            (None, "store.url") => settings.store_url(),
            (None, "worktree.base") => settings.worktree_base().display().to_string(),
            (None, _) => String::new(),
        };
        table.add_row([key.name.to_owned(), value, output::style_dim(&origin_text(entry))]);
    }
    table.print_table();
    Ok(ExitCode::SUCCESS)
}

/// Returns the effective settings; inside a repository, its own settings count too.
async fn effective_settings(context: &CliContext) -> Result<Settings, grove_environments::problem::Problem> {
    let Ok(repo) = Repository::discover_repository(&context.git, &context.cwd).await else {
        return Ok(context.settings.clone());
    };
    let remotes = repo.list_remotes().await?;
    let remote = choose_remote(context.settings.remote_name(), &remotes)?;
    let default = repo.default_branch(remote.as_deref()).await?;
    Ok(with_repository_settings(&repo, &context.settings, default.as_deref()).await?)
}

fn origin_text(entry: Option<&(SettingValue, SettingOrigin)>) -> String {
    entry.map_or_else(|| "default".to_owned(), |(_, origin)| origin.to_string())
}

/// Masks secrets; an address keeps its other parts.
fn masked_value(key: &SettingKey, value: &SettingValue) -> String {
    match (key.secret, key.name) {
        (true, "store.url") => grove_git::redact::redact_credentials(&value.to_string()),
        (true, _) if is_unset(value) => String::new(),
        (true, _) => "***".to_owned(),
        (false, _) => value.to_string(),
    }
}

/// Tells whether a value is the empty default of a setting that has none.
fn is_unset(value: &SettingValue) -> bool {
    value.to_string().is_empty()
}

fn json_value(key: &SettingKey, value: &SettingValue) -> serde_json::Value {
    match value {
        _ if key.secret && is_unset(value) => serde_json::Value::Null,
        _ if key.secret => json!(masked_value(key, value)),
        SettingValue::Text(text) | SettingValue::Measure { written: text, .. } => json!(text),
        SettingValue::Count(count) => json!(count),
        SettingValue::Bool(value) => json!(value),
        SettingValue::List(list) => json!(list),
    }
}
