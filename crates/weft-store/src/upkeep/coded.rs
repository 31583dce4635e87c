//! Coded blocks: the store has their checksums, and other servers have data and parity of which
//! their bytes can be computed (`docs/design/0050-parity.md`).
//!
//! A coded block has a place on no disk, as a lost one has (`repair.rs`), and its checksum. The log
//! records it as a `Map` item. Reading it, or writing a part of it, is an error until its bytes are
//! brought back, or all of it is written. Bytes that are brought back are a write like any other:
//! parts that are written over them later can be replayed.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_layout::{CellOffset, FileId};

use crate::engine::{IndexBudget, Inner, Store};
use crate::error::StoreError;
use crate::forks::by_chunk;
use crate::key::ForkKey;
use crate::log::DATA_COST;
use crate::pages::{Chunk, WantedBlock, push_block};
use crate::paging::{Attempt, Missing};
use crate::pool::BLOCK;
use crate::record::{
    BODY_SOFT, ForkId, ItemRecord, Place, RunsRecord, checksum, end_is_legal, new_body,
};
use crate::state::StoreState;

/// What [`Store::restore_coded`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Blocks that have their bytes again.
    pub blocks: u64,
    /// Coded blocks for which the given bytes are not what was written; they are coded as before.
    pub refused: u64,
}

/// A coded block of which the bytes are given.
struct GivenBlock {
    wanted: WantedBlock,
    crc: u32,
    /// Its offset in the fork.
    offset: u64,
    /// Where its bytes are in the given data.
    bytes: Range<usize>,
}

/// Whether a block is coded, and not written again in memory.
fn is_coded(chunk: &Chunk, block: u32) -> bool {
    let coded = chunk
        .place(block)
        .is_some_and(|(place, _)| place.is_coded());
    coded && chunk.valid_page(block).is_none()
}

impl StoreState {
    /// The error for a reader of a coded block: the coded range from it on. `None` if it is not
    /// coded any more.
    pub(crate) fn coded(&self, id: ForkId, n: u64, block: u32) -> Option<StoreError> {
        let fork = self.forks().get(id)?;
        let chunk = fork.chunks().get(&n)?;
        let mut end = block;
        while is_coded(chunk, end) {
            end += 1;
        }
        if end == block {
            return None;
        }
        let range = fork.bytes_of(n, &(block..end));
        Some(StoreError::Coded {
            file: fork.key().file,
            cell: fork.key().cell,
            fork: fork.key().fork.clone(),
            range: range.start..range.end.min(fork.length()).max(range.start + 1),
        })
    }
}

impl Inner {
    /// Marks the blocks of a chunk that a fork owns as coded, also in forks that derive from it;
    /// returns how many.
    fn code_chunk(
        &self,
        id: ForkId,
        n: u64,
        may: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, StoreError> {
        loop {
            let (related, evictions) = {
                let state = self.lock();
                let Some(fork) = state.forks().get(id) else {
                    return Ok(0);
                };
                (state.forks().all_of(fork.key()), state.cache().evictions())
            };
            for fork in &related {
                self.load_entry(*fork, n)?;
            }
            let mut state = self.lock();
            state.check_writable()?;
            let Some(fork) = state.forks().get(id).filter(|_| may()) else {
                return Ok(0);
            };
            let same = state.forks().all_of(fork.key()) == related;
            if !same || state.cache().evictions() != evictions {
                continue;
            }
            let (as_of, sequence) = (state.sequence(), state.next_sequence());
            let Some(chunk) = fork.chunks().get(&n) else {
                return Ok(0);
            };
            let owned: Vec<(u32, Place)> = chunk.owned_blocks().collect();
            let (mut coded, mut count) = (BTreeMap::<ForkId, RunsRecord>::new(), 0);
            for (block, place) in owned {
                let has = |state: &StoreState, of: ForkId| {
                    let chunk = state.forks().get(of)?.chunks().get(&n)?;
                    let (at, crc) = chunk.place(block)?;
                    (at == place).then(|| (crc, chunk.block_is_dirty(block)))
                };
                let found: Vec<_> = related
                    .iter()
                    .filter_map(|of| Some((*of, has(&state, *of)?)))
                    .collect();
                // The log may have parts that are written over the block.
                if found.iter().any(|(_, (_, dirty))| *dirty) {
                    continue;
                }
                count += 1;
                for (of, (crc, _)) in found {
                    state.code_block(of, n, block, crc, sequence);
                    let runs = coded.entry(of).or_default();
                    push_block(runs, block, Place::CODED.plus(block), crc, true);
                }
            }
            if coded.is_empty() {
                return Ok(0);
            }
            let mut body = new_body(0);
            for (id, runs) in coded {
                ItemRecord::Map {
                    id,
                    chunk: n,
                    as_of,
                    end: 0,
                    runs,
                }
                .encode(&mut body);
            }
            let sequence = state.log(&body);
            drop(state);
            self.append(sequence)?;
            return Ok(count);
        }
    }
}

impl Store {
    /// Whether some bytes of a file may be coded; where not, no read or write of it fails with
    /// [`StoreError::Coded`].
    pub fn may_have_coded(&self, file: FileId) -> bool {
        self.0.lock().may_have_coded(file)
    }

