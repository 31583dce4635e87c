//! Repairs of counts: the volume's counters, and the usage of payers.

use std::ops::{Bound, ControlFlow};

use super::outcome::{RepairResult, done, obsolete};
use crate::error::MetaError;
use crate::quota::{corrected, count_usage, stored_records};
use crate::records::keys::{self, INODES, INTENTS, QUOTAS};
use crate::tx::Tx;

pub(super) fn counter(tx: &mut Tx<'_, '_>) -> RepairResult {
    let count = |space| -> Result<(u64, u64), MetaError> {
        let (mut count, mut last) = (0, 0);
        let all = (Bound::Unbounded, Bound::Unbounded);
        tx.reader().scan(space, all.0, all.1, &mut |key, _| {
            count += 1;
            last = keys::number(key).unwrap_or(0);
            ControlFlow::Continue(())
        })?;
        Ok((count, last))
    };
    let ((inodes, last_inode), (intents, last_intent)) = (count(INODES)?, count(INTENTS)?);
    let counters = tx.counters()?;
    let before = *counters;
    counters.files = inodes;
    counters.intents = intents;
    counters.next_id = counters.next_id.max(last_inode + 1);
    counters.next_intent = counters.next_intent.max(last_intent + 1);
    Ok(if before == *counters {
        obsolete()
    } else {
        done("corrected".to_owned())
    })
}

/// Recounts the usage of all payers from the inodes.
pub(super) fn usage(tx: &mut Tx<'_, '_>) -> RepairResult {
    let used = count_usage(tx.reader())?;
    let (records, damaged) = stored_records(tx.reader())?;
    let wrong = corrected(records, &used);
    let right = wrong.is_empty() && damaged.is_empty();
    for (key, _) in damaged {
        tx.delete_unseen(QUOTAS, &key);
    }
    for (payer, record) in &wrong {
        tx.put_quota(*payer, record);
    }
    Ok(if right {
        obsolete()
    } else {
        done("recounted".to_owned())
    })
}
