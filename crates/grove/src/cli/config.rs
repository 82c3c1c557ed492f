//! `grove config show`

use std::process::ExitCode;

use clap::Subcommand;
use grove_environments::environments::with_repository_settings;
use grove_environments::settings::{Key, Origin, Settings, Value};
use grove_git::Repository;
use grove_git::base::choose_remote;
use serde_json::json;

use super::{Context, Done};
use crate::output::{self, Table};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the effective settings and where each comes from
    Show,
}

pub async fn run(context: &Context, command: Command) -> Done {
    match command {
        Command::Show => show(context).await,
    }
}

async fn show(context: &Context) -> Done {
    let settings = effective(context).await?;
    if context.json {
        let entries: Vec<_> = settings
            .entries()
            .map(|(key, entry)| {
                let value = entry.map(|(value, _)| json_value(key, value));
                json!({ "key": key.name, "value": value, "origin": origin(entry), "variable": key.variable() })
            })
            .collect();
        output::json(&json!({ "home": settings.home(), "settings": entries }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["setting", "value", "from"]);
    table.row(["GROVE_HOME".to_owned(), settings.home().display().to_string(), String::new()]);
    for (key, entry) in settings.entries() {
        let value = match (entry, key.name) {
            (Some((value, _)), _) => shown(key, value),
            (None, "store.url") => settings.store_url(),
            (None, "worktree.base") => settings.worktree_base().display().to_string(),
            (None, _) => String::new(),
        };
        table.row([key.name.to_owned(), value, output::dim(&origin(entry))]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

/// Inside a repository, its own settings count too.
async fn effective(context: &Context) -> Result<Settings, grove_environments::problem::Problem> {
    let Ok(repo) = Repository::discover(&context.git, &context.cwd).await else { return Ok(context.settings.clone()) };
    let remotes = repo.remotes().await?;
    let remote = choose_remote(context.settings.remote(), &remotes)?;
    let default = repo.default_branch(remote.as_deref()).await?;
    Ok(with_repository_settings(&repo, &context.settings, default.as_deref()).await?)
}

fn origin(entry: Option<&(Value, Origin)>) -> String {
    entry.map_or_else(|| "default".to_owned(), |(_, origin)| origin.to_string())
}

/// Secrets masked: an address keeps what is not one.
fn shown(key: &Key, value: &Value) -> String {
    match (key.secret, key.name) {
        (true, "store.url") => grove_git::redact::credentials(&value.to_string()),
        (true, _) => "***".to_owned(),
        (false, _) => value.to_string(),
    }
}

fn json_value(key: &Key, value: &Value) -> serde_json::Value {
    match value {
        _ if key.secret => json!(shown(key, value)),
        Value::Text(text) | Value::Measure { written: text, .. } => json!(text),
        Value::Count(count) => json!(count),
        Value::Bool(value) => json!(value),
        Value::List(list) => json!(list),
    }
}
