//! The completion of an intent about a checkpoint of a tree.

use std::collections::{BTreeSet, HashMap};

use crate::checkpoints::{Subtree, checkpoint_files, xattrs};
use crate::error::MetaError;
use crate::records::Node;
use crate::records::keys::{
    self, CHECKPOINTS, ENTRIES, HOLDS, INLINE, INODES, TREE_FILES, XATTRS, content,
};
use crate::records::record::{
    CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord, DeleteRecord, InodeRecord,
    IntentRecord, TASK_DROP, TASK_MAKE, TASK_ROLL_BACK,
};
use crate::tx::{Tx, Volume};

/// The files in a checkpoint by their ids: size, and time of the last write.
pub type CheckpointFiles = HashMap<u64, (u64, i64)>;

pub(crate) fn tree_done(
    volume: &Volume,
    number: u64,
    kept: &CheckpointFiles,
    now: i64,
) -> Result<(), MetaError> {
    volume.transact(|tx| {
        let Some(record) = keys::intent(tx.reader(), number)? else {
            return Ok(());
        };
        let task = record.checkpoint.filter(|task| task.image != 0);
        let task = task.ok_or(MetaError::WrongIntent {
            number,
            expected: "checkpoint of a tree",
        })?;
        tx.complete_intent(number)?;
        let key = keys::with_name(record.file, task.name.as_bytes());
        match task.task {
            TASK_MAKE => tree_made(tx, &key, number, kept),
            TASK_DROP => tree_dropped(tx, &key, &task),
            TASK_ROLL_BACK => tree_rolled_back(tx, number, &task, now),
            other => Err(MetaError::Corrupt {
                what: "intent",
                id: number,
                reason: format!("its task {other} is not known"),
            }),
        }
    })
}

fn tree_made(
    tx: &mut Tx<'_, '_>,
    key: &[u8],
    number: u64,
    kept: &CheckpointFiles,
) -> Result<(), MetaError> {
    let bytes = tx.reader().get(CHECKPOINTS, key)?;
    let Some(bytes) = bytes else {
        return Ok(());
    };
    let mut record: CheckpointRecord = keys::decode("checkpoint", number, &bytes)?;
    for (file, image) in checkpoint_files(tx.reader(), number)? {
        let mut inode = keys::named_inode(tx.reader(), image)?;
        let (size, modified) = kept.get(&file).copied().unwrap_or_default();
        inode.size = size;
        if modified > inode.modified_set {
            inode.modified = inode.modified.max(modified);
        }
        tx.put_unseen(INODES, &image.to_be_bytes(), &inode);
        record.size = record.size.saturating_add(size);
    }
    record.state = CHECKPOINT_THERE;
    tx.put(CHECKPOINTS, key, &record);
    Ok(())
}

fn tree_dropped(
    tx: &mut Tx<'_, '_>,
    key: &[u8],
    task: &CheckpointTaskRecord,
) -> Result<(), MetaError> {
    tx.delete(CHECKPOINTS, key);
    let mut going = BTreeSet::new();
    for (file, image) in checkpoint_files(tx.reader(), task.checkpoint)? {
        tx.delete_unseen(TREE_FILES, &keys::pair(task.checkpoint, file));
        let inode = keys::named_inode(tx.reader(), image)?;
        if drop_hold(tx, file, &inode)? {
            going.insert(file);
        }
    }
    if !going.is_empty() {
        tx.supersede(&going)?;
    }
    let id = task.image;
    let Some(inode) = keys::inode(tx.reader(), id)? else {
        return Ok(());
    };
    let tree = Subtree::read(tx.reader(), Node { id, inode }, task.name.as_bytes())?;
    let counters = tx.counters()?;
    counters.files = counters.files.saturating_sub(tree.nodes().len() as u64);
    for (directory, name, _) in tree.names() {
        let key = keys::with_name(tree.nodes()[*directory].id, name);
        tx.delete_unseen(ENTRIES, &key);
    }
    for node in tree.nodes() {
        remove_image(tx, node)?;
    }
    Ok(())
}

fn remove_image(tx: &mut Tx<'_, '_>, image: &Node) -> Result<(), MetaError> {
    let key = image.id.to_be_bytes();
    tx.delete(INODES, &key);
    if image.inode.xattr_bytes > 0 {
        for (name, _) in xattrs(tx.reader(), image.id)? {
            tx.delete_unseen(XATTRS, &keys::with_name(image.id, &name));
        }
    }
    if image.inode.inline {
        // A reader may have caused a spill, which may be incomplete.
        let spilling = content(tx.reader(), image.id)?.spilling;
        tx.delete_unseen(INLINE, &key);
        let own_cells = image.inode.frozen.is_some_and(|frozen| frozen.own_cells);
        if spilling || own_cells {
            add_delete_intent(tx, image.id, &image.inode)?;
        }
    }
    Ok(())
}

/// Removes one hold on the cells of a file; `image` says where they are. Returns whether the cells
/// are deleted.
fn drop_hold(tx: &mut Tx<'_, '_>, file: u64, image: &InodeRecord) -> Result<bool, MetaError> {
    let key = file.to_be_bytes();
    let Some(mut held) = keys::hold(tx.reader(), file)? else {
        return Ok(false);
    };
    held.checkpoints = held.checkpoints.saturating_sub(1);
    if held.checkpoints > 0 {
        tx.put_unseen(HOLDS, &key, &held);
        return Ok(false);
    }
    tx.delete_unseen(HOLDS, &key);
    if held.deleted {
        if let (Some(codings), Some(layout)) = (&held.codings, &image.layout) {
            tx.delete_parity(codings, layout)?;
            tx.forget_checkpoints(file, None)?;
        }
        add_delete_intent(tx, file, image)?;
    }
    Ok(held.deleted)
}

fn add_delete_intent(tx: &mut Tx<'_, '_>, file: u64, inode: &InodeRecord) -> Result<(), MetaError> {
    let servers = inode.layout.as_ref().map(|layout| layout.servers.clone());
    tx.add_intent(&IntentRecord {
        file,
        delete: Some(DeleteRecord {
            servers: servers.unwrap_or_default(),
        }),
        truncate: None,
        checkpoint: None,
    })?;
    Ok(())
}

fn tree_rolled_back(
    tx: &mut Tx<'_, '_>,
    number: u64,
    task: &CheckpointTaskRecord,
    now: i64,
) -> Result<(), MetaError> {
    for (file, image) in checkpoint_files(tx.reader(), task.checkpoint)? {
        let image = keys::named_inode(tx.reader(), image)?;
        if tx.apply_truncate(number, file, image.size, now)?.is_none() {
            continue;
        }
        let inode = keys::named_inode(tx.reader(), file)?;
        let inode = tx.change(file, &inode);
        // The servers' time is that of the rollback, which is no write by a client.
        inode.modified = image.modified;
        inode.modified_set = now;
    }
    Ok(())
}
