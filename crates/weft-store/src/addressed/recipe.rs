//! Recipes: the names of an addressed fork's chunks, 32 bytes each, zeros for a hole.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use weft_layout::CellOffset;

use crate::engine::Store;
use crate::error::StoreError;
use crate::io::{PlainRead, READ_ATTEMPTS};
use crate::key::{ChunkName, ForkKey, Write};
use crate::limits::{RECIPE_CHUNK, RECIPE_READ_ENTRIES};
use crate::record::ENTRY_BYTES;

/// The names of chunks of a fork.
#[derive(Clone, Debug, Default)]
pub struct FoundNames {
    /// The number of the first chunk.
    pub first: u64,
    /// The names, up to the fork's end; `None` is a hole.
    pub names: Vec<Option<ChunkName>>,
    /// The fork's length, in bytes.
    pub length: u64,
    /// There are more names than the caller takes.
    pub too_many: bool,
}

/// An entry of a recipe; `None` is a hole.
pub(super) type Entry = Option<ChunkName>;

impl Store {
    /// The names of the chunks that a range of a live fork touches; `None` if it is plain, or not
    /// there. The length is at least as old as the names. Of more than `most` chunks there are no
    /// names, but [`FoundNames::too_many`].
    ///
    /// Cost: 32 bytes for each.
    pub async fn chunk_names(
        &self,
        key: &ForkKey,
        range: Range<u64>,
        most: u64,
    ) -> Result<Option<FoundNames>, StoreError> {
        let Some(fork) = self.addressed(key, None)? else {
            return Ok(None);
        };
        let size = u64::from(fork.chunk);
        let first = range.start / size;
        let end = range.end.min(fork.length).div_ceil(size).max(first);
        let too_many = end - first > most;
        let names = if too_many {
            Vec::new()
        } else {
            self.entries(key, None, first..end).await?
        };
        Ok(Some(FoundNames {
            first,
            names,
            length: fork.length,
            too_many,
        }))
    }

    /// The entries of these chunks in the recipe of an addressed fork.
    ///
    /// Cost: 32 bytes for each.
    pub(super) async fn entries(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        chunks: Range<u64>,
    ) -> Result<Vec<Entry>, StoreError> {
        let recipe = key.recipe();
        let count = chunks.end.saturating_sub(chunks.start);
        let (at, length) = (CellOffset(chunks.start * ENTRY_BYTES), count * ENTRY_BYTES);
        let mut attempts = 0;
        let bytes = loop {
            attempts += 1;
            let slices = match self.read_plain(&recipe, checkpoint, at, length).await {
                Ok(PlainRead::Bytes(slices)) => slices,
                Ok(PlainRead::NoFork | PlainRead::Addressed { .. }) => Vec::new(),
                Err(error) => return Err(error.of_recipe()),
            };
            let mut bytes = BytesMut::with_capacity(length as usize);
            for slice in &slices {
                bytes.put_slice(slice);
            }
            if self.verify(&slices, attempts >= READ_ATTEMPTS)? {
                break bytes;
            }
        };
        let (found, _) = bytes.as_chunks::<{ ENTRY_BYTES as usize }>();
        let mut entries: Vec<Entry> = found.iter().map(entry).collect();
        entries.resize(count as usize, None);
        Ok(entries)
    }

    /// As [`Store::entries`], for chunks in ascending order that need not follow one another.
    pub(super) async fn entries_of(
        &self,
        key: &ForkKey,
        chunks: impl Iterator<Item = u64>,
    ) -> Result<HashMap<u64, Entry>, StoreError> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for n in chunks {
            match runs.last_mut() {
                // A gap of some entries costs less than another read.
                Some(run) if n < run.end + 128 && n - run.start < RECIPE_READ_ENTRIES => {
                    run.end = n + 1;
                }
                _ => runs.push(n..n + 1),
            }
        }
        let mut all = HashMap::new();
        for run in runs {
            let entries = self.entries(key, None, run.clone()).await?;
            all.extend(run.zip(entries));
        }
        Ok(all)
    }
}

fn entry(bytes: &[u8; ENTRY_BYTES as usize]) -> Entry {
    (*bytes != [0; ENTRY_BYTES as usize]).then(|| ChunkName::from_bytes(*bytes))
}

/// Changes of recipes that take effect together.
#[derive(Default)]
pub(super) struct RecipeChanges {
    entries: BTreeMap<ForkKey, BTreeMap<u64, Entry>>,
    /// The names that were read of entries that change.
    replaced: BTreeSet<ChunkName>,
}

impl RecipeChanges {
    /// What a chunk's entry was changed to.
    pub(super) fn get(&self, key: &ForkKey, chunk: u64) -> Option<Entry> {
        self.entries.get(key)?.get(&chunk).copied()
    }

    pub(super) fn set(&mut self, key: &ForkKey, chunk: u64, entry: Entry) {
        match self.entries.get_mut(key) {
            Some(of) => of.insert(chunk, entry),
            None => self
                .entries
                .entry(key.clone())
                .or_default()
                .insert(chunk, entry),
        };
    }

    /// Names that entries have before they change.
    pub(super) fn replace(&mut self, names: impl Iterator<Item = ChunkName>) {
        self.replaced.extend(names);
    }

    /// The names that the changed entries had and have no longer, as far as they were read.
    pub(super) fn take_replaced(&mut self) -> BTreeSet<ChunkName> {
        let mut replaced = std::mem::take(&mut self.replaced);
        for name in self.entries.values().flat_map(BTreeMap::values).flatten() {
            replaced.remove(name);
        }
        replaced
    }

    /// The writes to the recipes: adjacent entries are one.
    pub(super) fn into_writes(self) -> Vec<Write> {
        let mut writes = Vec::new();
        for (key, entries) in self.entries {
            let recipe = key.recipe();
            let mut run = BytesMut::new();
            let mut start = 0;
            let mut flush = |start: u64, run: &mut BytesMut| {
                if !run.is_empty() {
                    writes.push(write(&recipe, start, run.split().freeze()));
                }
            };
            for (n, entry) in entries {
                if start + run.len() as u64 / ENTRY_BYTES != n {
                    flush(start, &mut run);
                    start = n;
                }
                run.put_slice(&entry.map_or([0; ENTRY_BYTES as usize], |name| *name.as_bytes()));
            }
            flush(start, &mut run);
        }
        writes
    }
}

fn write(recipe: &ForkKey, first: u64, entries: Bytes) -> Write {
    Write {
        key: recipe.clone(),
        chunk: RECIPE_CHUNK,
        offset: CellOffset(first * ENTRY_BYTES),
        data: entries,
    }
}
