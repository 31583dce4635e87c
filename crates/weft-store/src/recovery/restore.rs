//! Bringing back what only the log has, when a store is opened.
//!
//! Bytes of a part of a block are laid over the block as it is on the disk. If that cannot be read,
//! the store does not open: what the log has is worth more than a start. A repair goes on: the
//! block is lost then, as a whole.

use crate::engine::Inner;
use crate::error::StoreError;
use crate::forks::Fork;
use crate::pages::{Wanted, slot_of};
use crate::pool::BLOCK;
use crate::recovery::replay::Overlay;

impl Inner {
    /// Brings bytes that only the log has into dirty pages.
    pub(crate) async fn restore(
        &self,
        mut overlay: Overlay,
        accept_loss: bool,
    ) -> Result<(), StoreError> {
        let mut wanted = Vec::new();
        {
            let mut state = self.lock();
            for (&(id, n), blocks) in &overlay {
                let Some(fork) = state.forks_mut().get_mut(id) else {
                    continue;
                };
                let size = fork.chunk();
                for (&block, pieces) in blocks {
                    let held = (size - block * BLOCK as u32).min(BLOCK as u32);
                    let whole = pieces.iter().any(|p| p.data.len() == held as usize);
                    let place = fork.chunks().get(&n).and_then(|c| c.place(block));
                    if let Some((place, _)) = place.filter(|_| !whole) {
                        wanted.push(Wanted {
                            id,
                            chunk: n,
                            block,
                            place,
                        });
                    }
                }
            }
        }
        wanted.sort_by_key(|w| w.place);
        for some in wanted.chunks(1024) {
            match self.load_alone(some).await {
                Err(_) if accept_loss => self.load_what_can_be(some, &mut overlay).await?,
                done => done?,
            }
        }
        let mut state = self.lock();
        for ((id, n), blocks) in overlay {
            let Some(size) = state.forks().get(id).map(Fork::chunk) else {
                continue;
            };
            for (block, pieces) in blocks {
                let held = ((size - block * BLOCK as u32) as usize).min(BLOCK);
                // What lies before a piece that covers the block does not show any more.
                let from = pieces
                    .iter()
                    .rposition(|p| p.data.len() == held)
                    .unwrap_or(0);
                let oldest = pieces.first().map_or(u64::MAX, |p| p.sequence);
                for piece in &pieces[from..] {
                    self.put(
                        &mut state,
                        id,
                        size,
                        n * u64::from(size) + u64::from(piece.at),
                        &piece.data,
                    );
                }
                let chunk = state.forks_mut().chunk_mut(id, n);
                if let Some(page) = chunk.and_then(|c| c.page_mut(slot_of(block))) {
                    page.oldest = page.oldest.min(oldest);
                }
            }
        }
        Ok(())
    }

    /// Loads blocks one by one, and gives up those that cannot be read with what the log has of
    /// them.
    async fn load_what_can_be(
        &self,
        wanted: &[Wanted],
        overlay: &mut Overlay,
    ) -> Result<(), StoreError> {
        for one in wanted {
            match self.load_alone(std::slice::from_ref(one)).await {
                Ok(()) => {}
                Err(
                    error @ (StoreError::BadChecksum { .. }
                    | StoreError::DiskFailed { .. }
                    | StoreError::Lost { .. }),
                ) => {
                    tracing::error!(%error, "the block is lost, with what the log has of it");
                    // The log still says where it lay: it is free when the store is opened without
                    // that log, not before.
                    self.lock().lose_block(one.id, one.chunk, one.block, None);
                    if let Some(blocks) = overlay.get_mut(&(one.id, one.chunk)) {
                        blocks.remove(&one.block);
                    }
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }
}
