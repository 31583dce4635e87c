//! Chunks that are written by their names: CAPFS's commit of (old hashes, new hashes), §3.2.

use std::collections::BTreeMap;

use weft_layout::{ADDRESSED_BIT, ChunkCode};

use super::patch::ForkPatch;
use super::prepared::{Base, MadeChunk, PreparedFork, PreparedWrite};
use super::recipe::Entry;
use crate::counters::Counters;
use crate::engine::{Store, detached};
use crate::error::StoreError;
use crate::key::{ForkKey, Timestamp};
use crate::record::{chunk_is_legal, end_is_legal};
use crate::state::check_fork;

/// Names for chunks of a fork that follow one another; `None` is a chunk of zeros.
#[derive(Clone, Debug)]
pub struct NamedChunks {
    /// The fork.
    pub key: ForkKey,
    /// Its chunk size, with [`ADDRESSED_BIT`].
    pub chunk: ChunkCode,
    /// The number of the first chunk.
    pub first: u64,
    /// The names.
    pub names: Vec<Entry>,
    /// One past the last byte that is written: within the last chunk, or at its end.
    pub end: u64,
    /// The names that the recipe must have there; `None`: any.
    pub old: Option<Vec<Entry>>,
    /// Change nothing if a chunk is lacking.
    pub all: bool,
}

/// What became of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedOutcome {
    /// All but these, as positions in the list, are written; none is if that was asked for.
    Lacking(Vec<usize>),
    /// The recipe has other names than the old ones: nothing was changed. Lacking are these.
    Changed(Vec<usize>),
}

impl Store {
    /// Writes chunks by their names, as far as the store has them. What is written takes effect at
    /// one moment. A chunk at the end of the range that it fills in part counts as lacking if the
    /// fork is longer: its other bytes are to be kept.
    ///
    /// Cost: a look-up for each name; 32 bytes of the recipe for each.
    /// # Durability
    /// As [`Store::write`].
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn name_chunks(
        &self,
        named: NamedChunks,
        modified: Timestamp,
    ) -> Result<NamedOutcome, StoreError> {
        if named.chunk & ADDRESSED_BIT == 0 || !chunk_is_legal(named.chunk) {
            return Err(StoreError::BadChunkSize { given: named.chunk });
        }
        if !end_is_legal(named.end, 0) {
            return Err(StoreError::PastLimit {
                offset: named.end,
                length: 0,
            });
        }
        let store = self.clone();
        detached(async move { store.name_in_turn(named, modified).await }).await
    }

    async fn name_in_turn(
        &self,
        named: NamedChunks,
        modified: Timestamp,
    ) -> Result<NamedOutcome, StoreError> {
        let size = u64::from(named.chunk & !ADDRESSED_BIT);
        let key = &named.key;
        let mut held = self.0.chunk_holds().none();
        named
            .names
            .iter()
            .flatten()
            .for_each(|name| held.add(*name));
        let turn = self.0.turns().recipes([key].into_iter()).await;
        check_fork(&self.0.lock(), key, named.chunk)?;
        let last = named.first + named.names.len() as u64;
        let changed = match &named.old {
            Some(old) => self.entries(key, None, named.first..last).await? != *old,
            None => false,
        };
        let length = self.addressed(key, None)?.map_or(0, |fork| fork.length);
        let (mut lacking, mut made, mut end) = (Vec::new(), BTreeMap::new(), 0);
        // The cleaner, which may have found a chunk unheld, removes it before it is looked up here.
        let no_removal = self.0.turns().chunks(named.names.iter().flatten().copied());
        let no_removal = no_removal.await;
        for (at, entry) in named.names.iter().enumerate() {
            let n = named.first + at as u64;
            let written = (n + 1).saturating_mul(size).min(named.end);
            let keeps_others = written < (n + 1).saturating_mul(size) && written < length;
            let fits = |name| {
                let length = self.chunk_length(name);
                length.is_some_and(|stored| stored <= size) && self.has_sound_chunk(name)
            };
            if keeps_others || !entry.as_ref().is_none_or(fits) {
                lacking.push(at);
                continue;
            }
            let base = Base::Nothing;
            made.insert(
                n,
                MadeChunk {
                    base,
                    entry: *entry,
                },
            );
            end = written;
        }
        drop(no_removal);
        if changed {
            return Ok(NamedOutcome::Changed(lacking));
        }
        if made.is_empty() || named.all && !lacking.is_empty() {
            return Ok(NamedOutcome::Lacking(lacking));
        }
        let mut patch = ForkPatch::new(named.key.clone(), named.chunk);
        patch.end = end;
        let prepared = PreparedWrite {
            plain: None,
            forks: vec![PreparedFork { patch, made }],
            held,
        };
        let counters = self.0.counters();
        Counters::add(&counters.chunks_named, prepared.forks[0].made.len() as u64);
        self.commit_in_turn(vec![prepared], Vec::new(), modified)
            .await?;
        drop(turn);
        Ok(NamedOutcome::Lacking(lacking))
    }
}
