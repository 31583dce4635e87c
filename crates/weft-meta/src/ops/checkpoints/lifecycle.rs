//! Checkpoints of files and trees: their names, and what is owed to the servers for them. Each operation writes an intent; the caller
//! carries it to the servers and then calls [`Namespace::checkpoint_done`].

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::checkpoint::{
    CheckpointInfo, ListCheckpointsReply, ListCheckpointsRequest, MakeCheckpointRequest,
    RemoveCheckpointRequest, RollBackRequest,
};
use weft_proto::limits::{LIST_PAGE_MAX, NAME_MAX};
use weft_proto::meta::{Credentials, FileKind, Target};

use super::tree_make::make_tree;
use super::tree_roll_back::roll_back_tree;
use crate::access::{READ, WRITE, need};
use crate::checkpoints::{existing, record_of};
use crate::error::{MetaError, text};
use crate::intents::{Intent, TreeFile, tree_files};
use crate::paths::{not_found, resolve};
use crate::records::Node;
use crate::records::keys::{self, CHECKPOINTS};
use crate::records::record::{
    CHECKPOINT_GOING, CHECKPOINT_MAKING, CHECKPOINT_THERE, CheckpointRecord, CheckpointTaskRecord,
    IntentRecord, TASK_DROP, TASK_MAKE, TASK_ROLL_BACK,
};
use crate::tx::{Tx, Volume};

/// Finds a regular file, or a directory, of which the caller may change the content.
fn writable_file(tx: &Tx<'_, '_>, who: &Credentials, target: &Target) -> Result<Node, MetaError> {
    let node = resolve(tx.reader(), who, target)?;
    has_checkpoints(&node, &target.path)?;
    if node.inode.frozen.is_some() {
        return Err(MetaError::ReadOnly { id: node.id });
    }
    if node.inode.is_directory() && node.inode.links == 0 {
        return Err(not_found(&target.path));
    }
    need(who, &node.inode, WRITE, &target.path)?;
    Ok(node)
}

fn has_checkpoints(node: &Node, path: &[u8]) -> Result<(), MetaError> {
    match FileKind::try_from(node.inode.kind) {
        Ok(FileKind::Regular | FileKind::Directory) => Ok(()),
        _ => Err(MetaError::Invalid {
            path: text(path),
            reason: "only regular files and directories have checkpoints",
        }),
    }
}

/// A checkpoint's name in messages.
fn shown(path: &[u8], name: &str) -> String {
    format!("{}, checkpoint {name}", text(path))
}

fn owe(
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
    let number = tx.owe(&record)?;
    Ok((number, Intent::from_record(tx.reader(), number, &record)?))
}

pub(crate) fn make_checkpoint(
    volume: &Volume,
    now: i64,
    request: &MakeCheckpointRequest,
) -> Result<Intent, MetaError> {
    let (path, name) = (&request.target.path, &request.name);
    if name.len() > NAME_MAX {
        let length = name.len();
        return Err(MetaError::NameTooLong { length });
    }
    if name.is_empty() || name.contains(['\0', '/']) || name == "." || name == ".." {
        return Err(MetaError::Invalid {
            path: shown(path, name),
            reason: "a checkpoint's name is not empty, not . or .., and holds neither NUL nor '/'",
        });
    }
    volume.transact(|tx| {
        let mut node = writable_file(tx, &request.who, &request.target)?;
        if record_of(tx.reader(), node.id, name.as_bytes())?.is_some() {
            return Err(MetaError::Exists {
                path: shown(path, name),
            });
        }
        if node.inode.is_directory() {
            let number = make_tree(tx, &node, path, name, now)?;
            return intent_of(tx, number);
        }
        if node.inode.inline {
            tx.need_cells(&mut node)?;
        }
        let (number, intent) = owe(tx, &node, TASK_MAKE, 0, 0, name)?;
        let record = CheckpointRecord {
            number,
            made: now,
            size: 0,
            state: CHECKPOINT_MAKING,
            image: 0,
            names: 0,
            forks: node.inode.fork_bytes > 0 || !node.inode.size_exact,
        };
        let key = keys::with_name(node.id, name.as_bytes());
        tx.put(CHECKPOINTS, &key, &record);
        tx.grow();
        Ok(intent)
    })
}

pub(crate) fn roll_back(
    volume: &Volume,
    now: i64,
    request: &RollBackRequest,
) -> Result<Intent, MetaError> {
    let (path, name) = (&request.target.path, &request.name);
    volume.transact(|tx| {
        let node = writable_file(tx, &request.who, &request.target)?;
        let record = existing(tx.reader(), &node, path, name.as_bytes())?;
        if record.image != 0 {
            let (place, of) = ((&node, &path[..]), (&record, name.as_str()));
            let number = roll_back_tree(tx, &request.who, place, of, now)?;
            return intent_of(tx, number);
        }
        let (checkpoint, size) = (record.number, record.size);
        let (number, intent) = owe(tx, &node, TASK_ROLL_BACK, checkpoint, size, name)?;
        tx.open_files().truncated(node.id);
        // As for a truncate: until the servers have done it nobody may believe the size.
        let inode = tx.change(node.id, &node.inode);
        inode.size_exact = false;
        inode.forks_changed |= record.forks || inode.fork_bytes > 0;
        inode.truncate = number;
        inode.size = inode.size.max(size);
        Ok(intent)
    })
}

