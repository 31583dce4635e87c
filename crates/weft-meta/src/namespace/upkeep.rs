//! The calls that the service makes by itself: intents, clients, servers, sizes, quotas, checks.

use std::collections::BTreeMap;

use weft_layout::ServerId;
use weft_proto::checkpoint::{CheckpointInfo, RollBackRequest};
use weft_proto::fsck::{
    AdoptFileRequest, FileState, Finding, ListFilesReply, ListFilesRequest, NamesOfReply,
    NamesOfRequest, RepairNamespaceReply,
};
use weft_proto::meta::{
    ChangeReplicasReply, ChangeReplicasRequest, HeartbeatReply, HeartbeatRequest, JoinServerReply,
    JoinServerRequest, LeaveServerReply, LeaveServerRequest, ReassertReply, ReassertRequest,
    ServerMapReply, StatReply,
};

use super::handle::Namespace;
use crate::check::CheckObserver;
use crate::error::MetaError;
use crate::intents::{Intent, TreeFile};
use crate::ops::{CheckpointFiles, IntentPage, Spill, SpillEnd, UnsettledFile};
use crate::quota::{GrowingFiles, Payer, Used};
use crate::{check, ops};

impl Namespace {
    /// Whether the servers must be asked for the size of a file, now that all writers are known.
    pub fn has_unsettled(&self) -> bool {
        ops::has_unsettled(self.volume())
    }

    /// Takes at most `most` files from `from` on whose servers must be asked for the size, and
    /// returns the last one taken; `None` where there was none. A caller that gets no size puts the
    /// file back with [`Namespace::mark_size_unknown`].
    ///
    /// Cost: a read for each.
    pub fn take_unsettled(
        &self,
        from: u64,
        most: usize,
    ) -> Result<(Vec<UnsettledFile>, Option<u64>), MetaError> {
        ops::take_unsettled(self.volume(), from, most)
    }

    /// Puts a file back whose servers did not report its size.
    pub fn mark_size_unknown(&self, file: u64) {
        ops::mark_size_unknown(self.volume(), file);
    }

    /// Stores the size and the bytes of other forks that a file's servers reported after
    /// [`Namespace::take_unsettled`]. The bytes are written already, so they are charged without
    /// regard to bounds.
    ///
    /// # Durability
    /// Needs no sync: after power loss the size is asked for again.
    pub fn settle(&self, file: u64, size: u64, fork_bytes: u64) -> Result<(), MetaError> {
        ops::settle_size(self.volume(), file, size, fork_bytes)
    }

    /// Makes the sizes of at most `most` inodes from `from` on inexact, and adds the files to the
    /// files of unknown size; returns where to continue. For a namespace that is older than the
    /// servers' data: only the servers know sizes that have changed since.
    ///
    /// Cost: a scan of so many inodes, and a transaction that writes those with cells.
    ///
    /// # Durability
    /// As of any operation.
    pub fn doubt_sizes(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        ops::doubt_sizes(self.volume(), from, most)
    }

    /// Scans at most `most` inodes from `from` on for files whose size is unknown, and adds them to
    /// the files of unknown size; returns where to continue. After a crash, some may have writers
    /// that have not reconnected: they are checked again before a size is stored.
    ///
    /// Cost: a scan of so many inodes.
    pub fn find_unknown_sizes(&self, from: u64, most: usize) -> Result<Option<u64>, MetaError> {
        ops::find_unknown_sizes(self.volume(), from, most)
    }

    /// First step of a spill: nothing else changes the bytes from here to [`Namespace::end_spill`],
    /// which must follow where this returns [`Some`]. `None`: the bytes are in the cells.
    ///
    /// # Durability
    /// The caller syncs before the next step, and also before it reports a `None` to a client.
    pub fn begin_spill(&self, file: u64) -> Result<Option<Spill>, MetaError> {
        ops::begin_spill(self.volume(), file)
    }

    /// Removes the mark of a spill whose cells are empty: the file is inline as before, unless
    /// several clients write to it, which need its cells. Returns whether it did. Call it before
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
    /// After [`SpillEnd::Written`], the caller syncs before it reports to any client that the bytes
    /// are in the cells.
    pub fn end_spill(&self, now: i64, file: u64, end: SpillEnd) -> Result<(), MetaError> {
        ops::end_spill(self.volume(), now, file, end)
    }

    /// The newest pending truncate of a file, for a caller that must wait for it.
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

    /// Completes the intent of a checkpoint of a file, which all servers have carried out. If it
    /// was made, `size` is the file's size in it, and the checkpoint is returned. Repeating the
    /// call changes nothing.
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

    /// Whether an intent is still pending.
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

    /// Completes the intent of a checkpoint of a tree, which all servers have carried out. If it
    /// was made, `kept` has its files. Repeating the call changes nothing.
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

    /// Whether any payer has a bound of bytes, so that growth must be measured.
    pub fn limits_growth(&self) -> bool {
        ops::limits_growth(self.volume())
    }

    /// The files that are attached for writing and charged to a payer with a bound of bytes. During
    /// the grace period after a crash: all files attached for writing, and those whose size was not
    /// reported.
    ///
    /// Cost: a read for each of them, and for each payer.
    pub fn growing(&self) -> Result<GrowingFiles, MetaError> {
        ops::growing(self.volume())
    }

    /// As [`Namespace::growing`], for one file, inline or not, if one of its payers has at most
    /// `margin` bytes left; the known growth of other files is subtracted.
    pub fn growing_soon(&self, file: u64, margin: u64) -> Result<GrowingFiles, MetaError> {
        ops::growing_soon(self.volume(), file, margin)
    }

    /// Records the present sizes of growing files and their forks. The known growth of others is
    /// dropped, except for files that are not charged yet because a server is down.
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