    /// The checksums of the blocks that ranges of a fork touch, as they are now, coded ones
    /// included; 0 for a hole. Nothing for a fork that does not exist.
    ///
    /// # Errors
    /// [`StoreError::NoCheckpoint`].
    pub fn block_sums(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        range: Range<u64>,
    ) -> Result<Vec<u32>, StoreError> {
        let mut sums = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let missing = {
                let state = self.0.lock();
                let Some(id) = state.find_in(key, checkpoint)? else {
                    return Ok(Vec::new());
                };
                let fork = &state.forks()[id];
                let end = range.end.min(fork.length());
                if at >= end || fork.chunk() == 0 {
                    return Ok(sums);
                }
                let range = by_chunk(fork.chunk(), at, end - at).next();
                let range = range.expect("the range is not empty");
                match state.forks().shown(id, range.chunk) {
                    Err(missing) => (missing, range.chunk),
                    Ok(owner) => {
                        let chunk = &state.forks()[owner].chunks()[&range.chunk];
                        let end = range.bytes.end.div_ceil(BLOCK as u32);
                        sums.extend((range.bytes.start / BLOCK as u32..end).map(|b| chunk.sum(b)));
                        at += u64::from(range.bytes.end - range.bytes.start);
                        continue;
                    }
                }
            };
            self.0.load_entry(missing.0, missing.1)?;
        }
        Ok(sums)
    }

    /// Frees the blocks that the forks of a checkpoint own, or the live forks of a file: their
    /// bytes can be computed elsewhere. Forks that share these blocks have them as coded, too.
    /// Blocks that are being written stay. `may` is asked before each chunk, under the lock of the
    /// state. Returns the bytes of the blocks that were freed.
    ///
    /// Cost: each entry of the forks is read and written.
    /// # Durability
    /// As [`Store::write`]: a crash may leave some of them as they were.
    /// # Errors
    /// [`StoreError::NoCheckpoint`]; [`StoreError::Stale`] if the file is deleted.
    pub async fn code_blocks(
        &self,
        file: FileId,
        checkpoint: Option<u64>,
        may: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, StoreError> {
        let inner = &self.0;
        inner.admit_freeing().await?;
        // Its pages are flushed, and its entries are in the index.
        inner.apply_with(IndexBudget::Reserve).await?;
        let forks: Vec<ForkId> = {
            let state = inner.lock();
            state.check_writable()?;
            state.check_alive(file)?;
            match checkpoint {
                Some(number) => {
                    let checkpoint = state.forks().checkpoint(file, number)?;
                    checkpoint.forks().values().copied().collect()
                }
                None => state.forks().live(file),
            }
        };
        let mut coded = 0;
        for id in forks {
            let mut at = 0;
            loop {
                // No chunk may leave a fork meanwhile.
                let _turn = inner.turns().merge().await;
                let Some(chunks) = inner.entries_of(id, at)? else {
                    break;
                };
                for n in chunks {
                    at = n + 1;
                    coded += inner.code_chunk(id, n, may)?;
                }
                let mut state = inner.lock();
                state.evict(inner.bounds().cache);
            }
        }
        Ok(coded * BLOCK as u64)
    }

    /// Gives coded blocks of a live fork their bytes again. `data` lies at `offset` of the fork.
    /// Blocks of which it has not all bytes, and blocks that are not coded, are left as they are.
    /// Bytes that do not have a block's checksum are refused.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn restore_coded(
        &self,
        key: &ForkKey,
        offset: CellOffset,
        data: &[u8],
    ) -> Result<Restored, StoreError> {
        let (inner, length) = (&self.0, data.len() as u64);
        if !end_is_legal(offset.0, length) {
            let offset = offset.0;
            return Err(StoreError::PastLimit { offset, length });
        }
        inner.admit().await?;
        let mut attempt = Attempt::First;
        loop {
            let (missing, needed) = {
                let mut state = inner.lock();
                state.check_writable()?;
                state.check_alive(key.file)?;
                let Some(id) = state.find(key).filter(|id| state.forks()[*id].chunk() != 0) else {
                    return Ok(Restored::default());
                };
                let (given, missing) = given_blocks(&state, id, offset.0, length);
                let needed = given.len() as u64;
                if missing.is_empty() && needed <= state.space().available() {
                    let (restored, sequence) = inner.restore(&mut state, id, &given, data);
                    drop(state);
                    inner.append(sequence)?;
                    return Ok(restored);
                }
                (missing, needed)
            };
            inner.load(Missing { attempt, ..missing }).await?;
            attempt = Attempt::Retry;
            if needed > inner.lock().space().available() {
                inner.make_space(needed).await?;
            }
        }
    }
}

