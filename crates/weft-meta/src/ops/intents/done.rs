//! The completion of deletes and truncates.

use weft_proto::meta::StatReply;

use crate::error::MetaError;
use crate::records::{attributes, keys};
use crate::tx::Volume;

pub(crate) fn intent_done(volume: &Volume, number: u64) -> Result<(), MetaError> {
    volume.transact(|tx| {
        let Some(record) = keys::intent(tx.reader(), number)? else {
            return Ok(());
        };
        if record.delete.is_none() {
            return Err(MetaError::WrongIntent {
                number,
                expected: "delete",
            });
        }
        tx.complete_intent(number)
    })
}

pub(crate) fn truncate_done(
    volume: &Volume,
    number: u64,
    now: i64,
) -> Result<Option<StatReply>, MetaError> {
    volume.transact(|tx| {
        let Some(record) = keys::intent(tx.reader(), number)? else {
            return Ok(None);
        };
        let truncate = record.truncate.ok_or(MetaError::WrongIntent {
            number,
            expected: "truncate",
        })?;
        let sized = tx.complete_truncate(number, record.file, truncate.size, now)?;
        Ok(sized.map(|node| StatReply {
            attributes: attributes(&node),
        }))
    })
}