    /// A client reconnected and reports all that it has open, which replaces what was known of it.
    /// Repeating the call changes nothing. It must be the first call of the new connection.
    pub fn reassert(
        &self,
        client: u64,
        request: &ReassertRequest,
    ) -> Result<ReassertReply, MetaError> {
        ops::reassert(self.volume(), client, request)
    }

    /// Ends the session of a client: its attachments end, and orphans that only it had open are
    /// removed.
    pub fn session_ended(&self, client: u64) -> Result<(), MetaError> {
        ops::session_ended(self.volume(), client)
    }

    /// Ends the grace period after the service's start: orphans that no client has reported as open
    /// are removed, and from now on orphans are removed at once. Returns how many were removed.
    pub fn reap_orphans(&self) -> Result<u64, MetaError> {
        ops::reap_orphans(self.volume())
    }

    /// The intents from a number on, of at most `limit` records; unreadable ones are left out, and
    /// a check finds them.
    ///
    /// Cost: a scan of so many records, and two reads for each file of a tree.
    pub fn intents_from(&self, from: u64, limit: usize) -> Result<IntentPage, MetaError> {
        ops::intents_from(self.volume(), from, limit)
    }

    /// The pending deletes of a server from a number on: at most `limit`, found among at most
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

    /// One intent, if it is still pending.
    pub fn intent(&self, number: u64) -> Result<Option<Intent>, MetaError> {
        ops::intent(self.volume(), number)
    }

    /// The oldest intents that may be carried out now, at most `limit`: of each file only the
    /// oldest, so that the intents of one file are carried out in order. An intent about a tree
    /// concerns each of its files with cells. For a caller that carries out all intents itself; a
    /// service in which one server must not delay another reads [`Namespace::intents_from`].
    ///
    /// Cost: a scan from the oldest pending intent; two reads for each file of a tree.
    pub fn pending_intents(&self, limit: usize) -> Result<Vec<Intent>, MetaError> {
        ops::pending_intents(self.volume(), limit)
    }

    /// Completes a delete that every server has carried out. Repeating the call changes nothing.
    ///
    /// # Durability
    /// Needs no sync: a delete that comes back after power loss is repeated.
    pub fn intent_done(&self, number: u64) -> Result<(), MetaError> {
        ops::intent_done(self.volume(), number)
    }

    /// Completes a truncate that every server has carried out: size and times change now. Returns
    /// the attributes, or `None` where the file was deleted meanwhile or the call is repeated.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn truncate_done(&self, number: u64, now: i64) -> Result<Option<StatReply>, MetaError> {
        ops::truncate_done(self.volume(), number, now)
    }

    /// Cancels an intent that a server refuses permanently, and returns the consequence in words.
    /// `None` where it is no longer pending, or cannot be cancelled: what must be deleted or
    /// dropped would stay for ever.
    ///
    /// # Durability
    /// As every operation: the caller syncs.
    pub fn withdraw(&self, number: u64) -> Result<Option<&'static str>, MetaError> {
        ops::withdraw(self.volume(), number)
    }

    /// Receives a heartbeat of a server. A server with another store than before has lost its data:
    /// files with ids below the store's first one are affected.
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

    /// Changes which replicas of a server are in sync, if the caller knows the term in force and
    /// may make the change. Answers with the set that is in force.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`], also for a server that has one store.
    /// # Durability
    /// The set survives power loss.
    pub fn change_replicas(
        &self,
        request: &ChangeReplicasRequest,
    ) -> Result<ChangeReplicasReply, MetaError> {
        ops::change_replicas(self.volume(), request)
    }

    /// Lets a store become a server of the volume, or a replica of one. One that has joined gets
    /// the same answer again.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`]; [`MetaError::Invalid`] if the server may not have the replica.
    /// # Durability
    /// Survives power loss.
    pub fn join_server(
        &self,
        now: i64,
        request: &JoinServerRequest,
    ) -> Result<JoinServerReply, MetaError> {
        ops::join_server(self.volume(), now, request)
    }

    /// Lets a replica leave its server as soon as all that stay are in sync, or stay after all. One
    /// that is to be succeeded does not leave before another one has joined.
    ///
    /// # Errors
    /// [`MetaError::UnknownServer`]; [`MetaError::Invalid`] if no other one would stay.
    /// # Durability
    /// Survives power loss.
    pub fn leave_server(
        &self,
        now: i64,
        request: &LeaveServerRequest,
    ) -> Result<LeaveServerReply, MetaError> {
        ops::leave_server(self.volume(), now, request)
    }

    /// Accepts a server whose store is older than what the server reported as durable, once the
    /// server has put its data of present files in doubt. Returns whether it was refused until now.
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

    /// The state of regular files: of one page of them, or of some.
    ///
    /// Cost: reads of 2,000 inodes, of the holds of checkpoints of trees on them, and of all
    /// intents and checkpoints.
    pub fn list_files(&self, request: &ListFilesRequest) -> Result<ListFilesReply, MetaError> {
        check::list_files(self.volume(), request)
    }

    /// Paths of inodes: one scan of all entries.
    pub fn names_of(&self, request: &NamesOfRequest) -> Result<NamesOfReply, MetaError> {
        check::names_of(self.volume(), request)
    }

    /// Makes an inode for cells without one, or replaces the layout of an inode that does not fit
    /// its cells.
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
    pub fn check(&self, observer: &mut dyn CheckObserver) -> Result<(), MetaError> {
        check::check(self.volume(), observer)
    }

    /// Repairs a finding, if it still holds. Repairs of sizes skip files with a pending intent, and
    /// those that a client may be writing. A repair that needs a confirmation by the servers
    /// happens only if the file has not changed since they were asked (`seen`). A repair may
    /// uncover other findings: check again.
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