/// The coded blocks of a range of a fork that lie in it as far as the fork goes, and the entries
/// that are not in memory.
fn given_blocks(
    state: &StoreState,
    id: ForkId,
    offset: u64,
    length: u64,
) -> (Vec<GivenBlock>, Missing) {
    let (fork, mut found, mut missing) = (&state.forks()[id], Vec::new(), Missing::default());
    let (size, end) = (fork.chunk(), (offset + length).min(fork.length()));
    if offset >= end {
        return (found, missing);
    }
    for range in by_chunk(size, offset, end - offset) {
        if missing.private_entry(state, id, range.chunk) {
            continue;
        }
        let chunk = &fork.chunks()[&range.chunk];
        let blocks = range.bytes.start / BLOCK as u32..range.bytes.end.div_ceil(BLOCK as u32);
        for block in blocks {
            let whole = fork.bytes_of(range.chunk, &(block..block + 1));
            let bytes = whole.start..whole.end.min(fork.length());
            let Some((place, crc)) = chunk.place(block).filter(|_| is_coded(chunk, block)) else {
                continue;
            };
            if bytes.start < offset || bytes.end > offset + length {
                continue;
            }
            found.push(GivenBlock {
                wanted: WantedBlock {
                    id,
                    chunk: range.chunk,
                    block,
                    place,
                },
                crc,
                offset: bytes.start,
                bytes: (bytes.start - offset) as usize..(bytes.end - offset) as usize,
            });
        }
    }
    (found, missing)
}

impl Inner {
    /// Writes blocks whose bytes have the right checksums; returns the frame's sequence.
    fn restore(
        &self,
        state: &mut StoreState,
        id: ForkId,
        given: &[GivenBlock],
        data: &[u8],
    ) -> (Restored, u64) {
        let mut restored = Restored::default();
        let is_right = |given: &&GivenBlock| {
            let mut block = [0; BLOCK];
            block[..given.bytes.len()].copy_from_slice(&data[given.bytes.clone()]);
            checksum(&block) == given.crc
        };
        let right: Vec<&GivenBlock> = given.iter().filter(is_right).collect();
        restored.blocks = right.len() as u64;
        restored.refused = given.len() as u64 - restored.blocks;
        if right.is_empty() {
            return (restored, state.sequence());
        }
        let fork = &state.forks()[id];
        let (size, length, modified) = (fork.chunk(), fork.length(), fork.modified());
        let sequence = state.log_with(modified, |state, frame| {
            for block in right {
                let bytes = &data[block.bytes.clone()];
                state.clear_for_frame(&block.wanted, frame);
                state.charge_replay(DATA_COST + 1);
                ItemRecord::encode_data(frame.items(), id, block.offset, bytes);
                self.buffer_bytes(state, id, size, block.offset, bytes);
                if frame.bytes() > BODY_SOFT {
                    state.next_frame(frame);
                }
            }
            state.touch(id, length, modified);
        });
        state.evict(self.bounds().cache);
        if self.has_much_dirty(state) || self.log_is_long(state) {
            self.wake_background();
        }
        (restored, sequence)
    }
}
