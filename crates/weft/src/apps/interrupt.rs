//! Ctrl-C and friends: work that cleans up behind itself before the process goes.

use anyhow::{Result, anyhow};
use tokio::signal::unix::{SignalKind, signal};

/// Runs `work` until it ends or the user interrupts, whichever comes first. Interrupted, `work` is dropped.
pub(crate) async fn unless_interrupted<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let name = tokio::select! {
        done = work => return done,
        _ = interrupt.recv() => "interrupted",
        _ = terminate.recv() => "terminated",
        _ = hangup.recv() => "hung up",
    };
    Err(anyhow!("{name}: nothing was replaced"))
}
