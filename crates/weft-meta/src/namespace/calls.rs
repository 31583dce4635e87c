//! The calls of clients; each is one operation.

use weft_proto::Kind;
use weft_proto::checkpoint::{
    ListCheckpointsReply, ListCheckpointsRequest, ListFileCheckpointsReply,
    ListFileCheckpointsRequest, MakeCheckpointRequest, RemoveCheckpointRequest, RollBackRequest,
};
use weft_proto::coord::AppendRequest;
use weft_proto::delegation::{
    ChangeNamesReply, ChangeNamesRequest, DelegateReply, DelegateRequest,
};
use weft_proto::inline::{StoreInlineReply, StoreInlineRequest};
use weft_proto::meta::{
    AttachRequest, DetachReply, DetachRequest, GetXattrReply, GetXattrRequest, LinkRequest,
    ListReply, ListRequest, ListXattrReply, ListXattrRequest, MakeDirectoryRequest,
    MakeLinkRequest, MakeNodeRequest, ReadLinkReply, ReadLinkRequest, RemoveDirectoryRequest,
    RemoveXattrRequest, RenameReply, RenameRequest, ReportReply, ReportRequest,
    SetAttributesRequest, SetXattrRequest, StatReply, StatRequest, TruncateRequest, UnlinkReply,
    UnlinkRequest, XattrDone,
};
use weft_proto::parity::{
    BeginCodingReply, BeginCodingRequest, EndCodingReply, EndCodingRequest, FindCodingReply,
    FindCodingRequest, ListParityReply, ListParityRequest,
};
use weft_proto::quota::{
    ListQuotasReply, ListQuotasRequest, QuotasOfReply, QuotasOfRequest, SetQuotaReply,
    SetQuotaRequest,
};

use super::handle::Namespace;
use crate::error::MetaError;
use crate::intents::Intent;
use crate::ops;
use crate::ops::{Append, Attached, Truncation};

impl Namespace {
    /// Carries out the changes of names that a client made in its delegated directories, in order;
    /// each may be refused by itself.
    ///
    /// # Errors
    /// [`MetaError::Invalid`] for more changes than one call may hold.
    pub fn change_names(
        &self,
        client: u64,
        request: &ChangeNamesRequest,
    ) -> Result<ChangeNamesReply, MetaError> {
        ops::change_names(self.volume(), client, request)
    }

    /// Delegates a directory to a client, with ids and layouts for new files in it. Refused where
    /// there is no such directory, it belongs to a checkpoint, or a payer has a bound. Unused ids
    /// are lost.
    pub fn delegate(
        &self,
        now: i64,
        client: u64,
        request: &DelegateRequest,
    ) -> Result<DelegateReply, MetaError> {
        ops::delegate(self.volume(), now, client, request)
    }

    /// Grants a client that has just made a directory the lease of it, unless something was made in
    /// it already. Returns whether the client has the lease.
    pub fn lease(&self, client: u64, directory: u64) -> Result<bool, MetaError> {
        ops::lease(self.volume(), client, directory)
    }

    /// Adds a hard link. Symbolic links can have several names too, directories cannot.
    pub fn link(&self, now: i64, request: &LinkRequest) -> Result<StatReply, MetaError> {
        ops::link(self.volume(), now, request)
    }

    /// Entries after `request.after` in ascending order of their bytes; a limit of 0 asks for as
    /// many as a page holds.
    pub fn list(&self, request: &ListRequest) -> Result<ListReply, MetaError> {
        ops::list(self.volume(), request)
    }

    /// Creates an empty directory. It inherits its parent's defaults for new files, and in a setgid
    /// directory the group and the bit.
    pub fn make_directory(
        &self,
        now: i64,
        request: &MakeDirectoryRequest,
    ) -> Result<StatReply, MetaError> {
        ops::make_directory(self.volume(), now, request)
    }

    /// Creates a symbolic link with any text that could be a path.
    pub fn make_link(&self, now: i64, request: &MakeLinkRequest) -> Result<StatReply, MetaError> {
        ops::make_link(self.volume(), now, request)
    }

    /// Creates a node; devices only for root.
    pub fn make_node(&self, now: i64, request: &MakeNodeRequest) -> Result<StatReply, MetaError> {
        ops::make_node(self.volume(), now, request)
    }

    /// The text of the link that the path names; the last component is not followed.
    pub fn read_link(&self, request: &ReadLinkRequest) -> Result<ReadLinkReply, MetaError> {
        ops::read_link(self.volume(), request)
    }

