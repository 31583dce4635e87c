//! Attachments that end without anything to tell: told to the service together, some milliseconds
//! later.
//!
//! Programs open and close files by the thousand; a call for each close would cost as much as the
//! one for each open. Until it is told an attachment counts as one: a file that is removed
//! meanwhile goes a moment later.
//!
//! Times of access travel with them, so that reading a file costs no call of its own; those of what
//! has no attachment, such as directories, go by themselves after a second. They may be lost: with
//! the connection, with this process.

use std::time::Duration;

use crate::volume::Ending;
use crate::{Error, Volume};

/// From the first attachment that ends until it is told, so that one call tells of several.
const LINGER: Duration = Duration::from_millis(5);

/// From the first access until it is told, if no attachment ends before.
const ACCESS_LINGER: Duration = Duration::from_secs(1);

impl Volume {
    /// An attachment ends; the service hears of it soon.
    pub(crate) fn detach_later(&self, file: u64, write: bool) {
        let begin = self.shared.detaches.lock().add(file, write);
        if begin {
            let volume = self.clone();
            self.shared.runtime.spawn(async move {
                loop {
                    tokio::time::sleep(LINGER).await;
                    if !volume.tell_detached().await {
                        return;
                    }
                }
            });
        }
    }

    /// A file, directory or link was read at this time; the service hears of it soon, with whatever
    /// attachments end.
    pub fn note_access(&self, file: u64, time: i64) {
        let begin = self.shared.detaches.lock().add_access(file, time);
        if begin {
            let volume = self.clone();
            self.shared.runtime.spawn(async move {
                tokio::time::sleep(ACCESS_LINGER).await;
                let more = volume.shared.detaches.lock().begin_accesses();
                if more {
                    volume.tell_ended().await;
                }
            });
        }
    }

    /// The time of access of a file is about to be set by hand: one that was noted before is not
    /// told any more.
    pub async fn forget_access(&self, file: u64) {
        let detaches = &self.shared.detaches;
        detaches.lock().forget_access(file);
        // What a call tells already is told before.
        drop(detaches.telling().await);
    }

    /// Tells the service of all attachments that [`File::let_go`](crate::File::let_go) has ended so
    /// far.
    pub async fn tell_ended(&self) {
        while self.tell_detached().await {}
    }

    /// Waits until the service was told of the end of every attachment, also of files that were
    /// dropped and not closed. For who is about to end: what the service is not told it notices
    /// when the connection has been away for its grace. A file that is still held keeps this
    /// waiting.
    pub async fn all_ended(&self) {
        loop {
            let mut ended = std::pin::pin!(self.shared.ended.notified());
            ended.as_mut().enable();
            if self.shared.has_ended_all() {
                return;
            }
            ended.await;
        }
    }

    /// Tells of ends of writers, if there are any: one that was not told looks like somebody else
    /// who writes, for whom a small file's bytes would have to go to its cells.
    pub(crate) async fn tell_ended_writers(&self) {
        if self.shared.detaches.lock().has_writers() {
            self.tell_ended().await;
        }
    }

    /// One call; false if there was nothing to tell.
    async fn tell_detached(&self) -> bool {
        let detaches = &self.shared.detaches;
        // Before it is taken, so that whoever finds nothing to forget waits for this.
        let tells = detaches.lock().has_accesses();
        let telling = if tells {
            Some(detaches.telling().await)
        } else {
            None
        };
        let Some(request) = detaches.lock().take(telling.is_some()) else {
            return false;
        };
        let reading = request.reading.iter().map(|file| (*file, false));
        let writing = request.writing.iter().map(|file| (*file, true));
        let mut ending = Ending::new(self, reading.chain(writing).collect());
        let what = "end attachments";
        let told: Result<_, Error> = self
            .meta_ending(what, &request, &mut ending, |_| true)
            .await;
        if let Err(error) = told {
            tracing::debug!(%error, "attachments end with the connection");
        }
        true
    }
}
