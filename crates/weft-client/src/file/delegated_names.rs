//! Names that this client makes and removes in directories that the service has *delegated* to it.
//!
//! Programs make and remove files by the thousand in directories that no other client uses. A call
//! for each costs more than everything else together, so the service delegates the directory:
//! changes there are acknowledged here and reported some milliseconds later, many in one call.
//! Another client that looks into the directory waits until it is given back, and sees all.
//!
//! Invariants:
//! 1. No call to the metadata service overtakes an earlier change ([`Volume::catch_up`] begins
//!    every call), so whatever the service answers to this client covers it.
//! 2. Changes are reported, each after those that it depends on, until the service has answered or
//!    is away for as long as it takes to call it dead ([`REPORT_TIMEOUT`]); then, and where it
//!    refuses a change, [`Volume::on_refused`] is called.
//! 3. A directory is given back after everything that was done in it.
//!
//! A client that dies loses its unreported changes: those of the last [`REPORT_DELAY`]. Files that
//! were stored are not among them: [`Volume::store_delegated`] waits until the change is in the
//! service's socket on this machine, where it outlives this process, or until it is answered
//! (`docs/design/0036-files-ahead.md`).

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::oneshot;
use weft_net::CallError;
use weft_proto::delegation::{ChangeNamesReply, DelegateRequest, NameChange, NameChanged, NewFile};
use weft_proto::limits::{DELEGATED_ALSO_MAX, IDS_AHEAD_MAX};
use weft_proto::meta::{AttachReply, FileKind, Layout};
use weft_proto::{Code, Failure};

use super::Asked;
use crate::limits::{FIRST_IDS, IDLE_CHECK_INTERVAL, REPORT_DELAY, REPORT_TIMEOUT};
use crate::session::{ChangeBatch, ChangeProgress, DelegationTable, Due, Refused};
use crate::volume::{Backoff, Repeat};
use crate::{Attributes, Changes, Error, File, InlineTask, NewMode, Place, Store, Volume};

/// The service answered, but not to what was asked.
fn unsaid() -> Failure {
    Failure::new(Code::Internal, "the service did not say")
}

/// A new file as a report tells of it.
fn new_file(kind: FileKind, mode: NewMode, layout: &Layout) -> NewFile {
    NewFile {
        mode: mode.bits,
        umask: mode.umask,
        layout: layout.clone(),
        kind: kind as i32,
        ..NewFile::default()
    }
}

impl Volume {
    /// Sets what is called for changes that were acknowledged and failed; once.
    pub fn on_refused(&self, call: impl Fn(&[Refused]) + Send + Sync + 'static) {
        self.shared.delegated.set_on_refused(Box::new(call));
    }

    /// Whether a directory is delegated to this client, so that names in it may be changed here;
    /// with `make`, also whether there is an id for a new file. Asks the service for a delegation
    /// where names change often, and also of `neighbours`, which the caller changes next if it goes
    /// on so. The caller must follow a [`Watch`](crate::Watch), which tells when another client
    /// wants the directory.
    pub async fn try_delegation(
        &self,
        directory: u64,
        make: bool,
        neighbours: impl FnOnce() -> Vec<u64>,
    ) -> bool {
        let delegated = &self.shared.delegated;
        if delegated.with(|table| table.may_change(directory, make)) {
            return true;
        }
        let (held, worth) = delegated.with(|table| {
            let held = table.may_change(directory, false);
            (held, held || table.is_worth(directory))
        });
        if !worth {
            return false;
        }
        let ids = if held { IDS_AHEAD_MAX } else { FIRST_IDS };
        let mut also = if make { Vec::new() } else { neighbours() };
        delegated.with(|table| table.retain_free(&mut also));
        also.truncate(DELEGATED_ALSO_MAX);
        let request = DelegateRequest {
            directory,
            ids,
            also,
        };
        let generation = delegated.with(|table| table.generation);
        let what = "delegate a directory";
        let reply = self.meta(what, &request, Repeat::Safe).await;
        let granted = reply.ok().filter(|reply| reply.granted);
        let mut is_stale = false;
        let held = delegated.with(|table| match granted {
            Some(reply) if table.generation == generation => {
                table.hold(directory, reply);
                table.may_change(directory, make)
            }
            // Another client wanted one before this one knew that it had it.
            Some(reply) => {
                is_stale = true;
                table.give_back(directory);
                for other in reply.also {
                    table.give_back(other);
                }
                false
            }
            None => {
                table.back_off(directory);
                false
            }
        });
        if is_stale {
            self.schedule_report(true);
        }
        self.check_idle();
        held
    }

