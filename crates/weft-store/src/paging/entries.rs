//! Bringing chunk entries from the index into memory.

use std::ops::{Bound, ControlFlow};

use crate::engine::Inner;
use crate::error::StoreError;
use crate::pages::Chunk;
use crate::pool::BLOCK;
use crate::record::{CHUNKS, ChunkRecord, ForkId, ItemRecord, new_body};

impl Inner {
    /// Makes sure that a chunk's entry is in memory, empty where there is none.
    pub(crate) fn load_entry(&self, id: ForkId, n: u64) -> Result<(), StoreError> {
        loop {
            let evictions = {
                let mut state = self.lock();
                let Some(fork) = state.forks_mut().get_mut(id) else {
                    return Ok(());
                };
                if fork.chunks().contains_key(&n) {
                    return Ok(());
                }
                if n >= fork.indexed_end() {
                    let absent = Chunk::absent(fork.inherits(n));
                    fork.load_chunk(n, absent);
                    state.count_entry(id, n);
                    return Ok(());
                }
                state.cache().evictions()
            };
            let key = ChunkRecord::key(id, n);
            let value = self.index.snapshot()?.get(CHUNKS, &key)?;
            let chunk = match value {
                Some(value) => Some(Chunk::from_runs(&ChunkRecord::decode(&key, &value)?)),
                None => None,
            };
            let mut state = self.lock();
            if state.cache().evictions() == evictions {
                let Some(fork) = state.forks_mut().get_mut(id) else {
                    return Ok(());
                };
                let absent = Chunk::absent(fork.inherits(n));
                fork.load_chunk(n, chunk.unwrap_or(absent));
                state.count_entry(id, n);
                return Ok(());
            }
        }
    }

    /// Brings the entries of a fork from chunk `from` on into memory, up to `most` of them; returns
    /// the count of evictions under which that holds, and the chunk up to which it does:
    /// [`u64::MAX`] where there are no more.
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
            let reader = self.index.snapshot()?;
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
                let Some(fork) = state.forks_mut().get_mut(id) else {
                    break;
                };
                fork.load_chunk(n, chunk);
                state.count_entry(id, n);
            }
            return Ok((state.cache().evictions(), reached));
        }
    }

    /// As [`Inner::load_entries`], of a fork and those that it derives from.
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
                let (evictions, told) = self.load_entries(id, from, most)?;
                if under.is_some_and(|e| e != evictions) {
                    continue 'again;
                }
                under = Some(evictions);
                reached = reached.min(told);
            }
            let evictions = under.unwrap_or_else(|| self.lock().cache().evictions());
            return Ok((evictions, reached));
        }
    }

    /// Makes a chunk the fork's own: whoever writes to it needs that. What shows of its parent's is
    /// flushed first, because only then it has places, and the log has them before it has what is
    /// written here.
    pub(crate) async fn make_own(&self, id: ForkId, n: u64) -> Result<(), StoreError> {
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
                        // So that it stays: whoever wants it need not come again.
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
