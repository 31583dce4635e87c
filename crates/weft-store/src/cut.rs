//! Lengths, removals, deletions.

use weft_layout::FileId;

use crate::checkpoint::remove;
use crate::clear::needs_promise;
use crate::error::StoreError;
use crate::key::{ForkKey, Timestamp};
use crate::load::{Missing, Wanted};
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, chunk_is_legal, end_is_legal, new_body};
use crate::state::State;
use crate::store::{Inner, Store};
use crate::write::check_fork;

impl Store {
    /// Sets lengths of forks of one file, cutting them or extending them with holes. Operations
    /// are numbered per file: one that is not newer than the last is skipped, so repeating is safe.
    /// A fork that does not exist is made where its length is not 0; its chunk size stays open
    /// until its first write. A block that fails its checksum and that a cut divides is given up as a whole.
    ///
    /// # Durability
    /// As [`Store::write`]; all lengths change at once.
    /// # Errors
    /// [`StoreError::NoSpace`] when a block that a cut divides finds no place even among those that are held back; nothing
    /// was changed then. A cut at a block's border, to nothing say, needs none.
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
            let evictions = inner.load_for_cut(file, &lengths)?;
            let (missing, needed) = {
                let mut state = inner.lock();
                state.check_writable()?;
                state.check_alive(file)?;
                if state.files.get(&file).is_some_and(|f| f.op >= op) {
                    break state.sequence;
                }
                if state.evictions != evictions {
                    continue;
                }
                let (missing, needed) = edges(&state, &lengths);
                if missing.is_empty() && state.disk.can_promise(needed) {
                    break inner.take_cut(&mut state, file, &lengths, op, modified);
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
        inner.append(sequence)
    }

    /// Makes a fork at least this long, with a hole at its end, and makes it if it does not exist. Repeating is safe.
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
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            check_fork(&state, key, chunk)?;
            let mut body = new_body(modified.0);
            let id = state.find_or_create(key, chunk, modified.0, &mut body);
            if state.forks[&id].length < length {
                ItemRecord::Truncate { id, length }.encode(&mut body);
                state.touch(id, length, modified.0);
            }
            if body.len() > new_body(0).len() {
                state.log(&body)
            } else {
                state.sequence
            }
        };
        self.0.append(sequence)
    }

    /// Removes a fork and what it holds; one that does not exist is no error.
    pub async fn remove_fork(&self, key: &ForkKey) -> Result<(), StoreError> {
        self.0.admit_cut().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(key.file)?;
            match state.find(key) {
                None => state.sequence,
                Some(id) => {
                    let mut body = new_body(0);
                    let sequence = state.next_sequence();
                    remove(&mut state, id, &mut body, sequence);
                    state.log(&body)
                }
            }
        };
        self.reap(sequence)
    }

    /// Deletes a file's forks and refuses its id from now on. Repeating is no error.
    /// The space comes back in the background.
    pub async fn delete_file(&self, file: FileId) -> Result<(), StoreError> {
        self.0.admit_cut().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            if state.files.get(&file).is_some_and(|f| f.deleted) {
                state.sequence
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
            Err(StoreError::NoSpace { .. }) => Ok(()),
            other => other,
        }
    }

    /// Brings the entries of all chunks that a cut touches into memory.
    fn load_for_cut(&self, file: FileId, lengths: &[(ForkKey, u64)]) -> Result<u64, StoreError> {
        loop {
            let wanted: Vec<(ForkId, u64)> = {
                let state = self.lock();
                state.check_alive(file)?;
                let shorter = lengths.iter().filter_map(|(key, length)| {
                    let id = state.find(key)?;
                    let fork = &state.forks[&id];
                    (fork.chunk != 0 && *length < fork.length)
                        .then(|| (id, length / u64::from(fork.chunk)))
                });
                shorter.collect()
            };
            let before = self.lock().evictions;
            for (id, from) in wanted {
                self.load_entries(id, from, usize::MAX)?;
            }
            let after = self.lock().evictions;
            if before == after {
                return Ok(after);
            }
        }
    }

    fn take_cut(
        &self,
        state: &mut State,
        file: FileId,
        lengths: &[(ForkKey, u64)],
        op: u64,
        modified: Timestamp,
    ) -> u64 {
        let mut body = new_body(modified.0);
        let sequence = state.next_sequence();
        for (key, length) in lengths {
            let id = match state.find(key) {
                Some(id) => id,
                None if *length > 0 => state.find_or_create(key, 0, modified.0, &mut body),
                None => continue,
            };
            ItemRecord::Truncate {
                id,
                length: *length,
            }
            .encode(&mut body);
            self.cut(state, id, *length, modified.0, sequence);
        }
        ItemRecord::Operation { file, op }.encode(&mut body);
        state.files.entry(file).or_default().op = op;
        state.changes.files.insert(file);
        state.log(&body)
    }

    /// Cuts a fork and zeroes the rest of its last block, which is in memory or a hole.
    fn cut(&self, state: &mut State, id: ForkId, length: u64, modified: i64, sequence: u64) {
        let (old, size) = (state.forks[&id].length, state.forks[&id].chunk);
        state.cut(id, length, modified, sequence);
        if let Some((n, block)) = edge(size, old, length)
            && let Some(chunk) = state.forks[&id].chunks.get(&n)
            && chunk.valid_page(block).is_some()
        {
            let start = n * u64::from(size) + u64::from(block) * BLOCK as u64;
            let end = (start + BLOCK as u64).min((n + 1) * u64::from(size));
            let zeros = [0; BLOCK];
            self.put(state, id, size, length, &zeros[..(end - length) as usize]);
        }
    }
}

/// The block that a cut from `old` to `length` divides.
pub(crate) fn edge(size: u32, old: u64, length: u64) -> Option<(u64, u32)> {
    if size == 0 || length >= old {
        return None;
    }
    let (n, inside) = (length / u64::from(size), length % u64::from(size));
    let divided = !inside.is_multiple_of(BLOCK as u64);
    divided.then_some((n, (inside / BLOCK as u64) as u32))
}

/// The divided blocks that are not in memory, and how many of all those divided need a promise of a place.
fn edges(state: &State, lengths: &[(ForkKey, u64)]) -> (Missing, u64) {
    let (mut missing, mut needed) = (Missing::default(), 0);
    for (key, length) in lengths {
        let Some(id) = state.find(key) else { continue };
        let fork = &state.forks[&id];
        let size = u64::from(fork.chunk.max(1));
        let divided = *length < fork.length && !length.is_multiple_of(size);
        if fork.parent.is_some() && divided && missing.own_entry(state, id, length / size) {
            continue;
        }
        let Some((n, block)) = edge(fork.chunk, fork.length, *length) else {
            continue;
        };
        let Some(chunk) = fork.chunks.get(&n) else {
            continue;
        };
        let lost = chunk.place(block).is_some_and(|(place, _)| place.is_lost());
        needed += u64::from(!lost && needs_promise(chunk, block));
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