    /// Removes an empty directory. A client that has it open sees it empty and cannot create
    /// anything in it.
    pub fn remove_directory(
        &self,
        now: i64,
        request: &RemoveDirectoryRequest,
    ) -> Result<UnlinkReply, MetaError> {
        ops::remove_directory(self.volume(), now, request)
    }

    /// Renames; see [`RenameRequest`]. Does nothing if both are names of one file.
    pub fn rename(&self, now: i64, request: &RenameRequest) -> Result<RenameReply, MetaError> {
        ops::rename(self.volume(), now, request)
    }

    /// Removes a name. A file is removed with its last name: at once, or when the last client
    /// closes it.
    pub fn unlink(&self, now: i64, request: &UnlinkRequest) -> Result<UnlinkReply, MetaError> {
        ops::unlink(self.volume(), now, request)
    }

    /// Changes the attributes that the request names.
    pub fn set_attributes(
        &self,
        now: i64,
        request: &SetAttributesRequest,
    ) -> Result<StatReply, MetaError> {
        ops::set_attributes(self.volume(), now, request)
    }

    /// Attributes as last known; the size of a file that is being written is on the servers.
    pub fn stat(&self, request: &StatRequest) -> Result<StatReply, MetaError> {
        ops::stat(self.volume(), request)
    }

    /// The value of one attribute.
    pub fn get_xattr(&self, request: &GetXattrRequest) -> Result<GetXattrReply, MetaError> {
        ops::get_xattr(self.volume(), request)
    }

    /// Sets one attribute.
    pub fn set_xattr(&self, now: i64, request: &SetXattrRequest) -> Result<XattrDone, MetaError> {
        ops::set_xattr(self.volume(), now, request)
    }

    /// The names of all attributes that the caller may see.
    pub fn list_xattr(&self, request: &ListXattrRequest) -> Result<ListXattrReply, MetaError> {
        ops::list_xattr(self.volume(), request)
    }

    /// Removes one attribute.
    pub fn remove_xattr(
        &self,
        now: i64,
        request: &RemoveXattrRequest,
    ) -> Result<XattrDone, MetaError> {
        ops::remove_xattr(self.volume(), now, request)
    }

    /// Reserves a range for an append if no server must be asked. Cost: one read.
    ///
    /// # Errors
    /// [`MetaError::Stale`], [`MetaError::TooLarge`], or [`MetaError::Invalid`] where the client
    /// has not attached the file for writing.
    pub fn append(&self, client: u64, request: &AppendRequest) -> Result<Append, MetaError> {
        ops::append(self.volume(), client, request)
    }

    /// Reserves a range for an append after the servers reported the file's size; `None` where that
    /// size may be outdated: begin again.
    ///
    /// # Errors
    /// As [`Namespace::append`].
    pub fn append_after(
        &self,
        client: u64,
        request: &AppendRequest,
        size: u64,
        turn: u64,
    ) -> Result<Option<u64>, MetaError> {
        ops::append_after(self.volume(), client, request, size, turn)
    }

    /// Attaches a file or a directory for a client. It stays attached until a report with `detach`,
    /// or until [`Namespace::session_ended`].
    ///
    /// # Durability
    /// Where [`Attached::committed`] is set the caller syncs before it answers: a writer must not
    /// begin while a power loss could still make the size exact again.
    pub fn attach(
        &self,
        now: i64,
        client: u64,
        request: &AttachRequest,
    ) -> Result<Attached, MetaError> {
        ops::attach(self.volume(), now, client, request, None)
    }

    /// As [`Namespace::attach`], after other clients have sent what they had of this file.
    pub fn attach_sent(
        &self,
        now: i64,
        client: u64,
        request: &AttachRequest,
        file: u64,
    ) -> Result<Attached, MetaError> {
        ops::attach(self.volume(), now, client, request, Some(file))
    }

    /// A client reports; see [`ReportRequest`]. A missing file is no error: it was removed with its
    /// last attachment.
    ///
    /// # Durability
    /// Needs no sync: a power loss only makes the size inexact again.
    pub fn report(&self, client: u64, request: &ReportRequest) -> Result<ReportReply, MetaError> {
        ops::report(self.volume(), client, request)
    }

