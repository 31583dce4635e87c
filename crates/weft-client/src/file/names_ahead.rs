//! Names that are made and removed ahead of the service, in directories that it has *delegated* to
//! this client.
//!
//! Programs make and remove files by the thousand in a directory in which nobody else works. A call
//! for each costs more than everything else together, so the service lends the directory: what is
//! done there is acknowledged here and told some milliseconds later, many changes in one call.
//! Another client that looks into the directory waits until it is given back, and sees all.
//!
//! Invariants:
//! 1. No call to the metadata service overtakes what was done ahead before it ([`Volume::catch_up`]
//!    begins every call), so whatever the service says to this client covers it.
//! 2. What was done ahead is told, in order, until the service has answered or does not for as long
//!    as it takes to call it dead; then, and where it refuses a change, [`Volume::on_refused`]
//!    hears of it.
//! 3. A directory is given back after everything that was done in it.
//!
//! A client that dies loses what it has not told: the last [`LINGER`].

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use weft_net::CallError;
use weft_proto::delegation::{ChangeNamesReply, DelegateRequest, NameChange, NameChanged, NewFile};
use weft_proto::limits::IDS_AHEAD_MAX;
use weft_proto::meta::{AttachReply, FileKind, Layout};
use weft_proto::{Code, Failure, Retry};

use crate::session::{Batch, Queued, Refused, Table};
use crate::volume::Repeat;
use crate::{Attributes, Error, File, NewMode, Store, Volume};

/// From a change until it is told, so that one call tells several.
const LINGER: Duration = Duration::from_millis(4);
/// How long a service that is away is waited for: the failure detection time.
const PATIENCE: Duration = Duration::from_secs(8);
/// Between two looks at directories in which nothing happens.
const MIND: Duration = Duration::from_millis(500);
/// Ids for new files that are asked for at first: programs that make a few files are many.
const IDS_FIRST: u32 = 64;

impl Volume {
    /// Who hears of changes that were acknowledged and came to nothing; set once.
    pub fn on_refused(&self, hear: impl Fn(&[Refused]) + Send + Sync + 'static) {
        self.shared.ahead.hear(Box::new(hear));
    }

    /// Makes sure that names in a directory may be changed ahead, with `make` that files may be
    /// made; asks the service for it if it is worth that: names there change often. The caller must
    /// be following a [`Watch`](crate::Watch), by which the directory is asked back.
    pub async fn may_change_ahead(&self, directory: u64, make: bool) -> bool {
        let ahead = &self.shared.ahead;
        if ahead.with(|table| table.may_change(directory, make)) {
            return true;
        }
        let (held, worth) = ahead.with(|table| {
            let held = table.may_change(directory, false);
            (held, held || table.is_worth(directory))
        });
        if !worth {
            return false;
        }
        let ids = if held { IDS_AHEAD_MAX } else { IDS_FIRST };
        let request = DelegateRequest { directory, ids };
        let turn = ahead.with(|table| table.turn);
        let what = "change names ahead";
        let reply = self.meta(what, &request, Repeat::Safe).await;
        let granted = reply.ok().filter(|reply| reply.granted);
        let held = ahead.with(|table| match granted {
            Some(reply) if table.turn == turn => {
                table.hold(directory, reply);
                table.may_change(directory, make)
            }
            // It was wanted back before this client knew that it has it.
            Some(_) => {
                table.give_back(directory);
                false
            }
            None => {
                table.shun(directory);
                false
            }
        });
        self.mind();
        held
    }

    /// Makes a regular file, whose bytes will lie with its metadata, in a directory of which the
    /// caller knows that the name is not there, that its creator may make it, and that neither an
    /// ACL nor a set-group-id bit decides what it gets. `None` where [`Volume::may_change_ahead`]
    /// does not hold any more. Messages call it `shown`. No message.
    pub fn make_ahead(
        &self,
        (directory, name): (u64, &[u8]),
        shown: &str,
        mode: NewMode,
        (reading, writing): (bool, bool),
    ) -> Option<File> {
        let time = self.shared.env.clock.now();
        let (many, id, layout) = self.shared.ahead.with(|table| {
            let (id, layout) = table.next(directory)?;
            let new = NewFile {
                mode: mode.bits,
                umask: mode.umask,
                layout: layout.clone(),
                reading,
                writing,
                data: None,
                modified: 0,
            };
            let change = self.name_change(directory, name, (id, time), Some(new));
            Some((table.note(change), id, layout))
        })?;
        self.tell_ahead(many);
        let reply = AttachReply {
            attributes: self.attributes_ahead(id, mode, time, layout),
            epoch: self.shared.servers.epoch(),
            created: true,
            inline: Some(Bytes::new()),
            sole: writing,
        };
        self.opened(shown, reply, writing, true).ok()
    }

