//! `grove up [REPO]`

use std::io::IsTerminal;
use std::process::{Command, ExitCode, Stdio};

use super::chat::reach;
use super::serve::end_on_signals;
use super::{CliContext, CommandResult};
use crate::log::log_to_file;
use crate::output;
use crate::server::{GroveServer, ServerMode, codebase_query, token_of};

/// The log of `grove up`, in GROVE_HOME.
const LOG_FILE_NAME: &str = "grove.log";

#[derive(Debug, clap::Args)]
pub struct UpArgs {
    /// A path inside a repository, or an address to clone from
    #[arg(default_value = ".", value_name = "PATH|URL")]
    repo: String,
    #[command(flatten)]
    serve: super::serve::ServeArgs,
    /// Only print the link
    #[arg(long)]
    no_open: bool,
    /// Show the log here instead of writing it to GROVE_HOME/grove.log
    #[arg(long, short)]
    verbose: bool,
}

impl UpArgs {
    /// Tells whether the log goes to a file: a terminal is for what people read.
    pub fn logs_to_file(&self) -> bool {
        !self.verbose && std::io::stderr().is_terminal()
    }
}

pub async fn run(mut context: CliContext, args: &UpArgs) -> CommandResult {
    args.serve.apply_flags(&mut context)?;
    let store = context.open_store().await?;
    let log = context.settings.home_path().join(LOG_FILE_NAME);
    if args.logs_to_file()
        && let Err(error) = log_to_file(&log)
    {
        output::print_warning(&format!("the log goes to the terminal: {} cannot be written: {error}", log.display()));
    }
    let waiting = output::start_spinner("Registering the repository", context.json);
    let codebases = context.codebases_in(&store).reporting_progress(output::progress_callback(&waiting));
    let added = codebases.add_codebase(&args.repo, None, &context.cwd).await;
    waiting.finish_and_clear();
    let codebase = added?;
    // With several repositories the page must be told which one to open.
    let query = match store.list_codebases().await?.len() {
        0 | 1 => String::new(),
        _ => codebase_query(&codebase.name),
    };
    let token = token_of(&context.settings)?;
    if let Some(address) = reach::find_running_server(&context, &token).await? {
        let link = reach::new_link(&address, &token).await?;
        print_links(&codebase.name, &link, &query, "Using the server that is already running.", args.no_open);
        store.close().await;
        return Ok(ExitCode::SUCCESS);
    }
    let server =
        GroveServer::start_server(context.git.clone(), store.clone(), &context.settings, ServerMode::All).await?;
    end_on_signals(&server.end_switch(), &context.git);
    let link = server.one_time_link().await?;
    let last = "Ctrl-C stops the server. Conversations and worktrees are kept.";
    print_links(&codebase.name, &link, &query, last, args.no_open);
    server.run_until_ended().await;
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

fn print_links(codebase: &str, link: &str, query: &str, last: &str, no_open: bool) {
    let link = format!("{link}{query}");
    output::print_text(&format!("`{codebase}` is registered. Talk to it here (the link works once):").into());
    output::print_line(&format!("  {link}"));
    if let Some((address, _)) = link.split_once("/login/") {
        output::print_line(&format!("A browser that was let in finds it at {address}/{query} from then on."));
    }
    output::print_line(last);
    if !no_open {
        open_in_browser(&link);
    }
}

/// Opens the page in a browser, if there is a desktop.
fn open_in_browser(link: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    if !desktop && !cfg!(target_os = "macos") {
        return;
    }
    // A failure does not matter: the link is printed as well.
    let _ = Command::new(program).arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
}
