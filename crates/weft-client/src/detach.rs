//! Attachments that end without anything to tell: told to the service together, some milliseconds later.
//!
//! Programs open and close files by the thousand; a call for each close would cost as much as the one for each open.
//! Until it is told an attachment counts as one: a file that is removed meanwhile goes a moment later.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weft_proto::limits::DETACH_MAX;
use weft_proto::meta::DetachRequest;

use crate::volume::Ending;
use crate::{Error, Volume};

/// From the first attachment that ends until it is told, so that one call tells of several.
const LINGER: Duration = Duration::from_millis(5);

/// Files whose attachments have ended.
#[derive(Default)]
pub(crate) struct Detaches(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    reading: Vec<u64>,
    writing: Vec<u64>,
    /// Somebody will tell.
    begun: bool,
}

impl Waiting {
    /// The next call's part; `None` when nothing is left, and then nobody tells any more.
    fn take(&mut self) -> Option<DetachRequest> {
        let part =
            |list: &mut Vec<u64>, room: usize| list.split_off(list.len().saturating_sub(room));
        let writing = part(&mut self.writing, DETACH_MAX);
        let reading = part(&mut self.reading, DETACH_MAX - writing.len());
        if writing.is_empty() && reading.is_empty() {
            self.begun = false;
            return None;
        }
        Some(DetachRequest { reading, writing })
    }
}

impl Detaches {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volume {
    /// An attachment ends; the service hears of it soon.
    pub(crate) fn detach_later(&self, file: u64, write: bool) {
        let begin = {
            let mut waiting = self.shared.detaches.lock();
            if write {
                waiting.writing.push(file);
            } else {
                waiting.reading.push(file);
            }
            !std::mem::replace(&mut waiting.begun, true)
        };
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

    /// Tells the service of all attachments that [`File::let_go`](crate::File::let_go) has ended so far.
    pub async fn tell_ended(&self) {
        while self.tell_detached().await {}
    }

    /// Waits until the service was told of the end of every attachment, also of files that were dropped and not closed. For who
    /// is about to end: what the service is not told it notices when the connection has been away for its grace. A file that is
    /// still held keeps this waiting.
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

    /// Tells of ends of writers, if there are any: one that was not told looks like somebody else who writes, for whom a
    /// small file's bytes would have to go to its cells.
    pub(crate) async fn tell_ended_writers(&self) {
        if !self.shared.detaches.lock().writing.is_empty() {
            self.tell_ended().await;
        }
    }

    /// One call; false if there was nothing to tell.
    async fn tell_detached(&self) -> bool {
        let Some(request) = self.shared.detaches.lock().take() else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_tells_of_more_than_the_service_takes_and_none_is_left_out() {
        let mut waiting = Waiting {
            reading: (0..6000).collect(),
            writing: (6000..9000).collect(),
            begun: true,
        };
        let mut told = Vec::new();
        while let Some(part) = waiting.take() {
            assert!(part.reading.len() + part.writing.len() <= DETACH_MAX);
            told.extend(part.reading);
            told.extend(part.writing);
        }
        told.sort_unstable();
        assert_eq!(told, (0..9000).collect::<Vec<_>>());
        assert!(!waiting.begun);
    }
}
