//! The table of calls: number, request and reply of each.

use crate::round_trip::{Decoder, round_trip};
use crate::{
    checkpoint, collective, coord, delegation, fsck, inline, io, meta, quota, session, upkeep,
};

/// A request type: its kind on the wire and the type of its reply.
pub trait Call: prost::Message + Default + Send + Sync + 'static {
    /// The kind that frames of this call carry.
    const KIND: Kind;
    /// What answers it.
    type Reply: prost::Message + Default + Send + Sync + 'static;
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $code:literal: $request:ty => $reply:ty;)*) => {
        /// Which call a frame belongs to.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $name = $code,)* }

        impl Kind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Kind] = &[$(Kind::$name,)*];

            /// The number on the wire.
            pub fn code(self) -> u8 {
                self as u8
            }

            /// The kind with this number on the wire.
            pub fn from_code(code: u8) -> Option<Kind> {
                match code { $($code => Some(Kind::$name),)* _ => None }
            }

            /// The name, for traces and metrics.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$name => stringify!($name),)* }
            }
        }

        /// The decoders of all calls' requests and replies.
        pub(crate) const MESSAGES: &[(&str, Decoder)] = &[$(
            (concat!(stringify!($name), " request"), round_trip::<$request>),
            (concat!(stringify!($name), " reply"), round_trip::<$reply>),
        )*];

        $(impl Call for $request {
            const KIND: Kind = Kind::$name;
            type Reply = $reply;
        })*
    };
}

