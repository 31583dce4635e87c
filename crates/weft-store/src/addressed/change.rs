//! Writes to addressed forks: new chunks are put, and then the recipes change, all at one moment.
//!
//! A chunk that a batch covers partly is made from the contents that the recipe names at that time.
//! If it names others when the batch takes effect, the chunk is made again from those: this is the
//! check of the old hash of CAPFS (§3.2), with the server as the client.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weft_layout::ADDRESSED_BIT;
use weft_sum::Sums;

use super::patch::ForkPatch;
use super::prepared::{Base, MadeChunk, PreparedFork, PreparedWrite};
use super::recipe::{Entry, RecipeChanges};
use crate::engine::{HeldChunks, Store};
use crate::error::StoreError;
use crate::io::{GrownFork, check_runs};
use crate::key::{ChunkName, ForkKey, Scattered, Timestamp, Write, chunk_key};
use crate::limits::CHUNKS_MADE_BYTES;
use crate::state::check_fork;

/// Whether any of these writes is to an addressed fork.
pub(crate) fn any_addressed(writes: &[Scattered]) -> bool {
    writes.iter().any(|w| w.chunk & ADDRESSED_BIT != 0)
}

impl Store {
    /// [`Store::write_summed`], of which some writes are to addressed forks. Must be polled to its
    /// end.
    pub(crate) async fn write_addressed(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        check_runs(&writes)?;
        let passes = self.0.chunk_holds().passes();
        match self
            .write_once(writes.clone(), sums.clone(), modified)
            .await
        {
            Err(StoreError::NoSpace { .. }) => {}
            done => return done,
        }
        // Unneeded chunks may take the space.
        self.clean_after(passes).await?;
        self.write_once(writes, sums, modified).await
    }

    async fn write_once(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let (patches, plain) = divide(writes, sums.as_ref())?;
        let places = patches.iter().flat_map(|patch| {
            let file = patch.key.file;
            patch.chunks().map(move |n| (file, n))
        });
        let turn = self.0.turns().places(places).await;
        let prepared = self.prepare_divided(patches, plain, sums, modified).await?;
        self.commit_addressed(vec![prepared], Vec::new(), modified)
            .await?;
        drop(turn);
        Ok(())
    }

    /// [`Store::prepare`], of which some writes are to addressed forks.
    pub(crate) async fn prepare_addressed(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        now: Timestamp,
    ) -> Result<PreparedWrite, StoreError> {
        check_runs(&writes)?;
        let prepare = async |writes, sums: Option<Sums>| {
            let (patches, plain) = divide(writes, sums.as_ref())?;
            self.prepare_divided(patches, plain, sums, now).await
        };
        let passes = self.0.chunk_holds().passes();
        match prepare(writes.clone(), sums.clone()).await {
            Err(StoreError::NoSpace { .. }) => {}
            done => return done,
        }
        self.clean_after(passes).await?;
        prepare(writes, sums).await
    }

    async fn prepare_divided(
        &self,
        patches: Vec<ForkPatch>,
        plain: Vec<Scattered>,
        sums: Option<Sums>,
        now: Timestamp,
    ) -> Result<PreparedWrite, StoreError> {
        let mut held = self.0.chunk_holds().none();
        let mut forks = Vec::new();
        for patch in patches {
            check_fork(&self.0.lock(), &patch.key, patch.chunk)?;
            let partly: Vec<u64> = patch.chunks().filter(|n| !patch.covers(*n)).collect();
            let entries = self.entries_of(&patch.key, partly.into_iter()).await?;
            let base = |n: u64| entries.get(&n).map_or(Base::Nothing, |e| Base::Entry(*e));
            let wanted = patch.chunks().map(|n| (n, base(n))).collect();
            let length = self
                .addressed(&patch.key, None)?
                .map_or(0, |fork| fork.length);
            let made = self.make(&patch, wanted, length, &mut held, now).await?;
            forks.push(PreparedFork { patch, made });
        }
        let plain = if plain.is_empty() {
            None
        } else {
            let sums = sums.filter(|_| forks.is_empty());
            Some(self.prepare_plain(plain, sums).await?)
        };
        Ok(PreparedWrite { plain, forks, held })
    }

