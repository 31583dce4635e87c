//! The delegated directories of this client and the changes in them that are not reported yet:
//! pure.
//!
//! Invariants:
//! 1. Changes are reported in the order in which they were made, each in one batch.
//! 2. No batch makes a file and removes it.
//! 3. A file counts as attached from the moment when a batch takes its making, unless it was closed
//!    before.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weft_proto::delegation::{ChangeNamesRequest, DelegateReply, NameChange, NameChanged, NewFile};
use weft_proto::limits::NAMES_AHEAD_MAX;
use weft_proto::meta::{Attributes, Layout};

use crate::Error;
use crate::limits::{
    CHANGE_COUNT_WINDOW, CHANGES_WORTH_DELEGATION, COUNTED_DIRECTORIES_MAX, DELEGATION_BACKOFF,
    DELEGATION_IDLE_TIMEOUT, DELEGATIONS_MAX, REPORT_BYTES_MAX, UNREPORTED_CHANGES_MAX,
};

/// Takes the service's answer about a file that was stored in a delegated directory.
pub(crate) type StoreWaiter = oneshot::Sender<Result<Attributes, Error>>;

/// A change that waits for its report.
pub(crate) struct QueuedChange {
    pub(crate) change: NameChange,
    pub(crate) waiter: Option<StoreWaiter>,
}

/// Changes that are reported together.
#[derive(Default)]
pub(crate) struct ChangeBatch {
    pub(crate) changes: Vec<QueuedChange>,
    pub(crate) given_back: Vec<u64>,
}

impl ChangeBatch {
    pub(crate) fn request(&self) -> ChangeNamesRequest {
        ChangeNamesRequest {
            changes: self.changes.iter().map(|q| q.change.clone()).collect(),
            given_back: self.given_back.clone(),
        }
    }

    /// The files that it makes and that stay attached, and whether for writing.
    pub(crate) fn attached(&self) -> impl Iterator<Item = (u64, bool)> {
        self.changes.iter().filter_map(|queued| {
            let made = queued.change.made.as_ref()?;
            (made.reading || made.writing).then_some((queued.change.file, made.writing))
        })
    }

    /// Each change with what became of it.
    pub(crate) fn outcomes(
        self,
        done: Vec<NameChanged>,
    ) -> impl Iterator<Item = (QueuedChange, Option<NameChanged>)> {
        let done = done.into_iter().map(Some).chain(std::iter::repeat(None));
        self.changes.into_iter().zip(done)
    }
}

/// A delegated directory: ids for new files, and when it was last used.
struct Delegation {
    ids: VecDeque<(u64, Layout)>,
    used: Instant,
}

/// See the module.
#[derive(Default)]
pub(crate) struct DelegationTable {
    held: HashMap<u64, Delegation>,
    queue: VecDeque<QueuedChange>,
    given_back: Vec<u64>,
    /// Changes, and directories given back, so far.
    pub(crate) noted: u64,
    /// Those of them that were reported.
    pub(crate) reported: u64,
    /// Changes whenever the answer to a request for a delegation may be outdated when it comes.
    pub(crate) generation: u64,
    shunned: HashMap<u64, Instant>,
    counted: HashMap<u64, (Instant, u32)>,
    /// A task will report soon.
    pub(crate) report_scheduled: bool,
    /// A task looks for idle delegations.
    pub(crate) idle_check_runs: bool,
}

impl DelegationTable {
    /// Counts a change of a name in a directory that is not held. Whether it is worth asking for.
    pub(crate) fn is_worth(&mut self, directory: u64) -> bool {
        let now = Instant::now();
        if self
            .shunned
            .get(&directory)
            .is_some_and(|until| *until > now)
            || self.held.len() >= DELEGATIONS_MAX
        {
            return false;
        }
        self.shunned.remove(&directory);
        if self.counted.len() >= COUNTED_DIRECTORIES_MAX {
            self.counted.clear();
        }
        let (since, count) = self.counted.entry(directory).or_insert((now, 0));
        if now - *since > CHANGE_COUNT_WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count >= CHANGES_WORTH_DELEGATION
    }

    /// Whether names in this directory may be changed here; with `make`, whether there is an id
    /// for a new file, too.
    pub(crate) fn may_change(&self, directory: u64, make: bool) -> bool {
        let held = self.held.get(&directory);
        self.queue.len() < UNREPORTED_CHANGES_MAX
            && held.is_some_and(|held| !make || !held.ids.is_empty())
    }

