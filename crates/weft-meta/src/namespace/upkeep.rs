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
use crate::check::CheckObserver;
use crate::error::MetaError;
use crate::intents::{Intent, TreeFile};
use crate::ops::{CheckpointFiles, IntentPage, Spill, SpillEnd, UnsettledFile};
use crate::quota::{GrowingFiles, Payer, Used};
use crate::{check, ops};

impl Namespace {
    /// Whether there is a file whose size must be asked for, now that all writers are known.
    pub fn has_unsettled(&self) -> bool {
        ops::has_unsettled(self.volume())
    }

    /// Takes at most `most` files from `from` on whose size must be asked for, and answers the last
    /// that was taken; nothing where there was none. A caller that cannot find a size out notes the
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

    /// Notes a file again whose servers did not report its size.
    pub fn unsettle(&self, file: u64) {
        ops::unsettle(self.volume(), file);
    }

    /// Notes the size and other forks that a file's servers reported after
    /// [`Namespace::take_unsettled`]. The bytes are written already, so they are charged whatever
    /// bounds there are.
    ///
    /// # Durability
    /// Needs no sync: after power loss the size is asked for again.
    pub fn settle(&self, file: u64, size: u64, fork_bytes: u64) -> Result<(), MetaError> {
        ops::settle_size(self.volume(), file, size, fork_bytes)
    }

    /// Makes the sizes inexact of at most `most` inodes from `from` on, and notes the files;
    /// answers where to continue. For a namespace that is older than the servers' data: only the
    /// servers know sizes that have changed since.
    ///
    /// Cost: a scan of so many inodes, and a transaction that writes those with cells.
    ///
    /// # Durability
    /// As of any operation.
    pub fn doubt_sizes(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        ops::doubt_sizes(self.volume(), from, most)
    }

    /// Scans at most `most` inodes from `from` on for files whose size is not known, and notes
    /// them; answers where to continue. After a crash, some may have writers that have not
    /// reconnected: they are looked at again before a size is noted.
    ///
    /// Cost: a scan of so many inodes.
    pub fn find_unsettled(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        ops::find_unsettled(self.volume(), from, most)
    }

    /// First step of a spill: nothing else changes the bytes from here to [`Namespace::end_spill`],
    /// which must follow where the answer is [`Some`]. `None`: the bytes are in the cells.
    ///
    /// # Durability
    /// The caller syncs before the next step, and also before a client hears of a `None`.
    pub fn begin_spill(&self, file: u64) -> Result<Option<Spill>, MetaError> {
        ops::begin_spill(self.volume(), file)
    }

    /// Takes back the mark of a spill whose cells are empty: the file is inline as before, unless
    /// several clients write to it, which need its cells. Answers whether it did. Call it before
    /// [`Namespace::end_spill`].
    ///
    /// # Durability
    /// As of any operation; until then the mark stays.
    pub fn undo_spill(&self, file: u64) -> Result<bool, MetaError> {
        ops::undo_spill(self.volume(), file)
    }

    /// Last step of a spill.
    ///
    /// # Durability
    /// After [`SpillEnd::Written`], the caller syncs before any client hears that the bytes are in
    /// the cells.
    pub fn end_spill(&self, now: i64, file: u64, end: SpillEnd) -> Result<(), MetaError> {
        ops::end_spill(self.volume(), now, file, end)
    }

    /// The newest truncate that is owed for a file, for a caller that must wait for it.
    pub fn pending_truncate(&self, file: u64) -> Result<Option<u64>, MetaError> {
        ops::pending_truncate(self.volume(), file)
    }

    /// For a rollback of a directory: the checkpoint's number, and the files with cells in it.
    pub fn tree_of(
        &self,
        request: &RollBackRequest,
    ) -> Result<Option<(u64, Vec<TreeFile>)>, MetaError> {
        ops::tree_of(self.volume(), request)
    }

    /// All servers have done what was owed for a checkpoint. If it was made, `size` is the file's
    /// in it. Answers the checkpoint that was made. Repeating the call changes nothing.
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
    pub fn is_pending(&self, number: u64) -> Result<bool, MetaError> {
        ops::is_pending(self.volume(), number)
    }

    /// A checkpoint that all servers have.
    pub fn checkpoint_info(
        &self,
        file: u64,
        name: &str,
    ) -> Result<Option<CheckpointInfo>, MetaError> {
        ops::checkpoint_info(self.volume(), file, name)
    }

