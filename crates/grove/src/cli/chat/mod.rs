//! `grove chat`: a conversation in the terminal.
//!
//! It speaks to a server as the page does ([`client`]): to the one that runs, or to one that this
//! process starts for itself ([`reach`]). [`exchange`] carries one message to its answer, [`show`]
//! prints what comes back, [`editor`] and [`pipe`] are where messages come from.

mod client;
mod complete;
mod editor;
mod exchange;
mod pipe;
pub mod reach;
mod show;
mod signals;
mod sse;

use std::io::IsTerminal;
use std::process::ExitCode;

use client::Client;
use editor::Editor;
use exchange::{Exchange, Fate};
use grove_environments::codebases::CodebaseError;
use grove_environments::problem::Problem;
use grove_model::Codebase;
use grove_store::Store;
use owo_colors::OwoColorize;
use pipe::Pipe;
use reach::Reached;
use show::Show;
use signals::Signals;

use super::{Context, Done};
use crate::server::random_hex;

#[derive(Debug, clap::Args)]
pub struct Args {
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

/// One message that somebody typed, or why there is none.
pub enum Input {
    Message(String),
    /// Nothing to send; more may come.
    Nothing,
    End,
    Failed(Problem),
}

pub async fn run(context: Context, args: Args) -> Done {
    let store = context.store().await?;
    let codebase = codebase_here(&context, &store).await?;
    let conversation = match args.conversation {
        Some(id) => id,
        None => new_conversation()?,
    };
    let Reached { address, token, embedded } = reach::reach(&context, &store).await?;
    let about = codebase.as_ref().map(|codebase| codebase.name.clone());
    let client = Client::new(&address, &token, &conversation, about)?;
    let talked = talk(&context, &store, codebase.as_ref(), &client, args.message.or(args.words)).await;
    // Also after a failure: what runs here is waited for.
    if let Some(embedded) = embedded {
        embedded.end().await;
    }
    store.close().await;
    talked
}

async fn talk(
    context: &Context,
    store: &Store,
    codebase: Option<&Codebase>,
    client: &Client,
    message: Option<String>,
) -> Done {
    let on_terminal = std::io::stdout().is_terminal() && !context.json;
    let mut exchange = Exchange::new(client, Signals::listen()?, Show::new(context.json, on_terminal)).await;
    if let Some(message) = message {
        return Ok(code_of(exchange.carry(&message).await?));
    }
    if !on_terminal || !std::io::stdin().is_terminal() {
        return piped(&mut exchange).await;
    }
    let (isolation, codebase_here) = (context.isolation(store), codebase.cloned());
    let names = complete::Names { store: store.clone(), isolation, codebase: codebase_here };
    let mut editor = Editor::start(context.settings.home().join("chat_history"), names);
    let about = codebase.map(|codebase| format!(" about {}", codebase.name)).unwrap_or_default();
    hint(&format!("Conversation {}{about}. /help shows the commands, Ctrl-D ends.", client.conversation()));
    loop {
        exchange.signals.forget_stop();
        let input = tokio::select! {
            input = editor.next() => input,
            _ = exchange.signals.any() => Input::End,
        };
        match input {
            Input::Message(message) => match exchange.carry(&message).await? {
                Fate::Left => break,
                Fate::Done | Fate::NotDone | Fate::Stopped => {}
            },
            Input::Nothing => {}
            Input::End => break,
            Input::Failed(problem) => return Err(problem),
        }
    }
    hint(&format!("grove chat -c {} goes on with this conversation.", client.conversation()));
    Ok(ExitCode::SUCCESS)
}

/// Each line is a message; the next one is sent when the one before is answered.
async fn piped(exchange: &mut Exchange<'_>) -> Done {
    let (mut pipe, mut all_done) = (Pipe::start(), true);
    loop {
        let input = tokio::select! {
            input = pipe.next() => input,
            _ = exchange.signals.any() => return Ok(ExitCode::from(130)),
        };
        match input {
            Input::Message(message) => match exchange.carry(&message).await? {
                Fate::Done => {}
                Fate::NotDone => all_done = false,
                gone @ (Fate::Stopped | Fate::Left) => return Ok(code_of(gone)),
            },
            Input::Nothing => {}
            Input::End => return Ok(code_of(if all_done { Fate::Done } else { Fate::NotDone })),
            Input::Failed(problem) => return Err(problem),
        }
    }
}

fn code_of(fate: Fate) -> ExitCode {
    match fate {
        Fate::Done => ExitCode::SUCCESS,
        Fate::NotDone => ExitCode::FAILURE,
        Fate::Stopped | Fate::Left => ExitCode::from(130),
    }
}

/// The codebase that is talked about: the repository that we are in, registered if it is new, or the
/// only one. There may be none.
async fn codebase_here(context: &Context, store: &Store) -> Result<Option<Codebase>, Problem> {
    match context.codebases(store).meant_or_registered(None, &context.cwd).await {
        Ok(codebase) => Ok(Some(codebase)),
        Err(CodebaseError::None | CodebaseError::Which(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn new_conversation() -> Result<String, Problem> {
    let random = random_hex(4).map_err(|error| {
        Problem::new("failed", format!("There are no random numbers: {error}."), "Name one with `--conversation`.")
    })?;
    Ok(format!("cli-{random}"))
}

fn hint(text: &str) {
    anstream::eprintln!("{}", text.dimmed());
}
