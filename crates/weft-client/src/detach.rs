//! Attachments that end without anything to tell: told to the service together, some milliseconds later.
//!
//! Programs open and close files by the thousand; a call for each close would cost as much as the one for each open.
//! Until it is told an attachment counts as one: a file that is removed meanwhile goes a moment later.
//!
//! Times of access travel with them, so that reading a file costs no call of its own; those of what has no attachment, such as
//! directories, go by themselves after a second. They may be lost: with the connection, with this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weft_proto::limits::DETACH_MAX;
use weft_proto::meta::{Accessed, DetachRequest};

use crate::volume::Ending;
use crate::{Error, Volume};

/// From the first attachment that ends until it is told, so that one call tells of several.
const LINGER: Duration = Duration::from_millis(5);

/// From the first access until it is told, if no attachment ends before.
const ACCESS_LINGER: Duration = Duration::from_secs(1);

/// Files whose attachments have ended, and what was read.
#[derive(Default)]
pub(crate) struct Detaches {
    waiting: Mutex<Waiting>,
    /// Held while a call tells of accesses.
    telling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Waiting {
    reading: Vec<u64>,
    writing: Vec<u64>,
    /// Somebody will tell.
    begun: bool,
    accessed: HashMap<u64, i64>,
    /// Somebody will tell of what was accessed, at the latest in [`ACCESS_LINGER`].
    access_begun: bool,
}

impl Waiting {
    /// The next call's part; `None` when nothing is left, and then nobody tells any more.
    fn take(&mut self, accessed: bool) -> Option<DetachRequest> {
        let part =
            |list: &mut Vec<u64>, room: usize| list.split_off(list.len().saturating_sub(room));
        let writing = part(&mut self.writing, DETACH_MAX);
        let reading = part(&mut self.reading, DETACH_MAX - writing.len());
        let accessed = if accessed {
            self.take_accessed()
        } else {
            Vec::new()
        };
        if writing.is_empty() && reading.is_empty() && accessed.is_empty() {
            self.begun = false;
            return None;
        }
        Some(DetachRequest {
            reading,
            writing,
            accessed,
        })
    }

    fn take_accessed(&mut self) -> Vec<Accessed> {
        let all = self.accessed.iter().take(DETACH_MAX);
        let part = all.map(|(file, time)| Accessed {
            file: *file,
            time: *time,
        });
        let part: Vec<Accessed> = part.collect();
        for accessed in &part {
            self.accessed.remove(&accessed.file);
        }
        part
    }
}

impl Detaches {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// A file, directory or link was read at this time; the service hears of it soon, with whatever attachments end.
    pub fn note_access(&self, file: u64, time: i64) {
        let begin = {
            let mut waiting = self.shared.detaches.lock();
            waiting.accessed.insert(file, time);
            !std::mem::replace(&mut waiting.access_begun, true)
        };
        if begin {
            let volume = self.clone();
            self.shared.runtime.spawn(async move {
                tokio::time::sleep(ACCESS_LINGER).await;
                let more = {
                    let mut waiting = volume.shared.detaches.lock();
                    waiting.access_begun = false;
                    !waiting.accessed.is_empty()
                };
                if more {
                    volume.tell_ended().await;
                }
            });
        }
    }

    /// The time of access of a file is about to be set by hand: one that was noted before is not told any more.
    pub async fn forget_access(&self, file: u64) {
        let detaches = &self.shared.detaches;
        detaches.lock().accessed.remove(&file);
        // What a call tells already is told before.
        drop(detaches.telling.lock().await);
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
        let detaches = &self.shared.detaches;
        // Before it is taken, so that whoever finds nothing to forget waits for this.
        let tells = !detaches.lock().accessed.is_empty();
        let telling = if tells {
            Some(detaches.telling.lock().await)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_call_tells_of_more_than_the_service_takes_and_none_is_left_out() {
        let mut waiting = Waiting {
            reading: (0..6000).collect(),
            writing: (6000..9000).collect(),
            begun: true,
            accessed: (0..5000).map(|file| (file, 1)).collect(),
            ..Waiting::default()
        };
        let (mut told, mut accessed) = (Vec::new(), 0);
        while let Some(part) = waiting.take(true) {
            assert!(part.reading.len() + part.writing.len() <= DETACH_MAX);
            assert!(part.accessed.len() <= DETACH_MAX);
            told.extend(part.reading);
            told.extend(part.writing);
            accessed += part.accessed.len();
        }
        assert_eq!(accessed, 5000);
        told.sort_unstable();
        assert_eq!(told, (0..9000).collect::<Vec<_>>());
        assert!(!waiting.begun);
    }
}
