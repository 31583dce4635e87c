//! Reading what is owed: each intent once, in the order of the numbers, however many there are.

use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;

use weft_kv::Reader;
use weft_layout::ServerId;

use super::intent::Intent;
use crate::error::MetaError;
use crate::namespace::Namespace;
use crate::records::keys::{self, INTENTS};
use crate::records::record::IntentRecord;

/// Files of the intents of one run, after which it ends: trees have many.
const FILES_MAX: usize = 1 << 17;

/// A run of intents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwedPage {
    /// Those that were asked for, ascending.
    pub intents: Vec<Intent>,
    /// Intents below this number were looked at.
    pub next: u64,
    /// There may be more.
    pub more: bool,
}

impl Namespace {
    /// The intents from a number on, of at most `limit` records; those that cannot be read are left out, and a check finds
    /// them.
    ///
    /// Cost: a scan of so many records, and two reads for each file of a tree.
    pub fn intents_from(&self, from: u64, limit: usize) -> Result<OwedPage, MetaError> {
        self.page(from, limit, limit, |_| true)
    }

    /// The deletes that a server owes from a number on: at most `limit`, found among at most `records` records.
    ///
    /// Cost: a scan of so many records.
    pub fn deletes_from(
        &self,
        server: ServerId,
        from: u64,
        limit: usize,
        records: usize,
    ) -> Result<OwedPage, MetaError> {
        self.page(from, limit, records, |record| {
            let delete = record.delete.as_ref();
            delete.is_some_and(|delete| delete.servers.contains(&server.0))
        })
    }

    /// One intent, if it is still owed.
    pub fn intent(&self, number: u64) -> Result<Option<Intent>, MetaError> {
        self.read(|reader| {
            let record = keys::intent(reader, number)?;
            record
                .map(|record| Intent::from_record(reader, number, &record))
                .transpose()
        })
    }

    fn page(
        &self,
        from: u64,
        limit: usize,
        records: usize,
        wanted: impl Fn(&IntentRecord) -> bool,
    ) -> Result<OwedPage, MetaError> {
        // What was carried through leaves graves behind that a scan would walk over.
        let known = self.oldest_intent.load(Ordering::Acquire);
        let from = from.max(known);
        let (mut page, mut seen, mut oldest) = (OwedPage::default(), 0, None);
        let (mut files, mut failed) = (0, None);
        let next_intent = self.read(|reader| {
            let mut visit = |key: &[u8], value: &[u8]| {
                let number = keys::number(key).unwrap_or_default();
                oldest.get_or_insert(number);
                if seen == records || page.intents.len() == limit || files >= FILES_MAX {
                    page.more = true;
                    return ControlFlow::Break(());
                }
                seen += 1;
                page.next = number + 1;
                match read(reader, number, value, &wanted) {
                    Ok(Some(intent)) => {
                        files += intent.files().len();
                        page.intents.push(intent);
                    }
                    Ok(None) | Err(MetaError::Corrupt { .. }) => {}
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            };
            let start = from.to_be_bytes();
            let start = Bound::Included(&start[..]);
            reader.scan(INTENTS, start, Bound::Unbounded, &mut visit)?;
            Ok(keys::counters(reader)?.next_intent)
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if from == known {
            let oldest = oldest.unwrap_or(next_intent);
            self.oldest_intent.fetch_max(oldest, Ordering::AcqRel);
        }
        if !page.more {
            page.next = next_intent.max(from);
        }
        Ok(page)
    }
}

fn read(
    reader: &dyn Reader,
    number: u64,
    value: &[u8],
    wanted: impl Fn(&IntentRecord) -> bool,
) -> Result<Option<Intent>, MetaError> {
    let record = keys::decode::<IntentRecord>("intent", number, value)?;
    if wanted(&record) {
        Intent::from_record(reader, number, &record).map(Some)
    } else {
        Ok(None)
    }
}
