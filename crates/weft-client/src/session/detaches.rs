//! Ended attachments and accesses that are not reported to the service yet.

use std::collections::{HashMap, HashSet};

use parking_lot::{Mutex, MutexGuard};
use weft_proto::limits::DETACH_MAX;
use weft_proto::meta::{Accessed, DetachRequest};

/// Ended attachments and accesses, until they are reported.
#[derive(Default)]
pub(crate) struct DetachQueue {
    waiting: Mutex<UnreportedDetaches>,
    /// Locked while a call reports accesses.
    reporting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
pub(crate) struct UnreportedDetaches {
    reading: Vec<u64>,
    writing: Vec<u64>,
    /// A task will report them.
    scheduled: bool,
    accessed: HashMap<u64, i64>,
    /// A task will report the accesses.
    access_scheduled: bool,
}

impl UnreportedDetaches {
    /// An attachment has ended; whether the caller must start a task that reports it.
    pub(crate) fn add(&mut self, file: u64, write: bool) -> bool {
        let list = if write {
            &mut self.writing
        } else {
            &mut self.reading
        };
        list.push(file);
        !std::mem::replace(&mut self.scheduled, true)
    }

    /// A file was accessed; whether the caller must start a task that reports it.
    pub(crate) fn add_access(&mut self, file: u64, time: i64) -> bool {
        self.accessed.insert(file, time);
        !std::mem::replace(&mut self.access_scheduled, true)
    }

    /// Accesses are to be reported soon; whether the caller must start a task that does.
    pub(crate) fn hasten_accesses(&mut self) -> bool {
        self.has_accesses() && !std::mem::replace(&mut self.scheduled, true)
    }

    /// The task that reports accesses begins; whether there are any.
    pub(crate) fn begin_accesses(&mut self) -> bool {
        self.access_scheduled = false;
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

    /// Drops an access.
    pub(crate) fn forget_access(&mut self, file: u64) {
        self.accessed.remove(&file);
    }

    /// The next call's batch; `None` when nothing is left, and then no task is scheduled any more.
    pub(crate) fn take(&mut self, accessed: bool) -> Option<DetachRequest> {
        let last = |list: &mut Vec<u64>, max: usize| list.split_off(list.len().saturating_sub(max));
        let writing = last(&mut self.writing, DETACH_MAX);
        let reading = last(&mut self.reading, DETACH_MAX - writing.len());
        let accessed = if accessed {
            self.take_accessed()
        } else {
            Vec::new()
        };
        if writing.is_empty() && reading.is_empty() && accessed.is_empty() {
            self.scheduled = false;
            return None;
        }
        Some(DetachRequest {
            reading,
            writing,
            accessed,
        })
    }

    /// The ended attachments for reading of these files.
    pub(crate) fn take_of(&mut self, files: &HashSet<u64>) -> Option<DetachRequest> {
        if files.is_empty() {
            return None;
        }
        let of = self.reading.extract_if(.., |file| files.contains(file));
        let reading: Vec<u64> = of.take(DETACH_MAX).collect();
        (!reading.is_empty()).then(|| DetachRequest {
            reading,
            ..DetachRequest::default()
        })
    }

    fn take_accessed(&mut self) -> Vec<Accessed> {
        let all = self.accessed.iter().take(DETACH_MAX);
        let batch = all.map(|(file, time)| Accessed {
            file: *file,
            time: *time,
        });
        let batch: Vec<Accessed> = batch.collect();
        for accessed in &batch {
            self.accessed.remove(&accessed.file);
        }
        batch
    }
}

impl DetachQueue {
    /// What is unreported, under its lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, UnreportedDetaches> {
        self.waiting.lock()
    }

    /// Locks out other reports of accesses.
    pub(crate) async fn reporting(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.reporting.lock().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_of_some_files_are_taken_before_the_others() {
        let mut waiting = UnreportedDetaches {
            reading: vec![1, 2, 3, 2],
            writing: vec![2],
            ..UnreportedDetaches::default()
        };
        assert!(waiting.take_of(&HashSet::new()).is_none());
        assert!(waiting.take_of(&HashSet::from([9])).is_none());
        let taken = waiting.take_of(&HashSet::from([2, 3])).unwrap();
        assert_eq!((taken.reading, taken.writing), (vec![2, 3, 2], vec![]));
        assert_eq!(waiting.take(true).unwrap().reading, [1]);
    }

    #[test]
    fn reports_are_split_at_the_limit_of_the_service_and_none_is_lost() {
        let mut waiting = UnreportedDetaches {
            reading: (0..6000).collect(),
            writing: (6000..9000).collect(),
            scheduled: true,
            accessed: (0..5000).map(|file| (file, 1)).collect(),
            ..UnreportedDetaches::default()
        };
        let (mut reported, mut accessed) = (Vec::new(), 0);
        while let Some(batch) = waiting.take(true) {
            assert!(batch.reading.len() + batch.writing.len() <= DETACH_MAX);
            assert!(batch.accessed.len() <= DETACH_MAX);
            reported.extend(batch.reading);
            reported.extend(batch.writing);
            accessed += batch.accessed.len();
        }
        assert_eq!(accessed, 5000);
        reported.sort_unstable();
        assert_eq!(reported, (0..9000).collect::<Vec<_>>());
        assert!(!waiting.scheduled);
    }
}
