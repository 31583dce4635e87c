//! Writing: batches of pieces, each the direct way or through log and dirty pages.
//!
//! A batch takes effect at one moment, under the state's lock, as one frame of the log; before it
//! the direct parts are on the disk and everything the small parts lie on is in memory.

use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use weft_layout::FileId;

use crate::alloc::Extent;
use crate::chunk::{Page, bit, slot_of};
use crate::counters::Counters;
use crate::direct::{DIRECT_MIN, Prepared, direct_blocks, whole_blocks};
use crate::error::StoreError;
use crate::key::{ForkKey, Timestamp, Write};
use crate::load::{Missing, Wanted};
use crate::pool::BLOCK;
use crate::read::{ChunkRange, by_chunk};
use crate::record::{BODY_MAX, ForkId, ItemRecord, chunk_is_legal, end_is_legal, new_body};
use crate::state::{State, set_page};
use crate::store::{Inner, Store};

/// A frame's body is closed when it has grown to this.
const BODY_SOFT: usize = BODY_MAX / 4;

impl Store {
    /// Writes a batch of pieces, in order, making forks that do not exist.
    ///
    /// # Durability
    /// On `Ok` it survives kill −9; [`Store::sync`] makes it survive power loss. A batch whose
    /// small pieces have less than 16 MiB is kept or lost as a whole.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::ChunkMismatch`], [`StoreError::NoSpace`],
    /// [`StoreError::PastLimit`] and [`StoreError::BadChunkSize`] leave everything as it was.
    pub async fn write(&self, writes: Vec<Write>, modified: Timestamp) -> Result<(), StoreError> {
        for w in &writes {
            let (offset, length) = (w.offset.0, w.data.len() as u64);
            if !chunk_is_legal(w.chunk) {
                return Err(StoreError::BadChunkSize { given: w.chunk });
            }
            if !end_is_legal(offset, length) {
                return Err(StoreError::PastLimit { offset, length });
            }
        }
        let inner = Arc::clone(&self.0);
        inner.check_batch(&writes)?;
        if writes.iter().any(|w| w.data.len() as u64 >= DIRECT_MIN) {
            return whole(async move { inner.write_batch(writes, modified).await }).await;
        }
        inner.write_batch(writes, modified).await
    }

    /// Makes a fork without bytes; one that exists with this chunk size is left as it is.
    pub async fn create_fork(
        &self,
        key: &ForkKey,
        chunk: u32,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if !chunk_is_legal(chunk) {
            return Err(StoreError::BadChunkSize { given: chunk });
        }
        self.0.admit().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            check_fork(&state, key, chunk)?;
            let mut body = new_body(modified.0);
            let before = body.len();
            state.find_or_create(key, chunk, modified.0, &mut body);
            if body.len() > before {
                state.log(&body)
            } else {
                state.sequence
            }
        };
        self.0.append(sequence)
    }
}

/// Runs a future to its end even when the caller gives up: the disk would go on anyway.
pub(crate) async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(StoreError::Closed),
    }
}

/// Refuses deleted files and other chunk sizes.
pub(crate) fn check_fork(state: &State, key: &ForkKey, chunk: u32) -> Result<(), StoreError> {
    state.check_alive(key.file)?;
    match state.find(key).map(|id| state.forks[&id].chunk) {
        Some(fixed) if fixed != 0 && fixed != chunk => Err(StoreError::ChunkMismatch {
            file: key.file,
            fixed,
            given: chunk,
        }),
        _ => Ok(()),
    }
}

