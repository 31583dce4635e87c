//! Attachments that have ended and accesses, both of which the service is not told yet.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use weft_proto::limits::DETACH_MAX;
use weft_proto::meta::{Accessed, DetachRequest};

/// Attachments that have ended and accesses, until the service is told.
#[derive(Default)]
pub(crate) struct Detaches {
    waiting: Mutex<Waiting>,
    /// Held while a call tells of accesses.
    telling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
pub(crate) struct Waiting {
    reading: Vec<u64>,
    writing: Vec<u64>,
    /// A task will tell the service.
    begun: bool,
    accessed: HashMap<u64, i64>,
    /// A task will tell the service what was accessed.
    access_begun: bool,
}

impl Waiting {
    /// An attachment has ended; whether the caller must start a task that tells.
    pub(crate) fn add(&mut self, file: u64, write: bool) -> bool {
        let list = if write {
            &mut self.writing
        } else {
            &mut self.reading
        };
        list.push(file);
        !std::mem::replace(&mut self.begun, true)
    }

    /// A file was accessed; whether the caller must start a task that tells.
    pub(crate) fn add_access(&mut self, file: u64, time: i64) -> bool {
        self.accessed.insert(file, time);
        !std::mem::replace(&mut self.access_begun, true)
    }

    /// The task that tells of accesses begins; whether there are any.
    pub(crate) fn begin_accesses(&mut self) -> bool {
        self.access_begun = false;
        self.has_accesses()
    }

    /// Whether attachments for writing have ended.
    pub(crate) fn has_writers(&self) -> bool {
        !self.writing.is_empty()
    }

    /// Whether there are accesses.
    pub(crate) fn has_accesses(&self) -> bool {
        !self.accessed.is_empty()
    }

    /// An access is not to be told.
    pub(crate) fn forget_access(&mut self, file: u64) {
        self.accessed.remove(&file);
    }

    /// The next call's part; `None` when nothing is left, and then no task tells any more.
    pub(crate) fn take(&mut self, accessed: bool) -> Option<DetachRequest> {
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
    /// What waits, under its lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// Held while a call tells of accesses.
    pub(crate) async fn telling(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.telling.lock().await
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
