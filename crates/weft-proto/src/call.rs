//! The table of calls: the number, request and reply of each.

use crate::round_trip::{Decoder, round_trip};
use crate::{
    addressed, checkpoint, collective, coord, delegation, fsck, inline, io, meta, order, parity,
    pointer, quota, replica, session, upkeep,
};

/// A request type: its kind on the wire and the type of its reply.
pub trait Call: prost::Message + Default + Send + Sync + 'static {
    /// The kind that frames of this call carry.
    const KIND: Kind;
    /// The type of its reply.
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

            /// The name, for logs and metrics.
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
    /// Keep-alive.
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
    /// Zero the bytes that a request touches on one server.
    ClearRange = 41: io::ClearRangeRequest => io::ClearRangeReply;
    /// Copy between files within one server.
    CopyRange = 42: io::CopyRangeRequest => io::CopyRangeReply;
    /// Start or stop the scrub of a server.
    Scrub = 43: upkeep::ScrubRequest => upkeep::ScrubStatusReply;
    /// Progress and findings of the scrub of a server.
    ScrubStatus = 44: upkeep::ScrubStatusRequest => upkeep::ScrubStatusReply;
    /// Make a checkpoint of a file's cells on one server (from the metadata service).
    Checkpoint = 45: checkpoint::CheckpointRequest => checkpoint::CheckpointReply;
    /// Roll a file's cells on one server back to a checkpoint (from the metadata service).
    Rollback = 46: checkpoint::RollbackRequest => checkpoint::RollbackReply;
    /// Drop a checkpoint on one server (from the metadata service).
    DropCheckpoint = 47: checkpoint::DropCheckpointRequest => checkpoint::DropCheckpointReply;
    /// Read as a member of a group whose requests become one job.
    CollectiveRead = 48: collective::CollectiveReadRequest => collective::CollectiveReadReply;
    /// Write as a member of a group whose requests become one job.
    CollectiveWrite = 49: collective::CollectiveWriteRequest => collective::CollectiveWriteReply;
    /// Read what all members of a group ask for.
    JoinedRead = 50: collective::JoinedReadRequest => collective::JoinedReadReply;
    /// Write the data of all members of a group.
    JoinedWrite = 51: collective::JoinedWriteRequest => collective::JoinedWriteReply;
    /// One page of the forks of cells that a server has.
    ListCells = 52: fsck::ListCellsRequest => fsck::ListCellsReply;
    /// One page of the checkpoints that a server has.
    ListKept = 53: fsck::ListKeptRequest => fsck::ListKeptReply;
    /// Check a section of a server's store.
    CheckStore = 54: fsck::CheckStoreRequest => fsck::CheckStoreReply;
    /// Replace the lost bytes of a file on a server with zeros.
    AcceptLosses = 55: upkeep::AcceptLossesRequest => upkeep::AcceptLossesReply;
    /// The disks of a server and their condition.
    Disks = 56: upkeep::DisksRequest => upkeep::DisksReply;
    /// Fetch what a request touches on one server into its cache, or release it.
    Advise = 57: io::AdviseRequest => io::AdviseReply;
    /// Set growth limits of files and return their sizes (from the metadata service).
    LimitGrowth = 58: quota::LimitGrowthRequest => quota::LimitGrowthReply;
    /// Extend cells on one server to hold what a request touches.
    ExtendCells = 59: io::ExtendCellsRequest => io::ExtendCellsReply;
    /// Copy one server's share of a range to other servers.
    SendRange = 60: io::SendRangeRequest => io::SendRangeReply;
    /// Ask which of some files a server has deleted.
    WhichDeleted = 61: fsck::WhichDeletedRequest => fsck::WhichDeletedReply;
    /// Return a server's free space to its host.
    Trim = 62: upkeep::TrimRequest => upkeep::TrimReply;
    /// The amount of data that a server has lost.
    Losses = 63: upkeep::LossesRequest => upkeep::LossesReply;

    /// Resolve a path, create the file if asked to, and record it as open.
    Attach = 64: meta::AttachRequest => meta::AttachReply;
    /// Report size and time of writes, and optionally close the file.
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
    /// Remove a name other than a directory's.
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
    /// The servers of the volume.
    ServerMap = 82: meta::ServerMapRequest => meta::ServerMapReply;
    /// A server reports its address and usage.
    Heartbeat = 83: meta::HeartbeatRequest => meta::HeartbeatReply;
    /// After a reconnect: the files this client still has open.
    Reassert = 84: meta::ReassertRequest => meta::ReassertReply;
    /// Lock, convert or unlock a file or a range of it; may wait.
    Lock = 85: coord::LockRequest => coord::LockReply;
    /// The first held lock that conflicts with a given one.
    TestLock = 86: coord::TestLockRequest => coord::TestLockReply;
    /// Wait for changes by other clients.
    Watch = 87: coord::WatchRequest => coord::WatchReply;
    /// Reserve a range to append to.
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
    /// Roll a file back to a checkpoint.
    RollBack = 95: checkpoint::RollBackRequest => meta::StatReply;
    /// End attachments that have nothing to report.
    Detach = 96: meta::DetachRequest => meta::DetachReply;
    /// Delegate a directory to a client, which then changes names in it by itself.
    Delegate = 97: delegation::DelegateRequest => delegation::DelegateReply;
    /// Report changes in delegated directories.
    ChangeNames = 98: delegation::ChangeNamesRequest => delegation::ChangeNamesReply;
    /// One page of the checkpoints of the files in a directory.
    ListFileCheckpoints = 100: checkpoint::ListFileCheckpointsRequest => checkpoint::ListFileCheckpointsReply;
    /// Set, change or remove bounds of a user, a group or a tree.
    SetQuota = 104: quota::SetQuotaRequest => quota::SetQuotaReply;
    /// One page of all usages and bounds.
    ListQuotas = 105: quota::ListQuotasRequest => quota::ListQuotasReply;
    /// Usages and bounds that a file counts towards.
    QuotasOf = 106: quota::QuotasOfRequest => quota::QuotasOfReply;
    /// Accept a server whose store is older than it reported before.
    AcceptRollback = 107: meta::AcceptRollbackRequest => meta::AcceptRollbackReply;
    /// The connected clients.
    ListClients = 108: meta::ListClientsRequest => meta::ListClientsReply;
    /// Change which replicas of a server are in sync (from its replicas).
    ChangeReplicas = 109: meta::ChangeReplicasRequest => meta::ChangeReplicasReply;
    /// Let a process become a server, or a replica of one.
    JoinServer = 110: meta::JoinServerRequest => meta::JoinServerReply;
    /// Let a replica leave its server, or stay after all.
    LeaveServer = 111: meta::LeaveServerRequest => meta::LeaveServerReply;
    /// Check the namespace for consistency.
    CheckNamespace = 112: fsck::CheckNamespaceRequest => fsck::CheckNamespaceReply;
    /// One page of the regular files, in the order of their ids.
    ListFiles = 113: fsck::ListFilesRequest => fsck::ListFilesReply;
    /// Repair a fault in the namespace, if it still exists.
    RepairNamespace = 114: fsck::RepairNamespaceRequest => fsck::RepairNamespaceReply;
    /// Make an inode for cells that have none.
    AdoptFile = 115: fsck::AdoptFileRequest => fsck::RepairNamespaceReply;
    /// Names of inodes.
    NamesOf = 116: fsck::NamesOfRequest => fsck::NamesOfReply;

    /// One page of the files with parity.
    ListParity = 117: parity::ListParityRequest => parity::ListParityReply;
    /// Begin to code a file.
    BeginCoding = 118: parity::BeginCodingRequest => parity::BeginCodingReply;
    /// A file is coded.
    EndCoding = 119: parity::EndCodingRequest => parity::EndCodingReply;
    /// How a file is coded.
    FindCoding = 120: parity::FindCodingRequest => parity::FindCodingReply;

    /// Take the next bytes of a shared offset pointer, from its I/O server.
    TakeOffset = 128: pointer::TakeOffsetRequest => pointer::TakeOffsetReply;
    /// Get, set or remove a shared offset pointer.
    Pointer = 129: pointer::PointerRequest => pointer::PointerReply;
    /// Claim a place in the order of a file's operations.
    Claim = 130: order::ClaimRequest => order::ClaimReply;
    /// Take the next step of an operation with a claim.
    Settle = 131: order::SettleRequest => order::SettleReply;
    /// Ask a coordinator for the outcome of an operation.
    Outcome = 132: order::OutcomeRequest => order::OutcomeReply;
    /// Refuse operations without a claim on files (from the metadata service).
    ForceCaution = 133: order::ForceCautionRequest => order::ForceCautionReply;
    /// Write chunks of an addressed file by their names.
    NameChunks = 134: addressed::NameChunksRequest => addressed::NameChunksReply;
    /// Remove addressed chunks that no file names.
    Clean = 135: addressed::CleanRequest => addressed::CleanReply;
    /// Read the names of chunks.
    ReadNames = 136: addressed::ReadNamesRequest => addressed::ReadNamesReply;
    /// Wait for changes of the files that the client keeps names of.
    Callbacks = 137: addressed::CallbacksRequest => addressed::CallbacksReply;
    /// The primary is there (from the primary of a server to a backup).
    Beacon = 138: replica::BeaconRequest => replica::BeaconReply;
    /// Apply a change (from the primary of a server to a backup).
    Apply = 139: replica::ApplyRequest => replica::ApplyReply;
    /// List the files of a replica (from its primary).
    ReplicaFiles = 140: replica::ReplicaFilesRequest => replica::ReplicaFilesReply;
    /// Hash parts of a fork of a replica (from its primary).
    ReplicaParts = 141: replica::ReplicaPartsRequest => replica::ReplicaPartsReply;
    /// Bytes of a replica (from its primary).
    ReplicaRead = 142: replica::ReplicaReadRequest => replica::ReplicaReadReply;
    /// Verify stored chunks of a replica (from its primary).
    ReplicaScrub = 143: replica::ReplicaScrubRequest => replica::ReplicaScrubReply;
    /// May a backup show what it has read (from the backup of a server to its primary).
    ConfirmRead = 144: replica::ConfirmReadRequest => replica::ConfirmReadReply;
    /// Read a piece of a row.
    ReadPiece = 145: parity::ReadPieceRequest => parity::ReadPieceReply;
    /// Let backups of the server drop blocks of which there is parity.
    CodeCells = 146: parity::CodeCellsRequest => parity::CodeCellsReply;
}
