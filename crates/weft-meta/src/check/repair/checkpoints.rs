//! Repairs of checkpoints that servers have and the namespace does not list.

use std::ops::ControlFlow;

use weft_kv::scan_prefix;
use weft_proto::fsck::Finding;
use weft_proto::meta::FileKind;

use super::outcome::{RepairResult, done, obsolete};
use crate::records::keys::{self, CHECKPOINTS, TREE_FILES, readable, with_name};
use crate::records::record::{CHECKPOINT_THERE, CheckpointRecord};
use crate::tx::Tx;

pub(super) fn checkpoint_unknown(tx: &mut Tx<'_, '_>, finding: &Finding, now: i64) -> RepairResult {
    let (file, number) = (finding.file, finding.expected);
    let Some(inode) = readable(tx.reader(), file)?.filter(|i| i.is(FileKind::Regular)) else {
        return Ok(obsolete());
    };
    let mut listed = false;
    scan_prefix(
        tx.reader(),
        CHECKPOINTS,
        &file.to_be_bytes(),
        &mut |_, value| {
            let record = keys::decode::<CheckpointRecord>("checkpoint of", file, value);
            listed |= record.is_ok_and(|record| record.number == number);
            ControlFlow::Continue(())
        },
    )?;
    listed |= tx
        .reader()
        .get(TREE_FILES, &keys::pair(number, file))?
        .is_some();
    if listed || keys::intent(tx.reader(), number)?.is_some() {
        return Ok(obsolete());
    }
    let name = format!("lost-{number}");
    let record = CheckpointRecord {
        number,
        made: now,
        size: inode.size,
        state: CHECKPOINT_THERE,
        ..CheckpointRecord::default()
    };
    tx.put(CHECKPOINTS, &with_name(file, name.as_bytes()), &record);
    let counters = tx.counters()?;
    counters.next_intent = counters.next_intent.max(number + 1);
    Ok(done(format!("listed as {name}")))
}
