//! The terminal: one file per subcommand.

mod agent;
mod chat;
mod cleanup;
mod codebase;
mod completions;
mod config;
mod context;
mod doctor;
mod serve;
mod status;
mod up;
mod worktree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use grove_environments::problem::Problem;

pub use context::Context;

use crate::output;

/// Gives every piece of work its own git worktree.
#[derive(Debug, Parser)]
#[command(name = "grove", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct Grove {
    /// Print JSON, also for errors
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Register a repository and start the server, with a page to talk on
    Up(up::Args),
    /// Start the server
    Serve(serve::Args),
    /// Talk to an agent, with or without a running server
    Chat(chat::Args),
    /// Show how things stand
    Status,
    /// Make, list and use worktrees
    #[command(subcommand)]
    Worktree(worktree::Command),
    /// Register repositories
    #[command(subcommand)]
    Codebase(codebase::Command),
    /// See which coding agents are there, and try them
    #[command(subcommand)]
    Agent(agent::Command),
    /// Do what the scheduler does
    #[command(subcommand)]
    Cleanup(cleanup::Command),
    /// Look at the settings
    #[command(subcommand)]
    Config(config::Command),
    /// Check everything, put right what a crash left, and say how to fix the rest
    Doctor,
    /// Print completions for a shell
    Completions(completions::Args),
}

/// How a command ends when nothing went wrong.
pub type Done = Result<ExitCode, Problem>;

pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Not for people: what an agent is started by.
    if arguments.get(1).is_some_and(|word| word == "supervise") {
        return grove_agents::supervisor::main();
    }
    let json = arguments.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let grove = match Grove::try_parse_from(&arguments) {
        Ok(grove) => grove,
        Err(error) => return wrong_usage(&error, json),
    };
    let serves = matches!(grove.command, Command::Serve(_) | Command::Up(_));
    log_to_stderr(if serves { "info" } else { "error" });
    // A chat may have a server of its own.
    let mut builder = match serves || matches!(grove.command, Command::Chat(_)) {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let problem =
                Problem::new("failed", format!("The runtime could not start: {error}."), "Check the machine's limits.");
            return output::problem(&problem, json);
        }
    };
    match runtime.block_on(run(grove)) {
        Ok(code) => code,
        Err(problem) => output::problem(&problem, json),
    }
}

async fn run(grove: Grove) -> Done {
    if let Command::Completions(args) = grove.command {
        return completions::run(&args);
    }
    let context = Context::new(grove.json)?;
    if !matches!(grove.command, Command::Serve(_) | Command::Up(_) | Command::Chat(_)) {
        context.interrupt_git_on_signals();
    }
    // Boxed: one command's state is not everybody's stack.
    match grove.command {
        Command::Up(args) => Box::pin(up::run(context, &args)).await,
        Command::Serve(args) => Box::pin(serve::run(context, &args)).await,
        Command::Chat(args) => Box::pin(chat::run(context, args)).await,
        Command::Status => Box::pin(status::run(&context)).await,
        Command::Worktree(command) => Box::pin(worktree::run(&context, command)).await,
        Command::Codebase(command) => Box::pin(codebase::run(&context, command)).await,
        Command::Agent(command) => Box::pin(agent::run(&context, command)).await,
        Command::Cleanup(command) => Box::pin(cleanup::run(&context, command)).await,
        Command::Config(command) => Box::pin(config::run(&context, command)).await,
        Command::Doctor => Box::pin(doctor::run(&context)).await,
        Command::Completions(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Help and version are no errors; everything else is exit code 2 and, with `--json`, JSON too.
fn wrong_usage(error: &clap::Error, json: bool) -> ExitCode {
    use clap::error::ErrorKind;
    let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked_for || !json {
        let _ = error.print();
        return ExitCode::from(if asked_for { 0 } else { 2 });
    }
    let text = error.render().to_string();
    // The first paragraph is the sentence; usage and hints follow it.
    let sentence: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let problem = Problem::new("usage", sentence.join(" ").trim_start_matches("error: "), "See `grove --help`.");
    output::problem(&problem, true);
    ExitCode::from(2)
}

/// `GROVE_LOG=debug` shows more.
fn log_to_stderr(default: &str) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("GROVE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let writer = || crate::log::Clean::default();
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colours).without_time().init();
}
