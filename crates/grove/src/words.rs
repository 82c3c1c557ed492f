//! The wording of the refusals and errors of the server and the command line, one function each.
//!
//! The crates below word their own errors (`From<…> for Problem`).

use std::fmt::Display;
use std::path::Path;

use grove_environments::problem::{Problem, sentence};
use grove_model::{BranchName, BranchNameError, Environment, Status};
use grove_platforms::webhook::WebhookError;

/// The hint for a request that the API cannot serve.
const SEE_API: &str = "See /api/openapi.json.";

/// The hint for an error whose likely cause is a limit of the machine.
const CHECK_LIMITS: &str = "Check the machine's limits.";

// Requests

pub fn unknown_route() -> Problem {
    Problem::new("not_found", "There is nothing at this address.", SEE_API)
}

pub fn wrong_method() -> Problem {
    Problem::new("bad_request", "This address does not take that method.", SEE_API)
}

pub fn bad_query(reason: &str) -> Problem {
    let message = format!("The address cannot be read: {}.", reason.trim_end_matches('.'));
    Problem::new("bad_request", message, SEE_API)
}

pub fn bad_json(error: &serde_json::Error) -> Problem {
    Problem::new("bad_request", format!("The request is not the JSON that was expected: {error}."), SEE_API)
}

pub fn body_too_slow() -> Problem {
    Problem::new("too_slow", "The request took too long to arrive.", "Send it again.")
}

pub fn body_cut_short(error: &impl Display) -> Problem {
    Problem::new("bad_request", format!("The request ended too early: {error}."), "Send it again.")
}

pub fn body_too_large(limit: usize) -> Problem {
    Problem::new("too_large", format!("The request is larger than {limit} bytes."), "Send less at once.")
}

pub fn handler_failed() -> Problem {
    Problem::new("failed", "Something went wrong here.", "See the server's log, and report it.")
}

// Access

pub fn no_token() -> Problem {
    let hint =
        "Send what is in GROVE_HOME/token as `Authorization: Bearer …`, or follow the link that `grove up` prints.";
    Problem::new("no_token", "The token is missing or wrong.", hint)
}

pub fn used_link() -> Problem {
    let message = "This link was used already, is too old, or is for another host name.";
    Problem::new("no_token", message, "Run `grove up` again for a new one.")
}

/// Refuses a request for another host or from another origin; `what` says which of them.
pub fn foreign_host(what: &str) -> Problem {
    let message = format!("This server does not answer for that {what}.");
    Problem::new("foreign_host", message, "Use the address that the server printed.")
}

pub fn test_adapter_is_local() -> Problem {
    Problem::new("forbidden", "The test adapter is for this machine only.", "Call it on loopback.")
}

// Conversations and environments

pub fn bad_ids() -> Problem {
    let message = "The ids of conversations, people and deliveries must be texts of at most 1000 bytes.";
    Problem::new("bad_request", message, SEE_API)
}

pub fn bad_platform() -> Problem {
    Problem::new("bad_request", "A platform's name must be one plain word.", SEE_API)
}

pub fn empty_message() -> Problem {
    Problem::new("bad_request", "The message is empty.", SEE_API)
}

pub fn message_with_nul() -> Problem {
    Problem::new("bad_request", "The message contains the character NUL.", SEE_API)
}

pub fn unknown_message() -> Problem {
    Problem::new("not_found", "This conversation has no such message.", SEE_API)
}

pub fn no_conversation_named() -> Problem {
    Problem::new("bad_request", "The request names no conversation.", "Give `c`.")
}

pub fn no_work_named() -> Problem {
    Problem::new("bad_request", "The request names no work.", "Give `name`, or `kind` and `id`.")
}

pub fn bad_finish_branch(error: &BranchNameError) -> Problem {
    Problem::new("usage", format!("{error}."), "Name a branch in `branch`.")
}

pub fn environment_gone() -> Problem {
    Problem::new("not_found", "The environment is gone.", "Try again.")
}

// Webhooks

pub fn platform_not_configured(platform: &str) -> Problem {
    let setting = match platform {
        "slack" => "adapters.slack.bot_token",
        "telegram" => "adapters.telegram.webhook_secret",
        _ => "adapters.github.webhook_secret",
    };
    let message = format!("{} is not configured here.", platform_title(platform));
    Problem::new("not_found", message, format!("Set `{setting}`."))
}

fn platform_title(platform: &str) -> &str {
    match platform {
        "github" => "GitHub",
        "slack" => "Slack",
        "telegram" => "Telegram",
        other => other,
    }
}

