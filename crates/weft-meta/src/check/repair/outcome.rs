//! What became of a repair.

use weft_proto::fsck::RepairNamespaceReply;

use crate::error::MetaError;

pub(super) type Outcome = Result<RepairNamespaceReply, MetaError>;

/// Nothing can be done.
pub(super) fn nothing() -> RepairNamespaceReply {
    RepairNamespaceReply::default()
}

/// It is not so any more.
pub(super) fn gone() -> RepairNamespaceReply {
    RepairNamespaceReply {
        gone: true,
        done: String::new(),
    }
}

pub(super) fn done(what: String) -> RepairNamespaceReply {
    RepairNamespaceReply {
        gone: false,
        done: what,
    }
}
