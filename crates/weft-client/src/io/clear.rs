//! Clearing ranges of a view: zeros that are neither sent nor stored.

use futures_util::future::try_join_all;
use weft_layout::{Request, ServerSlot, ViewOffset};
use weft_net::CallError;
use weft_proto::io::{ClearRangeRequest, Pattern};
use weft_proto::order::Claim;

use super::in_order::Staged;
use super::span::Durability;
use crate::volume::Repeat;
use crate::{Error, OpenView};

impl OpenView {
    /// Makes view bytes `offset..offset + length` zeros; one request to each server that holds
    /// pieces. Blocks of 4 KiB that lie in them wholly give their space back. No cell changes its
    /// length, so the file keeps its size: to extend it, [`crate::File::extend`].
    ///
    /// In canonical order and in one cell it costs the same whatever the length; through other
    /// views one call clears at most 1 GiB for each server of the file.
    /// # Durability
    /// As [`OpenView::write_at`].
    /// # Errors
    /// When a server is lost the request is sent once more: that clears again what others wrote
    /// there in between.
    /// # Cancellation
    /// Dropped, any part of the bytes may have been cleared.
    pub async fn clear(&self, offset: ViewOffset, length: u64) -> Result<(), Error> {
        self.file.needs_write("clear a range of")?;
        self.file.commit().await?;
        let request = Request::Contiguous { offset, length };
        if !self.is_recorded() {
            return self.clear_now(request).await;
        }
        let noting = self.file.begin_change(|| self.recorded_clear(&request));
        let cleared = self.clear_now(request).await;
        noting.end(cleared.is_ok());
        cleared
    }

    async fn clear_now(&self, request: Request) -> Result<(), Error> {
        let pattern = self.pattern(&request)?;
        let slots = self.map.slots(&request)?;
        let mut cleared = if self.file.is_cautious() {
            self.clear_in_order(&pattern, &slots).await
        } else {
            let clears = slots.iter().map(|slot| self.clear_slot(&pattern, *slot));
            try_join_all(clears).await.map(drop)
        };
        if let Err(error) = &cleared
            && self.file.becomes_cautious(error)
        {
            cleared = self.clear_in_order(&pattern, &slots).await;
        }
        // Even a failed clearing may have changed bytes.
        self.file.note_write(Some(0));
        cleared
    }

    async fn clear_in_order(&self, pattern: &Pattern, slots: &[ServerSlot]) -> Result<(), Error> {
        let stage = |slot, claim| self.stage_clear(pattern, slot, claim);
        let cleared = self.change_in_order("clear a range of", slots, Durability::Process, stage);
        Box::pin(cleared).await.map(drop)
    }

    async fn stage_clear(
        &self,
        pattern: &Pattern,
        slot: ServerSlot,
        claim: Claim,
    ) -> Result<Staged, CallError> {
        let a = &self.file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let connection = a.volume.server_connection(server).await?;
        let along = a.volume.shared.ended_operations.take(server);
        let request = ClearRangeRequest {
            access: self.access(pattern, slot),
            claim: Some(Claim {
                ended: along.operations(),
                ..claim
            }),
        };
        let sent = connection.call_stamped(&request).await;
        along.delivered();
        let (reply, stamp) = sent?;
        Ok(Staged {
            bytes: 0,
            granted: reply.granted,
            stamp,
        })
    }

    async fn clear_slot(&self, pattern: &Pattern, slot: ServerSlot) -> Result<(), Error> {
        let a = &self.file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let request = ClearRangeRequest {
            access: self.access(pattern, slot),
            claim: None,
        };
        let what = self.what("clear a range of");
        let done = self.file.change(&what, server, &request, Repeat::Safe);
        done.await.map(drop)
    }
}
