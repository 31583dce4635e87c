//! What other clients change, as they change it.
//!
//! Between a change and its message lie milliseconds. What another client writes into a file is
//! notified when that client reports it, at the latest when it closes the file. A client is not
//! notified of its changes.

use std::time::Duration;

use weft_proto::coord::WatchRequest;

use crate::Volume;
use crate::volume::Repeat;

pub use weft_proto::coord::ChangedEntry;

/// Pause before a service that does not answer is asked again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// The service answers within two seconds, also where nothing has happened; one that does not may
/// have forgotten us.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);

/// Pause after a recall that says nothing new: the service repeats it until the directory is back,
/// and reports may wait for other clients.
const RECALL_PAUSE: Duration = Duration::from_millis(5);

/// What others changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// These, each once.
    Some {
        /// Files whose attributes or data changed, ascending.
        files: Vec<u64>,
        /// Names whose entry changed, ascending.
        entries: Vec<ChangedEntry>,
        /// Files that other clients are opening, ascending: they wait until this client has sent
        /// what programs wrote to them, which the next call of [`Watch::next`] says. Only for
        /// clients that are [`Watch::gathering`].
        opened: Vec<u64>,
    },
    /// Anything may have changed: watching has just begun, the service could not be reached, or
    /// this client is too slow.
    Everything,
}

/// A stream of changes. What happens between two calls of [`Watch::next`] is kept by the service,
/// within bounds.
pub struct Watch {
    volume: Volume,
    boot: u64,
    cursor: u64,
    gathers: bool,
    /// The service did not answer the last time.
    lost: bool,
    /// The last answer said nothing new.
    paused: bool,
}

impl Volume {
    /// Watches what others change from now on. The first notification is [`Changed::Everything`].
    pub fn watch(&self) -> Watch {
        Watch {
            volume: self.clone(),
            boot: 0,
            cursor: 0,
            gathers: false,
            lost: false,
            paused: false,
        }
    }
}

impl Watch {
    /// This client keeps bytes that programs write, and sends them later. An open of such a file
    /// by another client waits until they are sent.
    #[must_use]
    pub fn gathering(mut self) -> Watch {
        self.gathers = true;
        self
    }

    /// Whether everything not notified is unchanged: false from the loss of the service until it
    /// answers again.
    pub fn is_live(&self) -> bool {
        !self.lost && self.boot != 0
    }

    /// Waits for changes. Returns [`Changed::Everything`] once when the service cannot be reached,
    /// then keeps trying, and once more when it answers again. One request every two seconds
    /// while nothing happens.
    ///
    /// # Cancellation
    /// Safe: no change is lost.
    pub async fn next(&mut self) -> Changed {
        loop {
            if self.lost {
                tokio::time::sleep(RETRY_INTERVAL).await;
            } else if self.paused {
                tokio::time::sleep(RECALL_PAUSE).await;
            }
            self.paused = false;
            let request = WatchRequest {
                boot: self.boot,
                cursor: self.cursor,
                gathers: self.gathers,
            };
            let asked = self.volume.meta_now("watch", &request, Repeat::Unsafe);
            let Ok(Ok(reply)) = tokio::time::timeout(ANSWER_TIMEOUT, asked).await else {
                self.volume.shared.delegated.forget();
                let newly_lost = !std::mem::replace(&mut self.lost, true);
                self.boot = 0;
                if newly_lost {
                    tracing::debug!("watching begins anew");
                    return Changed::Everything;
                }
                continue;
            };
            self.lost = false;
            self.boot = reply.boot;
            self.cursor = reply.cursor;
            if !reply.recalled.is_empty() && !self.volume.recalled(&reply.recalled) {
                self.paused = true;
            }
            if reply.everything {
                self.volume.shared.delegated.forget();
                return Changed::Everything;
            }
            let changed = !reply.files.is_empty() || !reply.entries.is_empty();
            if changed || !reply.opened.is_empty() {
                return Changed::Some {
                    files: reply.files,
                    entries: reply.entries,
                    opened: reply.opened,
                };
            }
        }
    }
}
