//! Counting, when a store is opened, what maps refer to: the free blocks, and the blocks of each
//! fork.
//!
//! Most of the time goes into reading chunks' entries, so several threads read ranges of their keys
//! in parallel. How the keys are divided does not change the result.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use weft_kv::OrderedKv;

use crate::error::StoreError;
use crate::forks::Fork;
use crate::index::visit;
use crate::limits::COUNT_RANGES;
use crate::record::{CHUNKS, ChunkRecord, ForkId, Place};
use crate::space::Extent;
use crate::state::{StoreState, extent};
use crate::storage::Storage;

/// What the entries in a range of keys say.
#[derive(Default)]
struct RangeCount {
    /// Blocks that they refer to.
    taken: Vec<Extent>,
    /// By fork, in order.
    forks: Vec<(ForkId, ForkCount)>,
    /// Chunks with lost blocks.
    lossy: Vec<(ForkId, u64)>,
    /// Forks with coded blocks.
    coded: Vec<ForkId>,
    /// Keys of chunks whose forks were removed.
    garbage: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Default)]
struct ForkCount {
    blocks: u64,
    goal: Option<u64>,
    indexed_end: u64,
    /// It has entries beyond its length: a deferred truncation.
    beyond_end: bool,
}

/// Builds the allocator of a state whose log was replayed; returns keys of chunks whose forks were
/// removed.
///
/// Cost: reads every entry, which takes a thread about half a microsecond each.
pub(crate) async fn count_blocks(
    storage: &dyn Storage,
    index: &Arc<dyn OrderedKv>,
    mut state: StoreState,
) -> Result<(StoreState, Vec<Vec<u8>>), StoreError> {
    state.begin_count();
    let bounds = bounds(&state);
    let shared = Arc::new(state);
    let results: Vec<_> = bounds.iter().map(|_| Arc::new(Mutex::new(None))).collect();
    let jobs = bounds
        .into_iter()
        .zip(&results)
        .map(|((from, to), result)| {
            let (state, index, result) =
                (Arc::clone(&shared), Arc::clone(index), Arc::clone(result));
            storage.run(Box::new(move || {
                *result.lock() = Some(count_range(&*index, &state, &from, to.as_deref()));
            }))
        });
    join_all(jobs).await;
    let mut state = Arc::into_inner(shared).expect("the jobs have ended");
    let (mut taken, mut garbage) = (Vec::new(), Vec::new());
    let mut truncated = BTreeSet::new();
    for result in results {
        let count = result.lock().take().expect("a job leaves its result")?;
        for (id, found) in count.forks {
            state.add_count(id, found.blocks, found.goal, found.indexed_end);
            if found.beyond_end {
                truncated.insert(id);
            }
        }
        count.taken.into_iter().for_each(|e| push(&mut taken, e));
        garbage.extend(count.garbage);
        for (id, n) in count.lossy {
            state.lossy_mut().insert(id, n);
        }
        for id in count.coded {
            let file = state.forks()[id].key().file;
            state.note_coded(file);
        }
    }
    for key in &garbage {
        let (id, _) = ChunkRecord::decode_key(key)?;
        state.used_id(id);
    }
    let (mut lossy, mut counts) = (Vec::new(), Vec::new());
    let mut coded = BTreeSet::new();
    for (id, fork) in state.forks().iter() {
        let mut beyond = fork.chunks().range(fork.end_chunk()..);
        if beyond.any(|(_, chunk)| chunk.data_blocks().next().is_some()) {
            truncated.insert(id);
        }
        let mut own = 0;
        for (n, chunk) in fork.chunks() {
            if chunk.may_have_lost() {
                lossy.push((id, *n));
            }
            if chunk.has_coded() {
                coded.insert(fork.key().file);
            }
            for place in chunk.owned_places() {
                own += 1;
                push(&mut taken, extent(place));
            }
        }
        counts.push((id, own));
    }
    for (id, own) in counts {
        state.add_count(id, own, None, 0);
    }
    for (id, n) in lossy {
        state.lossy_mut().insert(id, n);
    }
    for file in coded {
        state.note_coded(file);
    }
    for id in truncated {
        let end = state.forks()[id].end_chunk();
        state.defer_truncation(id, end);
    }
    state.space_mut().claim_all(taken).map_err(twice)?;
    Ok((state, garbage))
}

fn twice(e: Extent) -> StoreError {
    let place = Place(e.start);
    StoreError::Corrupt {
        what: "the map of the disks",
        at: format!(
            "disk {}, blocks {}+{}: used twice, or beyond the disk's end. Nothing was changed; \
             `weft fsck --offline DIR --repair` goes on without what lay there",
            place.disk(),
            place.block(),
            e.blocks
        ),
    }
}

/// Adds blocks to those that are taken; extends the last extent if they follow it.
fn push(taken: &mut Vec<Extent>, extent: Extent) {
    match taken.last_mut() {
        Some(last) if last.start + last.blocks == extent.start => last.blocks += extent.blocks,
        _ => taken.push(extent),
    }
}

/// The ranges of keys: from the first key on, before the second.
fn bounds(state: &StoreState) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let chunks = |id: &ForkId| {
        let fork = &state.forks()[*id];
        fork.length().div_ceil(u64::from(fork.chunk().max(1))) + 1
    };
    let mut ids: Vec<ForkId> = state.forks().iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    let total: u64 = ids.iter().map(chunks).fold(0, u64::saturating_add);
    let step = total.div_ceil(COUNT_RANGES).max(1024);
    let mut starts = vec![ChunkRecord::key(ForkId(0), 0)];
    let mut left = step;
    for id in ids {
        let (mut at, count) = (0, chunks(&id));
        while count - at > left && (starts.len() as u64) < COUNT_RANGES {
            at += left;
            left = step;
            starts.push(ChunkRecord::key(id, at));
        }
        left = left.saturating_sub(count - at).max(1);
    }
    let ends = starts.iter().skip(1).cloned().map(Some).chain([None]);
    starts.iter().cloned().zip(ends).collect()
}

fn count_range(
    index: &dyn OrderedKv,
    state: &StoreState,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<RangeCount, StoreError> {
    let mut count = RangeCount::default();
    let mut current: Option<(ForkId, &Fork)> = None;
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    let range = (Bound::Included(from), to);
    visit(&*index.snapshot()?, CHUNKS, range, |key, value| {
        let (id, n) = ChunkRecord::decode_key(key)?;
        if current.is_none_or(|(known, _)| known != id) {
            let Some(fork) = state.forks().get(id) else {
                count.garbage.push(key.to_vec());
                return Ok(());
            };
            current = Some((id, fork));
            count.forks.push((id, ForkCount::default()));
        }
        let Some(((_, fork), (_, found))) = current.zip(count.forks.last_mut()) else {
            return Ok(());
        };
        found.indexed_end = n + 1;
        if fork.chunks().contains_key(&n) {
            return Ok(());
        }
        for run in ChunkRecord::decode_runs(key, value)? {
            found.beyond_end |= n >= fork.end_chunk();
            if run.place.is_lost() {
                count.lossy.push((id, n));
            }
            if run.place.is_coded() && count.coded.last() != Some(&id) {
                count.coded.push(id);
            }
            if run.inherited {
                continue;
            }
            let extent = Extent {
                start: run.place.0,
                blocks: u64::from(run.blocks),
            };
            found.blocks += extent.blocks;
            found.goal = Some(extent.start + extent.blocks);
            push(&mut count.taken, extent);
        }
        Ok(())
    })?;
    Ok(count)
}
