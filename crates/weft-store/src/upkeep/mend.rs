//! Blocks that cannot be had any more.
//!
//! A block that is given up lies nowhere, which is not a hole: reading it is a typed error until it
//! is written anew. The log says so with a `Map` item whose place is on [`Place::LOST_DISK`]. It is
//! done
//!
//! - by a cut inside a block that fails its checksum: the cut has been promised, and nobody asks
//!   for the rest of the block again;
//! - by a repair (`docs/design/0009-fsck.md`), which keeps the bytes as they are beside the store
//!   first.
//!
//! A batch of pieces that together are all of a bad block needs nothing of it: it is emptied in the
//! frame that fills it.

use crate::engine::{Inner, Locked};
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::pages::Wanted;
use crate::paging::Missing;
use crate::pool::BLOCK;
use crate::record::{ForkId, Place, checksum};
use crate::state::State;
use crate::storage::FileKind;

impl Inner {
    /// As [`Inner::load`]; blocks that fail their checksums are given up.
    pub(crate) async fn load_or_give_up(&self, missing: Missing) -> Result<(), StoreError> {
        let blocks = missing.blocks.clone();
        match self.load(missing).await {
            Err(StoreError::BadChecksum { .. }) => {}
            done => return done,
        }
        for block in &blocks {
            let block = std::slice::from_ref(block);
            // One bad reading may be the way's fault, not the disk's.
            if self.load_blocks(block, true).await.is_ok() {
                continue;
            }
            match self.load_blocks(block, true).await {
                Err(error @ StoreError::BadChecksum { .. }) => {
                    tracing::error!(%error, "a cut ends in the block: the rest of it is given up");
                    let sequence = self.lock().give_up(block);
                    self.append(sequence)?;
                }
                done => done?,
            }
        }
        Ok(())
    }

    /// What is done about blocks that fail their checksums: where the cache has them as they were
    /// written they are written anew, else the bytes are put aside and the blocks given up. In
    /// words; nothing: it is left.
    pub(crate) async fn mend(&self, finding: &Finding) -> Result<Option<String>, StoreError> {
        if finding.fault != Fault::Checksum {
            return Ok(None);
        }
        // Nobody takes chunks from a fork that is about to be dirty.
        let _alone = self.merge_lock.lock().await;
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
            return Ok(Some("written anew from the server's cache".to_owned()));
        }
        let aside = self.put_aside(finding, first).await;
        let (kept, bytes) = match aside {
            Ok(aside) => aside,
            Err(error) => {
                tracing::warn!(%error, "a bad block is left: its bytes cannot be put aside");
                return Ok(None);
            }
        };
        let (sequence, lost) = {
            let mut state = self.with_entries(&finding.key, chunk)?;
            let forks = state.forks().all_of(&finding.key);
            // Who has it in memory by now has it as it was written.
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
            let wanted: Vec<Wanted> = forks
                .iter()
                .flat_map(|id| {
                    lost.iter().map(|block| Wanted {
                        id: *id,
                        chunk,
                        block: *block,
                        place: at(*block),
                    })
                })
                .collect();
            (state.give_up(&wanted), lost.len())
        };
        self.append(sequence)?;
        if lost == 0 {
            // What was put aside is nothing that anybody lost.
            let removed = self.storage.remove(&kept);
            removed.map_err(|e| StoreError::io("remove", &kept, &e))?;
        }
        Ok(Some(match lost {
            0 => "read as it was written the second time".to_owned(),
            lost => format!(
                "{lost} of {} given up: reading fails until it is written anew; what the disk has instead is kept as {kept} in the server's folder",
                blocks.len()
            ),
        }))
    }

    /// The state, with the entries of one chunk of all forks of a name in memory.
    fn with_entries(&self, key: &ForkKey, chunk: u64) -> Result<Locked<'_>, StoreError> {
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

    /// Marks a block dirty in each fork that lies there, where one of them has it in memory as it
    /// was written.
    fn write_from_cache(
        &self,
        state: &mut State,
        key: &ForkKey,
        chunk: u64,
        block: u32,
        place: Place,
    ) -> bool {
        let forks = state.forks().all_of(key);
        let entry = |state: &State, id: ForkId| {
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
        // What is dirty goes to another place soon.
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
            self.put(state, id, size, offset, &good[..held]);
        }
        true
    }

    /// Keeps what the disk has of blocks in a file beside the store, on stable storage; its name,
    /// and the bytes.
    async fn put_aside(
        &self,
        finding: &Finding,
        first: Place,
    ) -> Result<(String, Vec<u8>), StoreError> {
        let blocks = &finding.blocks;
        let file = self.disks.file(first);
        let file = file.map_err(|e| StoreError::io("read", &self.disks.shown(first), &e))?;
        let mut bytes = Vec::with_capacity(blocks.len() * BLOCK);
        for (i, _) in (0_u32..).zip(blocks.clone()) {
            let place = first.plus(i);
            let read = file
                .read_at(place.offset(), vec![self.pool.take(1)])
                .await
                .map_err(|e| StoreError::io("read", &self.disks.shown(place), &e))?;
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
        let aside = self.storage.open(&name, FileKind::Log).map_err(fail)?;
        aside.write_plain(0, &bytes).map_err(fail)?;
        aside.sync().await.map_err(fail)?;
        self.storage.sync_folder().map_err(fail)?;
        Ok((name, bytes))
    }
}
