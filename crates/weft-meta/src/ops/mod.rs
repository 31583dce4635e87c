//! The operations, one per file, each over one transaction.
//!
//! An operation is a function of a [`Volume`](crate::tx::Volume) and a request. This module owns no
//! state: an operation changes records through its transaction, and the tables in memory through
//! their methods. The method of [`Namespace`](crate::Namespace) that calls it documents its costs,
//! errors and durability.

mod attributes;
mod checkpoints;
mod clients;
mod files;
mod intents;
mod names;
mod parity;
mod quotas;
mod servers;
mod xattrs;

pub(crate) use attributes::{set_attributes, stat};
pub use checkpoints::CheckpointFiles;
pub(crate) use checkpoints::{
    checkpoint_done, checkpoint_info, is_pending, list_checkpoints, list_file_checkpoints,
    make_checkpoint, remove_checkpoint, roll_back, tree_done, tree_of,
};
pub(crate) use clients::{reap_orphans, reassert, session_ended};
pub use files::{Append, Attached, Spill, SpillEnd, Truncation, UnsettledFile};
pub(crate) use files::{
    append, append_after, attach, begin_spill, detach, doubt_sizes, end_spill, find_unknown_sizes,
    has_unsettled, mark_size_unknown, pending_truncate, report, settle_size, store_inline,
    take_unsettled, truncate, undo_spill,
};
pub use intents::IntentPage;
pub(crate) use intents::{
    deletes_from, intent, intent_done, intents_from, pending_intents, truncate_done, withdraw,
};
pub(crate) use names::{
    change_names, delegate, lease, link, list, make_directory, make_link, make_node, read_link,
    remove_directory, rename, unlink,
};
pub(crate) use parity::{begin_coding, coding_begun, end_coding, find_coding, list_parity};
pub(crate) use quotas::{
    count_again, growing, growing_soon, limits_growth, list_quotas, load_bounds, note_growth,
    quotas_of, set_quota, usage,
};
pub(crate) use servers::{
    accept_rollback, change_replicas, heartbeat, join_server, leave_server, server_map,
};
pub(crate) use xattrs::{get_xattr, list_xattr, remove_xattr, set_xattr};
