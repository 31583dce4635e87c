//! Repair of blocks that fail their checksums, and the marking of lost blocks.
//!
//! A lost block has no place, which is not the same as a hole: reading it is a typed error until it
//! is written again. The log records it as a `Map` item whose place is on [`Place::LOST_DISK`]. A
//! block is marked as lost
//!
//! - by a truncation inside a block that fails its checksum: the truncation was acknowledged by the
//!   namespace, and the rest of the block is not needed again;
//! - by a repair (`docs/design/0009-fsck.md`), which first saves the bytes on the disk in a file of
//!   the store's folder.
//!
//! A batch whose pieces together overwrite a whole bad block does not need its bytes: the frame
//! that writes the block also empties it.

use crate::engine::{Inner, StateGuard};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::pages::WantedBlock;
use crate::paging::{Attempt, Missing};
use crate::pool::BLOCK;
use crate::record::{ForkId, Place, checksum};
use crate::state::StoreState;
use crate::storage::FileKind;

impl Inner {
    /// As [`Inner::load`], but marks blocks that fail their checksums as lost.
    pub(crate) async fn load_or_mark_lost(&self, missing: Missing) -> Result<(), StoreError> {
        let blocks = missing.blocks.clone();
        match self.load(missing).await {
            Err(StoreError::BadChecksum { .. }) => {}
            done => return done,
        }
        for block in &blocks {
            let block = std::slice::from_ref(block);
            // One bad read may be a fault of the connection to the disk.
            if self.load_blocks(block, Attempt::Retry).await.is_ok() {
                continue;
            }
            match self.load_blocks(block, Attempt::Retry).await {
                Err(error @ StoreError::BadChecksum { .. }) => {
                    tracing::error!(%error, "a truncation ends in the block: all of it is marked as lost");
                    let sequence = self.lock().mark_lost(block);
                    self.append(sequence)?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// Repairs blocks that fail their checksums. Blocks that the cache has as they were written are
    /// written again; of the others the bytes are saved and the blocks marked as lost. Returns what
    /// was done in words; `None` if nothing was.
    pub(super) async fn repair_blocks(
        &self,
        finding: &Finding,
    ) -> Result<Option<String>, StoreError> {
        if finding.fault != Fault::Checksum {
            return Ok(None);
        }
        // No chunk may leave a fork that is about to be dirty.
        let _turn = self.turns().merge().await;
        let (blocks, chunk) = (finding.blocks.clone(), finding.chunk);
        let first = Place(u64::from(finding.disk) << 48 | finding.place);
        let at = |block: u32| first.plus(block - blocks.start);
        let mut bad = Vec::new();
        {
            let mut state = self.with_entries(&finding.key, chunk)?;
            for block in blocks.clone() {
                if !self.write_from_cache(&mut state, &finding.key, chunk, block, at(block)) {
                    bad.push(block);
                }
            }
        }
        if bad.is_empty() {
            return Ok(Some("written again from the server's cache".to_owned()));
        }
        let saved = self.save_damaged(finding, first).await;
        let (copy, bytes) = match saved {
            Ok(saved) => saved,
            Err(error) => {
                tracing::warn!(%error, "a bad block is left as it is: its bytes cannot be saved");
                return Ok(None);
            }
        };
        let (sequence, lost) = {
            let mut state = self.with_entries(&finding.key, chunk)?;
            let forks = state.forks().all_of(&finding.key);
            // A fork that has the block in memory by now has it as it was written.
            let still = bad.into_iter().filter(|block| {
                let from = (block - blocks.start) as usize * BLOCK;
                let found = checksum(&bytes[from..from + BLOCK]);
                let there = forks.iter().filter_map(|id| {
                    let chunk = state.forks().get(*id)?.chunks().get(&chunk)?;
                    let (_, crc) = chunk.place(*block).filter(|(p, _)| *p == at(*block))?;
                    Some(crc != found && chunk.valid_page(*block).is_none())
                });
                let there: Vec<bool> = there.collect();
                !there.is_empty() && there.iter().all(|bad| *bad)
            });
            let lost: Vec<u32> = still.collect();
            let wanted: Vec<WantedBlock> = forks
                .iter()
                .flat_map(|id| {
                    lost.iter().map(|block| WantedBlock {
                        id: *id,
                        chunk,
                        block: *block,
                        place: at(*block),
                    })
                })
                .collect();
            (state.mark_lost(&wanted), lost.len())
        };
        self.append(sequence)?;
        if lost == 0 {
            // Nothing was lost: the saved bytes are of no use.
            let removed = self.storage().remove(&copy);
            removed.map_err(|e| StoreError::io("remove", &copy, &e))?;
        }
        Ok(Some(match lost {
            0 => "read as it was written the second time".to_owned(),
            lost => format!(
                "{lost} of {} blocks marked as lost: reading fails until they are written again; the bytes on the disk are kept as {copy} in the server's folder",
                blocks.len()
            ),
        }))
    }

    /// Locks the state with the entries of one chunk of all forks of a name in memory.
    fn with_entries(&self, key: &ForkKey, chunk: u64) -> Result<StateGuard<'_>, StoreError> {
        loop {
            let (forks, evictions) = {
                let state = self.lock();
                (state.forks().all_of(key), state.cache().evictions())
            };
            for id in &forks {
                self.load_entry(*id, chunk)?;
            }
            let state = self.lock();
            state.check_writable()?;
            if state.cache().evictions() == evictions && state.forks().all_of(key) == forks {
                return Ok(state);
            }
        }
    }

    /// Marks a block dirty in each fork that has it at `place`, if one of them has it in memory as
    /// it was written; returns whether nothing is left to do.
    fn write_from_cache(
        &self,
        state: &mut StoreState,
        key: &ForkKey,
        chunk: u64,
        block: u32,
        place: Place,
    ) -> bool {
        let forks = state.forks().all_of(key);
        let entry = |state: &StoreState, id: ForkId| {
            let chunk = state.forks().get(id)?.chunks().get(&chunk)?;
            let crc = chunk.place(block).filter(|(at, _)| *at == place)?.1;
            let page = chunk.valid_page(block);
            let bytes = page.map(|p| p.buffer()[p.at(block % 16)..][..BLOCK].to_vec());
            Some((crc, chunk.block_is_dirty(block), bytes))
        };
        let there: Vec<_> = forks
            .into_iter()
            .filter_map(|id| Some((id, entry(state, id)?)))
            .collect();
        let good = there.iter().find_map(|(_, (crc, dirty, bytes))| {
            let bytes = bytes.as_ref().filter(|_| !dirty)?;
            (checksum(bytes) == *crc).then(|| bytes.clone())
        });
        // A dirty block is written to another place soon.
        let open: Vec<ForkId> = there
            .iter()
            .filter(|(_, (_, dirty, _))| !dirty)
            .map(|(id, _)| *id)
            .collect();
        if open.is_empty() {
            return true;
        }
        let Some(good) = good.filter(|_| state.space().can_promise(open.len() as u64)) else {
            return false;
        };
        for id in open {
            let size = state.forks()[id].chunk();
            let held = (size - block * BLOCK as u32).min(BLOCK as u32) as usize;
            let offset = chunk * u64::from(size) + u64::from(block) * BLOCK as u64;
            // Not logged: a crash leaves it bad, as it was.
            self.buffer_bytes(state, id, size, offset, &good[..held]);
        }
        true
    }

    /// Saves the bytes of blocks as the disk has them in a file of the store's folder, on stable
    /// storage; returns its name and the bytes.
    async fn save_damaged(
        &self,
        finding: &Finding,
        first: Place,
    ) -> Result<(String, Vec<u8>), StoreError> {
        let blocks = &finding.blocks;
        let file = self.disks().file(first);
        let file = file.map_err(|e| StoreError::io("read", &self.disks().shown(first), &e))?;
        let mut bytes = Vec::with_capacity(blocks.len() * BLOCK);
        for (i, _) in (0_u32..).zip(blocks.clone()) {
            let place = first.plus(i);
            let read = file
                .read_at(place.offset(), vec![self.pool().take(1)])
                .await
                .map_err(|e| StoreError::io("read", &self.disks().shown(place), &e))?;
            for buffer in &read {
                bytes.extend_from_slice(buffer);
            }
        }
        let ForkKey { file, cell, fork } = &finding.key;
        let name = format!(
            "damaged.file-{}.cell-{}.chunk-{}.blocks-{}-{}.at-{}-{}.{:.30}",
            file.0,
            cell.0,
            finding.chunk,
            blocks.start,
            blocks.end - 1,
            first.disk(),
            first.block(),
            fork.as_str(),
        );
        let fail = |e: std::io::Error| StoreError::io("write", &name, &e);
        let copy = self.storage().open(&name, FileKind::Log).map_err(fail)?;
        copy.write_buffered(0, &bytes).map_err(fail)?;
        copy.sync().await.map_err(fail)?;
        self.storage().sync_folder().map_err(fail)?;
        Ok((name, bytes))
    }
}
