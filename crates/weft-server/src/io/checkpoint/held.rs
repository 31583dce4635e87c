//! Trees with more files than one call can name: the files are held, call by call, until the last
//! call makes the checkpoint of all of them at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, OwnedRwLockWriteGuard};
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::limits::TREE_NAMES_MAX;
use weft_proto::{Code, Failure};

use super::gates::WriteGates;
use crate::failure;
use crate::limits::{CHECKPOINT_WRITERS_TIMEOUT, HELD_FILES_TIMEOUT};

/// The held trees by checkpoint number; calls about one number are served one at a time.
#[derive(Clone, Default)]
pub(in crate::io) struct FrozenFiles(Arc<Mutex<HashMap<u64, Arc<AsyncMutex<FrozenTree>>>>>);

/// Files whose gates are closed as long as this lives. `None`: a file whose checkpoint is made.
#[derive(Default)]
pub(in crate::io) struct FrozenTree {
    gates: HashMap<FileId, Option<OwnedRwLockWriteGuard<()>>>,
    deadline: Option<Instant>,
    /// The files were released, or their checkpoint is made.
    ended: bool,
}

impl FrozenTree {
    fn ended() -> FrozenTree {
        FrozenTree {
            ended: true,
            ..FrozenTree::default()
        }
    }

    pub(in crate::io) fn len(&self) -> usize {
        self.gates.len()
    }

    /// The files, in the order of their ids.
    pub(in crate::io) fn files(&self) -> impl Iterator<Item = FileId> {
        let mut files: Vec<_> = self.gates.keys().copied().collect();
        files.sort_unstable();
        files.into_iter()
    }

    /// Those of these files that are not held.
    pub(in crate::io) fn without(&self, files: &[FileId]) -> Vec<FileId> {
        let open = files.iter().filter(|file| !self.gates.contains_key(file));
        open.copied().collect()
    }

    async fn add(
        &mut self,
        gates: &WriteGates,
        files: &[FileId],
        done: impl Fn(&[FileId]) -> bool,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut new = files.to_vec();
        // A repeated call names files that it has closed itself.
        new.retain(|file| !self.gates.contains_key(file));
        if self.len() + new.len() > TREE_NAMES_MAX {
            let what = format!("a tree has at most {TREE_NAMES_MAX} files");
            return Err(failure::invalid(what));
        }
        if done(&new) {
            self.gates.extend(new.into_iter().map(|file| (file, None)));
            return Ok(());
        }
        let closed = gates.close(&new, deadline).await?;
        let closed = closed.into_iter().map(Some);
        self.gates.extend(new.into_iter().zip(closed));
        Ok(())
    }
}

impl FrozenFiles {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Arc<AsyncMutex<FrozenTree>>>) -> T) -> T {
        work(&mut self.0.lock())
    }

    /// Waits for the writes of `files` in flight; none begins as long as they are held. Files that
    /// are `done` are only counted. An error releases all files of this number.
    pub(in crate::io) async fn hold(
        &self,
        gates: &WriteGates,
        number: u64,
        files: &[FileId],
        done: impl Fn(&[FileId]) -> bool,
    ) -> Result<(), Failure> {
        let tree = self.with(|all| Arc::clone(all.entry(number).or_default()));
        let mut held = tree.lock().await;
        if held.ended {
            let what = format!(
                "the files held for checkpoint {number} were released meanwhile; try again"
            );
            return Err(Failure::new(Code::Busy, what));
        }
        let now = Instant::now();
        let deadline = *held.deadline.get_or_insert_with(|| {
            tokio::spawn(self.clone().release_at(
                number,
                Arc::clone(&tree),
                now + HELD_FILES_TIMEOUT,
            ));
            now + HELD_FILES_TIMEOUT
        });
        let added = held
            .add(
                gates,
                files,
                done,
                deadline.min(now + CHECKPOINT_WRITERS_TIMEOUT),
            )
            .await;
        if added.is_err() {
            *held = FrozenTree::ended();
            self.remove(number, &tree);
        }
        added
    }

    async fn release_at(self, number: u64, tree: Arc<AsyncMutex<FrozenTree>>, deadline: Instant) {
        tokio::time::sleep_until(deadline).await;
        self.remove(number, &tree);
        *tree.lock().await = FrozenTree::ended();
    }

    fn remove(&self, number: u64, tree: &Arc<AsyncMutex<FrozenTree>>) {
        self.with(|all| {
            let same = all.get(&number).is_some_and(|at| Arc::ptr_eq(at, tree));
            if same {
                all.remove(&number);
            }
        });
    }

    /// Takes the files that are held for a checkpoint.
    pub(in crate::io) async fn take(&self, number: u64) -> FrozenTree {
        match self.with(|all| all.remove(&number)) {
            Some(tree) => std::mem::replace(&mut *tree.lock().await, FrozenTree::ended()),
            None => FrozenTree::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const FILES: [FileId; 2] = [FileId(1), FileId(2)];

    fn not_done(_: &[FileId]) -> bool {
        false
    }

    async fn is_open(gates: &WriteGates, file: FileId) -> bool {
        let entered = timeout(Duration::from_millis(100), gates.enter(file));
        entered.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn held_files_are_released_after_the_timeout() {
        let (gates, held) = (WriteGates::default(), FrozenFiles::default());
        held.hold(&gates, 7, &FILES[..1], not_done).await.unwrap();
        tokio::time::sleep(HELD_FILES_TIMEOUT / 2).await;
        // A repeated call with more files does not extend the timeout.
        held.hold(&gates, 7, &FILES, not_done).await.unwrap();
        assert!(!is_open(&gates, FILES[0]).await && !is_open(&gates, FILES[1]).await);
        tokio::time::sleep(HELD_FILES_TIMEOUT / 2).await;
        assert!(is_open(&gates, FILES[0]).await && is_open(&gates, FILES[1]).await);
        assert_eq!(held.take(7).await.len(), 0);
        // Files whose checkpoint is made are counted, not closed.
        held.hold(&gates, 8, &FILES, |_| true).await.unwrap();
        assert!(is_open(&gates, FILES[0]).await);
        assert_eq!(held.take(8).await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn all_files_are_released_when_one_cannot_be_held() {
        let (gates, held) = (WriteGates::default(), FrozenFiles::default());
        held.hold(&gates, 7, &FILES[..1], not_done).await.unwrap();
        let writing = gates.enter(FILES[1]).await;
        // Two calls of one number: the later one finds the files released.
        let both = tokio::join!(
            held.hold(&gates, 7, &FILES[1..], not_done),
            held.hold(&gates, 7, &FILES[..1], not_done)
        );
        assert!(both.0.is_err() && both.1.is_err());
        assert!(is_open(&gates, FILES[0]).await);
        drop(writing);
        held.hold(&gates, 7, &FILES, not_done).await.unwrap();
        let taken = held.take(7).await;
        assert_eq!(taken.files().collect::<Vec<_>>(), FILES);
        assert!(!is_open(&gates, FILES[0]).await);
        drop(taken);
        assert!(is_open(&gates, FILES[0]).await);
    }
}
