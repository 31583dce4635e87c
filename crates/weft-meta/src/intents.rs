//! Work owed to the I/O servers: written with the change that causes it, taken away when every
//! server has done it. Whoever carries it through may die and begin again: servers skip the
//! numbers that they have seen.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use weft_layout::{FileId, Layout, ServerId};
use weft_proto::meta::{self, StatReply};

use crate::keys::{self, INTENTS};
use crate::ops::{attributes, note_write};
use crate::path::Node;
use crate::record::{IntentRecord, LayoutRecord};
use crate::{MetaError, Namespace};

/// Work owed to I/O servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Remove everything of a file.
    Delete {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// The servers that may hold something of it.
        servers: Vec<ServerId>,
    },
    /// Set a file's size.
    Truncate {
        /// The intent, and the operation's number for the servers.
        number: u64,
        /// The file.
        file: FileId,
        /// Where its cells are.
        layout: Layout,
        /// The new size in canonical order.
        size: u64,
    },
}

impl Intent {
    /// Its number.
    pub fn number(&self) -> u64 {
        match self {
            Intent::Delete { number, .. } | Intent::Truncate { number, .. } => *number,
        }
    }

    /// The file.
    pub fn file(&self) -> FileId {
        match self {
            Intent::Delete { file, .. } | Intent::Truncate { file, .. } => *file,
        }
    }

    pub(crate) fn from_record(number: u64, record: &IntentRecord) -> Result<Intent, MetaError> {
        let corrupt = |reason: String| MetaError::Corrupt {
            what: "intent",
            id: number,
            reason,
        };
        let file = FileId(record.file);
        match (&record.delete, &record.truncate) {
            (Some(delete), None) => Ok(Intent::Delete {
                number,
                file,
                servers: delete.servers.iter().copied().map(ServerId).collect(),
            }),
            (None, Some(truncate)) => {
                let layout = truncate.layout.as_ref();
                let layout = layout.ok_or_else(|| corrupt("it has no layout".into()))?;
                Ok(Intent::Truncate {
                    number,
                    file,
                    layout: checked(layout).map_err(corrupt)?,
                    size: truncate.size,
                })
            }
            _ => Err(corrupt("it is neither a delete nor a truncate".into())),
        }
    }
}

fn checked(layout: &LayoutRecord) -> Result<Layout, String> {
    Layout::try_from(&meta::Layout::from(layout)).map_err(|error| error.to_string())
}

impl Namespace {
    /// The oldest intents that may be carried through now, at most `limit`: of each file only the
    /// oldest one, so that several of one file are carried through in order.
    ///
    /// Cost: a scan from the oldest that was left at the last call.
    pub fn pending_intents(&self, limit: usize) -> Result<Vec<Intent>, MetaError> {
        let from = self.oldest_intent.load(Ordering::Acquire);
        let mut files = HashSet::new();
        let mut found = Vec::new();
        let mut damaged = None;
        let mut oldest = None;
        let counters = self.read(|reader| {
            let mut visit = |key: &[u8], value: &[u8]| {
                let number = keys::number(key).unwrap_or_default();
                oldest.get_or_insert(number);
                if found.len() == limit {
                    return ControlFlow::Break(());
                }
                let record = keys::decode::<IntentRecord>("intent", number, value);
                match record.and_then(|record| Intent::from_record(number, &record)) {
                    Ok(intent) if files.insert(intent.file()) => found.push(intent),
                    Ok(_) => {}
                    Err(error) => {
                        damaged = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            };
            let from = from.to_be_bytes();
            reader.scan(
                INTENTS,
                Bound::Included(&from),
                Bound::Unbounded,
                &mut visit,
            )?;
            keys::counters(reader)
        })?;
        let oldest = oldest.unwrap_or(counters.next_intent);
        self.oldest_intent.fetch_max(oldest, Ordering::AcqRel);
        match damaged {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// A delete was carried through on every server. Doing it twice changes nothing.
    ///
    /// # Durability
    /// Needs no sync: a delete that comes back after power loss is done again.
    pub fn intent_done(&self, number: u64) -> Result<(), MetaError> {
        self.edit(|edit| {
            let Some(record) = keys::intent(edit.reader(), number)? else {
                return Ok(());
            };
            if record.delete.is_none() {
                return Err(MetaError::WrongIntent {
                    number,
                    expected: "delete",
                });
            }
            edit.delete(INTENTS, &number.to_be_bytes());
            edit.counters()?.intents -= 1;
            Ok(())
        })
    }

    /// A truncate was carried through on every server: size and times change now. Answers the
    /// attributes, or nothing where the file was deleted meanwhile or it was told before.
    ///
    /// # Durability
    /// Needs no sync for the same reason as [`Namespace::intent_done`].
    pub fn truncate_done(&self, number: u64, now: i64) -> Result<Option<StatReply>, MetaError> {
        self.edit(|edit| {
            let Some(record) = keys::intent(edit.reader(), number)? else {
                return Ok(None);
            };
            let truncate = record.truncate.ok_or(MetaError::WrongIntent {
                number,
                expected: "truncate",
            })?;
            edit.delete(INTENTS, &number.to_be_bytes());
            edit.counters()?.intents -= 1;
            let id = record.file;
            let Some(inode) = keys::inode(edit.reader(), id)? else {
                return Ok(None);
            };
            // A writer may have written behind the truncate; after a restart, one that has not told
            // yet that it is there.
            let written_to = self.recovering() || edit.open_files().has_writer(id);
            let inode = edit.change(id, &inode);
            let known = !inode.truncate_raced;
            if known {
                inode.size = truncate.size;
            }
            note_write(inode, now);
            if inode.truncate == number {
                inode.truncate = 0;
                inode.truncate_raced = false;
                inode.size_exact = known && !written_to;
            }
            let inode = inode.clone();
            if !known {
                // The stored size is older than the truncate: a writer who goes without having
                // written must not make it exact.
                edit.open_files().wrote(id);
            }
            let attributes = attributes(&Node { id, inode });
            Ok(Some(StatReply { attributes }))
        })
    }
}
