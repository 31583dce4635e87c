//! The outcome of a repair.

use weft_proto::fsck::RepairNamespaceReply;

use crate::error::MetaError;

pub(super) type RepairResult = Result<RepairNamespaceReply, MetaError>;

/// The finding cannot be repaired.
pub(super) fn not_repaired() -> RepairNamespaceReply {
    RepairNamespaceReply::default()
}

/// The finding no longer holds.
pub(super) fn obsolete() -> RepairNamespaceReply {
    RepairNamespaceReply {
        gone: true,
        done: String::new(),
    }
}

/// The finding is repaired; `what` says how.
pub(super) fn done(what: String) -> RepairNamespaceReply {
    RepairNamespaceReply {
        gone: false,
        done: what,
    }
}