    /// Makes a regular file, whose bytes will lie with its metadata, in a directory of which the
    /// caller knows that the name is not there, that its creator may make it, and that neither an
    /// ACL nor a set-group-id bit decides what it gets. `None` where [`Volume::try_delegation`]
    /// does not hold any more. Messages call it `shown`. No message.
    pub fn create_delegated(
        &self,
        (directory, name): (u64, &[u8]),
        shown: &str,
        mode: NewMode,
        (reading, writing): (bool, bool),
    ) -> Option<File> {
        let time = self.shared.env.clock.now();
        let (many, attributes) = self.shared.delegated.with(|table| {
            let (id, layout) = table.next(directory)?;
            let new = NewFile {
                reading,
                writing,
                ..new_file(FileKind::Regular, mode, &layout)
            };
            let change = self.name_change(directory, name, (id, time), Some(new));
            let attributes = self.new_attributes(id, mode, time, layout);
            let many = table.note_made(change, attributes.clone());
            Some((many, attributes))
        })?;
        self.schedule_report(many);
        let reply = AttachReply {
            attributes,
            epoch: self.shared.servers.epoch(),
            created: true,
            inline: Some(Bytes::new()),
            sole: writing,
            shared: false,
            kept: None,
        };
        self.opened(shown, reply, writing, true, Asked::default())
            .ok()
    }

    /// As [`Volume::create_delegated`], a directory, which is delegated to this client from the
    /// beginning. Its lease comes with the report: [`Volume::on_unleased`].
    pub fn make_directory_delegated(
        &self,
        (directory, name): (u64, &[u8]),
        mode: NewMode,
    ) -> Option<Attributes> {
        let time = self.shared.env.clock.now();
        let (many, attributes) = self.shared.delegated.with(|table| {
            if !table.may_hold_more() {
                return None;
            }
            let (id, layout) = table.next(directory)?;
            let new = new_file(FileKind::Directory, mode, &layout);
            let change = self.name_change(directory, name, (id, time), Some(new));
            let attributes = Attributes {
                kind: FileKind::Directory as i32,
                links: 2,
                layout: None,
                inline: false,
                ..self.new_attributes(id, mode, time, layout)
            };
            let many = table.note_made(change, attributes.clone());
            table.hold_new(directory, id);
            Some((many, attributes))
        })?;
        self.schedule_report(many);
        Some(attributes)
    }

    /// Sets what is called for directories that this client made and that the service has not
    /// leased to it; once.
    pub fn on_unleased(&self, call: impl Fn(u64) + Send + Sync + 'static) {
        self.shared.delegated.set_on_unleased(Box::new(call));
    }

    /// This client has removed a directory, or a name of a file.
    pub(crate) fn removed_by_call(&self, file: u64) {
        let delegated = &self.shared.delegated;
        if delegated.has_held() {
            delegated.with(|table| table.removed(file));
        }
    }

    fn new_attributes(&self, id: u64, mode: NewMode, time: i64, layout: Layout) -> Attributes {
        Attributes {
            id,
            kind: FileKind::Regular as i32,
            mode: mode.bits & !(mode.umask & 0o777),
            uid: self.who.uid,
            gid: self.who.gid,
            links: 1,
            size_exact: true,
            accessed: time,
            modified: time,
            changed: time,
            created: time,
            layout: Some(layout),
            inline: true,
            ..Attributes::default()
        }
    }

