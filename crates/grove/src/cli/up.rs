//! `grove up [REPO]`

use std::process::{Command, ExitCode, Stdio};

use super::serve::end_on_signals;
use super::{Context, Done};
use crate::output;
use crate::server::{Duty, Server};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A path inside a repository, or an address to clone from
    #[arg(default_value = ".", value_name = "PATH|URL")]
    repo: String,
    #[command(flatten)]
    serve: super::serve::Args,
    /// Only print the link
    #[arg(long)]
    no_open: bool,
}

pub async fn run(mut context: Context, args: &Args) -> Done {
    args.serve.apply(&mut context)?;
    let store = context.store().await?;
    let waiting = output::spinner("Registering the repository", context.json);
    let added = context.codebases(&store).add(&args.repo, None, &context.cwd).await;
    waiting.finish_and_clear();
    let codebase = added?;
    let server = Server::start(context.git.clone(), store.clone(), &context.settings, Duty::All).await?;
    end_on_signals(&server.end_switch(), &context.git);
    let link = server.one_time_link();
    output::words(&format!("`{}` is registered. Talk to it here (the link works once):", codebase.name));
    output::line(&format!("  {link}"));
    output::line("Ctrl-C ends the server; what was said and made stays.");
    if !args.no_open {
        open(&link);
    }
    server.run().await;
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Shows the page, where there is a desktop to show it on.
fn open(link: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if !desktop && !cfg!(target_os = "macos") {
        return;
    }
    // The link is printed as well.
    let _ = Command::new(program).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
