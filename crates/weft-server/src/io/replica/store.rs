//! The store of a server, whose changes go to all replicas first.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::{RwLock, RwLockReadGuard};
use tokio::time::timeout;
use weft_kv::{Incarnation, Position};
use weft_layout::{ChunkCode, FileId};
use weft_proto::meta::ReplicaSet;
use weft_proto::replica::{Change, ClearRanges, FileAction, FileOperation, SetLengths};
use weft_store::{
    DiskWait, ForkKey, NamedChunks, NamedOutcome, PreparedWrite, Scattered, Store, StoreError,
    Timestamp, Write,
};
use weft_sum::Sums;

use super::catch_up::{BackupScrubbed, Compared, compare, scrub_backup};
use super::mend::{Mending, is_damage};
use super::state::{Part, Replicas};
use super::turns::Span;
use super::{inherited, wire};
use crate::limits::REPLICA_WAIT;

/// A store, and the replicas that must have every change that it acknowledges. What only reads, or
/// keeps the store itself in order, is done on the [`Store`].
#[derive(Clone)]
pub(crate) struct ReplicatedStore {
    store: Store,
    membership: Arc<Membership>,
}

/// Whether a store is the only one of its server.
struct Membership {
    replicas: Arc<Replicas>,
    /// Set once the server has replicas; never taken back.
    several: AtomicBool,
    /// Held shared by changes of the only store; exclusively while it becomes one of several.
    alone: RwLock<()>,
}

impl Deref for ReplicatedStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

/// Writes that take effect when they are committed.
pub(in crate::io) struct Prepared {
    batch: PreparedWrite,
    /// For the other replicas; `None`: there were none when it was prepared.
    writes: Option<Vec<Scattered>>,
}

impl Prepared {
    /// As [`PreparedWrite::disk`].
    pub(in crate::io) fn disk(&self) -> Option<DiskWait> {
        self.batch.disk()
    }
}

/// Goes on if the caller is dropped, or does not wait any longer.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match timeout(REPLICA_WAIT, tokio::spawn(work)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Ok(Err(_)) => Err(StoreError::Closed),
        Err(_) => Err(StoreError::Unacknowledged {
            seconds: REPLICA_WAIT.as_secs(),
        }),
    }
}

impl ReplicatedStore {
    /// A store that is its server's only one until [`ReplicatedStore::join_others`].
    pub(crate) fn new(store: Store, replicas: Replicas) -> ReplicatedStore {
        ReplicatedStore {
            store,
            membership: Arc::new(Membership {
                replicas: Arc::new(replicas),
                several: AtomicBool::new(false),
                alone: RwLock::new(()),
            }),
        }
    }

    #[cfg(test)]
    pub(in crate::io) fn alone(store: Store) -> ReplicatedStore {
        use weft_net::{BufferPool, Counters, Env, Identity, Link, VolumeKey, Wire};
        let env = Env::system();
        let counters = Arc::new(Counters::default());
        let identity = Identity {
            key: VolumeKey([0; 32]),
            volume: [0; 16],
            role: weft_proto::session::Role::IoServer,
            client: 1,
            wire: Wire::Mac,
        };
        let pool = BufferPool::default();
        let nowhere = "127.0.0.1:1".to_owned();
        let meta = Link::new(
            env.clone(),
            identity.clone(),
            nowhere,
            None,
            pool,
            counters.clone(),
        );
        let peers = crate::io::Peers::new(
            env.clone(),
            identity.clone(),
            meta.clone(),
            counters.clone(),
        );
        let me = super::ReplicaIdentity {
            server: 0,
            number: 0,
            meta,
            env,
            identity,
            counters,
        };
        ReplicatedStore::new(
            store,
            Replicas::new(me, 0, crate::io::Rows::new(Arc::new(peers))),
        )
    }

    /// The replicas; `None`: the server has one store, as far as this process knows.
    pub(crate) fn replicas(&self) -> Option<&Arc<Replicas>> {
        let several = self.membership.several.load(Ordering::Acquire);
        several.then_some(&self.membership.replicas)
    }

