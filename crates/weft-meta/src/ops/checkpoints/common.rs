//! Steps that the operations on checkpoints share.

use weft_proto::checkpoint::CheckpointInfo;
use weft_proto::meta::{Credentials, FileKind, Target};

use crate::access::{WRITE, need};
use crate::error::{MetaError, text};
use crate::intents::Intent;
use crate::paths::{not_found, resolve};
use crate::records::record::{CheckpointRecord, CheckpointTaskRecord, IntentRecord};
use crate::records::{Node, keys};
use crate::tx::Tx;

/// Resolves a regular file or a directory whose content the caller may change.
pub(super) fn writable_file(
    tx: &Tx<'_, '_>,
    who: &Credentials,
    target: &Target,
) -> Result<Node, MetaError> {
    let node = resolve(tx.reader(), who, target)?;
    need_kind(&node, &target.path)?;
    if node.inode.frozen.is_some() {
        return Err(MetaError::ReadOnly { id: node.id });
    }
    if node.inode.is_directory() && node.inode.links == 0 {
        return Err(not_found(&target.path));
    }
    need(who, &node.inode, WRITE, &target.path)?;
    Ok(node)
}

pub(super) fn need_kind(node: &Node, path: &[u8]) -> Result<(), MetaError> {
    match FileKind::try_from(node.inode.kind) {
        Ok(FileKind::Regular | FileKind::Directory) => Ok(()),
        _ => Err(MetaError::Invalid {
            path: text(path),
            reason: "only regular files and directories have checkpoints",
        }),
    }
}

/// A checkpoint's name in messages.
pub(super) fn shown(path: &[u8], name: &str) -> String {
    format!("{}, checkpoint {name}", text(path))
}

/// Adds an intent about a checkpoint of a file. Returns its number, too.
pub(in crate::ops) fn add_task_intent(
    tx: &mut Tx<'_, '_>,
    node: &Node,
    task: i32,
    checkpoint: u64,
    size: u64,
    name: &str,
) -> Result<(u64, Intent), MetaError> {
    let record = IntentRecord {
        file: node.id,
        delete: None,
        truncate: None,
        checkpoint: Some(CheckpointTaskRecord {
            layout: node.inode.layout.clone(),
            task,
            checkpoint,
            size,
            name: name.to_owned(),
            image: 0,
        }),
    };
    let number = tx.add_intent(&record)?;
    Ok((number, Intent::from_record(tx.reader(), number, &record)?))
}

pub(super) fn info(name: String, record: &CheckpointRecord) -> CheckpointInfo {
    CheckpointInfo {
        name,
        number: record.number,
        made: record.made,
        size: record.size,
        image: record.image,
        names: record.names,
    }
}

pub(super) fn intent_of(tx: &Tx<'_, '_>, number: u64) -> Result<Intent, MetaError> {
    let record = keys::intent(tx.reader(), number)?;
    let record = record.ok_or(MetaError::WrongIntent {
        number,
        expected: "checkpoint of a tree",
    })?;
    Intent::from_record(tx.reader(), number, &record)
}
