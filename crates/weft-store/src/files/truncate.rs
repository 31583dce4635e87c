//! Lengths, removals, deletions.

use weft_layout::FileId;

use crate::engine::{Inner, Store};
use crate::error::StoreError;
use crate::forks::{File, Fork, edge};
use crate::key::{ForkKey, Timestamp};
use crate::log::{DATA_COST, MAP_COST};
use crate::pages::Wanted;
use crate::paging::Missing;
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, chunk_is_legal, end_is_legal, new_body};
use crate::state::{State, check_fork};

impl Store {
    /// Sets lengths of forks of one file, cutting them or extending them with holes. Operations are
    /// numbered per file: one that is not newer than the last is skipped, so repeating is safe. A
    /// fork that does not exist is made where its length is not 0, or where it was in doubt that it
    /// does not exist; its chunk size stays open until its first write. A block that fails its
    /// checksum and that a cut divides is given up as a whole.
    ///
    /// Cost: O(forks), the at most one block of each that is divided is read; the space of many
    /// chunks comes back in the background.
    /// # Durability
    /// As [`Store::write`]; all lengths change at once.
    /// # Errors
    /// [`StoreError::NoSpace`] when a block that a cut divides finds no place even among those that
    /// are held back; nothing was changed then. A cut at a block's border, to nothing say, needs
    /// none.
    pub async fn truncate(
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
        inner.admit_cut().await?;
        let mut again = false;
        let sequence = loop {
            let (evictions, whole) = inner.load_for_cut(file, &lengths)?;
            let (missing, needed) = {
                let mut state = inner.lock();
                state.check_writable()?;
                state.check_alive(file)?;
                if state.forks().file(file).is_some_and(|f| f.op() >= op) {
                    break state.sequence();
                }
                // What was evicted meanwhile is left for later, as what is too much is.
                let whole = if state.cache().evictions() == evictions {
                    whole
                } else {
                    Vec::new()
                };
                let (missing, needed) = edges(&state, &lengths);
                if missing.is_empty() && state.space().can_promise(needed) {
                    let cut = inner.take_cut(&mut state, &lengths, &whole, modified);
                    break inner.close_cut(&mut state, cut, file, op);
                }
                (missing, needed)
            };
            if missing.is_empty() {
                inner.make_space_for_cut(needed).await?;
                continue;
            }
            let missing = Missing { again, ..missing };
            inner.load_or_give_up(missing).await?;
            again = true;
        };
        inner.append(sequence)?;
        if inner.lock().forks().first_tail().is_some() {
            inner.signals.work.notify_one();
        }
        Ok(())
    }

    /// Makes a fork at least this long, with a hole at its end, and makes it if it does not exist.
    /// Repeating is safe.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn extend(
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
            let tail = {
                let mut state = self.0.lock();
                state.check_writable()?;
                check_fork(&state, key, chunk)?;
                let tail = state
                    .find(key)
                    .filter(|id| state.forks().must_settle(*id, length));
                if tail.is_none() {
                    break take_extend(&mut state, key, chunk, length, modified);
                }
                tail
            };
            if let Some(id) = tail {
                self.0.settle(id).await?;
            }
        };
        self.0.append(sequence)
    }

    /// Removes a fork and what it holds; one that does not exist is no error.
    pub async fn remove_fork(&self, key: &ForkKey) -> Result<(), StoreError> {
        self.remove_fork_if(key, |_| true).await.map(drop)
    }

    /// As [`Store::remove_fork`], but only if it still has this length and nobody has written to it
    /// since; whether that is so.
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
        wanted: impl Fn(&Fork) -> bool,
    ) -> Result<bool, StoreError> {
        self.0.admit_cut().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(key.file)?;
            match state.find(key) {
                None => state.sequence(),
                Some(id) if !wanted(&state.forks()[id]) => return Ok(false),
                Some(id) => {
                    let mut body = new_body(0);
                    let sequence = state.next_sequence();
                    state.remove_lineage(id, &mut body, sequence);
                    state.log(&body)
                }
            }
        };
        self.reap(sequence).map(|()| true)
    }

    /// Deletes a file's forks and refuses its id from now on. Repeating is no error.
    /// The space comes back in the background.
    pub async fn delete_file(&self, file: FileId) -> Result<(), StoreError> {
        self.0.admit_cut().await?;
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
        self.reap(sequence)
    }

    fn reap(&self, sequence: u64) -> Result<(), StoreError> {
        self.0.append(sequence)?;
        // Chunks that are only in the index give their blocks back when the log is applied.
        self.0.signals.work.notify_one();
        Ok(())
    }
}

impl Inner {
    /// As [`Inner::admit`], but a full disk is no reason to refuse what makes room.
    pub(crate) async fn admit_cut(&self) -> Result<(), StoreError> {
        match self.admit().await {
            Err(StoreError::NoSpace { .. } | StoreError::IndexFull { .. }) => Ok(()),
            other => other,
        }
    }

