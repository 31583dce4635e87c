//! Counting what maps refer to when a store is opened: the free blocks, and what each fork holds.
//!
//! Most of what an opening reads is chunks' entries, so threads read parts of them side by side. A
//! part is a range of keys; which parts there are does not change the result.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use weft_kv::OrderedKv;

use crate::error::StoreError;
use crate::forks::Fork;
use crate::index::visit;
use crate::record::{CHUNKS, ChunkRecord, ForkId, Place};
use crate::space::Extent;
use crate::state::{State, extent};
use crate::storage::Storage;

/// Parts that the entries are divided into; more than threads, because their sizes are guessed.
const PARTS: u64 = 16;

/// What the entries of a part say.
#[derive(Default)]
struct Part {
    /// Blocks that they refer to.
    taken: Vec<Extent>,
    /// By fork, in order.
    forks: Vec<(ForkId, OfFork)>,
    /// Chunks of which blocks are lost.
    lossy: Vec<(ForkId, u64)>,
    /// Keys of chunks whose forks are gone.
    garbage: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Default)]
struct OfFork {
    blocks: u64,
    goal: Option<u64>,
    indexed_end: u64,
    /// It has entries beyond its length.
    tail: bool,
}

/// Builds the allocator of a state whose log was replayed; returns keys of chunks whose forks are
/// gone.
///
/// Cost: reads every entry, about half a microsecond each on each thread.
pub(crate) async fn count_blocks(
    storage: &dyn Storage,
    index: &Arc<dyn OrderedKv>,
    mut state: State,
) -> Result<(State, Vec<Vec<u8>>), StoreError> {
    state.changes_mut().count_dead();
    state.forks_mut().count_children();
    state.forks_mut().clear_tails();
    for fork in state.forks_mut().values_mut() {
        fork.begin_count();
    }
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
                *result.lock() = Some(read_part(&*index, &state, &from, to.as_deref()));
            }))
        });
    join_all(jobs).await;
    let mut state = Arc::into_inner(shared).expect("the jobs have ended");
    let (mut taken, mut garbage) = (Vec::new(), Vec::new());
    let mut tails = BTreeSet::new();
    for result in results {
        let part = result.lock().take().expect("a job leaves its result")?;
        for (id, found) in part.forks {
            let fork = state
                .forks_mut()
                .get_mut(id)
                .expect("the part found it there");
            fork.counted(found.blocks, found.goal, found.indexed_end);
            if found.tail {
                tails.insert(id);
            }
        }
        part.taken.into_iter().for_each(|e| push(&mut taken, e));
        garbage.extend(part.garbage);
        for (id, n) in part.lossy {
            state.lossy_mut().insert(id, n);
        }
    }
    for key in &garbage {
        let (id, _) = ChunkRecord::decode_key(key)?;
        state.forks_mut().used_id(id);
    }
    let mut lossy = Vec::new();
    for (id, fork) in state.forks_mut().iter_mut() {
        let mut beyond = fork.chunks().range(fork.end_chunk()..);
        if beyond.any(|(_, chunk)| chunk.data_blocks().next().is_some()) {
            tails.insert(id);
        }
        let mut own = 0;
        for (n, chunk) in fork.chunks() {
            if chunk.lacks() {
                lossy.push((id, *n));
            }
            for place in chunk.places() {
                own += 1;
                push(&mut taken, extent(place));
            }
        }
        fork.got_blocks(own);
    }
    for (id, n) in lossy {
        state.lossy_mut().insert(id, n);
    }
    for id in tails {
        let end = state.forks()[id].end_chunk();
        state.forks_mut().set_tail(id, Some(end));
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

/// Adds blocks to those that are taken, as a part of the last extent where they follow it.
fn push(taken: &mut Vec<Extent>, extent: Extent) {
    match taken.last_mut() {
        Some(last) if last.start + last.blocks == extent.start => last.blocks += extent.blocks,
        _ => taken.push(extent),
    }
}

/// The parts' keys: all from the first on, up to the second.
fn bounds(state: &State) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let chunks = |id: &ForkId| {
        let fork = &state.forks()[*id];
        fork.length().div_ceil(u64::from(fork.chunk().max(1))) + 1
    };
    let mut ids: Vec<ForkId> = state.forks().iter().map(|(id, _)| id).collect();
    ids.sort_unstable();
    let total: u64 = ids.iter().map(chunks).fold(0, u64::saturating_add);
    let step = total.div_ceil(PARTS).max(1024);
    let mut starts = vec![ChunkRecord::key(ForkId(0), 0)];
    let mut left = step;
    for id in ids {
        let (mut at, count) = (0, chunks(&id));
        while count - at > left && (starts.len() as u64) < PARTS {
            at += left;
            left = step;
            starts.push(ChunkRecord::key(id, at));
        }
        left = left.saturating_sub(count - at).max(1);
    }
    let ends = starts.iter().skip(1).cloned().map(Some).chain([None]);
    starts.iter().cloned().zip(ends).collect()
}

fn read_part(
    index: &dyn OrderedKv,
    state: &State,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<Part, StoreError> {
    let mut part = Part::default();
    let mut current: Option<(ForkId, &Fork)> = None;
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    let range = (Bound::Included(from), to);
    visit(&*index.snapshot()?, CHUNKS, range, |key, value| {
        let (id, n) = ChunkRecord::decode_key(key)?;
        if current.is_none_or(|(known, _)| known != id) {
            let Some(fork) = state.forks().get(id) else {
                part.garbage.push(key.to_vec());
                return Ok(());
            };
            current = Some((id, fork));
            part.forks.push((id, OfFork::default()));
        }
        let Some(((_, fork), (_, found))) = current.zip(part.forks.last_mut()) else {
            return Ok(());
        };
        found.indexed_end = n + 1;
        if fork.chunks().contains_key(&n) {
            return Ok(());
        }
        for run in ChunkRecord::decode_runs(key, value)? {
            found.tail |= n >= fork.end_chunk();
            if run.place.is_lost() {
                part.lossy.push((id, n));
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
            push(&mut part.taken, extent);
        }
        Ok(())
    })?;
    Ok(part)
}