calls! {
    /// First frame of a connection, and its answer.
    Hello = 1: session::Hello => session::Challenge;
    /// The client's proof of the key, and the server's.
    Proof = 2: session::Proof => session::Welcome;
    /// Are you there.
    Ping = 3: session::Ping => session::Pong;
    /// More payload bytes may be sent on this connection (no reply).
    Credit = 4: session::Credit => session::Nothing;
    /// The client no longer wants the answer of this request id (no reply).
    Cancel = 5: session::Cancel => session::Nothing;
    /// Payload of a call that began in an earlier frame (the body is empty).
    Data = 6: session::Nothing => session::Never;

    /// Read what a request touches on one server.
    Read = 32: io::ReadRequest => io::ReadReply;
    /// Write what a request touches on one server.
    Write = 33: io::WriteRequest => io::WriteReply;
    /// Make everything acknowledged so far on this server survive power loss.
    Sync = 34: io::SyncRequest => io::SyncReply;
    /// Lengths and times of a file's cells and forks on one server.
    CellStatus = 35: io::CellStatusRequest => io::CellStatusReply;
    /// Set the lengths of a file's cells on one server (from the metadata service).
    TruncateCells = 36: io::TruncateCellsRequest => io::TruncateCellsReply;
    /// Remove everything of a file on one server (from the metadata service).
    DeleteCells = 37: io::DeleteCellsRequest => io::DeleteCellsReply;
    /// Create an empty fork in a cell.
    CreateFork = 38: io::CreateForkRequest => io::CreateForkReply;
    /// Remove a fork of a cell with its bytes.
    RemoveFork = 39: io::RemoveForkRequest => io::RemoveForkReply;
    /// Where the cells on one server have data.
    DataRuns = 40: io::DataRunsRequest => io::DataRunsReply;
    /// Make what a request touches on one server zeros.
    ClearRange = 41: io::ClearRangeRequest => io::ClearRangeReply;
    /// Copy between files within one server.
    CopyRange = 42: io::CopyRangeRequest => io::CopyRangeReply;
    /// Start or stop the scrub of a server.
    Scrub = 43: upkeep::ScrubRequest => upkeep::ScrubStatusReply;
    /// How far the scrub of a server is and what it found.
    ScrubStatus = 44: upkeep::ScrubStatusRequest => upkeep::ScrubStatusReply;
    /// Keep a file's cells on one server as they are (from the metadata service).
    Checkpoint = 45: checkpoint::CheckpointRequest => checkpoint::CheckpointReply;
    /// Make a file's cells on one server what they are in a checkpoint (from the metadata service).
    Rollback = 46: checkpoint::RollbackRequest => checkpoint::RollbackReply;
    /// Drop a checkpoint on one server (from the metadata service).
    DropCheckpoint = 47: checkpoint::DropCheckpointRequest => checkpoint::DropCheckpointReply;
    /// Read as a member of a group whose requests become one job.
    CollectiveRead = 48: collective::CollectiveReadRequest => collective::CollectiveReadReply;
    /// Write as a member of a group whose requests become one job.
    CollectiveWrite = 49: collective::CollectiveWriteRequest => collective::CollectiveWriteReply;
    /// Read what all members of a group ask for.
    JoinedRead = 50: collective::JoinedReadRequest => collective::JoinedReadReply;
    /// Write what all members of a group bring.
    JoinedWrite = 51: collective::JoinedWriteRequest => collective::JoinedWriteReply;
    /// One page of the forks of cells that a server has.
    ListCells = 52: fsck::ListCellsRequest => fsck::ListCellsReply;
    /// One page of the checkpoints that a server has.
    ListKept = 53: fsck::ListKeptRequest => fsck::ListKeptReply;
    /// Check a part of a server's own store.
    CheckStore = 54: fsck::CheckStoreRequest => fsck::CheckStoreReply;
    /// Make zeros of what is lost of a file on a server.
    AcceptLosses = 55: upkeep::AcceptLossesRequest => upkeep::AcceptLossesReply;
    /// The disks of a server and how they are.
    Disks = 56: upkeep::DisksRequest => upkeep::DisksReply;
    /// Bring what a request touches on one server into its cache, or let it go.
    Advise = 57: io::AdviseRequest => io::AdviseReply;
    /// Sizes of files that grow, and how long they may become (from the metadata service).
    LimitGrowth = 58: quota::LimitGrowthRequest => quota::LimitGrowthReply;
    /// Make cells on one server so long that they hold what a request touches.
    ExtendCells = 59: io::ExtendCellsRequest => io::ExtendCellsReply;
    /// Copy what one server has of a range to other servers.
    SendRange = 60: io::SendRangeRequest => io::SendRangeReply;
    /// Which of some files a server has deleted.
    WhichDeleted = 61: fsck::WhichDeletedRequest => fsck::WhichDeletedReply;
    /// Give a server's free space back to its host.
    Trim = 62: upkeep::TrimRequest => upkeep::TrimReply;
    /// How much is lost of what a server stored.
    Losses = 63: upkeep::LossesRequest => upkeep::LossesReply;

    /// Resolve a path, perhaps create the file, and remember that it is open.
    Attach = 64: meta::AttachRequest => meta::AttachReply;
    /// Tell size and time of what was written, and perhaps that the file is closed.
    Report = 65: meta::ReportRequest => meta::ReportReply;
    /// Attributes of one path.
    Stat = 66: meta::StatRequest => meta::StatReply;
    /// Change attributes of one path.
    SetAttributes = 67: meta::SetAttributesRequest => meta::StatReply;
    /// Set a file's size.
    Truncate = 68: meta::TruncateRequest => meta::StatReply;
    /// Create a directory.
    MakeDirectory = 69: meta::MakeDirectoryRequest => meta::MakeDirectoryReply;
    /// Create a symbolic link.
    MakeLink = 70: meta::MakeLinkRequest => meta::StatReply;
    /// Create a fifo, socket or device node.
    MakeNode = 71: meta::MakeNodeRequest => meta::StatReply;
    /// Give a file another name (hard link).
    Link = 72: meta::LinkRequest => meta::StatReply;
    /// Remove a name that is no directory.
    Unlink = 73: meta::UnlinkRequest => meta::UnlinkReply;
    /// Remove an empty directory.
    RemoveDirectory = 74: meta::RemoveDirectoryRequest => meta::UnlinkReply;
    /// Rename, replace or exchange.
    Rename = 75: meta::RenameRequest => meta::RenameReply;
    /// One page of a directory, with attributes.
    List = 76: meta::ListRequest => meta::ListReply;
    /// The text of a symbolic link.
    ReadLink = 77: meta::ReadLinkRequest => meta::ReadLinkReply;
    /// One extended attribute.
    GetXattr = 78: meta::GetXattrRequest => meta::GetXattrReply;
    /// Set an extended attribute.
    SetXattr = 79: meta::SetXattrRequest => meta::XattrDone;
    /// The names of all extended attributes.
    ListXattr = 80: meta::ListXattrRequest => meta::ListXattrReply;
    /// Remove an extended attribute.
    RemoveXattr = 81: meta::RemoveXattrRequest => meta::XattrDone;
    /// Which servers there are.
    ServerMap = 82: meta::ServerMapRequest => meta::ServerMapReply;
    /// A server says that it lives, where, and how full it is.
    Heartbeat = 83: meta::HeartbeatRequest => meta::HeartbeatReply;
    /// After a reconnect: the files this client still has open.
    Reassert = 84: meta::ReassertRequest => meta::ReassertReply;
    /// Lock, convert or unlock a file or a range of it; may wait.
    Lock = 85: coord::LockRequest => coord::LockReply;
    /// What would be in the way of a lock.
    TestLock = 86: coord::TestLockRequest => coord::TestLockReply;
    /// What others have changed; waits for it.
    Watch = 87: coord::WatchRequest => coord::WatchReply;
    /// Where to append.
    Append = 88: coord::AppendRequest => coord::AppendReply;
    /// Make everything acknowledged so far by the metadata service survive power loss.
    SyncNamespace = 89: coord::SyncNamespaceRequest => coord::SyncNamespaceReply;
    /// Replace the bytes of a small file that lie with its metadata.
    StoreInline = 90: inline::StoreInlineRequest => inline::StoreInlineReply;
    /// Move the bytes of a small file to its cells.
    Spill = 91: inline::SpillRequest => inline::SpillReply;
    /// Make a checkpoint of a file.
    MakeCheckpoint = 92: checkpoint::MakeCheckpointRequest => checkpoint::MakeCheckpointReply;
    /// One page of a file's checkpoints.
    ListCheckpoints = 93: checkpoint::ListCheckpointsRequest => checkpoint::ListCheckpointsReply;
    /// Drop a checkpoint of a file.
    RemoveCheckpoint = 94: checkpoint::RemoveCheckpointRequest => checkpoint::RemoveCheckpointReply;
    /// Make a file what it is in a checkpoint.
    RollBack = 95: checkpoint::RollBackRequest => meta::StatReply;
    /// End attachments that have nothing to tell.
    Detach = 96: meta::DetachRequest => meta::DetachReply;
    /// Let a client change names in a directory ahead of the service.
    Delegate = 97: delegation::DelegateRequest => delegation::DelegateReply;
    /// What a client has done ahead of the service.
    ChangeNames = 98: delegation::ChangeNamesRequest => delegation::ChangeNamesReply;
    /// One page of the checkpoints of the files in a directory.
    ListFileCheckpoints = 100: checkpoint::ListFileCheckpointsRequest => checkpoint::ListFileCheckpointsReply;
    /// Set, change or remove bounds of a user, a group or a tree.
    SetQuota = 104: quota::SetQuotaRequest => quota::SetQuotaReply;
    /// One page of all usages and bounds.
    ListQuotas = 105: quota::ListQuotasRequest => quota::ListQuotasReply;
    /// Usages and bounds of what a file counts for.
    QuotasOf = 106: quota::QuotasOfRequest => quota::QuotasOfReply;
    /// Take in a server whose store is older than what it said before.
    AcceptRollback = 107: meta::AcceptRollbackRequest => meta::AcceptRollbackReply;
    /// Which clients are connected.
    ListClients = 108: meta::ListClientsRequest => meta::ListClientsReply;
    /// Check the namespace in itself.
    CheckNamespace = 112: fsck::CheckNamespaceRequest => fsck::CheckNamespaceReply;
    /// One page of the regular files, in the order of their ids.
    ListFiles = 113: fsck::ListFilesRequest => fsck::ListFilesReply;
    /// Repair something in the namespace, if it still is wrong.
    RepairNamespace = 114: fsck::RepairNamespaceRequest => fsck::RepairNamespaceReply;
    /// Make an inode for cells that have none.
    AdoptFile = 115: fsck::AdoptFileRequest => fsck::RepairNamespaceReply;
    /// Names of inodes.
    NamesOf = 116: fsck::NamesOfRequest => fsck::NamesOfReply;
}