    /// Makes the store one of several; false if it was before. On return, changes that began while
    /// it was the only one have ended, and every later one goes to all replicas.
    pub(super) async fn join_others(
        &self,
        set: &ReplicaSet,
        begin: impl FnOnce(&Replicas),
    ) -> bool {
        if let Some(replicas) = self.replicas() {
            replicas.learn(set);
            return false;
        }
        let _alone = self.membership.alone.write().await;
        // Also those whose caller has not waited for them: their frames come before this one's.
        if let Err(error) = self.store.sync().await {
            tracing::error!(%error, "this store cannot have replicas");
            return false;
        }
        let replicas = &self.membership.replicas;
        replicas.learn(set);
        begin(replicas);
        self.membership.several.store(true, Ordering::Release);
        true
    }

    /// The replicas, also while this store is the only one.
    pub(super) fn all_replicas(&self) -> &Arc<Replicas> {
        &self.membership.replicas
    }

    /// Held during a change of a store that is the only one; `None`: it is one of several.
    async fn hold_alone(&self) -> Option<RwLockReadGuard<'_, ()>> {
        if self.membership.several.load(Ordering::Acquire) {
            return None;
        }
        let guard = self.membership.alone.read().await;
        (!self.membership.several.load(Ordering::Acquire)).then_some(guard)
    }

    /// Makes a change on all replicas, this one last.
    async fn change<T, F>(
        &self,
        spans: Vec<Span>,
        change: impl FnOnce() -> Change,
        time: Timestamp,
        own: impl FnOnce(Store) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let store = self.store.clone();
        if let Some(_alone) = self.hold_alone().await {
            return own(store).await;
        }
        let replicas = self.membership.replicas.clone();
        let change = change();
        detached(async move {
            let _turn = replicas.begin_change(spans).await;
            let sent = replicas.send(change, Vec::new(), time, false).await?;
            let done = own(store).await;
            sent.settle(&replicas, done).await
        })
        .await
    }

    /// As [`Store::write`].
    pub(in crate::io) async fn write(
        &self,
        writes: Vec<Write>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(_alone) = self.hold_alone().await {
            return self.store.write(writes, modified).await;
        }
        let writes = writes.into_iter().map(Scattered::from).collect();
        self.write_of(writes, None, modified).await
    }

    /// As [`Store::write_summed`].
    pub(in crate::io) async fn write_summed(
        &self,
        writes: Vec<Scattered>,
        sums: impl Into<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(_alone) = self.hold_alone().await {
            return self.store.write_summed(writes, sums, modified).await;
        }
        self.write_of(writes, Some(sums.into()), modified).await
    }

    async fn write_of(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.restore_around(&writes).await?;
        match self
            .write_once(writes.clone(), sums.clone(), modified)
            .await
        {
            // Old bytes around the new ones cannot be read here.
            Err(error) if is_damage(&error) && self.mends_around(Some(&writes)).await => {
                self.write_once(writes, sums, modified).await
            }
            done => done,
        }
    }

    /// Mends the bytes that writes touch, from other replicas if there are any.
    async fn mends_around(&self, writes: Option<&[Scattered]>) -> bool {
        for span in Span::of_writes(writes.unwrap_or_default()) {
            if let Span::Bytes(key, range) = span
                && !self.mend(&key, range, Mending::Unreadable).await
            {
                return false;
            }
        }
        writes.is_some()
    }

    async fn write_once(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let store = self.store.clone();
        let replicas = self.membership.replicas.clone();
        detached(async move {
            let _turn = replicas.begin_change(Span::of_writes(&writes)).await;
            let (pieces, payload) = wire::write_pieces(&writes);
            // What cannot be written here is not sent.
            let prepared = match sums {
                Some(sums) => store.prepare(writes, sums, modified).await?,
                None => store.prepare_unsummed(writes, modified).await?,
            };
            let sent = replicas
                .send(Change::Write(pieces), payload, modified, true)
                .await?;
            let done = store
                .commit_prepared(vec![prepared], Vec::new(), modified)
                .await;
            sent.settle(&replicas, done).await
        })
        .await
    }

    /// As [`Store::prepare`].
    pub(in crate::io) async fn prepare(
        &self,
        writes: Vec<Scattered>,
        sums: impl Into<Sums>,
        now: Timestamp,
    ) -> Result<Prepared, StoreError> {
        self.restore_around(&writes).await?;
        let kept = self.replicas().map(|_| writes.clone());
        let sums = sums.into();
        let batch = match self.store.prepare(writes, sums.clone(), now).await {
            Err(error) if is_damage(&error) && self.mends_around(kept.as_deref()).await => {
                let again = kept.clone().unwrap_or_default();
                self.store.prepare(again, sums, now).await?
            }
            done => done?,
        };
        Ok(Prepared {
            batch,
            writes: kept,
        })
    }

    /// As [`Store::commit_prepared`].
    pub(in crate::io) async fn commit_prepared(
        &self,
        batches: Vec<Prepared>,
        then: Vec<Write>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let store = self.store.clone();
        let (prepared, kept): (Vec<_>, Vec<_>) =
            batches.into_iter().map(|b| (b.batch, b.writes)).unzip();
        if let Some(_alone) = self.hold_alone().await {
            return store.commit_prepared(prepared, then, modified).await;
        }
        let replicas = self.membership.replicas.clone();
        if kept.iter().any(Option::is_none) {
            // Prepared before there were others, who cannot get it; they are made equal afterwards.
            let this = self.clone();
            return detached(async move {
                this.changed_alone().await?;
                let done = store.commit_prepared(prepared, then, modified).await;
                this.changed_alone().await?;
                done
            })
            .await;
        }
        detached(async move {
            let mut writes: Vec<Scattered> = kept.into_iter().flatten().flatten().collect();
            writes.extend(then.iter().cloned().map(Scattered::from));
            let _turn = replicas.begin_change(Span::of_writes(&writes)).await;
            let (pieces, payload) = wire::write_pieces(&writes);
            drop(writes);
            let sent = replicas
                .send(Change::Write(pieces), payload, modified, true)
                .await?;
            let done = store.commit_prepared(prepared, then, modified).await;
            sent.settle(&replicas, done).await
        })
        .await
    }

    /// As [`Store::clear`].
    pub(in crate::io) async fn clear(
        &self,
        ranges: &[(ForkKey, Range<u64>)],
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if let Some(_alone) = self.hold_alone().await {
            return self.store.clear(ranges, modified).await;
        }
        let ranges = ranges.to_vec();
        self.restore_edges(ranges.clone()).await?;
        let spans = ranges
            .iter()
            .map(|(key, range)| Span::Bytes(key.clone(), range.clone()));
        let message = ranges.iter().map(|(key, range)| wire::range(key, range));
        let message = ClearRanges {
            ranges: message.collect(),
        };
        let spans = spans.collect();
        let own = async move |store: Store| store.clear(&ranges, modified).await;
        self.change(spans, || Change::Clear(message), modified, own)
            .await
    }

    /// As [`Store::truncate`].
    pub(in crate::io) async fn truncate(
        &self,
        file: FileId,
        lengths: Vec<(ForkKey, u64)>,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let message = || {
            let lengths = lengths.iter().map(|(key, to)| wire::length(key, *to, 0));
            Change::SetLengths(SetLengths {
                file: file.0,
                lengths: lengths.collect(),
                op,
            })
        };
        let ends = lengths
            .iter()
            .map(|(key, length)| (key.clone(), *length..*length));
        self.restore_edges(ends.collect()).await?;
        let again = lengths.clone();
        let own = async move |store: Store| store.truncate(file, again, op, modified).await;
        self.change(vec![Span::File(file)], message, modified, own)
            .await
    }

    /// As [`Store::extend`].
    pub(in crate::io) async fn extend(
        &self,
        key: &ForkKey,
        chunk: ChunkCode,
        length: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let own_key = key.clone();
        let own = async move |store: Store| store.extend(&own_key, chunk, length, modified).await;
        let message = || Change::Extend(wire::length(key, length, chunk));
        self.change(vec![Span::fork(key)], message, modified, own)
            .await
    }

    /// As [`Store::create_fork`].
    pub(in crate::io) async fn create_fork(
        &self,
        key: &ForkKey,
        chunk: ChunkCode,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let own_key = key.clone();
        let own = async move |store: Store| store.create_fork(&own_key, chunk, now).await;
        let message = || Change::CreateFork(wire::length(key, 0, chunk));
        self.change(vec![Span::fork(key)], message, now, own).await
    }

    /// As [`Store::remove_fork`].
    pub(in crate::io) async fn remove_fork(&self, key: &ForkKey) -> Result<(), StoreError> {
        let own_key = key.clone();
        let own = async move |store: Store| store.remove_fork(&own_key).await;
        let message = || Change::RemoveFork(wire::fork_id(key));
        self.change(vec![Span::fork(key)], message, Timestamp(0), own)
            .await
    }

    /// As [`Store::remove_unchanged_fork`].
    pub(in crate::io) async fn remove_unchanged_fork(
        &self,
        key: &ForkKey,
        length: u64,
        modified: Timestamp,
    ) -> Result<bool, StoreError> {
        let store = self.store.clone();
        if let Some(_alone) = self.hold_alone().await {
            return store.remove_unchanged_fork(key, length, modified).await;
        }
        let replicas = self.membership.replicas.clone();
        let key = key.clone();
        detached(async move {
            let _turn = replicas.begin_change(vec![Span::fork(&key)]).await;
            match store.status(&key).await? {
                Some(found) if (found.length, found.modified) != (length, modified) => Ok(false),
                _ => {
                    let change = Change::RemoveFork(wire::fork_id(&key));
                    let sent = replicas
                        .send(change, Vec::new(), Timestamp(0), false)
                        .await?;
                    let done = store.remove_fork(&key).await;
                    sent.settle(&replicas, done.map(|()| true)).await
                }
            }
        })
        .await
    }

    async fn operate<F>(
        &self,
        files: &[FileId],
        action: FileAction,
        (op, checkpoint): (u64, u64),
        time: Timestamp,
        own: impl FnOnce(Store, Vec<FileId>) -> F + Send + 'static,
    ) -> Result<(), StoreError>
    where
        F: Future<Output = Result<(), StoreError>> + Send,
    {
        let spans = files.iter().map(|file| Span::File(*file)).collect();
        let message = || {
            Change::Files(FileOperation {
                files: files.iter().map(|file| file.0).collect(),
                action: action.into(),
                op,
                checkpoint,
            })
        };
        let files = files.to_vec();
        let own = async move |store: Store| own(store, files).await;
        self.change(spans, message, time, own).await
    }

    /// As [`Store::delete_file`].
    pub(in crate::io) async fn delete_file(&self, file: FileId) -> Result<(), StoreError> {
        let own = async move |store: Store, _| store.delete_file(file).await;
        self.operate(&[file], FileAction::Delete, (0, 0), Timestamp(0), own)
            .await
    }

    /// As [`Store::checkpoint_files`].
    pub(in crate::io) async fn checkpoint_files(
        &self,
        files: &[FileId],
        op: u64,
        made: Timestamp,
    ) -> Result<(), StoreError> {
        let own = async move |store: Store, files: Vec<FileId>| {
            store.checkpoint_files(&files, op, made).await
        };
        self.operate(files, FileAction::Checkpoint, (op, op), made, own)
            .await
    }

    /// As [`Store::roll_back_files`].
    pub(in crate::io) async fn roll_back_files(
        &self,
        files: &[FileId],
        number: u64,
        op: u64,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let own = async move |store: Store, files: Vec<FileId>| {
            store.roll_back_files(&files, number, op, modified).await
        };
        self.operate(files, FileAction::RollBack, (op, number), modified, own)
            .await
    }

    /// As [`Store::drop_checkpoint`].
    pub(in crate::io) async fn drop_checkpoint(
        &self,
        file: FileId,
        number: u64,
        op: u64,
    ) -> Result<(), StoreError> {
        let own = async move |store: Store, _| store.drop_checkpoint(file, number, op).await;
        let action = FileAction::DropCheckpoint;
        self.operate(&[file], action, (op, number), Timestamp(0), own)
            .await
    }

    /// As [`Store::accept_checkpoint`].
    pub(in crate::io) async fn accept_checkpoint(
        &self,
        file: FileId,
        number: u64,
        made: Timestamp,
    ) -> Result<(), StoreError> {
        let own = async move |store: Store, _| store.accept_checkpoint(file, number, made);
        let action = FileAction::AcceptCheckpoint;
        self.operate(&[file], action, (0, number), made, own).await
    }

    /// As [`Store::name_chunks`]. With other replicas, which may lack the chunks, all bytes must be
    /// sent.
    pub(in crate::io) async fn name_chunks(
        &self,
        named: NamedChunks,
        modified: Timestamp,
    ) -> Result<NamedOutcome, StoreError> {
        match self.hold_alone().await {
            Some(_alone) => self.store.name_chunks(named, modified).await,
            None => Ok(NamedOutcome::Lacking((0..named.names.len()).collect())),
        }
    }

    /// Makes everything acknowledged so far survive power loss, on all replicas in sync.
    pub(in crate::io) async fn sync(&self) -> Result<(), StoreError> {
        let store = self.store.clone();
        let Some(replicas) = self.replicas().cloned() else {
            return store.sync().await;
        };
        detached(async move {
            let sync = Change::Sync(true);
            let others = replicas.send(sync, Vec::<Bytes>::new(), Timestamp(0), true);
            let (sent, own) = tokio::join!(others, store.sync());
            sent?;
            own
        })
        .await
    }

    /// This store has changed by itself: the other replicas are made equal to it again.
    ///
    /// # Errors
    /// [`StoreError::NotPrimary`]; [`StoreError::Unacknowledged`].
    pub(in crate::io) async fn changed_alone(&self) -> Result<(), StoreError> {
        let Some(replicas) = self.replicas().cloned() else {
            return Ok(());
        };
        detached(async move {
            for (number, ..) in replicas.peers() {
                replicas
                    .suspect_content(number, "what was lost on the primary was accepted as it is");
            }
            for (number, ..) in replicas.peers() {
                replicas.gone(number).await?;
            }
            Ok(())
        })
        .await
    }

    /// The backups that are in sync, if this replica is the primary.
    pub(in crate::io) fn backups(&self) -> Vec<u32> {
        let Some(replicas) = self.replicas().filter(|r| r.targets().is_ok()) else {
            return Vec::new();
        };
        let peers = replicas.peers().into_iter();
        let in_sync = peers.filter(|(.., part)| *part == Part::InSync);
        in_sync.map(|(number, ..)| number).collect()
    }

    /// Compares files behind `after` with those of a backup in sync, about so many bytes, and sends
    /// what differs.
    pub(in crate::io) async fn compare(
        &self,
        backup: u32,
        after: FileId,
        bytes: u64,
    ) -> Result<Compared, String> {
        match self.replicas() {
            Some(replicas) => compare(&self.store, replicas, backup, after, bytes).await,
            None => Err("the server has one store".into()),
        }
    }

    /// Has a backup in sync verify chunks from its disks, and sends what is damaged there.
    pub(in crate::io) async fn scrub_backup(
        &self,
        backup: u32,
        from: Option<Bytes>,
        bytes: u64,
    ) -> Result<BackupScrubbed, String> {
        match self.replicas() {
            Some(replicas) => scrub_backup(&self.store, replicas, backup, from, bytes).await,
            None => Err("the server has one store".into()),
        }
    }

    /// As [`Store::still_has`]; also for positions of primaries whose place this replica has taken.
    pub(in crate::io) fn still_has(&self, at: Position) -> Result<(), Incarnation> {
        let own = self.store.still_has(at);
        match (&own, self.replicas()) {
            (Err(_), Some(_)) if inherited::has(&self.store, at.incarnation) => Ok(()),
            _ => own,
        }
    }
}
