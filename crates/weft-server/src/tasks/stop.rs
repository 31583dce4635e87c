//! The stop signal of a node.

use tokio::sync::watch;

/// Completes when the node is asked to stop, or is gone.
pub(crate) async fn stopped(mut stopping: watch::Receiver<bool>) {
    // An error means that the node was dropped, which is also a reason to stop.
    let _ = stopping.wait_for(|stop| *stop).await;
}
