//! Truncation and extension of forks; removal of forks and files.

use weft_layout::FileId;

use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::{File, Fork, edge};
use crate::key::{ForkKey, Timestamp};
use crate::log::{DATA_COST, MAP_COST};
use crate::pages::WantedBlock;
use crate::paging::{Attempt, Missing};
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, chunk_is_legal, end_is_legal, new_body};
use crate::state::{StoreState, check_fork};

impl Store {
    /// [`Store::truncate`] as it is for plain forks. Of addressed ones it sets the length only.
    pub(crate) async fn truncate_plain(
        &self,
        file: FileId,
        lengths: Vec<(ForkKey, u64)>,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        for (key, length) in &lengths {
            assert_eq!(key.file, file, "the forks of a truncation are of one file");
            if !end_is_legal(*length, 0) {
                return Err(StoreError::PastLimit {
                    offset: *length,
                    length: 0,
                });
            }
        }
        let inner = &self.0;
        inner.admit_freeing().await?;
        let mut attempt = Attempt::First;
        let sequence = loop {
            let (evictions, loaded) = inner.load_for_truncation(file, &lengths)?;
            let (missing, needed) = {
                let mut state = inner.lock();
                state.check_writable()?;
                state.check_alive(file)?;
                if state.forks().file(file).is_some_and(|f| f.op() >= op) {
                    break state.sequence();
                }
                // What was evicted meanwhile is deferred, as what is too much is.
                let loaded = if state.cache().evictions() == evictions {
                    loaded
                } else {
                    Vec::new()
                };
                let (missing, needed) = edges(&state, &lengths);
                if missing.is_empty() && state.space().can_promise(needed) {
                    let body = inner.apply_truncation(&mut state, &lengths, &loaded, modified);
                    break inner.log_truncation(&mut state, body, file, op);
                }
                (missing, needed)
            };
            if missing.is_empty() {
                inner.make_space_from_reserve(needed).await?;
                continue;
            }
            let missing = Missing { attempt, ..missing };
            inner.load_or_mark_lost(missing).await?;
            attempt = Attempt::Retry;
        };
        inner.append(sequence)?;
        if inner.lock().forks().first_deferred_truncation().is_some() {
            inner.wake_background();
        }
        Ok(())
    }

    /// [`Store::extend`] of a fork whose last chunk has nothing beyond its end.
    pub(crate) async fn extend_plain(
        &self,
        key: &ForkKey,
        chunk: u32,
        length: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if !end_is_legal(length, 0) {
            return Err(StoreError::PastLimit {
                offset: length,
                length: 0,
            });
        }
        if !chunk_is_legal(chunk) {
            return Err(StoreError::BadChunkSize { given: chunk });
        }
        self.0.admit().await?;
        let sequence = loop {
            let deferred = {
                let mut state = self.0.lock();
                state.check_writable()?;
                check_fork(&state, key, chunk)?;
                let deferred = state
                    .find(key)
                    .filter(|id| state.forks().must_finish_truncation(*id, length));
                if deferred.is_none() {
                    break extend(&mut state, key, chunk, length, modified);
                }
                deferred
            };
            if let Some(id) = deferred {
                self.0.finish_truncation(id).await?;
            }
        };
        self.0.append(sequence)
    }

    /// Removes a fork and its bytes; a missing one is no error.
    pub async fn remove_fork(&self, key: &ForkKey) -> Result<(), StoreError> {
        self.remove_fork_if(key, |_| true).await.map(drop)
    }

    /// As [`Store::remove_fork`], but only if the fork still has this length and time of
    /// modification; returns false if not.
    pub async fn remove_unchanged_fork(
        &self,
        key: &ForkKey,
        length: u64,
        modified: Timestamp,
    ) -> Result<bool, StoreError> {
        let same = |fork: &Fork| fork.length() == length && fork.modified() == modified.0;
        self.remove_fork_if(key, same).await
    }

