//! What the service does by itself: intents, clients, servers, sizes, quotas, checks.

use std::collections::BTreeMap;
use weft_layout::ServerId;
use weft_proto::checkpoint::{CheckpointInfo, RollBackRequest};
use weft_proto::fsck::{
    AdoptFileRequest, FileState, Finding, ListFilesReply, ListFilesRequest, NamesOfReply,
    NamesOfRequest, RepairNamespaceReply,
};
use weft_proto::meta::{
    HeartbeatReply, HeartbeatRequest, ReassertReply, ReassertRequest, ServerMapReply, StatReply,
};

use super::handle::Namespace;
use crate::check::Watcher;
use crate::error::MetaError;
use crate::intents::{Intent, TreeFile};
use crate::ops::{KeptFiles, OwedPage, Spill, UnsettledFile};
use crate::quota::{GrowingFiles, Payer, Used};
use crate::{check, ops};

impl Namespace {
    /// Whether there is a file whose size is to be found out, and it is known who writes what.
    pub fn has_unsettled(&self) -> bool {
        ops::has_unsettled(self.volume())
    }

    /// Takes at most `most` files from `from` on whose size is to be found out, and answers the
    /// last that was looked at; nothing where there was none. Who cannot find a size out notes the
    /// file again.
    ///
    /// Cost: a read for each.
    pub fn take_unsettled(
        &self,
        from: u64,
        most: usize,
    ) -> Result<(Vec<UnsettledFile>, Option<u64>), MetaError> {
        ops::take_unsettled(self.volume(), from, most)
    }

    /// Notes a file again whose servers did not say its size.
    pub fn unsettle(&self, file: u64) {
        ops::unsettle(self.volume(), file);
    }

    /// Notes what a file's servers said of its size and its other forks after
    /// [`Namespace::take_unsettled`]. What was written is written: nobody's bound keeps it from
    /// being charged.
    ///
    /// # Durability
    /// Needs no sync: after power loss the size is asked for again.
    pub fn settle(&self, file: u64, size: u64, fork_bytes: u64) -> Result<(), MetaError> {
        ops::settle_size(self.volume(), file, size, fork_bytes)
    }

    /// Makes the sizes inexact of at most `most` inodes from `from` on, and notes the files;
    /// answers where to go on. The namespace is older than what the servers hold: sizes may have
    /// changed since, and the servers know them.
    ///
    /// Cost: a scan of so many inodes, and a transaction that writes those that are files with
    /// cells.
    ///
    /// # Durability
    /// As of any operation.
    pub fn doubt_sizes(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        ops::doubt_sizes(self.volume(), from, most)
    }

    /// Looks for such files among at most `most` inodes from `from` on, and notes them; answers
    /// where to go on. After a crash: some may have writers who have not come back yet, and are
    /// looked at again before anything is noted of them.
    ///
    /// Cost: a scan of so many inodes.
    pub fn find_unsettled(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        ops::find_unsettled(self.volume(), from, most)
    }

    /// First step of a spill: nothing else happens to the bytes from here to
    /// [`Namespace::end_spill`], which must follow where an answer is [`Some`]. `None`: the bytes
    /// are in the cells.
    ///
    /// # Durability
    /// The caller syncs before the next step, and also before it tells anybody of a `None`.
    pub fn begin_spill(&self, file: u64) -> Result<Option<Spill>, MetaError> {
        ops::begin_spill(self.volume(), file)
    }

    /// Takes back that a file's bytes are on their way to its cells, which are empty: it is inline
    /// as before, unless several clients write to it: those meet in its cells. Whether that was
    /// done. Before [`Namespace::end_spill`].
    ///
    /// # Durability
    /// As of any operation; until then the mark stays.
    pub fn undo_spill(&self, file: u64) -> Result<bool, MetaError> {
        ops::undo_spill(self.volume(), file)
    }

    /// Last step of a spill. `written`: the bytes survive power loss in the cells; else the record
    /// stays as it is.
    ///
    /// # Durability
    /// If `written`, the caller syncs before anybody hears that the bytes are in the cells.
    pub fn end_spill(&self, now: i64, file: u64, written: bool) -> Result<(), MetaError> {
        ops::end_spill(self.volume(), now, file, written)
    }

    /// The newest truncate that is owed for a file, for a caller that must wait for it.
    pub fn owed_truncate(&self, file: u64) -> Result<Option<u64>, MetaError> {
        ops::owed_truncate(self.volume(), file)
    }