    fn name_change(
        &self,
        directory: u64,
        name: &[u8],
        (file, time): (u64, i64),
        made: Option<NewFile>,
    ) -> NameChange {
        NameChange {
            who: (*self.who).clone(),
            directory,
            name: Bytes::copy_from_slice(name),
            file,
            time,
            made,
            ..NameChange::default()
        }
    }

    /// Changes attributes of a file that this client has made in a directory that it holds since,
    /// and returns them; the size is that of the bytes that were stored. `None` where only the
    /// service can decide. No message.
    pub fn set_delegated(&self, file: u64, changes: &Changes) -> Option<Attributes> {
        let delegated = &self.shared.delegated;
        if !delegated.has_held() {
            return None;
        }
        let now = self.shared.env.clock.now();
        let attributes =
            delegated.with(|table| table.set_attributes(file, changes.into(), &self.who, now))?;
        self.schedule_report(false);
        Some(attributes)
    }

    /// Removes a name of which the caller knows that it names this regular file and may be removed.
    /// Tells the time of the removal; `None` where [`Volume::try_delegation`] does not hold any
    /// more. No message.
    pub fn remove_delegated(&self, directory: u64, name: &[u8], file: u64) -> Option<i64> {
        let time = self.shared.env.clock.now();
        let change = self.name_change(directory, name, (file, time), None);
        let many = self.shared.delegated.with(|table| {
            if !table.may_change(directory, false) {
                return None;
            }
            table.is_known_elsewhere(file);
            Some(table.note(change))
        })?;
        self.schedule_report(many);
        Some(time)
    }

    /// As [`Volume::remove_delegated`], a directory, which the caller knows to be empty. `None`
    /// also where it is not delegated itself: another client may make names in it.
    pub fn remove_directory_delegated(
        &self,
        parent: u64,
        name: &[u8],
        directory: u64,
    ) -> Option<i64> {
        let time = self.shared.env.clock.now();
        let change = self.name_change(parent, name, (directory, time), None);
        let many = self.shared.delegated.with(|table| {
            if !table.may_change(parent, false) || !table.may_change(directory, false) {
                return None;
            }
            let many = table.note(change);
            table.removed(directory);
            Some(many)
        })?;
        self.schedule_report(many);
        Some(time)
    }

    /// Gives this directory back, until it is worth asking for again.
    pub fn end_delegation(&self, directory: u64) {
        if self.shared.delegated.with(|table| table.end(directory)) {
            self.schedule_report(true);
        }
    }

    /// Gives back directories that other clients wait for. False if all are on their way back: a
    /// report may wait for other clients.
    pub(crate) fn recalled(&self, directories: &[u64]) -> bool {
        let any_new = self.shared.delegated.with(|table| {
            let mut any_new = false;
            for directory in directories {
                any_new |= table.give_back(*directory);
                table.back_off(*directory);
            }
            any_new
        });
        if any_new {
            self.schedule_report(true);
        }
        any_new
    }

    /// Stores the content of a file together with its name, if the service does not know it yet.
    pub(crate) async fn store_delegated(
        &self,
        file: u64,
        data: &Bytes,
        store: &Store,
    ) -> Option<Result<Attributes, Error>> {
        let delegated = &self.shared.delegated;
        let plain = !store.close && !store.kill_priv && store.changes.is_none();
        if !plain || !delegated.has_unreported() {
            return None;
        }
        let mut progress =
            delegated.with(|table| table.store(file, data.clone(), store.modified))?;
        if self.hand_over(&mut progress).await
            && let Some(attributes) = delegated.with(|table| table.made_attributes(file))
        {
            return Some(Ok(attributes));
        }
        let stored = progress.answer().await?;
        let unsaid = || Error::of_call("store a file", CallError::Failed(unsaid()));
        Some(stored.and_then(|attributes| attributes.ok_or_else(unsaid)))
    }

    /// Reports what is complete. Returns when a change outlives this process, true, or is answered.
    async fn hand_over(&self, progress: &mut ChangeProgress) -> bool {
        // The wait ends with the report.
        let noted = self.shared.delegated.with(|table| table.noted);
        drop(self.begin_report(Due::Complete(noted)));
        progress.is_handed_over().await
    }