    fn attributes_ahead(&self, id: u64, mode: NewMode, time: i64, layout: Layout) -> Attributes {
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
        }
    }

    /// Removes a name of which the caller knows that it names this regular file and may be removed.
    /// Tells the time of the removal; `None` where [`Volume::may_change_ahead`] does not hold any
    /// more. No message.
    pub fn remove_ahead(&self, directory: u64, name: &[u8], file: u64) -> Option<i64> {
        let time = self.shared.env.clock.now();
        let change = self.name_change(directory, name, (file, time), None);
        let many = self.shared.ahead.with(|table| {
            table
                .may_change(directory, false)
                .then(|| table.note(change))
        })?;
        self.tell_ahead(many);
        Some(time)
    }

    /// Nothing is done ahead in this directory any more, until it is worth asking for again.
    pub fn end_ahead(&self, directory: u64) {
        if self.shared.ahead.with(|table| table.end(directory)) {
            self.tell_ahead(true);
        }
    }

    /// Others wait for these directories.
    pub(crate) fn recalled(&self, directories: &[u64]) {
        self.shared.ahead.with(|table| {
            for directory in directories {
                table.give_back(*directory);
                table.shun(*directory);
            }
        });
        self.tell_ahead(true);
    }

    /// Stores the content of a file together with its name, if the service does not know it yet.
    pub(crate) async fn store_ahead(
        &self,
        file: u64,
        data: &Bytes,
        store: &Store,
    ) -> Option<Result<Attributes, Error>> {
        let ahead = &self.shared.ahead;
        let plain = !store.close && !store.kill_priv && store.changes.is_none();
        if !plain || !ahead.has_waiting() {
            return None;
        }
        let hear = ahead.with(|table| table.store(file, data.clone(), store.modified))?;
        self.catch_up().await;
        hear.await.ok()
    }

    /// Returns when everything that was done ahead before is told, or was refused.
    pub async fn catch_up(&self) {
        if !self.shared.ahead.has_waiting() {
            return;
        }
        let volume = self.clone();
        // It goes on if the caller goes away.
        let told = self
            .shared
            .runtime
            .spawn(async move { volume.tell_all_ahead().await });
        let _ = told.await;
    }

    fn tell_ahead(&self, now: bool) {
        let begin = self
            .shared
            .ahead
            .with(|table| now || !std::mem::replace(&mut table.begun, true));
        if !begin {
            return;
        }
        let volume = self.clone();
        self.shared.runtime.spawn(async move {
            if !now {
                tokio::time::sleep(LINGER).await;
                volume.shared.ahead.with(|table| table.begun = false);
            }
            volume.tell_all_ahead().await;
        });
    }

    async fn tell_all_ahead(&self) {
        let ahead = &self.shared.ahead;
        let until = ahead.with(|table| table.noted);
        let _turn = ahead.turn().await;
        while let Some(batch) = ahead.with(|table| self.take_ahead(table, until)) {
            let told = (batch.changes.len() + batch.given_back.len()) as u64;
            self.tell_batch(batch).await;
            ahead.with(|table| table.told += told);
        }
    }

    fn take_ahead(&self, table: &mut Table, until: u64) -> Option<Batch> {
        if table.told >= until {
            return None;
        }
        let batch = table.take()?;
        // Under the table's lock: from here on closing one is for the service to hear.
        for (file, write) in batch.attached() {
            self.shared.note_attached(file, write);
        }
        Some(batch)
    }

    async fn tell_batch(&self, batch: Batch) {
        let attached: HashMap<u64, bool> = batch.attached().collect();
        let what = "tell names that were changed";
        let (done, lost) = match self.call_patiently(what, &batch).await {
            Ok(reply) => (
                reply.done,
                Failure::new(Code::Internal, "the service did not say"),
            ),
            Err(error) => (Vec::new(), Failure::new(error.code(), error.to_string())),
        };
        let mut refused = Vec::new();
        for (Queued { change, told }, outcome) in batch.outcomes(done) {
            let outcome = outcome.unwrap_or_else(|| NameChanged {
                refused: Some(lost.clone()),
                attributes: None,
            });
            if let Some(failure) = &outcome.refused {
                if let Some(write) = attached.get(&change.file) {
                    self.shared.note_detached(change.file, *write);
                }
                refused.push(Refused {
                    directory: change.directory,
                    name: change.name,
                    file: change.file,
                    reason: failure.message.clone(),
                    errno: failure.errno,
                });
            }
            if let Some(told) = told {
                let failed = |failure| Error::of_call(what, CallError::Failed(failure));
                let stored = match outcome.refused {
                    Some(failure) => Err(failed(failure)),
                    None => outcome.attributes.ok_or_else(|| failed(lost.clone())),
                };
                // Who does not wait any more does not want to know.
                let _ = told.send(stored);
            }
        }
        self.shared.ahead.tell_refused(&refused);
    }

    async fn call_patiently(&self, what: &str, batch: &Batch) -> Result<ChangeNamesReply, Error> {
        let request = batch.request();
        let deadline = Instant::now() + PATIENCE;
        let mut pause = Duration::from_millis(5);
        loop {
            match self.meta_now(what, &request, Repeat::Safe).await {
                Err(error) if error.code().retry() == Retry::Later && Instant::now() < deadline => {
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(Duration::from_millis(500));
                }
                result => return result,
            }
        }
    }

    /// Gives directories back in which nothing happens, until there are none.
    fn mind(&self) {
        if self
            .shared
            .ahead
            .with(|table| std::mem::replace(&mut table.minded, true))
        {
            return;
        }
        let volume = self.clone();
        self.shared.runtime.spawn(async move {
            let ahead = &volume.shared.ahead;
            loop {
                tokio::time::sleep(MIND).await;
                let left = ahead.with(|table| {
                    table.minded = table.give_back_idle();
                    table.minded
                });
                volume.tell_all_ahead().await;
                if !left {
                    return;
                }
            }
        });
    }
}
