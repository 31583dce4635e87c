//! The cleaner: removes chunks that no recipe names.
//!
//! A pass reads all recipes, of live forks and of checkpoints, and notes the names. Then it removes
//! the chunks that are not among them. Calls go on meanwhile: a chunk that one of them held since
//! the pass began stays, so a name that came into a recipe after the pass read it is safe. If a
//! recipe got another place, by a checkpoint or a rollback, the pass may have missed it and begins
//! again.

use std::collections::HashSet;

use weft_layout::CellOffset;

use super::recipe::Entry;
use crate::counters::Counters;
use crate::engine::{Store, detached};
use crate::error::StoreError;
use crate::key::{ADDRESSED, ChunkName, ForkKey, chunk_key};
use crate::limits::{CLEAN_ATTEMPTS, CLEAN_LIST_CHUNKS, RECIPE_READ_ENTRIES};
use crate::record::{ENTRY_BYTES, ForkId};

/// What a pass of the cleaner found and freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Entries of recipes that name a chunk, those of checkpoints included.
    pub named: u64,
    /// The bytes that they refer to: what plain files of these contents would store.
    pub named_bytes: u64,
    /// Chunks that are stored, without those that were removed.
    pub chunks: u64,
    /// Their bytes.
    pub chunk_bytes: u64,
    /// Chunks that were removed.
    pub removed: u64,
    /// Their bytes.
    pub removed_bytes: u64,
    /// Entries that name a chunk that is not stored, or was found damaged: reads of those files
    /// report it.
    pub missing: u64,
}

/// The names in all recipes.
#[derive(Default)]
struct Named {
    /// The first 8 bytes of each name. Two names that agree in them keep each other's chunks.
    prefixes: HashSet<u64>,
    entries: u64,
    bytes: u64,
    missing: u64,
}

/// Some entries of one recipe.
struct RecipePart<'a> {
    key: &'a ForkKey,
    checkpoint: Option<u64>,
    /// The size of a chunk.
    size: u32,
    /// The number of the first chunk.
    first: u64,
    entries: Vec<Entry>,
}

/// A chunk that a recipe names and that is not stored, or is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingChunk {
    /// The fork.
    pub key: ForkKey,
    /// The checkpoint that has it; `None`: the live file.
    pub checkpoint: Option<u64>,
    /// Its number in the fork.
    pub chunk: u64,
    /// Its name.
    pub name: ChunkName,
}

impl Named {
    fn add(&mut self, store: &Store, part: &RecipePart<'_>) {
        for name in part.entries.iter().flatten() {
            self.entries += 1;
            self.bytes += u64::from(part.size);
            self.missing += u64::from(!store.has_sound_chunk(name));
            self.prefixes.insert(prefix(name));
        }
    }
}

/// What becomes of a pass over recipes that finds one it cannot read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unreadable {
    /// Nothing may be done without knowing all names.
    Fails,
    /// Whoever looks for bad blocks reports it.
    Skipped,
}

impl Store {
    /// Removes the chunks that no recipe names and no call in progress holds. One pass runs at a
    /// time. `None`: checkpoints or rollbacks gave recipes another place during each of several
    /// attempts, and nothing was removed.
    ///
    /// Cost: reads 32 bytes for each chunk of each file and checkpoint; 16 bytes of memory for each
    /// name; a frame of the log for each chunk that is removed.
    /// # Errors
    /// A recipe that cannot be read: nothing is removed then.
    pub async fn clean(&self) -> Result<Option<Cleaned>, StoreError> {
        let store = self.clone();
        detached(async move { store.clean_in_turn().await }).await
    }

    async fn clean_in_turn(&self) -> Result<Option<Cleaned>, StoreError> {
        let _turn = self.0.turns().clean().await;
        self.clean_now().await
    }

