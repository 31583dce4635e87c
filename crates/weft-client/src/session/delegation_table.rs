//! The delegated directories of this client and the changes in them that are not reported yet:
//! pure.
//!
//! Invariants:
//! 1. Each change is reported in one batch, after all earlier ones of the same file, of the same
//!    name and of its directory itself. Before a call ([`Due::All`]) all are reported in the order
//!    in which they were made.
//! 2. No batch makes a file and changes it again, or makes a directory and changes names in it: the
//!    service applies a batch to what was there before.
//! 3. A file counts as attached from the moment when a batch takes its making, unless it was closed
//!    before.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;
use weft_proto::delegation::{ChangeNamesRequest, DelegateReply, NameChange, NameChanged, NewFile};
use weft_proto::limits::NAMES_AHEAD_MAX;
use weft_proto::meta::{Attributes, Credentials, Layout, SetAttributesRequest};

use super::made_files::{MadeFile, MadeFiles, merge};
use super::worth::Worth;
use crate::Error;
use crate::limits::{
    DELEGATION_IDLE_TIMEOUT, DELEGATIONS_MAX, REPORT_BYTES_MAX, REPORT_DELAY,
    UNREPORTED_CHANGES_MAX,
};

/// The service's answer to a change; attributes, if it came with content.
type Answer = Result<Option<Attributes>, Error>;

/// Waits for a change of a file in a delegated directory.
struct ChangeWaiter {
    /// Told when the change outlives this process.
    handed_over: Option<oneshot::Sender<()>>,
    answer: oneshot::Sender<Answer>,
}

/// The other side of a [`ChangeWaiter`].
pub(crate) struct ChangeProgress {
    handed_over: oneshot::Receiver<()>,
    answer: oneshot::Receiver<Answer>,
}

impl ChangeProgress {
    /// Waits until the change outlives this process, true, or is answered.
    pub(crate) async fn is_handed_over(&mut self) -> bool {
        (&mut self.handed_over).await.is_ok()
    }

    /// The service's answer; `None`: another change of the file took its place.
    pub(crate) async fn answer(self) -> Option<Answer> {
        self.answer.await.ok()
    }
}

impl ChangeWaiter {
    fn new() -> (ChangeWaiter, ChangeProgress) {
        let (handed_over, is_handed_over) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let waiter = ChangeWaiter {
            handed_over: Some(handed_over),
            answer,
        };
        let progress = ChangeProgress {
            handed_over: is_handed_over,
            answer: answered,
        };
        (waiter, progress)
    }
}

/// A change that waits for its report.
pub(crate) struct QueuedChange {
    /// Its number among all changes.
    number: u64,
    noted: Instant,
    pub(crate) change: NameChange,
    waiter: Option<ChangeWaiter>,
}

impl QueuedChange {
    /// The service has answered the change.
    pub(crate) fn answered(self, answer: Answer) {
        if let Some(waiter) = self.waiter {
            // A caller that was cancelled does not need it.
            let _ = waiter.answer.send(answer);
        }
    }

    /// A file that is being written, and none of whose bytes are known yet: with them, it is one
    /// change.
    fn is_in_progress(&self, now: Instant) -> bool {
        let made = self.change.made.as_ref();
        let is_written = made.is_some_and(|made| made.writing && made.data.is_none());
        is_written && self.waiter.is_none() && now - self.noted < REPORT_DELAY
    }
}