/// The parts of a write that do not go the direct way: at most a head and a tail, or all of it.
fn small_parts(w: &Write) -> Vec<(u64, Bytes)> {
    let (offset, length) = (w.offset.0, w.data.len() as u64);
    if direct_blocks(w.chunk, offset, length) == 0 {
        return if length == 0 {
            Vec::new()
        } else {
            vec![(offset, w.data.clone())]
        };
    }
    let mut parts = Vec::new();
    for range in by_chunk(w.chunk, offset, length) {
        let whole = whole_blocks(&range, w.chunk);
        let origin = range.chunk * u64::from(w.chunk);
        let block = BLOCK as u32;
        let (head, tail) = if whole.is_empty() {
            (range.bytes.end, range.bytes.end)
        } else {
            (
                whole.start * block,
                (whole.end * block).min(range.bytes.end),
            )
        };
        for (from, to) in [(range.bytes.start, head), (tail, range.bytes.end)] {
            if from < to {
                let at = (origin + u64::from(from) - offset) as usize;
                parts.push((
                    origin + u64::from(from),
                    w.data.slice(at..at + (to - from) as usize),
                ));
            }
        }
    }
    parts
}

impl Inner {
    /// Refuses a batch that could not take effect, before anything is spent on it.
    fn check_batch(&self, writes: &[Write]) -> Result<(), StoreError> {
        let state = self.lock();
        state.check_writable()?;
        let mut last: Option<&Write> = None;
        for w in writes {
            if last.is_some_and(|l| l.key == w.key && l.chunk == w.chunk) {
                continue;
            }
            check_fork(&state, &w.key, w.chunk)?;
            let other = writes
                .iter()
                .take_while(|o| !std::ptr::eq(*o, w))
                .find(|o| o.key == w.key && o.chunk != w.chunk);
            if let Some(other) = other.filter(|_| last.is_some()) {
                return Err(StoreError::ChunkMismatch {
                    file: w.key.file,
                    fixed: other.chunk,
                    given: w.chunk,
                });
            }
            last = Some(w);
        }
        Ok(())
    }

    pub(crate) async fn write_batch(
        &self,
        writes: Vec<Write>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.admit().await?;
        let mut direct = Vec::with_capacity(writes.len());
        let mut taken = Vec::new();
        for w in &writes {
            let blocks = direct_blocks(w.chunk, w.offset.0, w.data.len() as u64);
            if blocks == 0 {
                direct.push(None);
                continue;
            }
            let extents = match self.take_blocks(&w.key, blocks).await {
                Ok(extents) => extents,
                Err(error) => return Err(self.give_back(taken, error)),
            };
            taken.extend_from_slice(&extents);
            self.lock()
                .evict(self.bounds.cache.saturating_sub(blocks * BLOCK as u64));
            direct.push(Some(self.prepare(w.chunk, w.offset.0, &w.data, extents)));
        }
        for prepared in direct.iter().flatten() {
            if let Err(error) = self.write_prepared(prepared).await {
                return Err(self.give_back(taken, error));
            }
        }
        match self.commit(&writes, direct, modified).await {
            Ok(sequence) => self.append(sequence),
            Err(error) => Err(self.give_back(taken, error)),
        }
    }

    /// Frees blocks that nothing refers to and no operation touches any more.
    fn give_back(&self, taken: Vec<Extent>, error: StoreError) -> StoreError {
        let mut state = self.lock();
        for extent in taken {
            state.disk.free(extent);
        }
        error
    }

    /// Waits until the batch can take effect, and lets it.
    async fn commit(
        &self,
        writes: &[Write],
        mut direct: Vec<Option<Vec<Prepared>>>,
        modified: Timestamp,
    ) -> Result<u64, StoreError> {
        let parts: Vec<Vec<(u64, Bytes)>> = writes.iter().map(small_parts).collect();
        let mut again = false;
        loop {
            let (missing, needed) = {
                let mut state = self.lock();
                state.check_writable()?;
                let (missing, needed) = survey(&state, writes, &parts)?;
                if missing.is_empty() && needed <= state.disk.available() {
                    return Ok(self.take_effect(&mut state, writes, &parts, &mut direct, modified));
                }
                (missing, needed)
            };
            self.load(Missing { again, ..missing }).await?;
            again = true;
            if needed > self.lock().disk.available() {
                self.make_space(needed).await?;
            }
        }
    }

