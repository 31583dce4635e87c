//! Chunks that are lost, and whose loss is accepted.

use std::collections::BTreeMap;

use weft_layout::FileId;

use super::recipe::RecipeChanges;
use crate::engine::Store;
use crate::error::StoreError;
use crate::forks::Fork;
use crate::key::{ChunkName, ForkKey, Timestamp};

impl Store {
    /// Makes holes of the chunks of a file that are missing, or that a read, a scrub or a check has
    /// found damaged; how many, and their bytes. Checkpoints keep their names of them.
    ///
    /// Cost: reads all recipes of the store.
    pub(crate) async fn accept_missing(&self, file: FileId) -> Result<(u64, u64), StoreError> {
        let mut by_fork: BTreeMap<ForkKey, Vec<(u64, ChunkName)>> = BTreeMap::new();
        for missing in self.missing_chunks(usize::MAX).await? {
            if missing.key.file == file && missing.checkpoint.is_none() {
                let chunks = by_fork.entry(missing.key).or_default();
                chunks.push((missing.chunk, missing.name));
            }
        }
        let (mut count, mut bytes) = (0, 0);
        for (key, missing) in by_fork {
            let _turn = self.0.turns().recipes([&key].into_iter()).await;
            let Some(fork) = self.addressed(&key, None)? else {
                continue;
            };
            let numbers = missing.iter().map(|(n, _)| *n);
            let entries = self.entries_of(&key, numbers).await?;
            let mut changes = RecipeChanges::default();
            for (n, name) in missing {
                if entries.get(&n) != Some(&Some(name)) || self.has_sound_chunk(&name) {
                    continue;
                }
                changes.set(&key, n, None);
                let size = u64::from(fork.chunk);
                let end = fork.length.min((n + 1) * size);
                count += 1;
                bytes += end.saturating_sub(n * size);
            }
            let modified = {
                let state = self.0.lock();
                let fork = state.find(&key).and_then(|id| state.forks().get(id));
                fork.map_or(0, Fork::modified)
            };
            let writes = changes.into_writes();
            if !writes.is_empty() {
                let modified = Timestamp(modified);
                self.commit_plain(Vec::new(), writes, &[], modified).await?;
            }
        }
        Ok((count, bytes))
    }
}