    /// Ends attachments that have nothing to report; see [`DetachRequest`].
    ///
    /// # Durability
    /// As of [`Namespace::report`].
    pub fn detach(&self, client: u64, request: &DetachRequest) -> Result<DetachReply, MetaError> {
        ops::detach(self.volume(), client, request)
    }

    /// Replaces the content of an inline file that this client has attached for writing; see
    /// [`StoreInlineRequest`].
    ///
    /// # Errors
    /// [`MetaError::Spilled`] where its bytes are in its cells, [`MetaError::Inline`] where they
    /// are being moved there.
    pub fn store_inline(
        &self,
        now: i64,
        client: u64,
        request: &StoreInlineRequest,
    ) -> Result<StoreInlineReply, MetaError> {
        ops::store_inline(self.volume(), now, client, request)
    }

    /// Sets a file's size, or adds an intent to set it.
    pub fn truncate(&self, now: i64, request: &TruncateRequest) -> Result<Truncation, MetaError> {
        ops::truncate(self.volume(), now, request)
    }

    /// Adds an intent to make a checkpoint. Its name is taken from now on; it is listed when all
    /// servers have it.
    pub fn make_checkpoint(
        &self,
        now: i64,
        request: &MakeCheckpointRequest,
    ) -> Result<Intent, MetaError> {
        ops::make_checkpoint(self.volume(), now, request)
    }

    /// Adds an intent to roll a file, or everything below a directory, back to a checkpoint.
    pub fn roll_back(&self, now: i64, request: &RollBackRequest) -> Result<Intent, MetaError> {
        ops::roll_back(self.volume(), now, request)
    }

    /// Adds an intent to drop a checkpoint; it is no longer listed.
    pub fn remove_checkpoint(
        &self,
        request: &RemoveCheckpointRequest,
    ) -> Result<Intent, MetaError> {
        ops::remove_checkpoint(self.volume(), request)
    }

    /// One page of the checkpoints of a file that all servers have, in the order of their names.
    pub fn list_checkpoints(
        &self,
        request: &ListCheckpointsRequest,
    ) -> Result<ListCheckpointsReply, MetaError> {
        ops::list_checkpoints(self.volume(), request)
    }

    /// One page of the checkpoints of the files in a directory that the caller may read. Cost: a
    /// short scan for each file.
    pub fn list_file_checkpoints(
        &self,
        request: &ListFileCheckpointsRequest,
    ) -> Result<ListFileCheckpointsReply, MetaError> {
        ops::list_file_checkpoints(self.volume(), request)
    }

    /// One page of the files with parity.
    ///
    /// Cost: reads [`FILES_PAGE`](crate::limits::FILES_PAGE) inodes.
    pub fn list_parity(&self, request: &ListParityRequest) -> Result<ListParityReply, MetaError> {
        ops::list_parity(self.volume(), *request)
    }

    /// Adds an intent to make the checkpoint that a file's parity is made of, and allocates its
    /// parity file. What an earlier attempt left is removed.
    ///
    /// # Errors
    /// [`MetaError::Invalid`] for a file without parity, or whose checkpoints need what is coded.
    pub fn begin_coding(
        &self,
        now: i64,
        request: &BeginCodingRequest,
    ) -> Result<Intent, MetaError> {
        ops::begin_coding(self.volume(), now, *request)
    }

    /// The answer to [`Namespace::begin_coding`] when its intent is done.
    pub fn coding_begun(&self, file: u64) -> Result<BeginCodingReply, MetaError> {
        ops::coding_begun(self.volume(), file)
    }

    /// Lets a complete parity file count, and removes the earlier one with its checkpoint.
    ///
    /// # Errors
    /// [`MetaError::Invalid`] if the coding is not the one that was begun last.
    pub fn end_coding(&self, request: &EndCodingRequest) -> Result<EndCodingReply, MetaError> {
        ops::end_coding(self.volume(), request)
    }

    /// How a file, or the one that a parity file belongs to, is coded.
    pub fn find_coding(&self, request: &FindCodingRequest) -> Result<FindCodingReply, MetaError> {
        ops::find_coding(self.volume(), *request)
    }

    /// Sets, changes or removes bounds. A bound may be lower than the usage: then the usage cannot
    /// grow.
    ///
    /// Cost: for a tree that gets its first quota or loses its last one, a read of all names below
    /// it (at most 131,072) and a write of each inode, in one transaction.
    /// # Errors
    /// [`MetaError::NotOwner`] for every caller but root.
    pub fn set_quota(&self, request: &SetQuotaRequest) -> Result<SetQuotaReply, MetaError> {
        ops::set_quota(self.volume(), request)
    }