    /// Lets batches take effect at one moment. Must be polled to its end.
    pub(crate) async fn commit_addressed(
        &self,
        batches: Vec<PreparedWrite>,
        then: Vec<Write>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let forks = batches.iter().flat_map(|batch| &batch.forks);
        let keys: Vec<ForkKey> = forks.map(|fork| fork.patch.key.clone()).collect();
        let turn = self.0.turns().recipes(keys.iter()).await;
        self.commit_in_turn(batches, then, modified).await?;
        drop(turn);
        Ok(())
    }

    /// As [`Store::commit_addressed`]; the caller has the turn of all recipes.
    pub(super) async fn commit_in_turn(
        &self,
        batches: Vec<PreparedWrite>,
        then: Vec<Write>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let mut changes = RecipeChanges::default();
        let mut held = self.0.chunk_holds().none();
        let mut grown = Vec::new();
        for fork in batches.iter().flat_map(|batch| &batch.forks) {
            self.change_recipe(fork, &mut changes, &mut held, modified)
                .await?;
            grown.push(GrownFork {
                key: fork.patch.key.clone(),
                chunk: fork.patch.chunk,
                length: fork.patch.end,
            });
        }
        let (mut plain, mut holds) = (Vec::new(), vec![held]);
        for batch in batches {
            let (written, held) = batch.written().await?;
            plain.extend(written);
            holds.push(held);
        }
        let replaced = changes.take_replaced();
        let mut writes = then;
        writes.extend(changes.into_writes());
        let done = self.commit_plain(plain, writes, &grown, modified).await;
        drop(holds);
        done.map_err(StoreError::of_recipe)?;
        self.discard_chunks(&replaced);
        Ok(())
    }

    /// Frees the memory of chunks that a recipe does not name any more, so that the next ones need
    /// not take more. If another recipe names them, they are read from the disk again.
    fn discard_chunks(&self, names: &BTreeSet<ChunkName>) {
        for name in names {
            let mut state = self.0.lock();
            if let Some(id) = state.find(&chunk_key(name)) {
                state.discard_pages(id, 0);
            }
        }
    }

    /// Adds the entries of a prepared fork to the changes; makes chunks anew whose base changed.
    /// The caller has the recipe's turn.
    pub(super) async fn change_recipe(
        &self,
        fork: &PreparedFork,
        changes: &mut RecipeChanges,
        held: &mut HeldChunks,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let key = &fork.patch.key;
        let length = self.addressed(key, None)?.map_or(0, |fork| fork.length);
        // Growth shows what the last chunk has beyond the old end.
        let shown = (fork.patch.end > length).then_some(length / u64::from(fork.patch.size()));
        let shown = shown.filter(|n| !fork.made.contains_key(n));
        let is_whole = |(n, made): (&u64, &MadeChunk)| (made.base == Base::Nothing).then_some(*n);
        let whole = fork.made.iter().filter_map(is_whole);
        // What they replace matters to the cache only: damage there is overwritten.
        let replaced = self.entries_of(key, whole).await.unwrap_or_default();
        let depends = |(n, made): (&u64, &MadeChunk)| (made.base != Base::Nothing).then_some(*n);
        let depending = fork.made.iter().filter_map(depends);
        let read: BTreeSet<u64> = depending.chain(shown).collect();
        let entries = self.entries_of(key, read.into_iter()).await?;
        let before = fork.made.keys().filter_map(|n| *entries.get(n)?);
        changes.replace(before.chain(replaced.into_values().flatten()));
        // Chunks to be made from what the recipe names now, and from what an earlier batch of the
        // same commit made: of the latter all bytes are valid, also those beyond the fork's end.
        let (mut again, mut upon) = (BTreeMap::new(), BTreeMap::new());
        for (n, made) in &fork.made {
            if made.base == Base::Nothing {
                changes.set(key, *n, made.entry);
            } else if let Some(changed) = changes.get(key, *n) {
                upon.insert(*n, Base::Entry(changed));
            } else {
                let entry = entries.get(n).copied().flatten();
                let is_same = made.base == Base::Entry(entry);
                if is_same && !self.ends_later(&fork.patch, *n, entry, length) {
                    changes.set(key, *n, made.entry);
                } else {
                    again.insert(*n, Base::Entry(entry));
                }
            }
        }
        if let Some(n) = shown
            && changes.get(key, n).is_none()
            && let Some(entry) = entries.get(&n).copied()
            && self.ends_later(&fork.patch, n, entry, length)
        {
            again.insert(n, Base::Entry(entry));
        }
        for (wanted, valid) in [(again, length), (upon, u64::MAX)] {
            for (n, made) in self.make(&fork.patch, wanted, valid, held, now).await? {
                changes.set(key, n, made.entry);
            }
        }
        Ok(())
    }

