//! What a program knows of its reads to come: fetching into the servers' caches, and letting go.

use futures_util::future::try_join_all;
use weft_layout::{Request, ServerSlot, ViewOffset};
use weft_proto::io::{Advice, AdviseRequest, Pattern};

use crate::volume::Repeat;
use crate::{Error, OpenView};

impl OpenView {
    /// Brings view bytes `offset..offset + length` into the caches of their servers, as far as
    /// these are large; returns how many bytes came from disks. One request to each server that
    /// holds pieces; no data travel.
    /// # Source
    /// Vesta §4.2, explicit prefetch.
    pub async fn prefetch(&self, offset: ViewOffset, length: u64) -> Result<u64, Error> {
        self.advise(offset, length, Advice::Fetch).await
    }

    /// Says that view bytes `offset..offset + length` will not be touched soon: their servers write
    /// what is dirty to its place, and their pages are the first to go. One request to each server
    /// that holds pieces.
    /// # Durability
    /// None: that is [`OpenView::sync`].
    /// # Source
    /// Vesta §4.2, explicit flush.
    pub async fn release(&self, offset: ViewOffset, length: u64) -> Result<(), Error> {
        self.advise(offset, length, Advice::Release)
            .await
            .map(|_| ())
    }

    async fn advise(&self, offset: ViewOffset, length: u64, advice: Advice) -> Result<u64, Error> {
        let request = Request::Contiguous { offset, length };
        let pattern = self.pattern(&request)?;
        let slots = self.map.slots(&request)?;
        let advised = slots
            .iter()
            .map(|slot| self.advise_slot(&pattern, *slot, advice));
        Ok(try_join_all(advised).await?.into_iter().sum())
    }

    async fn advise_slot(
        &self,
        pattern: &Pattern,
        slot: ServerSlot,
        advice: Advice,
    ) -> Result<u64, Error> {
        let a = &self.file.0;
        let server = a.layout.servers()[slot.0 as usize];
        let request = AdviseRequest {
            access: self.access(pattern, slot),
            advice: advice as i32,
        };
        let what = self.what("advise on");
        let done = a.volume.io(&what, server, &request, Repeat::Safe).await?;
        Ok(done.bytes)
    }
}
