//! Free space that goes back to the host, and what is lost of what was stored.

use weft_proto::Failure;
use weft_proto::upkeep::{
    AcceptLossesReply, AcceptLossesRequest, LossesReply, TrimReply, TrimRequest,
};

use super::{IoService, file_id};
use crate::failure;

impl IoService {
    pub(super) async fn trim(&self, _: TrimRequest) -> Result<TrimReply, Failure> {
        let trimmed = self.store.trim().await;
        let trimmed = trimmed.map_err(|e| failure::of_store(&e))?;
        Ok(TrimReply {
            bytes: trimmed.bytes,
            held: trimmed.held,
            used: self.store.usage().used,
        })
    }

    pub(super) fn losses(&self) -> Result<LossesReply, Failure> {
        let lost = self.store.losses().map_err(|e| failure::of_store(&e))?;
        Ok(LossesReply {
            files: lost.files,
            ranges: lost.ranges,
            bytes: lost.bytes,
            more: lost.more,
        })
    }

    pub(super) async fn accept_losses(
        &self,
        request: AcceptLossesRequest,
    ) -> Result<AcceptLossesReply, Failure> {
        let accepted = if request.all_unproven {
            self.store.accept_unproven().await
        } else {
            self.store.accept_losses(file_id(request.file)?).await
        };
        let accepted = accepted.map_err(|e| failure::of_store(&e))?;
        Ok(AcceptLossesReply {
            ranges: accepted.ranges,
            bytes: accepted.bytes,
        })
    }
}