    /// Cleans for a caller that lacks space, unless another pass began since there were `passes`.
    pub(super) async fn clean_after(&self, passes: u64) -> Result<(), StoreError> {
        let _turn = self.0.turns().clean().await;
        if self.0.chunk_holds().passes() == passes {
            // Boxed: it is rare, and every put would be as large.
            Box::pin(self.clean_now()).await?;
            self.reclaim().await?;
        }
        Ok(())
    }

    /// As [`Store::clean_after`], before a write of plain bytes is tried again: unneeded chunks may
    /// take the space. A pass that freed nothing is not repeated for a while, and what keeps a pass
    /// from its end is no error of the write.
    pub(crate) async fn clean_if_it_pays(&self, passes: u64) {
        let holds = self.0.chunk_holds();
        if !holds.may_pay() {
            return;
        }
        // Of a pass that began after the write was refused, something may have come already.
        let is_first = holds.passes() == passes;
        let before = self.counters().chunks_cleaned;
        if let Err(error) = self.clean_after(passes).await {
            tracing::warn!(%error, "unneeded chunks are not removed for a write that lacks space");
        }
        if is_first && self.counters().chunks_cleaned == before {
            holds.note_vain_pass();
        }
    }

    /// The caller has the turn.
    async fn clean_now(&self) -> Result<Option<Cleaned>, StoreError> {
        let holds = self.0.chunk_holds();
        for _ in 0..CLEAN_ATTEMPTS {
            let moves = holds.begin_pass();
            let result = async {
                let mut named = Named::default();
                let add = |part: RecipePart<'_>| named.add(self, &part);
                self.visit_recipes(add, Unreadable::Fails).await?;
                if holds.unmoved_since(moves) {
                    return self.remove_unnamed(&named).await.map(Some);
                }
                Ok(None)
            };
            let result = result.await;
            holds.end_pass();
            if let Some(cleaned) = result? {
                return Ok(Some(cleaned));
            }
        }
        Ok(None)
    }

