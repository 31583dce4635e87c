//! Truncate: the first of three steps. The intent is written here; the caller carries it to the
//! servers and then calls [`Namespace::truncate_done`], which changes size and times.

use weft_layout::OFFSET_MAX;
use weft_proto::meta::{FileKind, StatReply, TruncateRequest};

use crate::intents::Intent;
use crate::ops::{attributes, note_write};
use crate::path::{Node, resolve};
use crate::permission::{WRITE, is_root, need, text, without_set_id};
use crate::record::{IntentRecord, TruncateRecord};
use crate::{MetaError, Namespace, keys};

/// What a truncate needs next.
#[derive(Clone, Debug, PartialEq)]
pub enum Truncation {
    /// The file has this size for certain: it is done.
    Done(StatReply),
    /// The servers must be told. Other intents of this file with smaller numbers come first;
    /// [`Namespace::pending_intents`] keeps that order.
    Owed(Intent),
}

impl Namespace {
    /// Notes that a file's size is to be set.
    pub fn truncate(&self, now: i64, request: &TruncateRequest) -> Result<Truncation, MetaError> {
        let who = &request.who;
        let path = &request.target.path;
        let size = request.size;
        self.edit(|edit| {
            let Node { id, inode } = resolve(edit.reader(), who, &request.target)?;
            match FileKind::try_from(inode.kind) {
                Ok(FileKind::Regular) => {}
                Ok(FileKind::Directory) => {
                    return Err(MetaError::IsDirectory { path: text(path) });
                }
                _ => {
                    return Err(MetaError::Invalid {
                        path: text(path),
                        reason: "only a regular file has a size to set",
                    });
                }
            }
            if !request.attached {
                need(who, &inode, WRITE, path)?;
            }
            if size > OFFSET_MAX {
                return Err(MetaError::TooLarge {
                    path: text(path),
                    size,
                });
            }
            let layout = inode.layout.clone().ok_or_else(|| MetaError::Corrupt {
                what: "inode",
                id,
                reason: "a regular file without a layout".into(),
            })?;
            let done = inode.size_exact && inode.size == size && inode.truncate == 0;
            let mut after = inode.clone();
            if !is_root(who) {
                after.mode = without_set_id(who, &after);
            }
            if done {
                note_write(&mut after, now);
                *edit.change(id, &inode) = after.clone();
                let attributes = attributes(&Node { id, inode: after });
                return Ok(Truncation::Done(StatReply { attributes }));
            }
            let record = IntentRecord {
                file: id,
                delete: None,
                truncate: Some(TruncateRecord {
                    layout: Some(layout),
                    size,
                }),
            };
            let number = edit.owe(&record)?;
            edit.open_files().truncated(id);
            // Until the servers have done it nobody may believe the size.
            after.size_exact = false;
            after.truncate = number;
            *edit.change(id, &inode) = after;
            Ok(Truncation::Owed(Intent::from_record(number, &record)?))
        })
    }

    /// The newest truncate that is owed for a file, for a caller that must wait for it.
    pub fn owed_truncate(&self, file: u64) -> Result<Option<u64>, MetaError> {
        let inode = self.read(|reader| keys::inode(reader, file))?;
        let inode = inode.ok_or(MetaError::Stale { id: file })?;
        Ok((inode.truncate != 0).then_some(inode.truncate))
    }
}
