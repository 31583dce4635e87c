//! Files of a tree that one call cannot name: held, call by call, until the last one keeps all of them at one moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedRwLockWriteGuard;
use tokio::time::Instant;
use weft_layout::FileId;
use weft_proto::Failure;
use weft_proto::limits::TREE_NAMES_MAX;

use super::checkpoint::Gates;
use crate::failure;

/// How long they are held after the last call that named more: a service that has died must not stop writers.
const HELD: Duration = Duration::from_secs(5);

/// By the number of the checkpoint.
#[derive(Clone, Default)]
pub(super) struct HeldFiles(Arc<Mutex<HashMap<u64, Held>>>);

/// Files whose gates are closed as long as this lives.
#[derive(Default)]
pub(super) struct Held {
    gates: HashMap<FileId, OwnedRwLockWriteGuard<()>>,
    until: Option<Instant>,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.gates.len()
    }

    /// In the order of their ids.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> {
        let mut files: Vec<_> = self.gates.keys().copied().collect();
        files.sort_unstable();
        files.into_iter()
    }
}

impl HeldFiles {
    fn with<T>(&self, work: impl FnOnce(&mut HashMap<u64, Held>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the writes of files under way; none begins as long as they are held. On an error all of this number are let go.
    pub(super) async fn hold(
        &self,
        gates: &Gates,
        number: u64,
        files: &[FileId],
    ) -> Result<(), Failure> {
        // A call that is repeated names what it has closed itself.
        let mut held = self.take(number);
        let mut new = files.to_vec();
        new.retain(|file| !held.gates.contains_key(file));
        if held.len() + new.len() > TREE_NAMES_MAX {
            return Err(failure::invalid(format!(
                "a tree has at most {TREE_NAMES_MAX} files"
            )));
        }
        let closed = gates.close(&new).await?;
        held.gates.extend(new.into_iter().zip(closed));
        let until = Instant::now() + HELD;
        held.until = Some(until);
        self.with(|all| all.insert(number, held));
        let all = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            all.with(|all| {
                if all
                    .get(&number)
                    .is_some_and(|held| held.until == Some(until))
                {
                    all.remove(&number);
                }
            });
        });
        Ok(())
    }

    /// What is held for a checkpoint; nothing any more here.
    pub(super) fn take(&self, number: u64) -> Held {
        self.with(|all| all.remove(&number)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const FILES: [FileId; 2] = [FileId(1), FileId(2)];

    async fn is_open(gates: &Gates, file: FileId) -> bool {
        timeout(Duration::from_secs(1), gates.enter(file))
            .await
            .is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_let_go_when_nobody_comes_for_it() {
        let (gates, held) = (Gates::default(), HeldFiles::default());
        held.hold(&gates, 7, &FILES[..1]).await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        // Repeated, and more: the time begins anew.
        held.hold(&gates, 7, &FILES).await.unwrap();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(!is_open(&gates, FILES[0]).await && !is_open(&gates, FILES[1]).await);
        tokio::time::sleep(HELD).await;
        assert!(is_open(&gates, FILES[0]).await && is_open(&gates, FILES[1]).await);
        assert_eq!(held.take(7).len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn all_are_let_go_where_one_cannot_be_held() {
        let (gates, held) = (Gates::default(), HeldFiles::default());
        held.hold(&gates, 7, &FILES[..1]).await.unwrap();
        let writing = gates.enter(FILES[1]).await;
        held.hold(&gates, 7, &FILES[1..]).await.unwrap_err();
        assert!(is_open(&gates, FILES[0]).await);
        drop(writing);
        held.hold(&gates, 7, &FILES).await.unwrap();
        let taken = held.take(7);
        assert_eq!(taken.files().collect::<Vec<_>>(), FILES);
        assert!(!is_open(&gates, FILES[0]).await);
        drop(taken);
        assert!(is_open(&gates, FILES[0]).await);
    }
}