    /// Has the bytes of a new file that the service does not know yet lie in its cells from the
    /// beginning. False if the service knows it. When it returns, the file outlives this process.
    pub(crate) async fn spill_delegated(&self, file: u64) -> Result<bool, Error> {
        let delegated = &self.shared.delegated;
        if !delegated.has_unreported() {
            return Ok(false);
        }
        let Some(mut progress) = delegated.with(|table| table.spill(file)) else {
            return Ok(false);
        };
        if !self.hand_over(&mut progress).await
            && let Some(answer) = progress.answer().await
        {
            answer?;
        }
        Ok(true)
    }

    /// Returns when what was set of a file that this client made outlives this process.
    pub async fn hand_over_attributes(&self, file: u64) {
        let delegated = &self.shared.delegated;
        if !delegated.has_unreported() || !delegated.with(|table| table.is_only_here(file)) {
            return;
        }
        let noted = delegated.with(|table| table.noted);
        // A report that panicked ends the wait, too.
        let _ = self.begin_report(Due::Complete(noted)).await;
    }

    /// Before a call that changes what this names, or lets other clients know of it.
    pub(crate) fn changes_by_call(&self, place: &Place) {
        let delegated = &self.shared.delegated;
        if delegated.has_held() {
            delegated.with(|table| match place.id() {
                Some(file) => table.is_known_elsewhere(file),
                None => table.all_are_known_elsewhere(),
            });
        }
    }

    /// How many attributes of new files were changed here so far: taken before a call whose answer
    /// has attributes of a file.
    pub(crate) fn set_here(&self) -> u64 {
        let delegated = &self.shared.delegated;
        if delegated.has_held() {
            delegated.with(|table| table.set_here())
        } else {
            0
        }
    }

    /// The service has answered what the attributes of a file are; `asked` is
    /// [`Volume::set_here`] from before the call.
    pub(crate) fn refresh_delegated(&self, attributes: &Attributes, asked: u64) {
        let delegated = &self.shared.delegated;
        if delegated.has_held() {
            delegated.with(|table| table.refresh(attributes, asked));
        }
    }

    /// Returns when all earlier changes are reported, or were refused.
    pub async fn catch_up(&self) {
        if !self.shared.delegated.has_unreported() {
            return;
        }
        let noted = self.shared.delegated.with(|table| table.noted);
        // A report that panicked ends the wait, too.
        let _ = self.begin_report(Due::All(noted)).await;
    }

    /// Reports changes; the result resolves when they are answered. It begins on this thread, and
    /// goes on if the caller is cancelled.
    fn begin_report(&self, due: Due) -> oneshot::Receiver<()> {
        let volume = self.clone();
        let (ended, end) = oneshot::channel::<()>();
        let report = async move {
            volume.report(due).await;
            drop(ended);
        };
        let runtime = &self.shared.runtime;
        let inline = InlineTask::new(runtime);
        let _context = runtime.enter();
        inline.run(Box::pin(report), &inline.waker());
        end
    }

    fn schedule_report(&self, now: bool) {
        if now {
            let volume = self.clone();
            self.shared
                .runtime
                .spawn(async move { volume.report_all().await });
            return;
        }
        let delegated = &self.shared.delegated;
        if delegated.with(|table| std::mem::replace(&mut table.report_scheduled, true)) {
            return;
        }
        let volume = self.clone();
        self.shared.runtime.spawn(async move {
            let delegated = &volume.shared.delegated;
            loop {
                tokio::time::sleep(REPORT_DELAY).await;
                let noted = delegated.with(|table| table.noted);
                volume.report(Due::Complete(noted)).await;
                let quiet = delegated.with(|table| {
                    let more = table.noted != table.reported;
                    table.report_scheduled = more;
                    !more
                });
                if quiet {
                    return;
                }
            }
        });
    }

    async fn report_all(&self) {
        let noted = self.shared.delegated.with(|table| table.noted);
        self.report(Due::All(noted)).await;
    }