    async fn remove_fork_if(
        &self,
        key: &ForkKey,
        condition: impl Fn(&Fork) -> bool,
    ) -> Result<bool, StoreError> {
        self.0.admit_freeing().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(key.file)?;
            match state.find(key) {
                None => state.sequence(),
                Some(id) if !condition(&state.forks()[id]) => return Ok(false),
                Some(id) => {
                    let mut body = new_body(0);
                    let recipe = state.find(&key.recipe());
                    for id in [id].into_iter().chain(recipe) {
                        let sequence = state.next_sequence();
                        state.remove_lineage(id, &mut body, sequence);
                    }
                    state.log(&body)
                }
            }
        };
        self.log_removal(sequence).map(|()| true)
    }

    /// Deletes a file's forks and refuses its id from now on. Repeating is no error.
    /// The space is freed in the background.
    pub async fn delete_file(&self, file: FileId) -> Result<(), StoreError> {
        self.0.admit_freeing().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            if state.forks().file(file).is_some_and(File::deleted) {
                state.sequence()
            } else {
                let mut body = new_body(0);
                ItemRecord::Delete { file }.encode(&mut body);
                let sequence = state.next_sequence();
                state.delete(file, sequence);
                state.log(&body)
            }
        };
        self.log_removal(sequence)
    }

    fn log_removal(&self, sequence: u64) -> Result<(), StoreError> {
        self.0.append(sequence)?;
        // Blocks of chunks that are only in the index are freed when the log is applied.
        self.0.wake_background();
        Ok(())
    }
}

impl Inner {
    /// Loads the entries of the chunks beyond the new lengths, as far as they are few. Returns the
    /// count of evictions at which they were in memory, and the forks of which all are.
    fn load_for_truncation(
        &self,
        file: FileId,
        lengths: &[(ForkKey, u64)],
    ) -> Result<(u64, Vec<ForkId>), StoreError> {
        let (evictions, wanted) = {
            let mut state = self.lock();
            state.check_alive(file)?;
            state.evict(self.bounds().cache);
            let shorter = lengths.iter().filter_map(|(key, length)| {
                let id = state.find(key)?;
                let fork = &state.forks()[id];
                (fork.chunk() != 0 && *length < fork.length())
                    .then(|| (id, length / u64::from(fork.chunk()), fork.chunk()))
            });
            (state.cache().evictions(), shorter.collect::<Vec<_>>())
        };
        let (mut loaded, mut left) = (Vec::new(), usize::MAX);
        for (id, from, size) in wanted {
            left = left.min(self.chunks_per_step(size));
            if left == 0 {
                break;
            }
            let (_, reached) = self.load_entries(id, from, left)?;
            let state = self.lock();
            let chunks = state.forks().get(id).map(|f| f.chunks().range(from..));
            let count = chunks.into_iter().flatten().take(left + 1).count();
            if reached == u64::MAX && count <= left {
                loaded.push(id);
            }
            left = left.saturating_sub(count);
        }
        Ok((evictions, loaded))
    }

    /// Truncates and extends forks. The chunks beyond the new length are emptied at once in
    /// `loaded` forks, whose chunks are all in memory; in the others they are deferred. Returns a
    /// frame's body.
    fn apply_truncation(
        &self,
        state: &mut StoreState,
        lengths: &[(ForkKey, u64)],
        loaded: &[ForkId],
        modified: Timestamp,
    ) -> Vec<u8> {
        let mut body = new_body(modified.0);
        let sequence = state.next_sequence();
        for (key, length) in lengths {
            let (length, id) = (*length, state.find(key));
            let id = match id {
                Some(id) => id,
                // Also one whose absence is in doubt: from now on it is known.
                None if length > 0 || state.doubts().doubts_absent(key.file) => {
                    state.find_or_create(key, 0, modified.0, &mut body)
                }
                None => continue,
            };
            let (old, size) = (state.forks()[id].length(), state.forks()[id].chunk());
            // Repeating the length does not load the deferred chunks either.
            let deferred = state.forks()[id].deferred_truncation().is_some();
            if length > old || length == old && !deferred || size == 0 || loaded.contains(&id) {
                ItemRecord::Truncate { id, length }.encode(&mut body);
                let emptied = state.truncate(id, length, modified.0, sequence);
                state.charge_replay(DATA_COST + emptied * MAP_COST);
            } else {
                ItemRecord::Cut { id, length }.encode(&mut body);
                state.truncate_deferred(id, length, modified.0, sequence);
                state.charge_replay(DATA_COST + MAP_COST);
            }
            self.zero_edge(state, id, old, length);
        }
        body
    }

