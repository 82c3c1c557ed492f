//! `grove codebase add PATH|URL`

use std::process::ExitCode;

use super::{CliContext, CommandResult};
use crate::api_json::CodebaseJson;
use crate::output;

#[derive(Debug, clap::Args)]
pub struct CodebaseAddArgs {
    /// A path inside the repository, or an address to clone from
    #[arg(default_value = ".", value_name = "PATH|URL")]
    place: String,
    /// What to call it
    #[arg(long)]
    name: Option<String>,
}

pub async fn run(context: &CliContext, args: &CodebaseAddArgs) -> CommandResult {
    let store = context.open_store().await?;
    let waiting = output::start_spinner("Registering the repository", context.json);
    let codebases = context.codebases_in(&store).reporting_progress(output::progress_callback(&waiting));
    let added = codebases.add_codebase(&args.place, args.name.as_deref(), &context.cwd).await;
    waiting.finish_and_clear();
    let codebase = added?;
    if context.json {
        output::print_json(&CodebaseJson::from(&codebase));
    } else {
        output::print_line(&format!(
            "Registered {} at {}",
            output::style_strong(&codebase.name),
            codebase.default_cwd.display()
        ));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
