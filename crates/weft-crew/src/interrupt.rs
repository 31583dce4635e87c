//! Ctrl-C and friends: work that cleans up behind itself before the process goes.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::CrewError;

/// The signals by which a user ends a command. From the moment this is made they no longer end the
/// process by themselves.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Listens from now on.
    ///
    /// # Errors
    /// [`CrewError::Signals`].
    pub fn listen() -> Result<Interrupts, CrewError> {
        let listen = |kind| signal(kind).map_err(CrewError::Signals);
        Ok(Interrupts {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Completes when the user interrupts, and says by which signal. The caller then drops its work
    /// and cleans up.
    pub async fn wait(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "interrupted",
            _ = self.terminate.recv() => "terminated",
            _ = self.hangup.recv() => "hung up",
        }
    }
}
