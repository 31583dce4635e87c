//! Asks servers for changes of the files that this client keeps names of, as long as it keeps some.

use tokio::time::{Instant, timeout};
use weft_layout::ServerId;

use crate::Volume;
use crate::limits::CALLBACKS_TIMEOUT;
use crate::volume::WeakVolume;

impl Volume {
    /// Asks a server from now on. One call a second while nothing happens.
    pub(super) fn ask_for_callbacks(&self, server: ServerId) {
        let volume = self.downgrade();
        self.shared.runtime.spawn(ask(volume, server));
    }
}

/// Ends with the volume.
async fn ask(weak: WeakVolume, server: ServerId) {
    loop {
        let Some(volume) = weak.upgrade() else {
            return;
        };
        let kept = &volume.shared.kept_names;
        let Some(question) = kept.question(server) else {
            return;
        };
        let sent = Instant::now();
        let asking = async {
            let connection = volume.server_connection(server).await?;
            connection.call(&question).await
        };
        let again = match timeout(CALLBACKS_TIMEOUT, asking).await {
            Ok(Ok(reply)) => kept.answered(server, &question, sent, &reply),
            Ok(Err(error)) => {
                tracing::debug!(%server, %error, "names are no longer kept of a server");
                kept.lost(server, &question)
            }
            Err(_) => kept.lost(server, &question),
        };
        if !again {
            return;
        }
    }
}
