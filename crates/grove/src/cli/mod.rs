//! The command line: one file per subcommand.

mod agent;
mod cd;
mod chat;
mod cleanup;
mod codebase;
mod complete;
mod completions;
mod config;
mod context;
mod doctor;
mod man;
mod picker;
mod serve;
mod shell_init;
mod status;
mod trust;
mod up;
mod worktree;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use grove_environments::problem::Problem;

pub use context::CliContext;

use crate::{output, words};

/// Gives every piece of work its own git worktree.
#[derive(Debug, Parser)]
#[command(name = "grove", version, arg_required_else_help = true, disable_help_subcommand = true)]
struct GroveCli {
    /// Print JSON, also for errors
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: GroveCommand,
}

#[derive(Debug, Subcommand)]
enum GroveCommand {
    /// Register a repository and start the server, with a page to talk on
    Up(up::UpArgs),
    /// Start the server
    Serve(serve::ServeArgs),
    /// Talk to an agent, with or without a running server
    Chat(chat::ChatArgs),
    /// Show how things stand
    Status,
    /// Make, list and use worktrees
    #[command(subcommand)]
    Worktree(worktree::WorktreeCommand),
    /// Go to a worktree; needs the shell function of `grove shell-init`
    Cd(cd::CdArgs),
    /// Register repositories
    #[command(subcommand)]
    Codebase(codebase::CodebaseCommand),
    /// See which coding agents are there, and try them
    #[command(subcommand)]
    Agent(agent::AgentCommand),
    /// Do what the scheduler does
    #[command(subcommand)]
    Cleanup(cleanup::CleanupCommand),
    /// Show the repository's scripts that wait for approval, or approve them
    Trust(trust::TrustArgs),
    /// Look at the settings
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Check everything, put right what a crash left, and say how to fix the rest
    Doctor,
    /// Print what a shell needs for `grove cd` and for completing names
    ShellInit(shell_init::ShellInitArgs),
    /// Print completions for a shell
    Completions(completions::CompletionsArgs),
    /// Print the manual page, or write all of them
    Man(man::ManArgs),
}

/// The exit code of a command, or the problem that ended it.
pub type CommandResult = Result<ExitCode, Problem>;

pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    // An internal command: agents are started by it.
    if arguments.get(1).is_some_and(|word| word == "supervise") {
        return grove_agents::supervisor::main();
    }
    complete::answer_shell();
    let json = arguments.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json");
    let grove = match GroveCli::try_parse_from(&arguments) {
        Ok(grove) => grove,
        Err(error) => return wrong_usage(&error, json),
    };
    let serves = matches!(grove.command, GroveCommand::Serve(_) | GroveCommand::Up(_));
    let to_file = matches!(&grove.command, GroveCommand::Up(args) if args.logs_to_file());
    start_log(if serves { "info" } else { "error" }, to_file);
    // A chat may start a server in this process.
    let mut builder = match serves || matches!(grove.command, GroveCommand::Chat(_)) {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = match builder.worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return output::report_problem(&words::no_runtime(&error), json),
    };
    match runtime.block_on(run_command(grove)) {
        Ok(code) => code,
        Err(problem) => output::report_problem(&problem, json),
    }
}

async fn run_command(grove: GroveCli) -> CommandResult {
    match &grove.command {
        GroveCommand::Completions(args) => return completions::run(args),
        GroveCommand::ShellInit(args) => return shell_init::run(args),
        GroveCommand::Man(args) => return man::run(args),
        _ => {}
    }
    let context = CliContext::new(grove.json)?;
    // `serve`, `up` and `chat` have their own way to end. `cd` waits for keys: Ctrl-C ends it at any moment.
    let handles_signals = matches!(
        grove.command,
        GroveCommand::Serve(_) | GroveCommand::Up(_) | GroveCommand::Chat(_) | GroveCommand::Cd(_)
    );
    if !handles_signals {
        context.interrupt_git_on_signals();
    }
    // Boxed, so that the state of one command does not enlarge the stack of all.
    match grove.command {
        GroveCommand::Up(args) => Box::pin(up::run(context, &args)).await,
        GroveCommand::Serve(args) => Box::pin(serve::run(context, &args)).await,
        GroveCommand::Chat(args) => Box::pin(chat::run(context, args)).await,
        GroveCommand::Status => Box::pin(status::run(&context)).await,
        GroveCommand::Worktree(command) => Box::pin(worktree::run(&context, command)).await,
        GroveCommand::Cd(args) => Box::pin(cd::run(&context, &args)).await,
        GroveCommand::Codebase(command) => Box::pin(codebase::run(&context, command)).await,
        GroveCommand::Agent(command) => Box::pin(agent::run(&context, command)).await,
        GroveCommand::Cleanup(command) => Box::pin(cleanup::run(&context, command)).await,
        GroveCommand::Trust(args) => Box::pin(trust::run(&context, &args)).await,
        GroveCommand::Config(command) => Box::pin(config::run(&context, command)).await,
        GroveCommand::Doctor => Box::pin(doctor::run(&context)).await,
        GroveCommand::Completions(_) | GroveCommand::ShellInit(_) | GroveCommand::Man(_) => Ok(ExitCode::SUCCESS),
    }
}

/// Reports wrong usage. Help and version are no errors; everything else is exit code 2 and, with `--json`,
/// JSON too.
fn wrong_usage(error: &clap::Error, json: bool) -> ExitCode {
    use clap::error::ErrorKind;
    let asked_for = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked_for || !json {
        let _ = error.print();
        return ExitCode::from(if asked_for { 0 } else { 2 });
    }
    let text = error.render().to_string();
    // The first paragraph is the message; usage and hints follow it.
    let sentence: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let problem = words::bad_arguments(sentence.join(" ").trim_start_matches("error: "));
    output::report_problem(&problem, true);
    ExitCode::from(2)
}

/// Writes the log to the standard error; `GROVE_LOG=debug` shows more.
fn start_log(default: &str, to_file: bool) {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_env("GROVE_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let writer = || crate::log::RedactingWriter::default();
    let colours = !to_file && std::io::IsTerminal::is_terminal(&std::io::stderr());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer).with_ansi(colours).without_time().init();
}
