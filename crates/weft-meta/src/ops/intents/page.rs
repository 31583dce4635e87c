//! Pages of intents: each intent once, in ascending order.

use std::ops::{Bound, ControlFlow};

use weft_kv::Reader;
use weft_layout::ServerId;

use crate::error::MetaError;
use crate::intents::Intent;
use crate::limits::INTENT_FILES_MAX;
use crate::records::keys::{self, INTENTS};
use crate::records::record::IntentRecord;
use crate::tx::Volume;

/// A page of intents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntentPage {
    /// The intents that were asked for, ascending.
    pub intents: Vec<Intent>,
    /// Intents below this number were read.
    pub next: u64,
    /// There may be more.
    pub more: bool,
}

pub(crate) fn intents_from(
    volume: &Volume,
    from: u64,
    limit: usize,
) -> Result<IntentPage, MetaError> {
    page(volume, from, limit, limit, |_| true)
}

pub(crate) fn deletes_from(
    volume: &Volume,
    server: ServerId,
    from: u64,
    limit: usize,
    records: usize,
) -> Result<IntentPage, MetaError> {
    page(volume, from, limit, records, |record| {
        let delete = record.delete.as_ref();
        delete.is_some_and(|delete| delete.servers.contains(&server.0))
    })
}

pub(crate) fn intent(volume: &Volume, number: u64) -> Result<Option<Intent>, MetaError> {
    volume.read(|reader| {
        let record = keys::intent(reader, number)?;
        record
            .map(|record| Intent::from_record(reader, number, &record))
            .transpose()
    })
}

fn page(
    volume: &Volume,
    from: u64,
    limit: usize,
    records: usize,
    wanted: impl Fn(&IntentRecord) -> bool,
) -> Result<IntentPage, MetaError> {
    // Completed intents leave tombstones behind, which a scan would walk over.
    let known = volume.state().oldest_intent().get();
    let from = from.max(known);
    let (mut page, mut seen, mut oldest) = (IntentPage::default(), 0, None);
    let (mut files, mut failed) = (0, None);
    let next_intent = volume.read(|reader| {
        let mut visit = |key: &[u8], value: &[u8]| {
            let number = keys::number(key).unwrap_or_default();
            oldest.get_or_insert(number);
            if seen == records || page.intents.len() == limit || files >= INTENT_FILES_MAX {
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
        volume.state().oldest_intent().advance(oldest);
    }
    if !page.more {
        page.next = next_intent.max(from);
    }
    Ok(page)
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
