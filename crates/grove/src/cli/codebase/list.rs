//! `grove codebase list`

use std::process::ExitCode;

use super::{Context, Done};
use crate::output::{self, Table};

pub async fn run(context: &Context) -> Done {
    let store = context.store().await?;
    let codebases = store.codebases().await?;
    if context.json {
        output::json(&codebases.iter().map(crate::api_json::codebase_json).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    if codebases.is_empty() {
        output::line("No repository is registered. `grove codebase add PATH` registers one.");
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(["name", "default branch", "checkout", "remote"]);
    for codebase in codebases {
        let text = |value: Option<String>| value.unwrap_or_default();
        let checkout = codebase.default_cwd.display().to_string();
        table.row([
            output::strong(&codebase.name),
            text(codebase.default_branch),
            checkout,
            output::dim(&text(codebase.repository_url)),
        ]);
    }
    table.print();
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
