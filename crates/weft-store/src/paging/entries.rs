//! Loading chunk entries from the index into memory.

use std::ops::{Bound, ControlFlow};

use crate::engine::Inner;
use crate::error::StoreError;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{CHUNKS, ChunkRecord, ForkId, ItemRecord, new_body};

impl Inner {
    /// Makes sure that a chunk's entry is in memory; without an entry, an empty one.
    pub(crate) fn load_entry(&self, id: ForkId, n: u64) -> Result<(), StoreError> {
        loop {
            let evictions = {
                let mut state = self.lock();
                let Some(fork) = state.forks().get(id) else {
                    return Ok(());
                };
                if fork.chunks().contains_key(&n) {
                    return Ok(());
                }
                if n >= fork.indexed_end() {
                    let absent = Chunk::absent(fork.inherits(n));
                    state.load_chunk(id, n, absent);
                    return Ok(());
                }
                state.cache().evictions()
            };
            let key = ChunkRecord::key(id, n);
            let value = self.index().snapshot()?.get(CHUNKS, &key)?;
            let chunk = match value {
                Some(value) => Some(Chunk::from_runs(&ChunkRecord::decode(&key, &value)?)),
                None => None,
            };
            let mut state = self.lock();
            if state.cache().evictions() == evictions {
                let Some(fork) = state.forks().get(id) else {
                    return Ok(());
                };
                let absent = Chunk::absent(fork.inherits(n));
                state.load_chunk(id, n, chunk.unwrap_or(absent));
                return Ok(());
            }
        }
    }

    /// Loads up to `most` entries of a fork from chunk `from` on into memory. Returns the count of
    /// evictions at which they were all there, and the chunk before which they are;
    /// [`u64::MAX`] if there are no more.
    pub(crate) fn load_entries(
        &self,
        id: ForkId,
        from: u64,
        most: usize,
    ) -> Result<(u64, u64), StoreError> {
        loop {
            let (evictions, end) = {
                let state = self.lock();
                let Some(fork) = state.forks().get(id) else {
                    return Ok((state.cache().evictions(), u64::MAX));
                };
                (state.cache().evictions(), fork.indexed_end())
            };
            if from >= end {
                return Ok((evictions, u64::MAX));
            }
            let (low, high) = (ChunkRecord::key(id, from), ChunkRecord::key(id, end));
            let mut found = Vec::new();
            let mut failed = None;
            let reader = self.index().snapshot()?;
            reader.scan(
                CHUNKS,
                Bound::Included(&low),
                Bound::Excluded(&high),
                &mut |key, value| {
                    let read = ChunkRecord::decode_key(key).and_then(|(_, n)| {
                        Ok((n, Chunk::from_runs(&ChunkRecord::decode(key, value)?)))
                    });
                    match read {
                        Ok(chunk) => found.push(chunk),
                        Err(error) => {
                            failed = Some(error);
                            return ControlFlow::Break(());
                        }
                    }
                    if found.len() < most {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                },
            )?;
            if let Some(error) = failed {
                return Err(error);
            }
            let reached = match found.last() {
                Some((n, _)) if found.len() >= most => n + 1,
                _ => u64::MAX,
            };
            let mut state = self.lock();
            if state.cache().evictions() != evictions {
                continue;
            }
            for (n, chunk) in found {
                state.load_chunk(id, n, chunk);
            }
            return Ok((state.cache().evictions(), reached));
        }
    }

    /// As [`Inner::load_entries`], of a fork and the forks that it derives from.
    pub(crate) fn load_view(
        &self,
        id: ForkId,
        from: u64,
        most: usize,
    ) -> Result<(u64, u64), StoreError> {
        'again: loop {
            let lineage = self.lock().forks().lineage(id);
            let (mut under, mut reached) = (None, u64::MAX);
            for (id, limit) in lineage {
                if from >= limit {
                    break;
                }
                let (evictions, end) = self.load_entries(id, from, most)?;
                if under.is_some_and(|e| e != evictions) {
                    continue 'again;
                }
                under = Some(evictions);
                reached = reached.min(end);
            }
            let evictions = under.unwrap_or_else(|| self.lock().cache().evictions());
            return Ok((evictions, reached));
        }
    }

    /// Gives a fork a private copy of the entry of a chunk that it shares with its parent; a write
    /// needs that. Dirty blocks of the parent's chunk are flushed first: only then they have
    /// places, which must be in the log before the write is.
    pub(crate) async fn copy_up(&self, id: ForkId, n: u64) -> Result<(), StoreError> {
        let mut flushed = 0;
        loop {
            let missing = {
                let mut state = self.lock();
                if !state.forks().contains(id) {
                    return Ok(());
                }
                match state.forks().shown(id, n) {
                    Err(missing) => Some(missing),
                    Ok(owner) if owner == id => return Ok(()),
                    Ok(owner) if state.forks()[owner].chunks()[&n].is_dirty() => None,
                    Ok(owner) => {
                        state.copy_entry(id, owner, n);
                        // Changed entries are not evicted, so the caller finds it.
                        state.mark_changed(id, n);
                        let mut body = new_body(0);
                        ItemRecord::Own { id, chunk: n }.encode(&mut body);
                        state.log(&body);
                        return Ok(());
                    }
                }
            };
            match missing {
                Some(missing) => self.load_entry(missing, n)?,
                None if flushed < 3 => {
                    self.flush(0).await?;
                    flushed += 1;
                }
                // A full disk leaves pages dirty.
                None => {
                    return Err(StoreError::NoSpace {
                        needed: BLOCK as u64,
                        available: self.lock().space().available() * BLOCK as u64,
                    });
                }
            }
        }
    }
}