    /// The service has answered that this directory may be held.
    pub(crate) fn hold(&mut self, directory: u64, reply: DelegateReply) {
        self.counted.remove(&directory);
        let ids = (reply.first..).zip(reply.layouts).collect();
        let used = Instant::now();
        self.held.insert(directory, Delegation { ids, used });
    }

    /// This directory is not to be asked for again soon.
    pub(crate) fn back_off(&mut self, directory: u64) {
        if self.shunned.len() >= COUNTED_DIRECTORIES_MAX {
            self.shunned.clear();
        }
        self.shunned
            .insert(directory, Instant::now() + DELEGATION_BACKOFF);
    }

    /// An id and a layout for a new file.
    pub(crate) fn next(&mut self, directory: u64) -> Option<(u64, Layout)> {
        if !self.may_change(directory, true) {
            return None;
        }
        let held = self.held.get_mut(&directory)?;
        held.used = Instant::now();
        held.ids.pop_front()
    }

    /// Notes a change. True if the changes must be reported at once, because there are many.
    pub(crate) fn note(&mut self, change: NameChange) -> bool {
        if let Some(held) = self.held.get_mut(&change.directory) {
            held.used = Instant::now();
        }
        self.noted += 1;
        self.queue.push_back(QueuedChange {
            change,
            waiter: None,
        });
        self.queue.len() == NAMES_AHEAD_MAX
    }

    fn made(&mut self, file: u64) -> Option<(&mut NewFile, &mut Option<StoreWaiter>)> {
        let queued = self.queue.iter_mut().rev();
        let mut of_file = queued.filter(|queued| queued.change.file == file);
        of_file.find_map(|QueuedChange { change, waiter }| Some((change.made.as_mut()?, waiter)))
    }

    /// Closes a file that the service does not know yet; false if it knows it.
    pub(crate) fn close(&mut self, file: u64) -> bool {
        let made = self.made(file);
        made.is_some_and(|(made, _)| {
            (made.reading, made.writing) = (false, false);
            true
        })
    }

    /// The content of a file that the service does not know yet goes to it with its name. `None`:
    /// it knows the file.
    pub(crate) fn store(
        &mut self,
        file: u64,
        data: Bytes,
        modified: i64,
    ) -> Option<oneshot::Receiver<Result<Attributes, Error>>> {
        let (made, waiter) = self.made(file)?;
        made.data = Some(data);
        made.modified = modified;
        let (answer, answered) = oneshot::channel();
        *waiter = Some(answer);
        Some(answered)
    }

    /// Ends a delegation.
    pub(crate) fn give_back(&mut self, directory: u64) {
        self.held.remove(&directory);
        self.generation += 1;
        self.noted += 1;
        self.given_back.push(directory);
    }

    /// As [`DelegationTable::give_back`], if the directory is delegated; false if it is not.
    pub(crate) fn end(&mut self, directory: u64) -> bool {
        let had = self.held.contains_key(&directory);
        if had {
            self.give_back(directory);
        }
        had
    }

    /// Gives back what was not used of late. Whether something is left.
    pub(crate) fn give_back_idle(&mut self) -> bool {
        let now = Instant::now();
        let held = self.held.iter();
        let idle: Vec<u64> = held
            .filter(|(_, held)| now - held.used >= DELEGATION_IDLE_TIMEOUT)
            .map(|(directory, _)| *directory)
            .collect();
        for directory in idle {
            self.give_back(directory);
        }
        !self.held.is_empty()
    }

    /// The service may have forgotten what this client holds.
    pub(crate) fn forget(&mut self) {
        self.generation += 1;
        self.held.clear();
    }

