//! Checkpoints by name, and the files that a checkpoint of a tree keeps.

use std::ops::ControlFlow;

use weft_kv::{Reader, scan_prefix};

use crate::error::{MetaError, text};
use crate::records::Node;
use crate::records::keys::{self, CHECKPOINTS, TREE_FILES};
use crate::records::record::{CHECKPOINT_THERE, CheckpointRecord, TreeFileRecord};

pub(crate) fn record_of(
    reader: &dyn Reader,
    id: u64,
    name: &[u8],
) -> Result<Option<CheckpointRecord>, MetaError> {
    let bytes = reader.get(CHECKPOINTS, &keys::with_name(id, name))?;
    bytes
        .map(|bytes| keys::decode("checkpoint of", id, &bytes))
        .transpose()
}

/// The name of the checkpoint of a coding. No program can give a checkpoint such a name.
pub(crate) fn coding_name(parity_file: u64) -> String {
    format!("\0parity.{parity_file}")
}

/// Whether a checkpoint is that of a coding, by its name.
pub(crate) fn is_coding_name(name: &[u8]) -> bool {
    name.first() == Some(&0)
}

/// The checkpoint of this name, which all servers have.
pub(crate) fn existing(
    reader: &dyn Reader,
    node: &Node,
    path: &[u8],
    name: &[u8],
) -> Result<CheckpointRecord, MetaError> {
    let record = record_of(reader, node.id, name)?;
    let record = record.filter(|r| r.state == CHECKPOINT_THERE && !is_coding_name(name));
    record.ok_or_else(|| MetaError::NoCheckpoint {
        path: text(path),
        name: text(name),
    })
}

/// The image of a directory in a checkpoint of its tree.
pub(crate) fn image(
    reader: &dyn Reader,
    node: &Node,
    path: &[u8],
    name: &[u8],
) -> Result<Node, MetaError> {
    let id = existing(reader, node, path, name)?.image;
    let inode = keys::named_inode(reader, id)?;
    Ok(Node { id, inode })
}

/// Whether a file has checkpoints after the one of this number, or trees that it lies in may have:
/// they share what is coded.
pub(crate) fn has_later(reader: &dyn Reader, id: u64, number: u64) -> Result<bool, MetaError> {
    let mut found = keys::hold(reader, id)?.is_some();
    let prefix = id.to_be_bytes();
    scan_prefix(reader, CHECKPOINTS, &prefix, &mut |key, value| {
        // One that cannot be read may be a later one.
        let record = keys::decode::<CheckpointRecord>("checkpoint of", id, value);
        let later = record.map_or(true, |record| record.number > number);
        found |= later && !is_coding_name(&key[8..]);
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Whether a file or directory has checkpoints, including those being made or dropped.
pub(crate) fn has_checkpoints(reader: &dyn Reader, id: u64) -> Result<bool, MetaError> {
    let mut found = false;
    let prefix = id.to_be_bytes();
    scan_prefix(reader, CHECKPOINTS, &prefix, &mut |_, _| {
        found = true;
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// The files with cells in a checkpoint of a tree: `(file, image)`.
pub(crate) fn checkpoint_files(
    reader: &dyn Reader,
    checkpoint: u64,
) -> Result<Vec<(u64, u64)>, MetaError> {
    let (mut found, mut damaged) = (Vec::new(), None);
    let prefix = checkpoint.to_be_bytes();
    scan_prefix(reader, TREE_FILES, &prefix, &mut |key, value| {
        let file = keys::number(&key[8..]).unwrap_or_default();
        match keys::decode::<TreeFileRecord>("file of checkpoint", checkpoint, value) {
            Ok(record) => {
                found.push((file, record.image));
                ControlFlow::Continue(())
            }
            Err(error) => {
                damaged = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    damaged.map_or(Ok(found), Err)
}