pub fn too_many_deliveries() -> Problem {
    Problem::new("too_many", "Too many deliveries arrive at once.", "Send it again later.")
}

pub fn webhook_refused(platform: &str, error: WebhookError) -> Problem {
    let message = sentence(&error.to_string());
    match error {
        WebhookError::BadSignature => {
            let setting = if platform == "slack" { "signing_secret" } else { "webhook_secret" };
            let hint = format!("Give the sender the secret that `adapters.{platform}.{setting}` has.");
            Problem::new("bad_signature", message, hint)
        }
        WebhookError::Missing(_) | WebhookError::NoPayload | WebhookError::Malformed(_) => {
            Problem::new("bad_request", message, format!("Send what {} sends.", platform_title(platform)))
        }
        WebhookError::Store(error) => error.into(),
    }
}

// Init scripts

pub fn no_init_script(branch: &BranchName) -> Problem {
    let message = format!("The base of `{branch}` has no init script.");
    Problem::new("no_init_script", message, "Commit one as `.grove/worktree-init.sh` to the base branch.")
}

pub fn script_not_approved(path: &str) -> Problem {
    let message = format!("The init script `{path}` is not approved, so it was not run.");
    Problem::new("not_approved", message, "`grove trust` shows it; `grove trust --yes` approves it.")
}

// The start of the server

pub fn address_taken(address: &str, error: &impl Display) -> Problem {
    let hint = "Is a grove running there already? Choose another with `--listen`.";
    Problem::new("address_taken", format!("{address} cannot be listened on: {error}."), hint)
}

pub fn address_unknown(error: &impl Display) -> Problem {
    Problem::new("address_taken", format!("The address is not known: {error}."), "Try another `--listen`.")
}

pub fn bad_github_settings(error: &impl Display) -> Problem {
    Problem::new("bad_settings", sentence(&error.to_string()), "Fix `adapters.github` in GROVE_HOME/config.toml.")
}

pub fn bad_token_file(path: &Path, error: &impl Display) -> Problem {
    let message = format!("The token {} cannot be used: {error}.", path.display());
    Problem::new("no_token", message, "Make it readable for you, remove it, or set `server.token`.")
}

pub fn bad_page_host_file(path: &Path, error: &impl Display) -> Problem {
    let message = format!("The page's host name in {} cannot be used: {error}.", path.display());
    Problem::new("no_page_host", message, "Make the file readable for you, or remove it to get a new name.")
}

// Random numbers

pub fn no_random_secret(error: &impl Display) -> Problem {
    let message = format!("The system gives no random numbers: {error}.");
    Problem::new("not_random", message, "Try again; if it stays, check the system.")
}

pub fn no_random_page_id(error: &impl Display) -> Problem {
    Problem::new("not_random", format!("No conversation can be begun: {error}."), "Load the page again.")
}

pub fn no_random_chat_id(error: &impl Display) -> Problem {
    Problem::new("failed", format!("There are no random numbers: {error}."), "Name one with `--conversation`.")
}

// The command line

pub fn bad_arguments(message: &str) -> Problem {
    Problem::new("usage", message, "See `grove --help`.")
}

pub fn no_current_directory(error: &impl Display) -> Problem {
    let message = format!("The current directory cannot be read: {error}.");
    Problem::new("not_found", message, "Go into a directory that exists.")
}

pub fn no_runtime(error: &impl Display) -> Problem {
    Problem::new("failed", format!("The runtime could not start: {error}."), CHECK_LIMITS)
}

pub fn agent_failed(message: &str, hint: String) -> Problem {
    Problem::new("agent_failed", message, hint)
}

pub fn misplaced_create_flags() -> Problem {
    let message = "`--fork` goes with `--kind pr`, and `--sha` with `--kind pr` or `--kind review`.";
    Problem::new("usage", message, "See `grove worktree create --help`.")
}

pub fn no_name() -> Problem {
    Problem::new("usage", "A name is missing.", "Give NAME, or `--kind` with `--id`.")
}

pub fn no_worktree_here() -> Problem {
    let hint = "Give NAME, or go into a worktree; `grove worktree list` shows them.";
    Problem::new("usage", "This directory is in no worktree.", hint)
}

// `grove cd`, `grove shell-init` and `grove man`

pub fn no_shell_function() -> Problem {
    let message = "A program cannot change the directory of its shell, so a shell function is needed.";
    let hint = "Add `eval \"$(grove shell-init bash)\"` to ~/.bashrc (the same with zsh in ~/.zshrc; for fish, `grove shell-init fish | source` in ~/.config/fish/config.fish) and open a new shell.";
    Problem::new("no_shell_function", message, hint)
}