pub(crate) fn tree_of(
    volume: &Volume,
    request: &RollBackRequest,
) -> Result<Option<(u64, Vec<TreeFile>)>, MetaError> {
    let path = &request.target.path;
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        need(&request.who, &node.inode, WRITE, path)?;
        let record = existing(reader, &node, path, request.name.as_bytes())?;
        if record.image == 0 {
            return Ok(None);
        }
        Ok(Some((record.number, tree_files(reader, record.number)?)))
    })
}

pub(crate) fn remove_checkpoint(
    volume: &Volume,
    request: &RemoveCheckpointRequest,
) -> Result<Intent, MetaError> {
    let (path, name) = (&request.target.path, &request.name);
    volume.transact(|tx| {
        let node = writable_file(tx, &request.who, &request.target)?;
        let mut record = existing(tx.reader(), &node, path, name.as_bytes())?;
        record.state = CHECKPOINT_GOING;
        let key = keys::with_name(node.id, name.as_bytes());
        tx.put(CHECKPOINTS, &key, &record);
        if record.image != 0 {
            let (of, image) = (record.number, record.image);
            let number = tx.owe_tree(node.id, TASK_DROP, of, name, image)?;
            return intent_of(tx, number);
        }
        let (_, intent) = owe(tx, &node, TASK_DROP, record.number, 0, name)?;
        Ok(intent)
    })
}

pub(crate) fn list_checkpoints(
    volume: &Volume,
    request: &ListCheckpointsRequest,
) -> Result<ListCheckpointsReply, MetaError> {
    volume.read(|reader| {
        let node = resolve(reader, &request.who, &request.target)?;
        has_checkpoints(&node, &request.target.path)?;
        need(&request.who, &node.inode, READ, &request.target.path)?;
        let mut reply = ListCheckpointsReply::default();
        let mut damaged = None;
        let prefix = node.id.to_be_bytes();
        scan_prefix(reader, CHECKPOINTS, &prefix, &mut |key, value| {
            let name = String::from_utf8_lossy(&key[8..]).into_owned();
            if name.as_bytes() <= request.after.as_bytes() && !request.after.is_empty() {
                return ControlFlow::Continue(());
            }
            match keys::decode::<CheckpointRecord>("checkpoint of", node.id, value) {
                Ok(record) if record.state != CHECKPOINT_THERE => ControlFlow::Continue(()),
                Ok(_) if reply.checkpoints.len() == LIST_PAGE_MAX as usize => {
                    reply.more = true;
                    ControlFlow::Break(())
                }
                Ok(record) => {
                    reply.checkpoints.push(info(name, &record));
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    damaged = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        damaged.map_or(Ok(reply), Err)
    })
}

pub(crate) fn checkpoint_done(
    volume: &Volume,
    number: u64,
    size: u64,
    now: i64,
) -> Result<Option<CheckpointInfo>, MetaError> {
    volume.transact(|tx| {
        let Some(record) = keys::intent(tx.reader(), number)? else {
            return Ok(None);
        };
        let task = record.checkpoint.ok_or(MetaError::WrongIntent {
            number,
            expected: "checkpoint",
        })?;
        if task.task == TASK_ROLL_BACK {
            tx.sized(number, record.file, task.size, now)?;
            return Ok(None);
        }
        tx.settle(number)?;
        let key = keys::with_name(record.file, task.name.as_bytes());
        let found = record_of(tx.reader(), record.file, task.name.as_bytes())?;
        let Some(mut checkpoint) = found else {
            return Ok(None);
        };
        if task.task == TASK_DROP {
            tx.delete(CHECKPOINTS, &key);
            return Ok(None);
        }
        let inode = keys::inode(tx.reader(), record.file)?;
        checkpoint.forks |= inode.is_some_and(|i| i.fork_bytes > 0 || !i.size_exact);
        checkpoint.size = size;
        checkpoint.state = CHECKPOINT_THERE;
        tx.put(CHECKPOINTS, &key, &checkpoint);
        Ok(Some(info(task.name, &checkpoint)))
    })
}

pub(crate) fn is_owed(volume: &Volume, number: u64) -> Result<bool, MetaError> {
    Ok(volume
        .read(|reader| keys::intent(reader, number))?
        .is_some())
}

pub(crate) fn checkpoint_info(
    volume: &Volume,
    file: u64,
    name: &str,
) -> Result<Option<CheckpointInfo>, MetaError> {
    volume.read(|reader| {
        let key = keys::with_name(file, name.as_bytes());
        let Some(bytes) = reader.get(CHECKPOINTS, &key)? else {
            return Ok(None);
        };
        let record: CheckpointRecord = keys::decode("checkpoint of", file, &bytes)?;
        Ok((record.state == CHECKPOINT_THERE).then(|| info(name.to_owned(), &record)))
    })
}

fn info(name: String, record: &CheckpointRecord) -> CheckpointInfo {
    CheckpointInfo {
        name,
        number: record.number,
        made: record.made,
        size: record.size,
        image: record.image,
        names: record.names,
    }
}

fn intent_of(tx: &Tx<'_, '_>, number: u64) -> Result<Intent, MetaError> {
    let record = keys::intent(tx.reader(), number)?;
    let record = record.ok_or(MetaError::WrongIntent {
        number,
        expected: "checkpoint of a tree",
    })?;
    Intent::from_record(tx.reader(), number, &record)
}