    async fn report(&self, due: Due) {
        let delegated = &self.shared.delegated;
        let _reporting = delegated.reporting().await;
        while let Some(batch) = delegated.with(|table| self.take_batch(table, due)) {
            let count = (batch.changes.len() + batch.given_back.len()) as u64;
            self.report_batch(batch).await;
            delegated.with(|table| table.reported += count);
        }
    }

    fn take_batch(&self, table: &mut DelegationTable, due: Due) -> Option<ChangeBatch> {
        let batch = table.take(due)?;
        // Under the table's lock: from here on a close must be reported to the service.
        for (file, write) in batch.attached() {
            self.shared.note_attached(file, write);
        }
        Some(batch)
    }

    async fn report_batch(&self, mut batch: ChangeBatch) {
        // A file that is attached would outlive its name, and be deleted by a further transaction.
        self.end_attachments_of(&batch.removed()).await;
        let attached: HashMap<u64, bool> = batch.attached().collect();
        let what = "report changed names";
        let waiters = batch.take_handed_over();
        let (done, lost) = match self.call_until_timeout(what, &batch, waiters).await {
            Ok(reply) => (reply.done, unsaid()),
            Err(error) => (Vec::new(), Failure::new(error.code(), error.to_string())),
        };
        let mut refused = Vec::new();
        for (queued, outcome) in batch.outcomes(done) {
            let change = &queued.change;
            let outcome = outcome.unwrap_or_else(|| NameChanged {
                refused: Some(lost.clone()),
                ..NameChanged::default()
            });
            if outcome.undelegated {
                self.shared
                    .delegated
                    .with(|table| table.undelegated(change.file));
            }
            if outcome.unleased || outcome.undelegated {
                self.shared.delegated.report_unleased(change.file);
            }
            if let Some(failure) = &outcome.refused {
                if change.made.is_some() {
                    self.removed_by_call(change.file);
                }
                if let Some(write) = attached.get(&change.file) {
                    self.shared.note_detached(change.file, *write);
                }
                refused.push(Refused {
                    directory: change.directory,
                    name: change.name.clone(),
                    file: change.file,
                    reason: failure.message.clone(),
                    errno: failure.errno,
                });
            }
            let failed = |failure| Error::of_call(what, CallError::Failed(failure));
            queued.answered(match outcome.refused {
                Some(failure) => Err(failed(failure)),
                None => Ok(outcome.attributes),
            });
        }
        self.shared.delegated.report_refused(&refused);
    }

    async fn call_until_timeout(
        &self,
        what: &str,
        batch: &ChangeBatch,
        waiters: Vec<oneshot::Sender<()>>,
    ) -> Result<ChangeNamesReply, Error> {
        let request = batch.request();
        let mut backoff = Backoff::new(REPORT_TIMEOUT);
        // Those that are not told learn it from the end of this call.
        let waiters = parking_lot::Mutex::new(waiters);
        loop {
            let handed_over = || {
                self.shared.delegated.with(DelegationTable::left);
                for waiter in std::mem::take(&mut *waiters.lock()) {
                    // A caller that was cancelled does not need it.
                    let _ = waiter.send(());
                }
            };
            match self.meta_handed_over(what, &request, handed_over).await {
                Err(error) if backoff.again(&error).await => {}
                result => {
                    self.shared.delegated.with(DelegationTable::left);
                    return result;
                }
            }
        }
    }

    /// Gives idle delegations back, until there are none left.
    fn check_idle(&self) {
        if self
            .shared
            .delegated
            .with(|table| std::mem::replace(&mut table.idle_check_runs, true))
        {
            return;
        }
        let volume = self.clone();
        self.shared.runtime.spawn(async move {
            let delegated = &volume.shared.delegated;
            loop {
                tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
                let left = delegated.with(|table| {
                    table.idle_check_runs = table.give_back_idle();
                    table.idle_check_runs
                });
                volume.report_all().await;
                if !left {
                    return;
                }
            }
        });
    }
}
