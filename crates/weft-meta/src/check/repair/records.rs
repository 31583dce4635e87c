//! Repairs of records that cannot be read.

use prost::Message;
use weft_kv::Reader;
use weft_proto::fsck::Finding;
use weft_proto::meta::FileKind;

use super::inodes::{empty_inode, kind_by_names, make_consistent};
use super::lost_found::{RECORD, recreate_inode, set_attribute};
use super::outcome::{RepairResult, done, not_repaired, obsolete};
use crate::check::damaged::RecordSpace;
use crate::intents::Intent;
use crate::records::keys::{self, readable};
use crate::records::record::{
    CheckpointRecord, InlineRecord, InodeRecord, IntentRecord, OrphanRecord, XattrRecord,
};
use crate::tx::{Tx, Volume};

pub(super) fn damaged_record(
    volume: &Volume,
    tx: &mut Tx<'_, '_>,
    finding: &Finding,
    now: i64,
) -> RepairResult {
    let (key, file) = (&finding.name, finding.file);
    let Some(of) = RecordSpace::of(finding) else {
        // A newer peer reported it.
        return Ok(not_repaired());
    };
    if of == RecordSpace::Volume {
        return Ok(not_repaired());
    }
    let space = of.space();
    let Some(bytes) = tx.reader().get(space, key)? else {
        return Ok(obsolete());
    };
    if of == RecordSpace::Inodes && InodeRecord::decode(bytes.as_slice()).is_ok() {
        let kind = kind_by_names(tx, file)?;
        return make_consistent(tx, file, kind);
    }
    if can_be_read(tx.reader(), of, &bytes) {
        return Ok(obsolete());
    }
    tx.delete(space, key);
    if of == RecordSpace::Inodes {
        let kind = kind_by_names(tx, file)?;
        let inode = empty_inode(volume, tx, file, kind, now)?;
        // It was counted, and the new inode is counted again.
        let counters = tx.counters()?;
        counters.files = counters.files.saturating_sub(1);
        let known = format!("the inode of {file} could not be read");
        let what = recreate_inode(tx, file, inode, &known, now)?;
        set_attribute(tx, file, RECORD, &bytes)?;
        return Ok(done(what));
    }
    let Some(inode) = readable(tx.reader(), file)?.filter(|_| of != RecordSpace::Intents) else {
        return Ok(done("removed".to_owned()));
    };
    let inode = tx.change(file, &inode);
    if of == RecordSpace::Entries {
        inode.size = inode.size.saturating_sub(1);
        return Ok(done(
            "removed; a further check finds the file that it named".to_owned(),
        ));
    }
    if inode.is(FileKind::Regular) || inode.is_directory() {
        set_attribute(tx, file, RECORD, &bytes)?;
    }
    Ok(done(
        "removed; its bytes are in user.weft.lost.record".to_owned(),
    ))
}

fn can_be_read(reader: &dyn Reader, space: RecordSpace, bytes: &[u8]) -> bool {
    match space {
        RecordSpace::Inodes => InodeRecord::decode(bytes).is_ok(),
        RecordSpace::Entries => keys::entry_in(0, bytes).is_ok(),
        RecordSpace::Xattrs => XattrRecord::decode(bytes).is_ok(),
        RecordSpace::Inline => InlineRecord::decode(bytes).is_ok(),
        RecordSpace::Checkpoints => CheckpointRecord::decode(bytes).is_ok(),
        RecordSpace::Orphans => OrphanRecord::decode(bytes).is_ok(),
        RecordSpace::Intents => IntentRecord::decode(bytes)
            .is_ok_and(|record| Intent::from_record(reader, 0, &record).is_ok()),
        // No repair removes such a record.
        RecordSpace::Volume => true,
    }
}
