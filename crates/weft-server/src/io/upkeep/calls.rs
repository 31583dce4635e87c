//! Disks, scrub, trim, and losses.

use weft_proto::Failure;
use weft_proto::upkeep::{
    AcceptLossesReply, AcceptLossesRequest, DiskCondition, DiskReport, DisksReply, DisksRequest,
    LossesReply, ScrubRequest, ScrubStatusReply, TrimReply, TrimRequest,
};
use weft_store::{DiskState, DiskStatus};

use crate::failure;
use crate::io::IoService;
use crate::io::job::file_id;

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
    pub(in crate::io) fn disks(&self, _: DisksRequest) -> DisksReply {
        let disks = self.store.disks().into_iter().map(report);
        DisksReply {
            disks: disks.collect(),
        }
    }

    pub(in crate::io) fn scrub(&self, request: ScrubRequest) -> ScrubStatusReply {
        self.scrubber.control(&self.store, request);
        self.scrubber.status()
    }

    pub(in crate::io) fn scrub_status(&self) -> ScrubStatusReply {
        self.scrubber.status()
    }

    pub(in crate::io) async fn trim(&self, _: TrimRequest) -> Result<TrimReply, Failure> {
        let trimmed = self.store.trim().await;
        let trimmed = trimmed.map_err(|e| failure::of_store(&e))?;
        Ok(TrimReply {
            bytes: trimmed.bytes,
            held: trimmed.held,
            used: self.store.usage().used,
        })
    }

    pub(in crate::io) fn losses(&self) -> Result<LossesReply, Failure> {
        let lost = self.store.losses().map_err(|e| failure::of_store(&e))?;
        Ok(LossesReply {
            files: lost.files,
            ranges: lost.ranges,
            bytes: lost.bytes,
            more: lost.more,
        })
    }

    pub(in crate::io) async fn accept_losses(
        &self,
        request: AcceptLossesRequest,
    ) -> Result<AcceptLossesReply, Failure> {
        // The others differ from now on: none of them may take this one's place before they are
        // made equal.
        let alone = self.store.changed_alone().await;
        alone.map_err(|e| failure::of_store(&e))?;
        let accepted = if request.all_unproven {
            self.store.accept_unproven().await
        } else {
            self.store.accept_losses(file_id(request.file)?).await
        };
        let accepted = accepted.map_err(|e| failure::of_store(&e))?;
        if accepted.ranges > 0 {
            let alone = self.store.changed_alone().await;
            alone.map_err(|e| failure::of_store(&e))?;
        }
        Ok(AcceptLossesReply {
            ranges: accepted.ranges,
            bytes: accepted.bytes,
        })
    }
}
