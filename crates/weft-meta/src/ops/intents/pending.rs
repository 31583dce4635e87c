//! The intents that may be carried out now.

use std::collections::HashSet;
use std::ops::{Bound, ControlFlow};

use crate::error::MetaError;
use crate::intents::Intent;
use crate::records::keys::{self, INTENTS};
use crate::records::record::IntentRecord;
use crate::tx::Volume;

pub(crate) fn pending_intents(volume: &Volume, limit: usize) -> Result<Vec<Intent>, MetaError> {
    let from = volume.state().oldest_intent().get();
    let mut files = HashSet::new();
    let mut found = Vec::new();
    let mut damaged = None;
    let mut oldest = None;
    let counters = volume.read(|reader| {
        let mut visit = |key: &[u8], value: &[u8]| {
            let number = keys::number(key).unwrap_or_default();
            oldest.get_or_insert(number);
            if found.len() == limit {
                return ControlFlow::Break(());
            }
            let record = keys::decode::<IntentRecord>("intent", number, value);
            match record.and_then(|record| Intent::from_record(reader, number, &record)) {
                Ok(intent) => {
                    let concerned = intent.files();
                    let first = concerned.iter().all(|file| !files.contains(file));
                    files.extend(concerned);
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
    volume.state().oldest_intent().advance(oldest);
    match damaged {
        Some(error) => Err(error),
        None => Ok(found),
    }
}