    /// Chunks that recipes name and that are not stored, or were found damaged: at most so many,
    /// each with the fork and the checkpoint that name it, and its number there.
    ///
    /// Cost: as for a cleaning pass.
    pub async fn missing_chunks(&self, most: usize) -> Result<Vec<MissingChunk>, StoreError> {
        let mut missing = Vec::new();
        let visit = |part: RecipePart<'_>| {
            for (n, name) in (part.first..).zip(part.entries) {
                if let Some(name) = name.filter(|name| !self.has_sound_chunk(name))
                    && missing.len() < most
                {
                    missing.push(MissingChunk {
                        key: part.key.clone(),
                        checkpoint: part.checkpoint,
                        chunk: n,
                        name,
                    });
                }
            }
        };
        self.visit_recipes(visit, Unreadable::Skipped).await?;
        // What was overwritten meanwhile, and then removed, is not missing.
        let mut still = Vec::new();
        for one in missing {
            let chunks = one.chunk..one.chunk + 1;
            let now = self.entries(&one.key, one.checkpoint, chunks).await;
            if now.is_ok_and(|now| now == [Some(one.name)]) {
                still.push(one);
            }
        }
        Ok(still)
    }

    /// Calls `visit` with all recipes, in parts, without what is known to be holes.
    async fn visit_recipes(
        &self,
        mut visit: impl FnMut(RecipePart<'_>),
        unreadable: Unreadable,
    ) -> Result<(), StoreError> {
        let skipped = |error: &StoreError| {
            unreadable == Unreadable::Skipped && !matches!(error, StoreError::Closed)
        };
        for (key, checkpoint) in self.addressed_forks() {
            let fork = match self.addressed(&key, checkpoint) {
                Ok(Some(fork)) => fork,
                // It was removed meanwhile.
                Ok(None) | Err(StoreError::NoCheckpoint { .. }) => continue,
                Err(error) => return Err(error),
            };
            let mut at = 0;
            let chunks = fork.length.div_ceil(u64::from(fork.chunk));
            while at < chunks {
                let place = CellOffset(at * ENTRY_BYTES);
                let runs = match self.plain_runs(&key.recipe(), checkpoint, place, 1).await {
                    Ok(runs) => runs,
                    Err(StoreError::Stale { .. } | StoreError::NoCheckpoint { .. }) => break,
                    Err(error) if skipped(&error) => break,
                    Err(error) => return Err(error.of_recipe()),
                };
                let Some(run) = runs.runs.first() else {
                    match runs.next {
                        Some(next) if next.0 / ENTRY_BYTES > at => at = next.0 / ENTRY_BYTES,
                        _ => break,
                    }
                    continue;
                };
                at = at.max(run.start / ENTRY_BYTES);
                let end = (at + RECIPE_READ_ENTRIES).min(chunks);
                match self.entries(&key, checkpoint, at..end).await {
                    Ok(entries) => visit(RecipePart {
                        key: &key,
                        checkpoint,
                        size: fork.chunk,
                        first: at,
                        entries,
                    }),
                    Err(StoreError::Stale { .. } | StoreError::NoCheckpoint { .. }) => break,
                    // The other parts of the recipe may be readable.
                    Err(error) if skipped(&error) => {}
                    Err(error) => return Err(error),
                }
                at = end;
            }
        }
        Ok(())
    }

    /// All addressed forks, live or of a checkpoint.
    fn addressed_forks(&self) -> Vec<(ForkKey, Option<u64>)> {
        let state = self.0.lock();
        let forks = state.forks();
        let mut found = Vec::new();
        let mut add = |id: &ForkId, checkpoint| {
            if forks[*id].is_addressed() {
                found.push((forks[*id].key().clone(), checkpoint));
            }
        };
        for (_, file) in forks.files().filter(|(id, _)| *id != ADDRESSED) {
            file.forks().values().for_each(|id| add(id, None));
            for (number, checkpoint) in file.checkpoints() {
                let ids = checkpoint.forks().values();
                ids.for_each(|id| add(id, Some(*number)));
            }
        }
        drop(state);
        found.sort_unstable();
        found
    }

    async fn remove_unnamed(&self, named: &Named) -> Result<Cleaned, StoreError> {
        let mut cleaned = Cleaned {
            named: named.entries,
            named_bytes: named.bytes,
            missing: named.missing,
            ..Cleaned::default()
        };
        let mut after: Option<ChunkName> = None;
        loop {
            let (page, more) = self.list_chunks(after.as_ref(), CLEAN_LIST_CHUNKS);
            for (name, length) in &page {
                if !named.prefixes.contains(&prefix(name)) && self.remove_unheld(name).await? {
                    cleaned.removed += 1;
                    cleaned.removed_bytes += length;
                } else {
                    cleaned.chunks += 1;
                    cleaned.chunk_bytes += length;
                }
            }
            after = page.last().map(|(name, _)| *name);
            if !more {
                break;
            }
        }
        let counters = self.0.counters();
        Counters::add(&counters.chunks_cleaned, cleaned.removed);
        Counters::add(&counters.cleaned_bytes, cleaned.removed_bytes);
        Ok(cleaned)
    }

    /// Removes a chunk unless a call holds it, or did since the pass began. A call that begins to
    /// hold it now waits in the same turn, and then finds that it has to put it.
    async fn remove_unheld(&self, name: &ChunkName) -> Result<bool, StoreError> {
        let _turn = self.0.turns().chunks([*name].into_iter()).await;
        if self.0.chunk_holds().was_held(name) {
            return Ok(false);
        }
        self.remove_fork(&chunk_key(name)).await?;
        Ok(true)
    }
}

fn prefix(name: &ChunkName) -> u64 {
    let [first, ..] = name.as_bytes().as_chunks::<8>().0 else {
        return 0;
    };
    u64::from_le_bytes(*first)
}
