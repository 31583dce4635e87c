//! Restoring dirty pages from the log when a store is opened.
//!
//! Bytes that cover a block only partly are written over the block as it is on the disk. If that
//! cannot be read, the store does not open: a start is not worth the loss of what the log has. A
//! repair goes on, and marks the whole block as lost.

use crate::engine::Inner;
use crate::error::StoreError;
use crate::forks::Fork;
use crate::pages::WantedBlock;
use crate::pool::BLOCK;
use crate::recovery::replay::Overlay;

impl Inner {
    /// Copies bytes that only the log has into dirty pages.
    pub(super) async fn restore_dirty_pages(
        &self,
        mut overlay: Overlay,
        accept_loss: bool,
    ) -> Result<(), StoreError> {
        let mut wanted = Vec::new();
        {
            let state = self.lock();
            for (&(id, n), blocks) in &overlay {
                let Some(fork) = state.forks().get(id) else {
                    continue;
                };
                let size = fork.chunk();
                for (&block, pieces) in blocks {
                    let held = (size - block * BLOCK as u32).min(BLOCK as u32);
                    let whole = pieces.iter().any(|p| p.data.len() == held as usize);
                    let place = fork.chunks().get(&n).and_then(|c| c.place(block));
                    if let Some((place, _)) = place.filter(|_| !whole) {
                        wanted.push(WantedBlock {
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
            match self.load_unshared(some).await {
                Err(_) if accept_loss => self.load_readable(some, &mut overlay).await?,
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
                // A piece that covers the block hides all pieces before it.
                let from = pieces
                    .iter()
                    .rposition(|p| p.data.len() == held)
                    .unwrap_or(0);
                let oldest = pieces.first().map_or(u64::MAX, |p| p.sequence);
                for piece in &pieces[from..] {
                    self.buffer_bytes(
                        &mut state,
                        id,
                        size,
                        n * u64::from(size) + u64::from(piece.at),
                        &piece.data,
                    );
                }
                state.need_frames_from(id, n, block, oldest);
            }
        }
        Ok(())
    }

    /// Loads blocks one by one; marks unreadable ones as lost, with what the log has of them.
    async fn load_readable(
        &self,
        wanted: &[WantedBlock],
        overlay: &mut Overlay,
    ) -> Result<(), StoreError> {
        for one in wanted {
            match self.load_unshared(std::slice::from_ref(one)).await {
                Ok(()) => {}
                Err(
                    error @ (StoreError::BadChecksum { .. }
                    | StoreError::DiskFailed { .. }
                    | StoreError::Lost { .. }),
                ) => {
                    tracing::error!(%error, "the block is lost, with what the log has of it");
                    // The log still refers to its place: it is free only when the store is opened
                    // without that log.
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
