//! A file with parity as the calls describe it.

use weft_kv::Reader;
use weft_proto::meta;
use weft_proto::parity::{Coding, ParityState};

use crate::checkpoints::has_later;
use crate::error::MetaError;
use crate::records::Node;
use crate::records::record::CodingRecord;

/// The state of a file; `None` if it has no parity, nothing of it can be coded, or it never
/// changes again.
pub(super) fn state(reader: &dyn Reader, node: &Node) -> Result<Option<ParityState>, MetaError> {
    let (inode, codings) = (&node.inode, node.inode.codings.clone().unwrap_or_default());
    let Some(layout) = inode.layout.as_ref().filter(|_| inode.frozen.is_none()) else {
        return Ok(None);
    };
    let is_coded = codings.done.is_some() || codings.begun.is_some();
    if (layout.parity == 0 || inode.inline) && !is_coded {
        return Ok(None);
    }
    let (pinned, same) = match &codings.done {
        Some(done) => (
            has_later(reader, node.id, done.checkpoint)?,
            is_same(node, done),
        ),
        None => (false, false),
    };
    let quiet = inode.size_exact && !inode.forks_changed && inode.truncate == 0 && inode.links > 0;
    Ok(Some(ParityState {
        file: node.id,
        layout: meta::Layout::from(layout),
        changed: inode.written.max(inode.modified).max(inode.created),
        busy: !quiet || inode.inline,
        same,
        pinned,
        coded: codings.done.as_ref().map(coding),
        coding: codings.begun.as_ref().map(coding),
    }))
}

/// Whether a file has not been changed since a coding of it was begun.
fn is_same(node: &Node, coding: &CodingRecord) -> bool {
    let inode = &node.inode;
    let now = (inode.written, inode.modified, inode.size);
    inode.size_exact
        && !inode.forks_changed
        && inode.truncate == 0
        && now == (coding.written, coding.modified, coding.size)
}

fn coding(record: &CodingRecord) -> Coding {
    Coding {
        checkpoint: record.checkpoint,
        parity_file: record.parity_file,
        shape: record.shape,
        primaries: record.primaries.clone(),
    }
}
