//! Messages to the metadata service.
//!
//! The service resolves a path from a directory (`at`, the root is 1), so that any depth costs one
//! request. Names and paths are bytes, as in Unix. Times are nanoseconds since the epoch.

mod attach;
mod attributes;
mod names;
mod servers;
mod target;
mod xattr;

pub use attach::{
    Accessed, AttachReply, AttachRequest, Create, DetachReply, DetachRequest, KeepSmall, KeptSmall,
    ReassertReply, ReassertRequest, ReportReply, ReportRequest, SmallFile,
};
pub use attributes::{
    Attributes, FileKind, Layout, LayoutOptions, SetAttributesRequest, StatReply, StatRequest,
    TimeUpdate, TruncateRequest,
};
pub use names::{
    Entry, LinkRequest, ListReply, ListRequest, MakeDirectoryReply, MakeDirectoryRequest,
    MakeLinkRequest, MakeNodeRequest, ReadLinkReply, ReadLinkRequest, RemoveDirectoryRequest,
    RenameReply, RenameRequest, UnlinkReply, UnlinkRequest,
};
pub use servers::{
    AcceptRollbackReply, AcceptRollbackRequest, ChangeReplicasReply, ChangeReplicasRequest,
    ConnectedClient, HeartbeatReply, HeartbeatRequest, JoinServerReply, JoinServerRequest,
    LeaveServerReply, LeaveServerRequest, ListClientsReply, ListClientsRequest, Replica,
    ReplicaAddress, ReplicaChange, ReplicaProgress, ReplicaSet, Server, ServerMapReply,
    ServerMapRequest, ServerState, Usage,
};
pub use target::{Credentials, ROOT, Target};
pub use xattr::{
    GetXattrReply, GetXattrRequest, ListXattrReply, ListXattrRequest, RemoveXattrRequest,
    SetXattrRequest, XattrDone,
};
