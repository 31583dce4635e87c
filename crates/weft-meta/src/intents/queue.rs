//! Intents that may be carried through now, and what follows when one was.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use weft_proto::meta::StatReply;

use super::intent::Intent;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::attributes;
use crate::records::keys::{self, INTENTS};
use crate::records::record::IntentRecord;

impl Namespace {
    /// The oldest intents that may be carried through now, at most `limit`: of each file only the
    /// oldest one, so that several of one file are carried through in order. One about a tree is
    /// one about each file in it that has cells. For whoever carries everything in one go; a service
    /// that must not wait for one server because of another reads [`Namespace::intents_from`].
    ///
    /// Cost: a scan from the oldest that was left at the last call; two reads for each file of a tree.
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
                match record.and_then(|record| Intent::from_record(reader, number, &record)) {
                    Ok(intent) => {
                        let mine = intent.files();
                        let first = mine.iter().all(|file| !files.contains(file));
                        files.extend(mine);
                        if first {
                            found.push(intent);
                        }
                    }
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
            edit.settle(number)
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
            let sized = edit.sized(number, record.file, truncate.size, now)?;
            Ok(sized.map(|node| StatReply {
                attributes: attributes(&node),
            }))
        })
    }
}
