//! Ctrl-C and the signals that end the program.

use futures_util::FutureExt;
use grove_environments::problem::Problem;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::words;

pub enum StopSignal {
    /// Ctrl-C: stop the running message.
    Stop,
    /// The terminal closes or the machine shuts down.
    End,
}

/// The signals of a chat. While a line is edited the terminal gives Ctrl-C to the editor; at all other times
/// it arrives here.
pub struct ChatSignals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl ChatSignals {
    pub fn listen_for_signals() -> Result<Self, Problem> {
        let listen = |kind| signal(kind).map_err(|error| words::no_signals(&error));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Discards a Ctrl-C that came after the end of the message that it was meant to stop.
    pub fn forget_stop(&mut self) {
        while self.interrupt.recv().now_or_never().is_some() {}
    }

    pub async fn next_signal(&mut self) -> StopSignal {
        tokio::select! {
            _ = self.interrupt.recv() => StopSignal::Stop,
            _ = self.terminate.recv() => StopSignal::End,
            _ = self.hangup.recv() => StopSignal::End,
        }
    }
}
