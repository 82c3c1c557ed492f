//! `grove codebase add PATH|URL`

use std::process::ExitCode;

use super::{Context, Done};
use crate::api_json::codebase_json;
use crate::output;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A path inside the repository, or an address to clone from
    #[arg(default_value = ".", value_name = "PATH|URL")]
    place: String,
    /// What to call it
    #[arg(long)]
    name: Option<String>,
}

pub async fn run(context: &Context, args: &Args) -> Done {
    let store = context.store().await?;
    let waiting = output::spinner("Registering the repository", context.json);
    let added = context.codebases(&store).add(&args.place, args.name.as_deref(), &context.cwd).await;
    waiting.finish_and_clear();
    let codebase = added?;
    if context.json {
        output::json(&codebase_json(&codebase));
    } else {
        output::line(&format!("Registered {} at {}", output::strong(&codebase.name), codebase.default_cwd.display()));
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