    /// Whether a chunk is stored with bytes beyond the end of the fork, which no read returns. A
    /// truncation leaves them for a moment, or for longer if the server dies then.
    fn ends_later(&self, patch: &ForkPatch, chunk: u64, entry: Entry, length: u64) -> bool {
        let valid = length.saturating_sub(chunk * u64::from(patch.size()));
        entry.is_some_and(|name| {
            self.chunk_length(&name)
                .is_some_and(|stored| stored > valid)
        })
    }

    /// Makes chunks of a patch from their bases, as far as these are below `length`, and puts those
    /// that the store does not have.
    async fn make(
        &self,
        patch: &ForkPatch,
        wanted: BTreeMap<u64, Base>,
        length: u64,
        held: &mut HeldChunks,
        now: Timestamp,
    ) -> Result<BTreeMap<u64, MadeChunk>, StoreError> {
        let mut made = BTreeMap::new();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for (n, base) in wanted {
            let (base, old) = match base {
                Base::Nothing | Base::Unread => (base, Vec::new()),
                Base::Entry(entry) => {
                    let (entry, old) = self.contents_of(&patch.key, n, entry, held).await?;
                    let valid = length.saturating_sub(n * u64::from(patch.size()));
                    (Base::Entry(entry), first_bytes(old, valid))
                }
            };
            let contents = patch.contents(n, &old);
            let entry = (!contents.is_empty()).then(|| ChunkName::of(&contents));
            if let Some(name) = entry {
                held.add(name);
                bytes += contents.len() as u64;
                batch.push((name, contents));
            }
            made.insert(n, MadeChunk { base, entry });
            if bytes >= CHUNKS_MADE_BYTES {
                self.put_missing(std::mem::take(&mut batch), now).await?;
                bytes = 0;
            }
        }
        self.put_missing(batch, now).await?;
        Ok(made)
    }

    /// The contents of a chunk of a fork, held from now on, and the entry that they belong to:
    /// `entry`, unless the recipe names another chunk by now.
    async fn contents_of(
        &self,
        key: &ForkKey,
        chunk: u64,
        mut entry: Entry,
        held: &mut HeldChunks,
    ) -> Result<(Entry, Vec<Bytes>), StoreError> {
        loop {
            let Some(name) = entry else {
                return Ok((None, Vec::new()));
            };
            held.add(name);
            match self.get_chunk(&name).await {
                Ok(Some(old)) => return Ok((entry, old)),
                Ok(None) => {}
                Err(error) => return Err(self.chunk_failed(error, key, chunk, &name)),
            }
            let now = self.entries(key, None, chunk..chunk + 1).await?;
            let now = now.first().copied().flatten();
            if now == entry {
                return Err(StoreError::missing_chunk(key, chunk, &name));
            }
            entry = now;
        }
    }
}

/// The first bytes of slices.
fn first_bytes(mut slices: Vec<Bytes>, mut count: u64) -> Vec<Bytes> {
    for slice in &mut slices {
        slice.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        count -= slice.len() as u64;
    }
    slices.retain(|slice| !slice.is_empty());
    slices
}

/// Divides a batch into patches of addressed forks and writes to plain ones.
fn divide(
    writes: Vec<Scattered>,
    sums: Option<&Sums>,
) -> Result<(Vec<ForkPatch>, Vec<Scattered>), StoreError> {
    if let (Some(sums), Some(first)) = (sums, writes.first())
        && weft_sum::of(&first.data) != sums.all()
    {
        return Err(StoreError::memory(&first.key, 0, 0, false));
    }
    let addressed = |w: &Scattered| w.chunk & ADDRESSED_BIT != 0;
    let (addressed, plain) = writes.into_iter().partition(addressed);
    Ok((ForkPatch::all_of(addressed), plain))
}
