//! What makes the store of one replica equal to that of another: a list of everything that it
//! holds, and changes that undo and repeat what the other one has seen.

use weft_layout::FileId;

use super::ListPage;
use crate::engine::Store;
use crate::error::StoreError;
use crate::forks::File;
use crate::key::{ADDRESSED, ForkKey, ForkStatus, Timestamp};
use crate::record::{ForkId, ItemRecord, new_body};
use crate::state::StoreState;

/// A file as a store holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFile {
    /// The file.
    pub file: FileId,
    /// The last numbered operation that it has seen.
    pub op: u64,
    /// It is deleted: nothing else of it is left.
    pub deleted: bool,
    /// Its checkpoints and when they were made, ascending.
    pub checkpoints: Vec<(u64, Timestamp)>,
    /// Its forks: first those of the live file, with `None`, then those of each checkpoint.
    pub forks: Vec<(Option<u64>, ForkKey, ForkStatus)>,
}

fn stored(state: &StoreState, id: FileId, file: &File) -> StoredFile {
    let mut forks = Vec::new();
    let mut add = |checkpoint: Option<u64>, ids: &mut dyn Iterator<Item = ForkId>| {
        for id in ids {
            let key = state.forks()[id].key();
            if !key.is_recipe() {
                forks.push((checkpoint, key.clone(), state.status(id)));
            }
        }
    };
    add(None, &mut file.forks().values().copied());
    let mut checkpoints = Vec::new();
    for (number, checkpoint) in file.checkpoints() {
        checkpoints.push((*number, Timestamp(checkpoint.made())));
        add(Some(*number), &mut checkpoint.forks().values().copied());
    }
    StoredFile {
        file: id,
        op: file.op(),
        deleted: file.deleted(),
        checkpoints,
        forks,
    }
}

impl Store {
    /// Everything that the store holds of files with larger ids, ascending: as many files as have
    /// at most `forks` forks together, and at least one. Chunks of addressed files are not listed.
    ///
    /// Cost: a pass over all files in memory, under the lock of the state.
    pub fn files_after(&self, after: FileId, forks: usize) -> ListPage<StoredFile> {
        let state = self.0.lock();
        let files = state.forks().files().map(|(id, _)| id);
        let mut ids: Vec<FileId> = files.filter(|id| *id > after && *id != ADDRESSED).collect();
        let page = forks.max(1);
        let mut more = ids.len() > page;
        if more {
            ids.select_nth_unstable(page);
            ids.truncate(page);
        }
        ids.sort_unstable();
        let (mut found, mut count) = (Vec::new(), 0);
        for id in ids {
            let Some(file) = state.forks().file(id) else {
                continue;
            };
            let one = stored(&state, id, file);
            count += one.forks.len() + 1;
            if count > forks && !found.is_empty() {
                more = true;
                break;
            }
            found.push(one);
        }
        (found, more)
    }

    /// What the store holds of one file; `None` if it knows nothing of it.
    pub fn stored_file(&self, id: FileId) -> Option<StoredFile> {
        let state = self.0.lock();
        state.forks().file(id).map(|file| stored(&state, id, file))
    }

    /// Notes that a file has seen a numbered operation, which is not done any more then.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn note_operation(&self, file: FileId, op: u64) -> Result<(), StoreError> {
        self.0.admit_freeing().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(file)?;
            if state.has_done(file, op) {
                state.sequence()
            } else {
                let mut body = new_body(0);
                ItemRecord::Operation { file, op }.encode(&mut body);
                state.record_op(file, op);
                state.log(&body)
            }
        };
        self.0.append(sequence)
    }

    /// Removes all forks and checkpoints of a file, which is not deleted by that.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn empty_file(&self, file: FileId) -> Result<(), StoreError> {
        self.0.admit_freeing().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(file)?;
            let mut body = new_body(0);
            let of = state.forks().file(file);
            let numbers = of.map(|of| of.checkpoints().keys().copied().collect::<Vec<_>>());
            let numbers = numbers.unwrap_or_default();
            for id in state.forks().live(file) {
                remove_unless_derived_from(&mut state, id, &mut body);
            }
            // The newest first: others derive from the older ones.
            for number in numbers.into_iter().rev() {
                let forks = state.forks().checkpoint(file, number)?;
                let forks: Vec<ForkId> = forks.forks().values().copied().collect();
                ItemRecord::Forget { file, number }.encode(&mut body);
                state.forget_checkpoint(file, number);
                for id in forks {
                    remove_unless_derived_from(&mut state, id, &mut body);
                }
            }
            state.log(&body)
        };
        self.0.append(sequence)?;
        self.0.wake_background();
        Ok(())
    }

    /// Makes a checkpoint that another replica has made, whatever operations this one has seen.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub async fn repeat_checkpoint(
        &self,
        file: FileId,
        number: u64,
        made: Timestamp,
    ) -> Result<(), StoreError> {
        self.0.admit_freeing().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(file)?;
            if state.forks().checkpoint(file, number).is_ok() {
                state.sequence()
            } else {
                let mut body = new_body(made.0);
                super::checkpoint::keep_all(&mut state, file, number, made, &mut body);
                self.0.chunk_holds().recipe_moved();
                state.log(&body)
            }
        };
        self.0.append(sequence)
    }
}

fn remove_unless_derived_from(state: &mut StoreState, id: ForkId, body: &mut Vec<u8>) {
    if state.forks().get(id).is_some_and(|f| f.children() == 0) {
        let sequence = state.next_sequence();
        state.remove_lineage(id, body, sequence);
    }
}
