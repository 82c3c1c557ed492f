//! Ctrl-C and the wish to end.

use futures_util::FutureExt;
use grove_environments::problem::Problem;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub enum Wish {
    /// Ctrl-C: what runs shall stop.
    Stop,
    /// The terminal or the machine goes away.
    End,
}

/// While a line is edited the terminal gives Ctrl-C to the editor; at all other times it comes here.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub fn listen() -> Result<Self, Problem> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                let message = format!("Signals cannot be listened to: {error}.");
                Problem::new("failed", message, "Check the machine's limits.")
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// A Ctrl-C that came too late for what it was meant to stop.
    pub fn forget_stop(&mut self) {
        while self.interrupt.recv().now_or_never().is_some() {}
    }

    pub async fn any(&mut self) -> Wish {
        tokio::select! {
            _ = self.interrupt.recv() => Wish::Stop,
            _ = self.terminate.recv() => Wish::End,
            _ = self.hangup.recv() => Wish::End,
        }
    }
}
