//! One change of the namespace, as watchers are notified of it.

use bytes::Bytes;
use weft_proto::coord::ChangedEntry;

/// What a transaction changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Attributes or data of a file.
    File(u64),
    /// The file that a name in a directory refers to.
    Entry(ChangedEntry),
}

/// The change that a write to this key of the entries makes.
pub(crate) fn entry_change(key: &[u8]) -> Option<Change> {
    let (parent, name) = key.split_first_chunk::<8>()?;
    Some(Change::Entry(ChangedEntry {
        parent: u64::from_be_bytes(*parent),
        name: Bytes::copy_from_slice(name),
    }))
}