    /// Records the operation as done and queues its frame.
    fn log_truncation(
        &self,
        state: &mut StoreState,
        mut body: Vec<u8>,
        file: FileId,
        op: u64,
    ) -> u64 {
        ItemRecord::Operation { file, op }.encode(&mut body);
        state.record_op(file, op);
        if self.log_is_long(state) {
            self.wake_background();
        }
        state.log(&body)
    }

    /// Zeroes the last block of a truncated fork beyond its length; it is in memory or a hole.
    fn zero_edge(&self, state: &mut StoreState, id: ForkId, old: u64, length: u64) {
        let size = state.forks()[id].chunk();
        if let Some((n, block)) = edge(size, old, length)
            && let Some(chunk) = state.forks()[id].chunks().get(&n)
            && chunk.valid_page(block).is_some()
        {
            let start = n * u64::from(size) + u64::from(block) * BLOCK as u64;
            let end = (start + BLOCK as u64).min((n + 1) * u64::from(size));
            let zeros = [0; BLOCK];
            self.buffer_bytes(state, id, size, length, &zeros[..(end - length) as usize]);
        }
    }
}

/// Makes a fork and extends it, as far as needed; returns the sequence of the frame that says so.
fn extend(
    state: &mut StoreState,
    key: &ForkKey,
    chunk: u32,
    length: u64,
    modified: Timestamp,
) -> u64 {
    let empty = new_body(modified.0);
    let mut body = empty.clone();
    let id = state.find_or_create(key, chunk, modified.0, &mut body);
    if state.forks()[id].length() < length {
        if state.doubts().has(id) {
            state.encode_length(id, length, &mut body);
        } else {
            ItemRecord::Truncate { id, length }.encode(&mut body);
        }
        state.touch(id, length, modified.0);
    }
    if body.len() > empty.len() {
        state.log(&body)
    } else {
        state.sequence()
    }
}

/// The blocks that a new length divides and that are not in memory, and how many of all divided
/// blocks need a reserved place.
fn edges(state: &StoreState, lengths: &[(ForkKey, u64)]) -> (Missing, u64) {
    let (mut missing, mut needed) = (Missing::default(), 0);
    for (key, length) in lengths {
        let Some(id) = state.find(key) else { continue };
        let fork = &state.forks()[id];
        if state.forks().must_finish_truncation(id, *length) {
            missing.truncations.insert(id);
            continue;
        }
        let size = u64::from(fork.chunk().max(1));
        let divided = *length < fork.length() && !length.is_multiple_of(size);
        let lacking = divided
            && match fork.parent() {
                Some(_) => missing.private_entry(state, id, length / size),
                None => missing.entry(state, id, length / size),
            };
        if lacking {
            continue;
        }
        let Some((n, block)) = edge(fork.chunk(), fork.length(), *length) else {
            continue;
        };
        let Some(chunk) = fork.chunks().get(&n) else {
            continue;
        };
        let lost = chunk.place(block).is_some_and(|(place, _)| place.is_lost());
        needed += u64::from(!lost && chunk.needs_promise(block));
        if chunk.valid_page(block).is_none()
            && let Some((place, _)) = chunk.place(block)
            && !lost
        {
            missing.blocks.push(WantedBlock {
                id,
                chunk: n,
                block,
                place,
            });
        }
    }
    (missing, needed)
}
