//! Truncations and clears of addressed forks.

use std::collections::BTreeMap;
use std::ops::Range;

use weft_layout::{ChunkCode, FileId};

use super::patch::ForkPatch;
use super::prepared::{Base, MadeChunk, PreparedFork};
use super::recipe::RecipeChanges;
use crate::engine::{HeldChunks, Store};
use crate::error::StoreError;
use crate::io::GrownFork;
use crate::key::{ForkKey, Timestamp};
use crate::limits::CLEAR_ENTRIES;
use crate::record::ENTRY_BYTES;

/// An addressed fork, as the state has it.
#[derive(Clone, Copy)]
pub(crate) struct AddressedFork {
    /// The size of a chunk, and that it is addressed.
    pub(crate) code: ChunkCode,
    pub(crate) chunk: u32,
    pub(crate) length: u64,
}

impl Store {
    /// The fork of this name, if it is addressed.
    pub(crate) fn addressed(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
    ) -> Result<Option<AddressedFork>, StoreError> {
        let state = self.0.lock();
        let found = state.find_in(key, checkpoint)?.map(|id| &state.forks()[id]);
        Ok(found
            .filter(|fork| fork.is_addressed())
            .map(|fork| AddressedFork {
                code: fork.chunk_code(),
                chunk: fork.chunk(),
                length: fork.length(),
            }))
    }

    /// [`Store::truncate`], where some forks are addressed: their recipes are truncated with them.
    /// Must be polled to its end.
    ///
    /// The chunk that a new length divides is stored without its end afterwards, in a further
    /// frame. Until then nobody sees that end; should the server die in between, the next growth of
    /// the fork removes it first.
    pub(crate) async fn truncate_addressed(
        &self,
        file: FileId,
        mut lengths: Vec<(ForkKey, u64)>,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let _turn = self
            .0
            .turns()
            .recipes(lengths.iter().map(|(key, _)| key))
            .await;
        if self.have_done(&[file], op) {
            return Ok(());
        }
        let (mut grown, mut recipes, mut shorter) = (Vec::new(), Vec::new(), Vec::new());
        for (key, length) in &lengths {
            let Some(fork) = self.addressed(key, None)? else {
                continue;
            };
            if *length < fork.length {
                recipes.push((
                    key.recipe(),
                    length.div_ceil(u64::from(fork.chunk)) * ENTRY_BYTES,
                ));
                shorter.push(key.clone());
            } else {
                grown.push(key.clone());
            }
        }
        self.cut_tails(&grown, modified).await?;
        lengths.extend(recipes);
        self.truncate_plain(file, lengths, op, modified).await?;
        self.cut_tails(&shorter, modified).await
    }

    /// [`Store::extend`] of an addressed fork. Must be polled to its end.
    pub(crate) async fn extend_addressed(
        &self,
        key: &ForkKey,
        chunk: ChunkCode,
        length: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let _turn = self.0.turns().recipes([key].into_iter()).await;
        self.cut_tails(std::slice::from_ref(key), modified).await?;
        self.extend_plain(key, chunk, length, modified).await
    }

    /// Stores the last chunks of forks without what lies beyond the forks' ends. The caller has the
    /// recipes' turn.
    async fn cut_tails(&self, forks: &[ForkKey], modified: Timestamp) -> Result<(), StoreError> {
        let (mut changes, mut held) = (RecipeChanges::default(), self.0.chunk_holds().none());
        for key in forks {
            let Some(fork) = self.addressed(key, None)? else {
                continue;
            };
            // As growth by nothing but its last byte: the end of the last chunk goes.
            let mut patch = ForkPatch::new(key.clone(), fork.code);
            patch.end = fork.length + 1;
            let fork = PreparedFork {
                patch,
                made: BTreeMap::new(),
            };
            self.change_recipe(&fork, &mut changes, &mut held, modified)
                .await?;
        }
        let writes = changes.into_writes();
        if writes.is_empty() {
            return Ok(());
        }
        self.commit_plain(Vec::new(), writes, &[], modified).await
    }

    /// [`Store::clear`] of a range of an addressed fork. Must be polled to its end.
    pub(crate) async fn clear_addressed(
        &self,
        key: &ForkKey,
        range: Range<u64>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let _turn = self.0.turns().recipes([key].into_iter()).await;
        let Some(fork) = self.addressed(key, None)? else {
            return Ok(());
        };
        let size = u64::from(fork.chunk);
        // The last chunk has nothing beyond the fork's end.
        let end = if range.end >= fork.length {
            fork.length.next_multiple_of(size)
        } else {
            range.end
        };
        let range = range.start..end;
        if range.is_empty() {
            return Ok(());
        }
        let (first, last) = (range.start.div_ceil(size), range.end / size);
        let mut patch = ForkPatch::new(key.clone(), fork.code);
        if first > last {
            patch.add_zeros(range);
        } else {
            patch.add_zeros(range.start..first * size);
            patch.add_zeros(last * size..range.end);
        }
        let (mut changes, mut held) = (RecipeChanges::default(), self.0.chunk_holds().none());
        self.clear_in(patch, &mut changes, &mut held, modified)
            .await?;
        let whole = first..last.max(first);
        let at_once = whole.start..whole.end.min(whole.start + CLEAR_ENTRIES);
        at_once.clone().for_each(|n| changes.set(key, n, None));
        let grown = GrownFork {
            key: key.clone(),
            chunk: fork.code,
            length: fork.length,
        };
        self.commit_plain(Vec::new(), changes.into_writes(), &[grown], modified)
            .await?;
        let rest = at_once.end * ENTRY_BYTES..whole.end * ENTRY_BYTES;
        if rest.is_empty() {
            return Ok(());
        }
        self.clear_plain(&[(key.recipe(), rest)], modified).await
    }

    /// Adds the chunks of a patch of zeros to the changes. The caller has the recipe's turn.
    async fn clear_in(
        &self,
        patch: ForkPatch,
        changes: &mut RecipeChanges,
        held: &mut HeldChunks,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let touched: Vec<u64> = patch.chunks().collect();
        let unread = MadeChunk {
            base: Base::Unread,
            entry: None,
        };
        let made = touched.into_iter().map(|n| (n, unread)).collect();
        self.change_recipe(&PreparedFork { patch, made }, changes, held, now)
            .await
    }
}
