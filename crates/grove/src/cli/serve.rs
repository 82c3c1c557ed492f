//! `grove serve`

use std::process::ExitCode;

use grove_git::Git;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{CliContext, CommandResult};
use crate::server::{GroveServer, ServerMode};

#[derive(Debug, clap::Args)]
// `grove up` takes these too, beside its own.
#[group(id = "serve")]
pub struct ServeArgs {
    /// Where to listen; without it, what `server.listen` says
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Let scripts of this machine act as an adapter, at /test
    #[arg(long)]
    pub test_adapter: bool,
}

impl ServeArgs {
    pub fn apply_flags(&self, context: &mut CliContext) -> Result<(), grove_environments::problem::Problem> {
        if let Some(listen) = &self.listen {
            context.settings.with_flag("--listen", "server.listen", listen)?;
        }
        if self.test_adapter {
            context.settings.with_flag("--test-adapter", "adapters.test.enabled", "true")?;
        }
        Ok(())
    }
}

pub async fn run(mut context: CliContext, args: &ServeArgs) -> CommandResult {
    args.apply_flags(&mut context)?;
    let store = context.open_store().await?;
    let server =
        GroveServer::start_server(context.git.clone(), store.clone(), &context.settings, ServerMode::All).await?;
    end_on_signals(&server.end_switch(), &context.git);
    server.run_until_ended().await;
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

/// Handles signals: the first one lets running messages finish; the second one ends the program.
pub fn end_on_signals(ending: &watch::Sender<bool>, git: &Git) {
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let Ok(mut signals) = signal(kind) else { continue };
        let (ending, git) = (ending.clone(), git.clone());
        tokio::spawn(async move {
            signals.recv().await;
            ending.send_replace(true);
            signals.recv().await;
            git.interrupt_calls();
            std::process::exit(130);
        });
    }
}
