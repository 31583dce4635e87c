//! Checkpoints of files: making one, reading it, rolling back to it and dropping it take a time
//! that does not depend on the files' sizes.
//!
//! Design: `docs/design/0007-checkpoints.md`. Operations are numbered as truncations are: one that
//! is not newer than the file's last is skipped, so repeating is safe. A checkpoint's number is
//! that of the operation that made it.

use weft_layout::FileId;

use crate::engine::Store;
use crate::error::StoreError;
use crate::key::{ForkKey, ForkStatus, Timestamp};
use crate::record::{BODY_MAX, ForkId, ItemRecord, new_body};
use crate::state::StoreState;

/// A frame's body of so many bytes takes no further file.
const FRAME_SOFT: usize = BODY_MAX / 2;

impl Store {
    /// Keeps all forks of a file's cells on this server as they are now, under the operation's
    /// number.
    ///
    /// Cost: O(forks of the file on this server).
    /// # Durability
    /// As [`Store::write`]; the checkpoint is of one moment for all forks.
    pub async fn checkpoint(
        &self,
        file: FileId,
        op: u64,
        made: Timestamp,
    ) -> Result<(), StoreError> {
        self.checkpoint_files(&[file], op, made).await
    }

    /// As [`Store::checkpoint`], of several files: a crash leaves it made of all of them or of
    /// none, as long as they have fewer than about 400,000 forks.
    /// # Errors
    /// Leave all files as they were.
    pub async fn checkpoint_files(
        &self,
        files: &[FileId],
        op: u64,
        made: Timestamp,
    ) -> Result<(), StoreError> {
        let possible = |_: &StoreState, _| Ok(());
        self.operate(files, op, made, possible, |state, file, body, _| {
            keep_all(state, file, op, made, body);
        })
        .await
    }

