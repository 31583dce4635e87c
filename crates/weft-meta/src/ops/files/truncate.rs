//! Truncate: the first of three steps. It writes the intent; the caller carries it out on the
//! servers and then calls [`truncate_done`](crate::Namespace::truncate_done), which changes size
//! and times.

use weft_layout::OFFSET_MAX;
use weft_proto::limits::INLINE_MAX;
use weft_proto::meta::{FileKind, StatReply, TruncateRequest};

use crate::access::{WRITE, is_root, need, without_set_id};
use crate::error::{MetaError, text};
use crate::intents::Intent;
use crate::open::Author;
use crate::paths::resolve;
use crate::records::keys::{self, content};
use crate::records::record::{IntentRecord, TruncateRecord};
use crate::records::{Node, attributes};
use crate::tx::{Tx, Volume};

/// Policies under which any client may truncate a file at any time. Others, also those that
/// this service does not know, may ask for order among operations, or refuse the second write.
const WITHOUT_ORDER: [&str; 6] = ["", "for-1", "for-2", "rel-1", "session", "nfs"];

/// The next step of a truncate.
#[derive(Clone, Debug, PartialEq)]
pub enum Truncation {
    /// The file certainly has this size: the truncate is done.
    Done(StatReply),
    /// The intent must be carried out on the servers. Other intents of this file with smaller
    /// numbers come first; [`pending_intents`](crate::Namespace::pending_intents) keeps that order.
    Pending(Intent),
}

pub(crate) fn truncate(
    volume: &Volume,
    now: i64,
    request: &TruncateRequest,
) -> Result<Truncation, MetaError> {
    let who = &request.who;
    let size = request.size;
    volume.transact(|tx| {
        let mut node = resolve(tx.reader(), who, &request.target)?;
        let id = node.id;
        check(request, &node)?;
        if request.grow && size <= node.inode.size && node.inode.size_exact {
            return Ok(done(&node));
        }
        if node.inode.inline {
            if truncate_inline(volume, tx, &mut node, request, now)? {
                return Ok(done(&node));
            }
            tx.require_cells(&mut node)?;
        }
        let inode = node.inode;
        let has_size = inode.size_exact && inode.size == size && inode.truncate == 0;
        let mut after = inode.clone();
        if !is_root(who) {
            after.mode = without_set_id(who, &after);
        }
        if request.grow || has_size {
            after.note_write(now);
            if request.grow {
                // It is charged now, but not trusted before the servers are asked.
                after.size = after.size.max(size);
                after.size_exact = false;
                tx.open_files().extended(id);
            }
            *tx.change(id, &inode) = after.clone();
            return Ok(done(&Node { id, inode: after }));
        }
        let record = IntentRecord {
            file: id,
            delete: None,
            truncate: Some(TruncateRecord {
                layout: inode.layout.clone(),
                size,
            }),
            checkpoint: None,
        };
        let number = tx.add_intent(&record)?;
        tx.open_files().truncated(id);
        // The size must not be trusted until the intent is completed.
        after.size_exact = false;
        after.truncate = number;
        // The growth is charged now, while it can be refused.
        after.size = after.size.max(size);
        *tx.change(id, &inode) = after;
        let intent = Intent::from_record(tx.reader(), number, &record)?;
        Ok(Truncation::Pending(intent))
    })
}

fn done(node: &Node) -> Truncation {
    let attributes = attributes(node);
    Truncation::Done(StatReply { attributes })
}

/// Checks that the caller may set the size of this file.
fn check(request: &TruncateRequest, node: &Node) -> Result<(), MetaError> {
    let path = &request.target.path;
    let inode = &node.inode;
    match FileKind::try_from(inode.kind) {
        Ok(FileKind::Regular) => {}
        Ok(FileKind::Directory) => return Err(MetaError::IsDirectory { path: text(path) }),
        _ => {
            return Err(MetaError::Invalid {
                path: text(path),
                reason: "only a regular file has a size to set",
            });
        }
    }
    if !request.attached {
        need(&request.who, inode, WRITE, path)?;
        if !WITHOUT_ORDER.contains(&inode.policy.as_str()) {
            return Err(MetaError::NeedsAttachment {
                path: text(path),
                policy: inode.policy.clone(),
            });
        }
    }
    if request.size > OFFSET_MAX {
        return Err(MetaError::TooLarge {
            path: text(path),
            size: request.size,
        });
    }
    if inode.layout.is_none() {
        return Err(MetaError::Corrupt {
            what: "inode",
            id: node.id,
            reason: "a regular file without a layout".into(),
        });
    }
    Ok(())
}

/// Sets the size of an inline file. False where the file cannot stay inline: it would have too many
/// bytes, or another client may have bytes of it that are not stored yet.
fn truncate_inline(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    node: &mut Node,
    request: &TruncateRequest,
    now: i64,
) -> Result<bool, MetaError> {
    let id = node.id;
    // An inline file has at most one writer.
    let own = request.attached && tx.open_files().is_writer(volume.origin(), id);
    if request.size > INLINE_MAX as u64 || !own && tx.may_be_written(id) {
        return Ok(false);
    }
    let record = content(tx.reader(), id)?;
    if record.spilling {
        return Ok(false);
    }
    let mut data = record.data;
    data.resize(request.size as usize, 0);
    tx.put_content(id, &data);
    let author = if own { Author::Writer } else { Author::Other };
    tx.open_files().truncate_inline(id, request.size, author);
    if request.size > node.inode.size {
        tx.grow();
    }
    let inode = tx.change(id, &node.inode);
    inode.size = request.size;
    if !is_root(&request.who) {
        inode.mode = without_set_id(&request.who, inode);
    }
    inode.note_write(now);
    node.inode = inode.clone();
    Ok(true)
}

pub(crate) fn pending_truncate(volume: &Volume, file: u64) -> Result<Option<u64>, MetaError> {
    let inode = volume.read(|reader| keys::inode(reader, file))?;
    let inode = inode.ok_or(MetaError::Stale { id: file })?;
    Ok((inode.truncate != 0).then_some(inode.truncate))
}