    /// All servers have done what was owed for a checkpoint of a tree. If it was made, `kept` has
    /// its files. Repeating the call changes nothing.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn tree_done(
        &self,
        number: u64,
        kept: &CheckpointFiles,
        now: i64,
    ) -> Result<(), MetaError> {
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

    /// The usage of all payers, counted from the inodes.
    ///
    /// Cost: a scan of all inodes.
    pub fn recount(&self) -> Result<BTreeMap<Payer, Used>, MetaError> {
        ops::count_again(self.volume())
    }

    /// The usage of all payers, as it was charged with each change.
    pub fn usage(&self) -> Result<BTreeMap<Payer, Used>, MetaError> {
        ops::usage(self.volume())
    }

    /// A client reconnected and tells all that it has open, which replaces what was known of it.
    /// Repeating the call changes nothing. It must be the first call of the new connection.
    pub fn reassert(
        &self,
        client: u64,
        request: &ReassertRequest,
    ) -> Result<ReassertReply, MetaError> {
        ops::reassert(self.volume(), client, request)
    }

    /// A client is gone for good: its attachments end, and orphans that only it had open are
    /// removed.
    pub fn session_ended(&self, client: u64) -> Result<(), MetaError> {
        ops::session_ended(self.volume(), client)
    }

    /// Ends the grace period after the service's start: orphans that no client has told to have
    /// open are removed, and from now on orphans are removed at once. Answers how many were
    /// removed.
    pub fn reap_orphans(&self) -> Result<u64, MetaError> {
        ops::reap_orphans(self.volume())
    }

    /// The intents from a number on, of at most `limit` records; those that cannot be read are left
    /// out, and a check finds them.
    ///
    /// Cost: a scan of so many records, and two reads for each file of a tree.
    pub fn intents_from(&self, from: u64, limit: usize) -> Result<IntentPage, MetaError> {
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
    ) -> Result<IntentPage, MetaError> {
        ops::deletes_from(self.volume(), server, from, limit, records)
    }

    /// One intent, if it is still owed.
    pub fn intent(&self, number: u64) -> Result<Option<Intent>, MetaError> {
        ops::intent(self.volume(), number)
    }

    /// The oldest intents that may be carried through now, at most `limit`: of each file only the
    /// oldest, so that the intents of one file are carried through in order. An intent about a tree
    /// is one about each of its files with cells. For a caller that carries everything through in
    /// one go; a service in which one server must not delay another reads
    /// [`Namespace::intents_from`].
    ///
    /// Cost: a scan from the oldest intent that the last call left; two reads for each file of a
    /// tree.
    pub fn pending_intents(&self, limit: usize) -> Result<Vec<Intent>, MetaError> {
        ops::pending_intents(self.volume(), limit)
    }

    /// A delete was carried through on every server. Repeating the call changes nothing.
    ///
    /// # Durability
    /// Needs no sync: a delete that comes back after power loss is done again.
    pub fn intent_done(&self, number: u64) -> Result<(), MetaError> {
        ops::intent_done(self.volume(), number)
    }

    /// A truncate was carried through on every server: size and times change now. Answers the
    /// attributes, or nothing where the file was deleted meanwhile or the call is repeated.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn truncate_done(&self, number: u64, now: i64) -> Result<Option<StatReply>, MetaError> {
        ops::truncate_done(self.volume(), number, now)
    }

    /// Gives up an intent that a server refuses for good, and says in words what follows. Nothing
    /// where it is not owed any more, or cannot be given up: what must be deleted or dropped would
    /// stay for ever.
    ///
    /// # Durability
    /// As every operation: the caller syncs.
    pub fn withdraw(&self, number: u64) -> Result<Option<&'static str>, MetaError> {
        ops::withdraw(self.volume(), number)
    }

    /// A server is up. A server that comes with another store than the last time has lost what it
    /// held: the ids of files tell which are older.
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
    /// once the server has put its data of present files in doubt. Answers whether it was refused.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`].
    /// # Durability
    /// As of any operation.
    pub fn accept_rollback(&self, id: u32) -> Result<bool, MetaError> {
        ops::accept_rollback(self.volume(), id)
    }

    /// The servers, and the state of the volume.
    pub fn server_map(&self, now: i64) -> Result<ServerMapReply, MetaError> {
        ops::server_map(self.volume(), now)
    }

    /// What is known of regular files: of one page of them, or of some.
    ///
    /// Cost: reads of 2,000 inodes, of what checkpoints of trees need of them, and of all intents
    /// and checkpoints.
    pub fn list_files(&self, request: &ListFilesRequest) -> Result<ListFilesReply, MetaError> {
        check::list_files(self.volume(), request)
    }

    /// Paths of inodes: one scan of all entries.
    pub fn names_of(&self, request: &NamesOfRequest) -> Result<NamesOfReply, MetaError> {
        check::names_of(self.volume(), request)
    }

    /// Makes an inode for cells that have none, or gives an inode a layout whose own makes no
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
    /// The engine's, where it cannot read its records. Damaged records are findings, not errors.
    pub fn check(&self, watcher: &mut dyn CheckObserver) -> Result<(), MetaError> {
        check::check(self.volume(), watcher)
    }

    /// Repairs a finding, if it still holds. Repairs of sizes leave files alone that are `owed`, or
    /// that a client may be writing. A repair that only servers can confirm happens where the file
    /// is still what it was when they were asked: `seen`. A repair may uncover other findings:
    /// check again.
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