    /// Where a rollback is of a directory: the checkpoint's number, and the files with cells in it.
    pub fn tree_of(
        &self,
        request: &RollBackRequest,
    ) -> Result<Option<(u64, Vec<TreeFile>)>, MetaError> {
        ops::tree_of(self.volume(), request)
    }

    /// All servers have done what was owed for a checkpoint. `size` is the file's in it, if it was
    /// made. Answers the checkpoint that was made. Doing it twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn checkpoint_done(
        &self,
        number: u64,
        size: u64,
        now: i64,
    ) -> Result<Option<CheckpointInfo>, MetaError> {
        ops::checkpoint_done(self.volume(), number, size, now)
    }

    /// Whether an intent is still owed.
    pub fn is_owed(&self, number: u64) -> Result<bool, MetaError> {
        ops::is_owed(self.volume(), number)
    }

    /// A checkpoint that all servers have.
    pub fn checkpoint_info(
        &self,
        file: u64,
        name: &str,
    ) -> Result<Option<CheckpointInfo>, MetaError> {
        ops::checkpoint_info(self.volume(), file, name)
    }

    /// All servers have done what was owed for a checkpoint of a tree; `kept` tells of its files,
    /// if it was made. Doing it twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn tree_done(&self, number: u64, kept: &KeptFiles, now: i64) -> Result<(), MetaError> {
        ops::tree_done(self.volume(), number, kept, now)
    }

    /// Whether any payer has a bound of bytes, so that growth must be looked at.
    pub fn limits_growth(&self) -> bool {
        ops::limits_growth(self.volume())
    }

    /// The files that are attached for writing, as far as a payer with a bound of bytes pays for
    /// them. After a crash, until it is known which clients have what open: all of them, and those
    /// whose size was not reported.
    ///
    /// Cost: a read for each of them, and for each payer.
    pub fn growing(&self) -> Result<GrowingFiles, MetaError> {
        ops::growing(self.volume())
    }

    /// As [`Namespace::growing`], of one file, inline or not, if one of its payers has at most
    /// `margin` bytes left; what other files are known to have grown by is taken off.
    pub fn growing_soon(&self, file: u64, margin: u64) -> Result<GrowingFiles, MetaError> {
        ops::growing_soon(self.volume(), file, margin)
    }

    /// Notes how large growing files and their forks are now. What was known of others is
    /// forgotten, except for those whose lengths are not charged yet because a server is away.
    pub fn note_growth(&self, growing: &GrowingFiles, sizes: &[u64]) {
        ops::note_growth(self.volume(), growing, sizes);
    }

    /// What everybody uses, counted anew from the inodes, and not from what was counted on the way.
    ///
    /// Cost: a scan of all inodes.
    pub fn recount(&self) -> Result<BTreeMap<Payer, Used>, MetaError> {
        ops::count_again(self.volume())
    }

    /// What everybody uses, as it was counted with each change.
    pub fn usage(&self) -> Result<BTreeMap<Payer, Used>, MetaError> {
        ops::usage(self.volume())
    }

    /// A client reconnected and tells all that it has open, which replaces what was known of it:
    /// telling twice changes nothing. It must be the first call of the new connection.
    pub fn reassert(
        &self,
        client: u64,
        request: &ReassertRequest,
    ) -> Result<ReassertReply, MetaError> {
        ops::reassert(self.volume(), client, request)
    }

    /// A client is gone for good: its attachments end, and files that only it had open go.
    pub fn session_ended(&self, client: u64) -> Result<(), MetaError> {
        ops::session_ended(self.volume(), client)
    }

    /// The grace period after the service's start is over: files without a name that nobody has
    /// told to have open go, and from now on such files go at once. Answers how many went.
    pub fn reap_orphans(&self) -> Result<u64, MetaError> {
        ops::reap_orphans(self.volume())
    }

    /// The intents from a number on, of at most `limit` records; those that cannot be read are left
    /// out, and a check finds them.
    ///
    /// Cost: a scan of so many records, and two reads for each file of a tree.
    pub fn intents_from(&self, from: u64, limit: usize) -> Result<OwedPage, MetaError> {
        ops::intents_from(self.volume(), from, limit)
    }

    /// The deletes that a server owes from a number on: at most `limit`, found among at most
    /// `records` records.
    ///
    /// Cost: a scan of so many records.
    pub fn deletes_from(
        &self,
        server: ServerId,
        from: u64,
        limit: usize,
        records: usize,
    ) -> Result<OwedPage, MetaError> {
        ops::deletes_from(self.volume(), server, from, limit, records)
    }

    /// One intent, if it is still owed.
    pub fn intent(&self, number: u64) -> Result<Option<Intent>, MetaError> {
        ops::intent(self.volume(), number)
    }

    /// The oldest intents that may be carried through now, at most `limit`: of each file only the
    /// oldest one, so that several of one file are carried through in order. One about a tree is
    /// one about each file in it that has cells. For whoever carries everything in one go; a
    /// service that must not wait for one server because of another reads
    /// [`Namespace::intents_from`].
    ///
    /// Cost: a scan from the oldest that was left at the last call; two reads for each file of a
    /// tree.
    pub fn pending_intents(&self, limit: usize) -> Result<Vec<Intent>, MetaError> {
        ops::pending_intents(self.volume(), limit)
    }

    /// A delete was carried through on every server. Doing it twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync: a delete that comes back after power loss is done again.
    pub fn intent_done(&self, number: u64) -> Result<(), MetaError> {
        ops::intent_done(self.volume(), number)
    }

    /// A truncate was carried through on every server: size and times change now. Answers the
    /// attributes, or nothing where the file was deleted meanwhile or it was told before.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn truncate_done(&self, number: u64, now: i64) -> Result<Option<StatReply>, MetaError> {
        ops::truncate_done(self.volume(), number, now)
    }

    /// Gives up an intent that a server refuses for good; says in words what follows, or nothing
    /// where it is not owed any more or cannot be given up: what is to be deleted or dropped would
    /// stay for ever.
    ///
    /// # Durability
    /// As every operation: the caller syncs.
    pub fn withdraw(&self, number: u64) -> Result<Option<&'static str>, MetaError> {
        ops::withdraw(self.volume(), number)
    }

    /// A server lives. One that comes with another store than the last time has lost what it held:
    /// files that are older are told from those that are not by their ids.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`] for an id that the volume was not formatted with.
    /// # Durability
    /// A changed address, another store and the new epoch are on stable storage on return.
    pub fn heartbeat(
        &self,
        now: i64,
        request: &HeartbeatRequest,
    ) -> Result<HeartbeatReply, MetaError> {
        ops::heartbeat(self.volume(), now, request)
    }

    /// Lets a server take part with a store that is older than what the server said to be durable,
    /// once it has put in doubt what it has of files that there are now. Whether it was refused.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    /// # Durability
    /// As of any operation.
    pub fn accept_rollback(&self, id: u32) -> Result<bool, MetaError> {
        ops::accept_rollback(self.volume(), id)
    }

    /// Which servers there are, and how the volume stands.
    pub fn server_map(&self, now: i64) -> Result<ServerMapReply, MetaError> {
        ops::server_map(self.volume(), now)
    }

    /// One page of what is known of regular files, or what is known of some.
    ///
    /// Cost: a look at 2,000 inodes, at what checkpoints of trees need of them, and at all intents
    /// and checkpoints.
    pub fn list_files(&self, request: &ListFilesRequest) -> Result<ListFilesReply, MetaError> {
        check::list_files(self.volume(), request)
    }

    /// Paths of inodes: one scan of all entries.
    pub fn names_of(&self, request: &NamesOfRequest) -> Result<NamesOfReply, MetaError> {
        check::names_of(self.volume(), request)
    }

    /// Makes an inode for cells that have none, or gives one a layout that has none that makes
    /// sense.
    ///
    /// # Durability
    /// As every operation: the caller syncs.
    pub fn adopt_file(
        &self,
        now: i64,
        request: &AdoptFileRequest,
    ) -> Result<RepairNamespaceReply, MetaError> {
        check::adopt_file(self.volume(), now, request)
    }

    /// Checks the engine's files, then every record against those that it belongs to, in one
    /// snapshot.
    ///
    /// Cost: every file of the engine and every record read once, the entries once more for each
    /// 2²⁰ inodes; one look-up per entry.
    /// # Errors
    /// The engine's, where it cannot give its records. What is wrong with records is found, no
    /// error.
    pub fn check(&self, watcher: &mut dyn Watcher) -> Result<(), MetaError> {
        check::check(self.volume(), watcher)
    }

    /// Repairs what is wrong, if it still is. `owed` files and those that somebody may be writing
    /// to are left alone where the repair is about their size. What only servers can bear out is
    /// repaired where the file is what it was when they were asked: `seen`. Other findings may show
    /// only after it: check again.
    ///
    /// Cost: a scan of all entries where names are in question.
    /// # Durability
    /// As every operation: the caller syncs.
    pub fn repair(
        &self,
        now: i64,
        finding: &Finding,
        seen: Option<&FileState>,
    ) -> Result<RepairNamespaceReply, MetaError> {
        check::repair(self.volume(), now, finding, seen)
    }
}
