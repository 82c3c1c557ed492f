//! `grove up [REPO]`

use std::process::{Command, ExitCode, Stdio};

use super::chat::reach;
use super::serve::end_on_signals;
use super::{Context, Done};
use crate::output;
use crate::server::{Duty, Server, token_of};

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
    let token = token_of(&context.settings)?;
    if let Some(address) = reach::running(&context, &token).await? {
        let link = reach::new_link(&address, &token).await?;
        say(&codebase.name, &link, "A server runs already; it goes on.", args.no_open);
        store.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let server = Server::start(context.git.clone(), store.clone(), &context.settings, Duty::All).await?;
    end_on_signals(&server.end_switch(), &context.git);
    let link = server.one_time_link().await?;
    say(&codebase.name, &link, "Ctrl-C ends the server; what was said and made stays.", args.no_open);
    server.run().await;
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn say(codebase: &str, link: &str, last: &str, no_open: bool) {
    output::words(&format!("`{codebase}` is registered. Talk to it here (the link works once):"));
    output::line(&format!("  {link}"));
    if let Some((address, _)) = link.split_once("/login/") {
        output::line(&format!("A browser that was let in finds it at {address}/ from then on."));
    }
    output::line(last);
    if !no_open {
        open(link);
    }
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