    /// One page of the usages and bounds that the caller may see.
    pub fn list_quotas(&self, request: &ListQuotasRequest) -> Result<ListQuotasReply, MetaError> {
        ops::list_quotas(self.volume(), request)
    }

    /// The payers of a file or directory: the trees that it lies in, the nearest first, its user
    /// and its group.
    pub fn quotas_of(&self, request: &QuotasOfRequest) -> Result<QuotasOfReply, MetaError> {
        ops::quotas_of(self.volume(), request)
    }
}

/// Whether a successful call of this kind has committed something that must be on stable storage
/// before it is answered. The answer of [`Kind::Attach`] says that
/// ([`Attached::committed`](crate::Attached::committed)). [`Kind::Report`] commits but needs no
/// sync: a power loss only makes a size inexact again, and brings back an orphan.
#[allow(clippy::too_many_lines)] // a line for each kind
pub fn mutates(kind: Kind) -> bool {
    match kind {
        Kind::SetAttributes
        | Kind::Truncate
        | Kind::MakeDirectory
        | Kind::MakeLink
        | Kind::MakeNode
        | Kind::Link
        | Kind::Unlink
        | Kind::RemoveDirectory
        | Kind::Rename
        | Kind::SetXattr
        | Kind::RemoveXattr
        | Kind::StoreInline
        | Kind::ChangeNames
        | Kind::SetQuota
        | Kind::AcceptRollback
        | Kind::JoinServer
        | Kind::LeaveServer
        | Kind::EndCoding
        | Kind::Reassert => true,
        Kind::Attach
        | Kind::Report
        | Kind::Stat
        | Kind::List
        | Kind::ReadLink
        | Kind::GetXattr
        | Kind::ListXattr
        | Kind::ServerMap
        | Kind::ListClients
        | Kind::Heartbeat
        | Kind::ChangeReplicas
        | Kind::Lock
        | Kind::TestLock
        | Kind::Watch
        | Kind::Append
        | Kind::SyncNamespace
        | Kind::Spill
        | Kind::Hello
        | Kind::Proof
        | Kind::Ping
        | Kind::Credit
        | Kind::Cancel
        | Kind::Data
        | Kind::Read
        | Kind::Write
        | Kind::Sync
        | Kind::CellStatus
        | Kind::TruncateCells
        | Kind::DeleteCells
        | Kind::CreateFork
        | Kind::RemoveFork
        | Kind::DataRuns
        | Kind::ClearRange
        | Kind::CopyRange
        | Kind::ExtendCells
        | Kind::SendRange
        | Kind::Disks
        | Kind::Trim
        | Kind::Losses
        | Kind::AcceptLosses
        | Kind::Advise
        | Kind::Scrub
        | Kind::ScrubStatus
        | Kind::ListCells
        | Kind::ListKept
        | Kind::WhichDeleted
        | Kind::CheckStore
        | Kind::CheckNamespace
        | Kind::ListFiles
        | Kind::RepairNamespace
        | Kind::AdoptFile
        | Kind::NamesOf
        | Kind::TakeOffset
        | Kind::Pointer
        | Kind::Claim
        | Kind::Settle
        | Kind::Outcome
        | Kind::ForceCaution
        | Kind::NameChunks
        | Kind::Clean
        | Kind::ReadNames
        | Kind::Callbacks
        | Kind::Beacon
        | Kind::Apply
        | Kind::ReplicaFiles
        | Kind::ReplicaParts
        | Kind::ReplicaRead
        | Kind::ReplicaScrub
        | Kind::ConfirmRead
        | Kind::Checkpoint
        | Kind::Rollback
        | Kind::DropCheckpoint
        | Kind::CollectiveRead
        | Kind::CollectiveWrite
        | Kind::JoinedRead
        | Kind::JoinedWrite
        | Kind::MakeCheckpoint
        | Kind::ListParity
        | Kind::BeginCoding
        | Kind::FindCoding
        | Kind::CodeCells
        | Kind::ReadPiece
        | Kind::ListCheckpoints
        | Kind::RemoveCheckpoint
        | Kind::RollBack
        | Kind::Detach
        | Kind::Delegate
        | Kind::LimitGrowth
        | Kind::ListQuotas
        | Kind::QuotasOf
        | Kind::ListFileCheckpoints => false,
    }
}
