//! `grove codebase list`

use std::process::ExitCode;

use super::{CliContext, CommandResult};
use crate::api_json::CodebaseJson;
use crate::output::{self, OutputTable};

pub async fn run(context: &CliContext) -> CommandResult {
    let store = context.open_store().await?;
    let codebases = store.list_codebases().await?;
    if context.json {
        output::print_json(&codebases.iter().map(CodebaseJson::from).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    if codebases.is_empty() {
        output::print_text(&"No repository is registered. `grove codebase add PATH` registers one.".into());
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = OutputTable::new(["name", "default branch", "checkout", "remote"]);
    for codebase in codebases {
        let text = |value: Option<String>| value.unwrap_or_default();
        let checkout = codebase.default_cwd.display().to_string();
        table.add_row([
            output::style_strong(&codebase.name),
            text(codebase.default_branch),
            checkout,
            output::style_dim(&text(codebase.repository_url)),
        ]);
    }
    table.print_table();
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