    /// Makes an empty checkpoint of a file if it has none of this number: what it kept was lost.
    ///
    /// # Durability
    /// As [`Store::write`].
    pub fn accept_checkpoint(
        &self,
        file: FileId,
        number: u64,
        made: Timestamp,
    ) -> Result<(), StoreError> {
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            state.check_alive(file)?;
            let there = state.forks().file(file);
            if there.is_some_and(|f| f.checkpoints().contains_key(&number)) {
                return Ok(());
            }
            let mut body = new_body(made.0);
            ItemRecord::Checkpoint { file, number }.encode(&mut body);
            state.add_checkpoint(file, number, made.0);
            state.log(&body)
        };
        self.0.append(sequence)
    }

    /// Makes a file's forks on this server what they were when a checkpoint was made; newer forks
    /// are removed. All other checkpoints stay, also newer ones.
    ///
    /// Cost, durability: as [`Store::checkpoint`].
    /// # Errors
    /// [`StoreError::NoCheckpoint`] leaves everything as it was.
    pub async fn roll_back(
        &self,
        file: FileId,
        number: u64,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.roll_back_files(&[file], number, op, modified).await
    }

    /// As [`Store::roll_back`], of several files, all or none as in [`Store::checkpoint_files`].
    pub async fn roll_back_files(
        &self,
        files: &[FileId],
        number: u64,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let possible = |state: &StoreState, file| checkpoint(state, file, number).map(drop);
        self.operate(
            files,
            op,
            modified,
            possible,
            |state, file, body, sequence| {
                let forks = checkpoint(state, file, number);
                let forks: Vec<ForkId> = forks.into_iter().flatten().collect();
                for id in state.forks().live(file) {
                    state.remove_lineage(id, body, sequence);
                }
                for id in forks {
                    let made = derive(state, id, modified.0, body);
                    state.touches().touch(made);
                }
            },
        )
        .await
    }

    /// Drops a checkpoint; a missing one is no error. Its space is freed in the background.
    ///
    /// Cost, durability: as [`Store::checkpoint`].
    pub async fn drop_checkpoint(
        &self,
        file: FileId,
        number: u64,
        op: u64,
    ) -> Result<(), StoreError> {
        let possible = |_: &StoreState, _| Ok(());
        let time = Timestamp(0);
        self.operate(
            &[file],
            op,
            time,
            possible,
            |state, file, body, sequence| {
                let forks = checkpoint(state, file, number);
                let forks: Vec<ForkId> = forks.into_iter().flatten().collect();
                ItemRecord::Forget { file, number }.encode(body);
                state.forget_checkpoint(file, number);
                for id in forks {
                    if state.forks().get(id).is_some_and(|f| f.children() == 0) {
                        state.remove_lineage(id, body, sequence);
                    }
                }
            },
        )
        .await?;
        self.0.wake_background();
        Ok(())
    }

    /// The checkpoints that a file has on this server: number and time, ascending.
    pub fn checkpoints(&self, file: FileId) -> Result<Vec<(u64, Timestamp)>, StoreError> {
        let (found, sequence) = {
            let state = self.0.lock();
            state.check_alive(file)?;
            let all = state.forks().file(file).map(|f| f.checkpoints().iter());
            let all = all.into_iter().flatten();
            let found: Vec<_> = all.map(|(n, c)| (*n, Timestamp(c.made()))).collect();
            (found, state.sequence())
        };
        self.0.append_before_reply(sequence)?;
        Ok(found)
    }

    /// As [`Store::forks`], of a checkpoint.
    pub fn checkpoint_forks(
        &self,
        file: FileId,
        number: u64,
    ) -> Result<Vec<(ForkKey, ForkStatus)>, StoreError> {
        let state = self.0.lock();
        state.check_alive(file)?;
        let forks = checkpoint(&state, file, number)?;
        Ok(forks
            .map(|id| (state.forks()[id].key().clone(), state.status(id)))
            .filter(|(key, _)| !key.is_recipe())
            .collect())
    }

    /// Whether a numbered operation was done on all of these files: a checkpoint, a truncation, a
    /// rollback or the drop of a checkpoint.
    pub fn have_done(&self, files: &[FileId], op: u64) -> bool {
        let state = self.0.lock();
        files.iter().all(|file| state.has_done(*file, op))
    }

    /// Runs a numbered operation on files, once on each, as one frame of the log; on none of them
    /// unless it is `possible` on all. If the frame would grow too large, there are several, and a
    /// crash may leave only the first ones.
    async fn operate(
        &self,
        files: &[FileId],
        op: u64,
        time: Timestamp,
        possible: impl Fn(&StoreState, FileId) -> Result<(), StoreError>,
        change: impl Fn(&mut StoreState, FileId, &mut Vec<u8>, u64),
    ) -> Result<(), StoreError> {
        self.0.admit_freeing().await?;
        let sequence = {
            let mut state = self.0.lock();
            state.check_writable()?;
            for file in files {
                state.check_alive(*file)?;
                if !state.has_done(*file, op) {
                    possible(&state, *file)?;
                }
            }
            let empty = new_body(time.0);
            let mut body = empty.clone();
            for file in files {
                if state.has_done(*file, op) {
                    continue;
                }
                let sequence = state.next_sequence();
                change(&mut state, *file, &mut body, sequence);
                ItemRecord::Operation { file: *file, op }.encode(&mut body);
                state.record_op(*file, op);
                if body.len() > FRAME_SOFT {
                    state.log(&body);
                    body.clone_from(&empty);
                }
            }
            if body.len() > empty.len() {
                state.log(&body);
            }
            self.0.chunk_holds().recipe_moved();
            state.sequence()
        };
        self.0.append(sequence)
    }
}

/// Makes a checkpoint of all forks of a file.
pub(super) fn keep_all(
    state: &mut StoreState,
    file: FileId,
    number: u64,
    made: Timestamp,
    body: &mut Vec<u8>,
) {
    ItemRecord::Checkpoint { file, number }.encode(body);
    state.add_checkpoint(file, number, made.0);
    for id in state.forks().live(file) {
        ItemRecord::Keep { id, number }.encode(body);
        state.keep(id, number);
        let modified = state.forks()[id].modified();
        derive(state, id, modified, body);
    }
}

/// The forks of a checkpoint.
fn checkpoint(
    state: &StoreState,
    file: FileId,
    number: u64,
) -> Result<impl Iterator<Item = ForkId> + use<'_>, StoreError> {
    let found = state.forks().checkpoint(file, number)?;
    Ok(found.forks().values().copied())
}

/// Makes a fork that derives from a checkpoint fork and takes over its name.
fn derive(state: &mut StoreState, parent: ForkId, modified: i64, body: &mut Vec<u8>) -> ForkId {
    let (id, of) = (state.forks().next_id(), &state.forks()[parent]);
    let (chunk, length, key) = (of.chunk_code(), of.length(), of.key().clone());
    state.derive(id, parent, chunk, &key, length, modified);
    ItemRecord::Derive {
        id,
        parent,
        chunk,
        length,
        modified,
        key,
    }
    .encode(body);
    id
}
