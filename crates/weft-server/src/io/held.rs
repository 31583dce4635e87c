//! Files of a tree that one call cannot name: held, call by call, until the last one keeps all of
//! them at one moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as Turn, OwnedRwLockWriteGuard};
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::limits::TREE_NAMES_MAX;
use weft_proto::{Code, Failure};

use super::checkpoint::{Gates, WAIT};
use crate::failure;

/// How long any is held, counted from the first: neither a service that has died nor a tree of
/// which one file's writes do not end may stop writers for longer.
const HELD: Duration = Duration::from_secs(10);

/// By the number of the checkpoint; of calls about one number one after the other is served.
#[derive(Clone, Default)]
pub(super) struct HeldFiles(Arc<Mutex<HashMap<u64, Arc<Turn<Held>>>>>);

/// Files whose gates are closed as long as this lives; of those that were kept before none is.
#[derive(Default)]
pub(super) struct Held {
    gates: HashMap<FileId, Option<OwnedRwLockWriteGuard<()>>>,
    until: Option<Instant>,
    /// They were let go, or are kept.
    ended: bool,
}

impl Held {
    fn ended() -> Held {
        Held {
            ended: true,
            ..Held::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.gates.len()
    }

    /// In the order of their ids.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        let mut files: Vec<_> = self.gates.keys().copied().collect();
        files.sort_unstable();
        files.into_iter()
    }

    async fn add(
        &mut self,
        gates: &Gates,
        files: &[FileId],
        done: impl Fn(&[FileId]) -> bool,
        until: Instant,
    ) -> Result<(), Failure> {
        let mut new = files.to_vec();
        // A call that is repeated names what it has closed itself.
        new.retain(|file| !self.gates.contains_key(file));
        if self.len() + new.len() > TREE_NAMES_MAX {
            let what = format!("a tree has at most {TREE_NAMES_MAX} files");
            return Err(failure::invalid(what));
        }
        if done(&new) {
            self.gates.extend(new.into_iter().map(|file| (file, None)));
            return Ok(());
        }
        let closed = gates.close(&new, until).await?;
        let closed = closed.into_iter().map(Some);
        self.gates.extend(new.into_iter().zip(closed));
        Ok(())
    }
}

impl HeldFiles {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Arc<Turn<Held>>>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the writes of files under way; none begins as long as they are held. Those that
    /// are `done` are counted only. On an error all of this number are let go.
    pub(super) async fn hold(
        &self,
        gates: &Gates,
        number: u64,
        files: &[FileId],
        done: impl Fn(&[FileId]) -> bool,
    ) -> Result<(), Failure> {
        let turn = self.with(|all| Arc::clone(all.entry(number).or_default()));
        let mut held = turn.lock().await;
        if held.ended {
            let what = format!("checkpoint {number} begins anew");
            return Err(Failure::new(Code::Busy, what));
        }
        let now = Instant::now();
        let until = *held.until.get_or_insert_with(|| {
            tokio::spawn(self.clone().let_go(number, Arc::clone(&turn), now + HELD));
            now + HELD
        });
        let added = held.add(gates, files, done, until.min(now + WAIT)).await;
        if added.is_err() {
            *held = Held::ended();
            self.remove(number, &turn);
        }
        added
    }

    async fn let_go(self, number: u64, turn: Arc<Turn<Held>>, until: Instant) {
        tokio::time::sleep_until(until).await;
        self.remove(number, &turn);
        *turn.lock().await = Held::ended();
    }

    fn remove(&self, number: u64, turn: &Arc<Turn<Held>>) {
        self.with(|all| {
            let same = all.get(&number).is_some_and(|at| Arc::ptr_eq(at, turn));
            if same {
                all.remove(&number);
            }
        });
    }

    /// What is held for a checkpoint; nothing any more here.
    pub(super) async fn take(&self, number: u64) -> Held {
        match self.with(|all| all.remove(&number)) {
            Some(turn) => std::mem::replace(&mut *turn.lock().await, Held::ended()),
            None => Held::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const FILES: [FileId; 2] = [FileId(1), FileId(2)];

    fn new(_: &[FileId]) -> bool {
        false
    }

    async fn is_open(gates: &Gates, file: FileId) -> bool {
        let entered = timeout(Duration::from_millis(100), gates.enter(file));
        entered.await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_let_go_when_nobody_comes_for_it() {
        let (gates, held) = (Gates::default(), HeldFiles::default());
        held.hold(&gates, 7, &FILES[..1], new).await.unwrap();
        tokio::time::sleep(HELD / 2).await;
        // Repeated, and more: no longer than the first.
        held.hold(&gates, 7, &FILES, new).await.unwrap();
        assert!(!is_open(&gates, FILES[0]).await && !is_open(&gates, FILES[1]).await);
        tokio::time::sleep(HELD / 2).await;
        assert!(is_open(&gates, FILES[0]).await && is_open(&gates, FILES[1]).await);
        assert_eq!(held.take(7).await.len(), 0);
        // What was kept before is counted and not closed.
        held.hold(&gates, 8, &FILES, |_| true).await.unwrap();
        assert!(is_open(&gates, FILES[0]).await);
        assert_eq!(held.take(8).await.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn all_are_let_go_where_one_cannot_be_held() {
        let (gates, held) = (Gates::default(), HeldFiles::default());
        held.hold(&gates, 7, &FILES[..1], new).await.unwrap();
        let writing = gates.enter(FILES[1]).await;
        // Two calls of one number: the later one finds that it begins anew.
        let both = tokio::join!(
            held.hold(&gates, 7, &FILES[1..], new),
            held.hold(&gates, 7, &FILES[..1], new)
        );
        assert!(both.0.is_err() && both.1.is_err());
        assert!(is_open(&gates, FILES[0]).await);
        drop(writing);
        held.hold(&gates, 7, &FILES, new).await.unwrap();
        let taken = held.take(7).await;
        assert_eq!(taken.files().collect::<Vec<_>>(), FILES);
        assert!(!is_open(&gates, FILES[0]).await);
        drop(taken);
        assert!(is_open(&gates, FILES[0]).await);
    }
}