pub fn no_name_to_enter() -> Problem {
    Problem::new("usage", "A name is missing.", "Give NAME; the list to choose from needs a terminal.")
}

pub fn no_worktrees() -> Problem {
    Problem::new("not_found", "There are no worktrees.", "`grove worktree create NAME` makes one.")
}

pub fn nothing_to_enter(environment: &Environment) -> Problem {
    let (branch, path) = (&environment.branch, environment.path.display());
    match environment.status {
        Status::Hibernated => {
            let hint = format!("`grove worktree wake {branch}` brings it back.");
            Problem::new("not_active", format!("`{branch}` hibernates."), hint)
        }
        _ => Problem::new("missing", format!("{path} is not there."), "`grove doctor` says more."),
    }
}

pub fn no_own_path(error: &impl Display) -> Problem {
    Problem::new("failed", format!("The path of this program is not known: {error}."), CHECK_LIMITS)
}

pub fn no_manual(error: &impl Display) -> Problem {
    let message = format!("The manual pages cannot be written: {error}.");
    Problem::new("not_writable", message, "Choose another directory with `--out`.")
}

// `grove worktree exec`

pub fn no_command() -> Problem {
    Problem::new("usage", "A command is missing.", "Give it behind `--`.")
}

pub fn not_active(branch: &BranchName, status: Status) -> Problem {
    let message = format!("`{branch}` is {status}, so nothing was run there.");
    Problem::new("not_active", message, "Wait until it is active.")
}

pub fn being_moved(branch: &BranchName) -> Problem {
    let message = format!("`{branch}` is being moved by another grove, so nothing was run.");
    Problem::new("busy", message, "Wait a moment and try again.")
}

pub fn was_moved(branch: &BranchName) -> Problem {
    let message = format!("`{branch}` was moved at this moment, so nothing was run.");
    Problem::new("busy", message, "Try again.")
}

pub fn not_lockable(branch: &BranchName, error: &impl Display) -> Problem {
    let message = format!("`{branch}` cannot be locked, so nothing was run: {error}.");
    Problem::new("not_writable", message, "Give yourself write access to the repository's .git.")
}

pub fn not_its_worktree(path: &Path, codebase: &str) -> Problem {
    let message = format!("{} is not a worktree of `{codebase}` any more, so nothing was run.", path.display());
    Problem::new("environment_broken", message, "`grove doctor` says more.")
}

pub fn folder_missing(path: &Path) -> Problem {
    let message = format!("{} is not there, so nothing was run.", path.display());
    Problem::new("missing", message, "Make it again with `grove worktree create`.")
}

pub fn program_not_started(program: &str, error: &impl Display) -> Problem {
    let message = format!("`{program}` could not be started: {error}.");
    Problem::new("exec_failed", message, "Check that the program is installed and on PATH.")
}

// `grove chat` and `grove up`

pub fn server_gone(reason: &str) -> Problem {
    let message = format!("The server does not answer: {reason}.");
    Problem::new("server_gone", message, "Start `grove chat` again; `-c` with the conversation's id goes on with it.")
}

/// Repeats a refusal of the server. The server's own code is only text here; scripts rely on `refused`.
pub fn server_refused(message: String, hint: String) -> Problem {
    Problem::new("refused", message, hint)
}

pub fn no_link(address: &str) -> Problem {
    Problem::new("unreachable", format!("The server at {address} gave no link."), "End it and run `grove up` again.")
}

pub fn bad_server_address(address: &str, error: &impl Display) -> Problem {
    Problem::new("usage", format!("`{address}` is no address: {error}."), "Set `server.listen` to HOST:PORT.")
}

pub fn no_http_client(error: &impl Display) -> Problem {
    Problem::new("failed", format!("HTTP cannot be spoken: {error}."), CHECK_LIMITS)
}

pub fn no_signals(error: &impl Display) -> Problem {
    Problem::new("failed", format!("Signals cannot be listened to: {error}."), CHECK_LIMITS)
}

pub fn no_terminal() -> Problem {
    Problem::new("failed", "The terminal cannot be read.", "Use `grove chat MESSAGE`.")
}

pub fn terminal_failed(error: &impl Display) -> Problem {
    Problem::new("failed", format!("The terminal cannot be read: {error}."), "Use `grove chat MESSAGE`.")
}

pub fn stdin_failed(error: &impl Display) -> Problem {
    let message = format!("The standard input cannot be read: {error}.");
    Problem::new("failed", message, "Give the message as an argument.")
}