    fn take_effect(
        &self,
        state: &mut State,
        writes: &[Write],
        parts: &[Vec<(u64, Bytes)>],
        direct: &mut [Option<Vec<Prepared>>],
        modified: Timestamp,
    ) -> u64 {
        let mut body = new_body(modified.0);
        let mut last: Option<(usize, ForkId)> = None;
        for (i, w) in writes.iter().enumerate() {
            let id = match last {
                Some((l, id)) if writes[l].key == w.key => id,
                _ => state.find_or_create(&w.key, w.chunk, modified.0, &mut body),
            };
            last = Some((i, id));
            if w.data.is_empty() {
                continue;
            }
            let end = w.offset.0 + w.data.len() as u64;
            if let Some(prepared) = direct[i].take() {
                self.install_prepared(state, id, end, prepared, &mut body);
            }
            for (offset, data) in &parts[i] {
                ItemRecord::encode_data(&mut body, id, *offset, data);
                self.put(state, id, w.chunk, *offset, data);
            }
            let length = state.forks[&id].length.max(end);
            state.touch(id, length, modified.0);
            Counters::add(&self.counters.write_bytes, w.data.len() as u64);
            if body.len() > BODY_SOFT {
                state.log(&body);
                body = new_body(modified.0);
            }
        }
        Counters::add(&self.counters.writes, writes.len() as u64);
        Counters::add(
            &self.counters.copied_bytes,
            writes.iter().map(|w| w.data.len() as u64).sum(),
        );
        state.evict(self.bounds.cache);
        let kick = state.dirty_blocks * BLOCK as u64 > self.bounds.dirty / 2;
        let sequence = state.log(&body);
        if kick || self.log.bytes() > self.bounds.log / 2 {
            self.signals.work.notify_one();
        }
        sequence
    }

    /// Puts small bytes into dirty pages; what they lie on is in memory.
    pub(crate) fn put(&self, state: &mut State, id: ForkId, size: u32, offset: u64, data: &[u8]) {
        let mut rest = data;
        for range in by_chunk(size, offset, data.len() as u64) {
            let (now, later) = rest.split_at(range.bytes.len());
            rest = later;
            self.put_in_chunk(state, id, size, &range, now);
        }
    }

    fn put_in_chunk(
        &self,
        state: &mut State,
        id: ForkId,
        size: u32,
        range: &ChunkRange,
        mut data: &[u8],
    ) {
        let sequence = state.next_sequence();
        let n = range.chunk;
        let mut at = range.bytes.start;
        let last = (range.bytes.end - 1) / BLOCK as u32;
        while at < range.bytes.end {
            let block = at / BLOCK as u32;
            let start = block * BLOCK as u32;
            let held = (size - start).min(BLOCK as u32);
            let stop = range.bytes.end.min(start + held);
            let (now, later) = data.split_at((stop - at) as usize);
            data = later;
            let fork = state
                .forks
                .get_mut(&id)
                .expect("the fork was found under this lock");
            let chunk = fork.chunks.entry(n).or_default();
            let placed = chunk.place(block).is_some();
            let slot = slot_of(block);
            if chunk.page_mut(slot).is_none() {
                let page =
                    Page::covering(&self.pool, block % 16, last.min(slot as u32 * 16 + 15) % 16);
                set_page(state, id, n, slot, page);
            }
            let fork = state
                .forks
                .get_mut(&id)
                .expect("the fork was found under this lock");
            let page = fork
                .chunks
                .get_mut(&n)
                .and_then(|c| c.page_mut(slot))
                .expect("the page was made above");
            let (before, mask) = (page.bytes(), bit(block));
            let bytes = page.block_mut(&self.pool, block % 16);
            let inside = (at - start) as usize;
            bytes[inside..inside + now.len()].copy_from_slice(now);
            if page.valid & mask == 0 {
                let bytes = page.block_mut(&self.pool, block % 16);
                bytes[..inside].fill(0);
                bytes[inside + now.len()..].fill(0);
                assert!(
                    !placed || now.len() == held as usize,
                    "a block is loaded before part of it is written"
                );
            }
            state.cached = state.cached + page.bytes() - before;
            let promised = page.promised() & mask != 0;
            if page.dirty & mask == 0 {
                state.dirty_blocks += 1;
                fork.unplaced += u64::from(!placed);
                state.dirty_chunks.insert((id, n));
            }
            page.valid |= mask;
            page.dirty |= mask;
            page.redirtied |= page.flushing & mask;
            page.oldest = page.oldest.min(sequence);
            page.used = true;
            if !promised {
                state.disk.reserve(1);
            }
            at = stop;
        }
        if state.forks[&id].chunks[&n].cost == 0 {
            state.count_entry(id, n);
        }
    }
}

