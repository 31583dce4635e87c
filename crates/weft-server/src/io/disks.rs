//! How the disks of a server are.

use weft_proto::upkeep::{DiskCondition, DiskReport, DisksReply, DisksRequest};
use weft_store::{DiskState, DiskStatus};

use super::IoService;

fn report(disk: DiskStatus) -> DiskReport {
    let condition = match disk.state {
        DiskState::InUse => DiskCondition::InUse,
        DiskState::Full => DiskCondition::Full,
        DiskState::Failed => DiskCondition::Failed,
        DiskState::Missing => DiskCondition::Missing,
        DiskState::Closed => DiskCondition::Closed,
    };
    DiskReport {
        number: u32::from(disk.number),
        path: disk.path,
        condition: condition as i32,
        reason: disk.reason,
        used: disk.used,
        available: disk.available,
        errors: disk.errors,
    }
}

impl IoService {
    pub(super) fn disks(&self, _: DisksRequest) -> DisksReply {
        let disks = self.store.disks().into_iter().map(report);
        DisksReply {
            disks: disks.collect(),
        }
    }
}
