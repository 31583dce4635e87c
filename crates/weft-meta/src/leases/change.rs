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
    /// Nothing yet: a client is opening a file of which others may have bytes.
    Opened(Opened),
}

/// A file that is being opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) file: u64,
    /// The clients that may have bytes of it that they have not sent.
    pub(crate) gatherers: Vec<u64>,
}

/// The change that a write to this key of the entries makes.
pub(crate) fn entry_change(key: &[u8]) -> Option<Change> {
    let (parent, name) = key.split_first_chunk::<8>()?;
    Some(Change::Entry(ChangedEntry {
        parent: u64::from_be_bytes(*parent),
        name: Bytes::copy_from_slice(name),
    }))
}
