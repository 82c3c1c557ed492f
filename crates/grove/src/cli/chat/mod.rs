//! `grove chat`: a conversation in the terminal.
//!
//! It uses the server's API as the page does ([`client`]): the API of the running server, or of one that this
//! process starts for itself ([`reach`]). [`exchange`] sends one message and waits for its answer, [`show`]
//! prints the answers, [`editor`] and [`pipe`] read the messages, [`one_shot`] tidies up after a single one, [`markdown`] renders answers for a terminal. [`complete`] offers words at Tab,
//! [`signals`] handles Ctrl-C, and [`sse`] parses the stream of events.

mod client;
pub mod complete;
mod editor;
mod exchange;
mod markdown;
mod one_shot;
mod pipe;
pub mod reach;
mod show;
mod signals;
mod sse;

use std::io::IsTerminal;
use std::process::ExitCode;

use client::ChatClient;
use editor::ChatEditor;
use exchange::{ChatExchange, MessageOutcome};
use grove_environments::codebases::CodebaseError;
use grove_environments::problem::Problem;
use grove_model::Codebase;
use grove_store::Store;
use pipe::PipedInput;
use reach::ServerConnection;
use show::ChatOutput;
use signals::ChatSignals;

use super::{CliContext, CommandResult};
use crate::server::random_hex;
use crate::{output, words};

#[derive(Debug, clap::Args)]
pub struct ChatArgs {
    /// Say this, print the answer and end
    #[arg(value_name = "MESSAGE")]
    words: Option<String>,
    /// The same, for messages that begin with a dash
    #[arg(short, long, value_name = "MESSAGE", conflicts_with = "words", allow_hyphen_values = true)]
    message: Option<String>,
    /// Go on with this conversation; without it a new one begins
    #[arg(short, long, value_name = "ID")]
    conversation: Option<String>,
}

/// The platform of conversations in the terminal.
pub const TERMINAL_PLATFORM: &str = "cli";

/// One message that the user typed, or the reason why there is none.
pub enum ChatInput {
    Message(String),
    /// Nothing to send; more may come.
    Nothing,
    End,
    Failed(Problem),
}

pub async fn run(context: CliContext, args: ChatArgs) -> CommandResult {
    let store = context.open_store().await?;
    let codebase = codebase_here(&context, &store).await?;
    let conversation = match args.conversation {
        Some(id) => {
            let called = store.conversations_called(&id).await?;
            if !context.json && called.iter().all(|one| one.platform != TERMINAL_PLATFORM) {
                output::print_note(&format!("No conversation is called `{id}` yet, so a new one begins."));
            }
            id
        }
        None => new_conversation()?,
    };
    let ServerConnection { address, token, embedded } = reach::connect_or_embed(&context, &store).await?;
    let about = codebase.as_ref().map(|codebase| codebase.name.clone());
    let client = ChatClient::new(&address, &token, &conversation, about)?;
    let message = args.message.or(args.words);
    let is_one_shot = message.is_some();
    let talked = run_conversation(&context, &store, codebase.as_ref(), &client, message).await;
    // Also after a failure: the server waits for running messages.
    if let Some(embedded) = embedded {
        embedded.shut_down().await;
    }
    if is_one_shot {
        one_shot::remove_untouched_worktree(&context, &store, &conversation).await;
    }
    store.close().await;
    talked
}

async fn run_conversation(
    context: &CliContext,
    store: &Store,
    codebase: Option<&Codebase>,
    client: &ChatClient,
    message: Option<String>,
) -> CommandResult {
    let on_terminal = std::io::stdout().is_terminal() && !context.json;
    let mut exchange =
        ChatExchange::new(client, ChatSignals::listen_for_signals()?, ChatOutput::new(context.json, on_terminal)).await;
    if let Some(message) = message {
        return Ok(code_of(exchange.send_and_show(&message).await?));
    }
    if !on_terminal || !std::io::stdin().is_terminal() {
        return run_piped_conversation(&mut exchange).await;
    }
    let (environments, codebase_here) = (context.environments_in(store), codebase.cloned());
    let names = complete::CompletionNames { store: store.clone(), environments, codebase: codebase_here };
    let mut editor = ChatEditor::start_thread(context.settings.home_path().join("chat_history"), names);
    let about = codebase.map(|codebase| format!(" about {}", codebase.name)).unwrap_or_default();
    output::print_note(&format!(
        "Conversation {}{about}. /help shows the commands, Ctrl-D ends.",
        client.conversation_id()
    ));
    loop {
        exchange.signals.forget_stop();
        let input = tokio::select! {
            input = editor.next_input() => input,
            _ = exchange.signals.next_signal() => ChatInput::End,
        };
        match input {
            ChatInput::Message(message) => match exchange.send_and_show(&message).await? {
                MessageOutcome::Left => break,
                MessageOutcome::Done | MessageOutcome::NotDone | MessageOutcome::Stopped => {}
            },
            ChatInput::Nothing => {}
            ChatInput::End => break,
            ChatInput::Failed(problem) => return Err(problem),
        }
    }
    output::print_note(&format!("grove chat -c {} goes on with this conversation.", client.conversation_id()));
    Ok(ExitCode::SUCCESS)
}

/// Sends each line as a message; the next one is sent when the one before is answered.
async fn run_piped_conversation(exchange: &mut ChatExchange<'_>) -> CommandResult {
    let (mut pipe, mut all_done) = (PipedInput::start_thread(), true);
    loop {
        let input = tokio::select! {
            input = pipe.next_input() => input,
            _ = exchange.signals.next_signal() => return Ok(ExitCode::from(130)),
        };
        match input {
            ChatInput::Message(message) => match exchange.send_and_show(&message).await? {
                MessageOutcome::Done => {}
                MessageOutcome::NotDone => all_done = false,
                gone @ (MessageOutcome::Stopped | MessageOutcome::Left) => return Ok(code_of(gone)),
            },
            ChatInput::Nothing => {}
            ChatInput::End => {
                return Ok(code_of(if all_done { MessageOutcome::Done } else { MessageOutcome::NotDone }));
            }
            ChatInput::Failed(problem) => return Err(problem),
        }
    }
}

fn code_of(fate: MessageOutcome) -> ExitCode {
    match fate {
        MessageOutcome::Done => ExitCode::SUCCESS,
        MessageOutcome::NotDone => ExitCode::FAILURE,
        MessageOutcome::Stopped | MessageOutcome::Left => ExitCode::from(130),
    }
}

/// Returns the codebase of the conversation: the repository of the current directory, registered if it is
/// new, or the only registered one. There may be none.
async fn codebase_here(context: &CliContext, store: &Store) -> Result<Option<Codebase>, Problem> {
    match context.codebases_in(store).meant_or_registered(None, &context.cwd).await {
        Ok((codebase, _)) => Ok(Some(codebase)),
        Err(CodebaseError::None | CodebaseError::Which(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn new_conversation() -> Result<String, Problem> {
    let random = random_hex(4).map_err(|error| words::no_random_chat_id(&error))?;
    Ok(format!("cli-{random}"))
}