/// What is to be reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// All of the first so many changes, at least.
    All(u64),
    /// What is complete of the first so many: not files that are being written, for a moment, nor
    /// what follows from them. Later ones are gathered for the next report.
    Complete(u64),
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

    /// The waiters that are told when the batch outlives this process.
    pub(crate) fn take_handed_over(&mut self) -> Vec<oneshot::Sender<()>> {
        let waiters = self.changes.iter_mut().filter_map(|q| q.waiter.as_mut());
        waiters
            .filter_map(|waiter| waiter.handed_over.take())
            .collect()
    }

    /// The files whose names it removes.
    pub(crate) fn removed(&self) -> HashSet<u64> {
        let changes = self.changes.iter().map(|queued| &queued.change);
        let removals = changes.filter(|change| change.made.is_none() && change.set.is_none());
        removals.map(|change| change.file).collect()
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

/// Ids for new files, each with its layout.
type NewIds = Arc<Mutex<VecDeque<(u64, Layout)>>>;

/// A delegated directory: ids for new files, and when it was last used.
struct Delegation {
    /// Shared with the directories that were made in it, whose files get the same layouts.
    ids: NewIds,
    used: Instant,
    /// The time of the last change of a name in it.
    changed: i64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct DelegationTable {
    held: HashMap<u64, Delegation>,
    queue: VecDeque<QueuedChange>,
    given_back: Vec<u64>,
    /// The number of the last directory among them.
    last_given_back: u64,
    made_files: MadeFiles,
    /// Changes of attributes of them.
    set_here: u64,
    /// Changes, and directories given back, so far.
    pub(crate) noted: u64,
    /// Those of them that were reported.
    pub(crate) reported: u64,
    /// Files in the report that is on its way, until it outlives this process.
    leaving: HashSet<u64>,
    /// Changes whenever the answer to a request for a delegation may be outdated when it comes.
    pub(crate) generation: u64,
    worth: Worth,
    /// A task will report soon.
    pub(crate) report_scheduled: bool,
    /// A task looks for idle delegations.
    pub(crate) idle_check_runs: bool,
}

impl DelegationTable {
    /// Counts a change of a name in a directory that is not held. Whether it is worth asking for.
    pub(crate) fn is_worth(&mut self, directory: u64) -> bool {
        self.may_hold_more() && self.worth.count(directory, Instant::now())
    }

    /// Whether names in this directory may be changed here; with `make`, whether there is an id
    /// for a new file, too.
    pub(crate) fn may_change(&self, directory: u64, make: bool) -> bool {
        let held = self.held.get(&directory);
        self.queue.len() < UNREPORTED_CHANGES_MAX
            && held.is_some_and(|held| !make || !held.ids.lock().is_empty())
    }

    pub(crate) fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// The service has answered that this directory may be held.
    pub(crate) fn hold(&mut self, directory: u64, reply: DelegateReply) {
        self.worth.granted(directory);
        let used = Instant::now();
        let ids = NewIds::default();
        let held = self.held.entry(directory);
        let held = held.or_insert(Delegation {
            ids,
            used,
            changed: 0,
        });
        held.used = used;
        held.ids.lock().extend((reply.first..).zip(reply.layouts));
        for other in reply.also {
            self.held.entry(other).or_insert_with(|| Delegation {
                ids: NewIds::default(),
                used,
                changed: 0,
            });
        }
    }

    /// Leaves those directories that may be asked for.
    pub(crate) fn retain_free(&mut self, directories: &mut Vec<u64>) {
        let now = Instant::now();
        directories.retain(|directory| {
            !self.held.contains_key(directory) && !self.worth.is_shunned(*directory, now)
        });
        directories.truncate(DELEGATIONS_MAX.saturating_sub(self.held.len()));
    }

    /// This client has made a directory in one that it holds: it holds that, too. False if it holds
    /// too many.
    pub(crate) fn hold_new(&mut self, parent: u64, directory: u64) -> bool {
        let Some(parent) = self.held.get(&parent) else {
            return false;
        };
        let new = Delegation {
            ids: parent.ids.clone(),
            used: Instant::now(),
            changed: 0,
        };
        self.held.insert(directory, new);
        true
    }

    /// Whether one more directory may be held.
    pub(crate) fn may_hold_more(&self) -> bool {
        self.held.len() < DELEGATIONS_MAX
    }

    /// A directory that this client made is not delegated to it.
    pub(crate) fn undelegated(&mut self, directory: u64) {
        self.held.remove(&directory);
        self.made_files.remove_of(directory);
    }

    /// A directory was removed.
    pub(crate) fn removed(&mut self, directory: u64) {
        self.made_files.remove(directory);
        if self.held.remove(&directory).is_some() {
            self.made_files.remove_of(directory);
        }
    }

    /// This directory is not to be asked for again soon.
    pub(crate) fn back_off(&mut self, directory: u64) {
        self.worth.shun(directory, Instant::now());
    }

    /// An id and a layout for a new file.
    pub(crate) fn next(&mut self, directory: u64) -> Option<(u64, Layout)> {
        if !self.may_change(directory, true) {
            return None;
        }
        let held = self.held.get_mut(&directory)?;
        held.used = Instant::now();
        held.ids.lock().pop_front()
    }

    /// Notes a change. True if the changes must be reported at once, because there are many.
    pub(crate) fn note(&mut self, change: NameChange) -> bool {
        if let Some(held) = self.held.get_mut(&change.directory) {
            held.used = Instant::now();
            self.worth.note_change(held.used);
            if change.made.is_some() || change.set.is_none() {
                held.changed = held.changed.max(change.time);
            }
        }
        self.noted += 1;
        self.queue.push_back(QueuedChange {
            number: self.noted,
            noted: Instant::now(),
            change,
            waiter: None,
        });
        self.queue.len() == NAMES_AHEAD_MAX
    }

    fn made(&mut self, file: u64) -> Option<(&mut NewFile, &mut Option<ChangeWaiter>)> {
        let queued = self.queue.iter_mut().rev();
        let mut of_file = queued.filter(|queued| queued.change.file == file);
        of_file.find_map(|queued| Some((queued.change.made.as_mut()?, &mut queued.waiter)))
    }

    /// As [`DelegationTable::note`], of a file or directory that this client has made in a
    /// directory that it holds.
    pub(crate) fn note_made(&mut self, change: NameChange, attributes: Attributes) -> bool {
        let file = MadeFile::new(change.directory, change.name.clone(), attributes);
        self.made_files.add(file);
        self.note(change)
    }

    /// How many changes of attributes were made here so far.
    pub(crate) fn set_here(&self) -> u64 {
        self.set_here
    }

    /// Changes attributes of a file that no other client knows of, and returns them. `None` where
    /// only the service can decide.
    pub(crate) fn set_attributes(
        &mut self,
        file: u64,
        changes: SetAttributesRequest,
        who: &Credentials,
        now: i64,
    ) -> Option<Attributes> {
        if self.queue.len() >= UNREPORTED_CHANGES_MAX {
            return None;
        }
        let made = self.made_files.get_mut(file)?;
        let modified_time = if changes.modified.is_some() { now } else { 0 };
        let set = made.set(changes, who, now, self.set_here + 1)?;
        self.set_here += 1;
        let attributes = made.attributes().clone();
        let (directory, name) = made.place();
        let change = NameChange {
            who: who.clone(),
            directory,
            name,
            file,
            time: now,
            made: None,
            set: Some(Box::new(set)),
            set_time: now,
            directory_time: 0,
            modified_time,
        };
        // Not before what was done in a directory meanwhile.
        let mut queued = self.queue.iter_mut().rev();
        let queued = queued.find(|q| q.change.file == file || q.change.directory == file);
        let queued = queued.filter(|q| q.change.file == file && q.change.who == *who);
        match queued {
            // One entry for all that is done to the file.
            Some(QueuedChange {
                change: earlier, ..
            }) => {
                let set = change.set.unwrap_or_default();
                match &mut earlier.set {
                    Some(earlier) => merge(earlier, &set),
                    none => *none = Some(set),
                }
                earlier.set_time = now;
                earlier.modified_time = change.modified_time.max(earlier.modified_time);
            }
            _ => {
                self.note(change);
            }
        }
        Some(attributes)
    }

    /// Other clients may come to know of a file that this client made, or the service changes it.
    pub(crate) fn is_known_elsewhere(&mut self, file: u64) {
        self.made_files.remove(file);
    }

    /// As [`DelegationTable::is_known_elsewhere`], of all files that this client made.
    pub(crate) fn all_are_known_elsewhere(&mut self) {
        self.made_files.clear();
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
    ) -> Option<ChangeProgress> {
        let length = data.len() as u64;
        let (made, waiter) = self.made(file)?;
        made.data = Some(data);
        made.modified = modified;
        let (waiting, progress) = ChangeWaiter::new();
        *waiter = Some(waiting);
        if let Some(made) = self.made_files.get_mut(file) {
            made.stored(length, modified);
        }
        Some(progress)
    }

    /// The bytes of a new file that the service does not know yet will be in its cells. `None`: the
    /// service knows it, or has its bytes.
    pub(crate) fn spill(&mut self, file: u64) -> Option<ChangeProgress> {
        let (made, waiter) = self.made(file).filter(|(made, _)| made.data.is_none())?;
        made.spilled = true;
        let (waiting, progress) = ChangeWaiter::new();
        *waiter = Some(waiting);
        self.spilled(file);
        Some(progress)
    }

    /// The bytes of a file that this client made are in its cells.
    pub(crate) fn spilled(&mut self, file: u64) {
        if let Some(made) = self.made_files.get_mut(file) {
            made.spilled();
        }
    }

    /// The service has answered what the attributes of a file are; the call began when `set_here`
    /// changes of attributes had been made here.
    pub(crate) fn refresh(&mut self, attributes: &Attributes, set_here: u64) {
        let made = self.made_files.get_mut(attributes.id);
        if made.is_some_and(|made| !made.refresh(attributes, set_here)) {
            // The answer may be older than what was set here.
            self.made_files.remove(attributes.id);
        }
    }

    /// The attributes of a file that no other client knows of, as the service will have them.
    pub(crate) fn made_attributes(&mut self, file: u64) -> Option<Attributes> {
        Some(self.made_files.get_mut(file)?.attributes().clone())
    }

    /// Ends a delegation. False if its return is waiting to be reported already.
    pub(crate) fn give_back(&mut self, directory: u64) -> bool {
        self.held.remove(&directory);
        self.made_files.remove_of(directory);
        self.generation += 1;
        let is_new = !self.given_back.contains(&directory);
        if is_new {
            self.noted += 1;
            self.last_given_back = self.noted;
            self.given_back.push(directory);
        }
        is_new
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
        let mut idle: Vec<u64> = held
            .filter(|(_, held)| now - held.used >= DELEGATION_IDLE_TIMEOUT)
            .map(|(directory, _)| *directory)
            .collect();
        // A simulation replays the same messages.
        idle.sort_unstable();
        for directory in idle {
            self.give_back(directory);
        }
        !self.held.is_empty()
    }

    /// The service may have forgotten what this client holds.
    pub(crate) fn forget(&mut self) {
        self.generation += 1;
        self.held.clear();
        self.made_files.clear();
    }

    /// Whether a change of a file would be lost with this process.
    pub(crate) fn is_only_here(&self, file: u64) -> bool {
        let queued = self.queue.iter().any(|q| q.change.file == file);
        queued || self.leaving.contains(&file)
    }

    /// The report that is on its way outlives this process, or is answered.
    pub(crate) fn left(&mut self) {
        self.leaving.clear();
    }

    /// The next batch to report; `None`: nothing is due.
    pub(crate) fn take(&mut self, due: Due) -> Option<ChangeBatch> {
        if let Due::All(until) = due {
            let queued = self.queue.front().is_some_and(|q| q.number <= until);
            let given_back = !self.given_back.is_empty() && self.last_given_back <= until;
            if !queued && !given_back {
                return None;
            }
        }
        let mut batch = ChangeBatch::default();
        let (mut made, mut bytes) = (HashSet::new(), 0);
        let (mut later, mut later_names) = (HashSet::new(), HashSet::new());
        let (mut incomplete, now) = (HashSet::new(), Instant::now());
        let mut left = VecDeque::new();
        while let Some(mut queued) = self.queue.pop_front() {
            if matches!(due, Due::Complete(until) if queued.number > until) {
                left.push_back(queued);
                break;
            }
            let name = (queued.change.directory, queued.change.name.clone());
            if matches!(due, Due::Complete(_))
                && (queued.is_in_progress(now)
                    || later.contains(&queued.change.file)
                    || incomplete.contains(&queued.change.directory)
                    || later_names.contains(&name))
            {
                // What is done to the file or in it, to its directory itself or with the name comes
                // later.
                later.extend([queued.change.file, queued.change.directory]);
                later_names.insert(name);
                incomplete.insert(queued.change.file);
                left.push_back(queued);
                continue;
            }
            let change = &mut queued.change;
            if let Some(held) = self.held.get(&change.directory) {
                change.directory_time = held.changed;
            }
            let data = change.made.as_ref().and_then(|made| made.data.as_ref());
            bytes += data.map_or(0, Bytes::len);
            let uses_made = made.contains(&change.directory)
                || change.made.is_none() && made.contains(&change.file);
            let full = batch.changes.len() == NAMES_AHEAD_MAX || bytes > REPORT_BYTES_MAX;
            if !batch.changes.is_empty() && (full || uses_made) {
                left.push_back(queued);
                break;
            }
            if change.made.is_some() {
                made.insert(change.file);
            }
            batch.changes.push(queued);
        }
        left.append(&mut self.queue);
        self.queue = left;
        if self.queue.is_empty() {
            // Not before everything that was done in them.
            batch.given_back = std::mem::take(&mut self.given_back);
        }
        self.leaving = batch.changes.iter().map(|q| q.change.file).collect();
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
            also: Vec::new(),
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
    fn delegations_that_pay_are_asked_for_at_the_first_change() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 20));
        for id in 100..108 {
            table.note(change(7, id, true));
        }
        assert!(table.is_worth(8), "eight changes were saved");
        table.hold(8, lent(200, 1));
        assert!(table.is_worth(9), "four of them are left");
        table.hold(9, lent(300, 1));
        assert!(
            !table.is_worth(10),
            "none is left: two directories had no use of it"
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
        table.note(named("a", change(7, 100, true)));
        table.note(named("b", change(7, 50, false)));
        table.note(named("a", change(7, 100, false)));
        table.note(named("c", change(7, 101, true)));
        table.end(7);
        assert!(
            table.close(101) && !table.close(50),
            "the table closes only files that it created"
        );
        let first = table.take(Due::All(u64::MAX)).unwrap();
        assert_eq!(files(&first), [100, 50]);
        assert_eq!(first.attached().collect::<Vec<_>>(), [(100, true)]);
        assert!(
            first.given_back.is_empty(),
            "the delegation has unreported changes"
        );
        let second = table.take(Due::All(u64::MAX)).unwrap();
        assert_eq!(
            (files(&second), &second.given_back[..]),
            (vec![100, 101], &[7][..])
        );
        assert_eq!(
            second.attached().count(),
            0,
            "the file was closed before the report"
        );
        assert!(table.take(Due::All(u64::MAX)).is_none() && !table.close(100));
        assert_eq!(table.noted, 5);
    }

    fn named(name: &'static str, change: NameChange) -> NameChange {
        NameChange {
            name: Bytes::from_static(name.as_bytes()),
            ..change
        }
    }

    fn with_id(id: u64) -> Attributes {
        Attributes {
            id,
            ..Attributes::default()
        }
    }

    fn mode(bits: u32) -> SetAttributesRequest {
        SetAttributesRequest {
            mode: Some(bits),
            ..SetAttributesRequest::default()
        }
    }

    #[test]
    fn what_is_done_to_a_new_file_is_one_change() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        table.note_made(change(7, 100, true), with_id(100));
        let who = Credentials::default();
        assert!(table.set_attributes(100, mode(0o600), &who, 5).is_some());
        let mut progress = table.store(100, Bytes::from_static(b"bytes"), 6).unwrap();
        let attributes = table.set_attributes(100, mode(0o640), &who, 7).unwrap();
        assert_eq!((attributes.mode, attributes.size), (0o640, 5));
        let mut batch = table.take(Due::Complete(u64::MAX)).unwrap();
        let [one] = &batch.changes[..] else {
            panic!("one change")
        };
        assert!(one.change.made.as_ref().unwrap().data.is_some());
        assert_eq!(one.change.set.as_ref().unwrap().mode, Some(0o640));
        assert_eq!(one.change.set_time, 7);
        for waiter in batch.take_handed_over() {
            waiter.send(()).unwrap();
        }
        assert_eq!(progress.handed_over.try_recv(), Ok(()));
        // It is reported, and still known to nobody else.
        assert!(table.set_attributes(100, mode(0o400), &who, 8).is_some());
        let batch = table.take(Due::Complete(u64::MAX)).unwrap();
        assert!(batch.changes[0].change.made.is_none());
        table.is_known_elsewhere(100);
        assert!(table.set_attributes(100, mode(0), &who, 9).is_none());
        let other = Credentials {
            uid: 5,
            ..Credentials::default()
        };
        table.note_made(change(7, 101, true), with_id(101));
        assert!(table.set_attributes(101, mode(0), &other, 9).is_none());
        table.give_back(7);
        assert!(table.set_attributes(101, mode(0), &who, 9).is_none());
    }

    #[test]
    fn files_in_progress_wait_with_what_depends_on_them_and_no_time_goes_back() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        let at = |time, change| NameChange { time, ..change };
        table.note(at(1, named("open", change(7, 100, true))));
        table.note(at(2, named("closed", change(7, 101, true))));
        assert!(table.close(101));
        table.note(at(3, named("gone", change(7, 50, false))));
        let itself = MadeFile::new(1, Bytes::from_static(b"seven"), with_id(7));
        table.made_files.add(itself);
        assert!(
            table
                .set_attributes(7, mode(0o700), &Credentials::default(), 4)
                .is_some(),
            "the directory itself was made here, too"
        );
        table.note(at(5, named("open", change(7, 100, false))));
        let batch = table.take(Due::Complete(u64::MAX)).unwrap();
        assert_eq!(files(&batch), [101, 50]);
        assert_eq!(batch.changes[0].change.directory_time, 5);
        assert!(
            table.take(Due::Complete(u64::MAX)).is_none(),
            "the rest waits"
        );
        let batch = table.take(Due::All(table.noted)).unwrap();
        assert_eq!(files(&batch), [100, 7]);
        let batch = table.take(Due::All(table.noted)).unwrap();
        assert_eq!(files(&batch), [100], "a batch never makes and removes");
        table.note(named("late", change(7, 102, true)));
        table.queue[0].noted = Instant::now() - REPORT_DELAY;
        assert!(
            table.take(Due::Complete(u64::MAX)).is_some(),
            "it waited long enough"
        );
    }

    #[test]
    fn a_report_takes_nothing_that_was_done_after_it_began() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        for id in 50..53 {
            table.note(named("gone", change(7, id, false)));
        }
        let until = table.noted - 1;
        assert_eq!(files(&table.take(Due::Complete(until)).unwrap()), [50, 51]);
        assert!(table.take(Due::Complete(until)).is_none());
        assert_eq!(files(&table.take(Due::Complete(until + 1)).unwrap()), [52]);
    }

    #[test]
    fn a_change_is_only_here_until_its_report_has_left() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        table.note_made(named("f", change(7, 100, true)), with_id(100));
        assert!(table.is_only_here(100) && !table.is_only_here(101));
        let progress = table.spill(100);
        assert!(progress.is_some() && table.take(Due::Complete(u64::MAX)).is_some());
        assert!(table.is_only_here(100), "it is on its way");
        table.left();
        assert!(!table.is_only_here(100));
        let who = Credentials::default();
        assert!(table.set_attributes(100, mode(0o600), &who, 5).is_some());
        assert!(table.is_only_here(100), "a later change");
    }

    #[test]
    fn attributes_of_a_directory_follow_the_names_that_were_made_in_it_before() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        let who = Credentials::default();
        table.note_made(named("d", change(7, 100, true)), with_id(100));
        table.hold_new(7, 100);
        assert!(table.set_attributes(100, mode(0o700), &who, 1).is_some());
        table.note(named("f", change(100, 101, true)));
        assert!(table.set_attributes(100, mode(0o555), &who, 2).is_some());
        assert!(table.close(101));
        let all: Vec<ChangeBatch> = std::iter::from_fn(|| table.take(Due::All(u64::MAX))).collect();
        let all: Vec<&NameChange> = all
            .iter()
            .flat_map(|b| &b.changes)
            .map(|q| &q.change)
            .collect();
        let modes: Vec<Option<u32>> = all.iter().map(|c| c.set.as_ref()?.mode).collect();
        assert_eq!(modes, [Some(0o700), None, Some(0o555)]);
        // What is incomplete holds up what is set of its directory, and names made after that.
        table.note(named("open", change(100, 102, true)));
        assert!(table.set_attributes(100, mode(0o700), &who, 3).is_some());
        table.note(named("later", change(100, 103, true)));
        assert!(table.close(103) && table.take(Due::Complete(u64::MAX)).is_none());
    }

    #[test]
    fn an_answer_from_before_a_change_does_not_undo_it() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 9));
        let who = Credentials::default();
        let times = SetAttributesRequest {
            modified: Some(weft_proto::meta::TimeUpdate {
                now: false,
                nanos: 9,
            }),
            ..SetAttributesRequest::default()
        };
        for id in [100, 101] {
            table.note_made(change(7, id, true), with_id(id));
        }
        let answer = |id| Attributes {
            id,
            size: 5,
            ..Attributes::default()
        };
        let asked = table.set_here();
        assert!(table.set_attributes(100, times, &who, 50).is_some());
        table.refresh(&answer(100), asked);
        assert!(
            table.made_attributes(100).is_none(),
            "only the service knows"
        );
        table.refresh(&answer(101), table.set_here());
        assert_eq!(table.made_attributes(101).unwrap().size, 5);
        assert!(table.set_attributes(101, mode(1), &who, 60).is_some());
        let last = table.queue.back().unwrap();
        assert_eq!((last.change.set_time, last.change.modified_time), (60, 0));
    }

    #[test]
    fn a_new_directory_is_held_with_the_ids_of_its_parent_and_made_first() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(100, 3));
        let directory = table.next(7).unwrap().0;
        table.note(change(7, directory, true));
        assert!(table.hold_new(7, directory) && !table.hold_new(99, 5));
        assert_eq!(table.next(directory).unwrap().0, 101);
        table.note(change(directory, 101, true));
        table.hold(7, lent(200, 1));
        assert_eq!(table.next(directory).unwrap().0, 102);
        assert_eq!(table.next(directory).unwrap().0, 200, "refilled for both");
        let first = table.take(Due::All(2)).unwrap();
        assert_eq!(files(&first), [directory]);
        assert_eq!(files(&table.take(Due::All(2)).unwrap()), [101]);
        table.removed(directory);
        assert!(!table.may_change(directory, false) && table.may_change(7, false));
    }

    #[test]
    fn batches_and_the_queue_are_bounded() {
        let mut table = DelegationTable::default();
        table.hold(9999, lent(0, 5000));
        let mut many = 0;
        while let Some((id, _)) = table.next(9999) {
            many += u32::from(table.note(change(9999, id, true)));
            if id < 40 {
                let data = Bytes::from(vec![0; 16 << 10]);
                assert!(table.store(id, data, 1).is_some());
            }
        }
        assert_eq!((table.queue.len(), many), (UNREPORTED_CHANGES_MAX, 1));
        let batches: Vec<_> = std::iter::from_fn(|| table.take(Due::All(u64::MAX))).collect();
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
    fn a_directory_that_is_recalled_again_is_returned_once() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(0, 9));
        assert!(table.give_back(7) && !table.give_back(7));
        assert_eq!(table.noted, 1);
        assert_eq!(table.take(Due::All(u64::MAX)).unwrap().given_back, [7]);
    }

    #[test]
    fn idle_delegations_are_given_back() {
        let mut table = DelegationTable::default();
        table.hold(7, lent(0, 9));
        table.hold(8, lent(9, 9));
        table.held.get_mut(&7).unwrap().used -= DELEGATION_IDLE_TIMEOUT;
        assert!(table.give_back_idle());
        assert_eq!(table.take(Due::All(u64::MAX)).unwrap().given_back, [7]);
        assert!(table.may_change(8, true));
    }
}