/// What a batch still lacks: entries and blocks in memory, and blocks that it will promise.
fn survey(
    state: &State,
    writes: &[Write],
    parts: &[Vec<(u64, Bytes)>],
) -> Result<(Missing, u64), StoreError> {
    let mut missing = Missing::default();
    let mut needed = 0;
    let mut last: Option<(usize, Option<ForkId>)> = None;
    let mut seen = None;
    for (i, w) in writes.iter().enumerate() {
        let id = match last {
            Some((l, id)) if writes[l].key == w.key => id,
            _ => {
                check_fork(state, &w.key, w.chunk)?;
                state.find(&w.key)
            }
        };
        last = Some((i, id));
        if let Some(id) = id.filter(|_| parts[i].len() != 1 || parts[i][0].1.len() != w.data.len())
        {
            for range in by_chunk(w.chunk, w.offset.0, w.data.len() as u64) {
                missing.own_entry(state, id, range.chunk);
            }
        }
        for (offset, data) in &parts[i] {
            for range in by_chunk(w.chunk, *offset, data.len() as u64) {
                needed += survey_range(
                    state,
                    id,
                    w.chunk,
                    &range,
                    &mut missing,
                    &mut seen,
                    w.key.file,
                );
            }
        }
    }
    Ok((missing, needed))
}

/// The last block looked at: a run of small records in one block is counted once.
type Seen = Option<(FileId, Option<ForkId>, u64, u32)>;

fn survey_range(
    state: &State,
    id: Option<ForkId>,
    size: u32,
    range: &ChunkRange,
    missing: &mut Missing,
    seen: &mut Seen,
    file: FileId,
) -> u64 {
    let block = BLOCK as u32;
    let blocks = range.bytes.start / block..range.bytes.end.div_ceil(block);
    let Some(id) = id else {
        let last = (file, None, range.chunk, blocks.end - 1);
        let again = *seen == Some((file, None, range.chunk, blocks.start));
        *seen = Some(last);
        return blocks.len() as u64 - u64::from(again);
    };
    if missing.own_entry(state, id, range.chunk) {
        return 0;
    }
    let chunk = &state.forks[&id].chunks[&range.chunk];
    let mut needed = 0;
    for b in blocks {
        if *seen == Some((file, Some(id), range.chunk, b)) {
            continue;
        }
        *seen = Some((file, Some(id), range.chunk, b));
        let page = chunk.valid_page(b);
        if page.is_none_or(|p| p.promised() & bit(b) == 0) {
            needed += 1;
        }
        let (start, end) = (b * block, size.min((b + 1) * block));
        let partial = range.bytes.start > start || range.bytes.end < end;
        if page.is_none()
            && partial
            && let Some((place, _)) = chunk.place(b)
        {
            missing.blocks.push(Wanted {
                id,
                chunk: range.chunk,
                block: b,
                place,
            });
        }
    }
    needed
}