    /// Brings the entries of the chunks beyond the new lengths into memory, as far as they are few;
    /// returns the count of evictions under which that holds, and the forks of which all are.
    fn load_for_cut(
        &self,
        file: FileId,
        lengths: &[(ForkKey, u64)],
    ) -> Result<(u64, Vec<ForkId>), StoreError> {
        let (evictions, wanted) = {
            let mut state = self.lock();
            state.check_alive(file)?;
            state.evict(self.bounds.cache);
            let shorter = lengths.iter().filter_map(|(key, length)| {
                let id = state.find(key)?;
                let fork = &state.forks()[id];
                (fork.chunk() != 0 && *length < fork.length())
                    .then(|| (id, length / u64::from(fork.chunk()), fork.chunk()))
            });
            (state.cache().evictions(), shorter.collect::<Vec<_>>())
        };
        let (mut whole, mut left) = (Vec::new(), usize::MAX);
        for (id, from, size) in wanted {
            left = left.min(self.part_of(size));
            if left == 0 {
                break;
            }
            let (_, reached) = self.load_entries(id, from, left)?;
            let state = self.lock();
            let chunks = state.forks().get(id).map(|f| f.chunks().range(from..));
            let count = chunks.into_iter().flatten().take(left + 1).count();
            if reached == u64::MAX && count <= left {
                whole.push(id);
            }
            left = left.saturating_sub(count);
        }
        Ok((evictions, whole))
    }

    /// Cuts and extends forks: those of which the chunks beyond the new length are all in memory
    /// wholly, of others the tail is left. Returns a frame's body.
    fn take_cut(
        &self,
        state: &mut State,
        lengths: &[(ForkKey, u64)],
        whole: &[ForkId],
        modified: Timestamp,
    ) -> Vec<u8> {
        let mut body = new_body(modified.0);
        let sequence = state.next_sequence();
        for (key, length) in lengths {
            let (length, id) = (*length, state.find(key));
            let id = match id {
                Some(id) => id,
                // Also one of which it was in doubt that it is not there: now it is known.
                None if length > 0 || state.doubted().doubts_absent(key.file) => {
                    state.find_or_create(key, 0, modified.0, &mut body)
                }
                None => continue,
            };
            let (old, size) = (state.forks()[id].length(), state.forks()[id].chunk());
            // At the length it has: a tail that is owed is not to be read back at once, either.
            let tail = state.forks()[id].tail().is_some();
            if length > old || length == old && !tail || size == 0 || whole.contains(&id) {
                ItemRecord::Truncate { id, length }.encode(&mut body);
                let emptied = state.cut(id, length, modified.0, sequence);
                state.charge_replay(DATA_COST + emptied * MAP_COST);
            } else {
                ItemRecord::Cut { id, length }.encode(&mut body);
                state.cut_off(id, length, modified.0, sequence);
                state.charge_replay(DATA_COST + MAP_COST);
            }
            self.zero_edge(state, id, old, length);
        }
        body
    }

    /// Counts the operation as done and queues its frame.
    fn close_cut(&self, state: &mut State, mut body: Vec<u8>, file: FileId, op: u64) -> u64 {
        ItemRecord::Operation { file, op }.encode(&mut body);
        state.done(file, op);
        if self.log_is_long(state) {
            self.signals.work.notify_one();
        }
        state.log(&body)
    }

    /// Zeroes the rest of the last block of a fork that was cut, which is in memory or a hole.
    fn zero_edge(&self, state: &mut State, id: ForkId, old: u64, length: u64) {
        let size = state.forks()[id].chunk();
        if let Some((n, block)) = edge(size, old, length)
            && let Some(chunk) = state.forks()[id].chunks().get(&n)
            && chunk.valid_page(block).is_some()
        {
            let start = n * u64::from(size) + u64::from(block) * BLOCK as u64;
            let end = (start + BLOCK as u64).min((n + 1) * u64::from(size));
            let zeros = [0; BLOCK];
            self.put(state, id, size, length, &zeros[..(end - length) as usize]);
        }
    }
}

/// Makes a fork, and makes it longer, as far as need be; returns the sequence of what says so.
fn take_extend(
    state: &mut State,
    key: &ForkKey,
    chunk: u32,
    length: u64,
    modified: Timestamp,
) -> u64 {
    let empty = new_body(modified.0);
    let mut body = empty.clone();
    let id = state.find_or_create(key, chunk, modified.0, &mut body);
    if state.forks()[id].length() < length {
        if state.doubted().has(id) {
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

/// The divided blocks that are not in memory, and how many of all those divided need a promise of a
/// place.
fn edges(state: &State, lengths: &[(ForkKey, u64)]) -> (Missing, u64) {
    let (mut missing, mut needed) = (Missing::default(), 0);
    for (key, length) in lengths {
        let Some(id) = state.find(key) else { continue };
        let fork = &state.forks()[id];
        if state.forks().must_settle(id, *length) {
            missing.tails.insert(id);
            continue;
        }
        let size = u64::from(fork.chunk().max(1));
        let divided = *length < fork.length() && !length.is_multiple_of(size);
        let lacking = divided
            && match fork.parent() {
                Some(_) => missing.own_entry(state, id, length / size),
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
            missing.blocks.push(Wanted {
                id,
                chunk: n,
                block,
                place,
            });
        }
    }
    (missing, needed)
}