    /// The next batch to report.
    pub(crate) fn take(&mut self) -> Option<ChangeBatch> {
        let mut batch = ChangeBatch::default();
        let (mut made, mut bytes) = (HashSet::new(), 0);
        while let Some(QueuedChange { change, .. }) = self.queue.front() {
            let data = change.made.as_ref().and_then(|made| made.data.as_ref());
            bytes += data.map_or(0, Bytes::len);
            let removes_made = change.made.is_none() && made.contains(&change.file);
            let full = batch.changes.len() == NAMES_AHEAD_MAX || bytes > REPORT_BYTES_MAX;
            if !batch.changes.is_empty() && (full || removes_made) {
                break;
            }
            made.insert(change.file);
            batch.changes.extend(self.queue.pop_front());
        }
        if self.queue.is_empty() {
            // Not before everything that was done in them.
            batch.given_back = std::mem::take(&mut self.given_back);
        }
        let some = !batch.changes.is_empty() || !batch.given_back.is_empty();
        some.then_some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(first: u64, ids: usize) -> DelegateReply {
        DelegateReply {
            granted: true,
            first,
            layouts: vec![Layout::default(); ids],
        }
    }

    fn change(directory: u64, file: u64, made: bool) -> NameChange {
        NameChange {
            directory,
            file,
            made: made.then(|| NewFile {
                writing: true,
                ..NewFile::default()
            }),
            ..NameChange::default()
        }
    }

    fn files(batch: &ChangeBatch) -> Vec<u64> {
        batch.changes.iter().map(|q| q.change.file).collect()
    }

    #[test]
    fn a_busy_directory_gets_a_delegation_unless_another_client_uses_it() {
        let mut table = DelegationTable::default();
        let asked: Vec<bool> = (0..5).map(|_| table.is_worth(7)).collect();
        assert_eq!(asked, [false, false, false, true, true]);
        table.back_off(7);
        assert!(!table.is_worth(7));
        for directory in 0..10 * COUNTED_DIRECTORIES_MAX as u64 {
            table.is_worth(directory);
            table.back_off(directory);
        }
        assert!(
            table.counted.len() <= COUNTED_DIRECTORIES_MAX
                && table.shunned.len() <= COUNTED_DIRECTORIES_MAX
        );
    }

    #[test]
    fn ids_are_used_once_and_then_only_removals_are_allowed() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 2));
        let ids: Vec<_> = std::iter::from_fn(|| table.next(7)).map(|n| n.0).collect();
        assert_eq!(ids, [100, 101]);
        assert!(!table.may_change(7, true) && table.may_change(7, false));
        assert!(table.end(7) && !table.end(7) && !table.may_change(7, false));
    }

    #[test]
    fn batches_keep_the_order_and_never_create_and_remove_the_same_file() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        table.note(change(7, 100, true));
        table.note(change(7, 50, false));
        table.note(change(7, 100, false));
        table.note(change(7, 101, true));
        table.end(7);
        assert!(
            table.close(101) && !table.close(50),
            "the table closes only files that it created"
        );
        let first = table.take().unwrap();
        assert_eq!(files(&first), [100, 50]);
        assert_eq!(first.attached().collect::<Vec<_>>(), [(100, true)]);
        assert!(
            first.given_back.is_empty(),
            "the delegation has unreported changes"
        );
        let second = table.take().unwrap();
        assert_eq!(
            (files(&second), &second.given_back[..]),
            (vec![100, 101], &[7][..])
        );
        assert_eq!(
            second.attached().count(),
            0,
            "the file was closed before the report"
        );
        assert!(table.take().is_none() && !table.close(100));
        assert_eq!(table.noted, 5);
    }

    #[test]
    fn batches_and_the_queue_are_bounded() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(0, 5000));
        let mut many = 0;
        while let Some((id, _)) = table.next(7) {
            many += u32::from(table.note(change(7, id, true)));
            if id < 40 {
                let data = Bytes::from(vec![0; 16 << 10]);
                assert!(table.store(id, data, 1).is_some());
            }
        }
        assert_eq!((table.queue.len(), many), (UNREPORTED_CHANGES_MAX, 1));
        let batches: Vec<_> = std::iter::from_fn(|| table.take()).collect();
        assert!(batches.iter().all(|b| b.changes.len() <= NAMES_AHEAD_MAX));
        assert_eq!(
            files(&batches[0]).len(),
            16,
            "a batch has 16 files of 16 KiB"
        );
        let reported: Vec<u64> = batches.iter().flat_map(files).collect();
        assert_eq!(
            reported,
            (0..UNREPORTED_CHANGES_MAX as u64).collect::<Vec<_>>()
        );
    }

    #[test]
    fn idle_delegations_are_given_back() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(0, 9));
        table.hold(8, lent(9, 9));
        table.held.get_mut(&7).unwrap().used -= DELEGATION_IDLE_TIMEOUT;
        assert!(table.give_back_idle());
        assert_eq!(table.take().unwrap().given_back, [7]);
        assert!(table.may_change(8, true));
    }
}
