//! Writes and reads.

use bytes::Bytes;
use weft_layout::CellOffset;
use weft_sum::Sums;

use crate::addressed::{PreparedWrite, ReadPlace, any_addressed};
use crate::engine::{Store, detached};
use crate::error::StoreError;
use crate::io::{PlainRead, READ_ATTEMPTS, ReadSlice};
use crate::key::{ADDRESSED, ForkKey, Scattered, Timestamp, Write};

impl Store {
    /// Writes a batch of pieces, in order; makes forks that do not exist.
    ///
    /// # Durability
    /// On `Ok` it survives kill −9; [`Store::sync`] makes it survive power loss. A crash keeps or
    /// loses a batch as a whole if its small pieces have less than 16 MiB; for addressed forks, if
    /// it touches less than 524,288 chunks.
    /// # Errors
    /// [`StoreError::Stale`], [`StoreError::ChunkMismatch`], [`StoreError::NoSpace`],
    /// [`StoreError::PastLimit`] and [`StoreError::BadChunkSize`] leave everything as it was.
    pub async fn write(&self, writes: Vec<Write>, modified: Timestamp) -> Result<(), StoreError> {
        let writes = writes.into_iter().map(Scattered::from).collect();
        self.write_scattered(writes, modified).await
    }

    /// As [`Store::write`], with many pieces in each write.
    ///
    /// Cost: a few nanoseconds for each piece of a run, the rest for each block that they touch. In
    /// addressed forks, a chunk that is touched is hashed and, if the store does not have it,
    /// stored; one that is touched in part is read before.
    pub async fn write_scattered(
        &self,
        writes: Vec<Scattered>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_of(writes, None, modified).await
    }

    /// As [`Store::write_scattered`], of one buffer that holds the data of all writes and of which
    /// the sender computed these sums. Blocks with a known sum that stay in the memory where they
    /// were received are not summed again.
    ///
    /// # Errors
    /// [`StoreError::Memory`] if the stored bytes do not have these sums.
    pub async fn write_summed(
        &self,
        writes: Vec<Scattered>,
        sums: impl Into<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_of(writes, Some(sums.into()), modified).await
    }

    async fn write_of(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        let store = self.clone();
        if any_addressed(&writes) {
            return detached(async move { store.write_addressed(writes, sums, modified).await })
                .await;
        }
        if !self.holds(ADDRESSED) {
            return self.write_plain(writes, sums, modified).await;
        }
        let (passes, again) = (self.0.chunk_holds().passes(), writes.clone());
        match self.write_plain(writes, sums.clone(), modified).await {
            Err(StoreError::NoSpace { .. }) => {}
            done => return done,
        }
        detached(async move {
            store.clean_if_it_pays(passes).await;
            store.write_plain(again, sums, modified).await
        })
        .await
    }

    /// Prepares a batch: its large pieces go to the disk, and nobody sees any of it until
    /// [`Store::commit_prepared`]. Dropped, it leaves nothing behind, or chunks for the cleaner.
    /// Sums as for [`Store::write_summed`].
    ///
    /// It is returned when its bytes are checked and have their blocks. The disk may still be
    /// writing them: the commit waits for that, and fails if the disk does.
    ///
    /// Cost: its bytes stay in memory.
    /// # Durability
    /// None: it ends with the process.
    /// # Errors
    /// Those of [`Store::write`].
    pub async fn prepare(
        &self,
        writes: Vec<Scattered>,
        sums: impl Into<Sums>,
        now: Timestamp,
    ) -> Result<PreparedWrite, StoreError> {
        self.prepare_of(writes, Some(sums.into()), now).await
    }

    /// As [`Store::prepare`], of bytes whose sums are not known.
    pub async fn prepare_unsummed(
        &self,
        writes: Vec<Scattered>,
        now: Timestamp,
    ) -> Result<PreparedWrite, StoreError> {
        self.prepare_of(writes, None, now).await
    }

    async fn prepare_of(
        &self,
        writes: Vec<Scattered>,
        sums: Option<Sums>,
        now: Timestamp,
    ) -> Result<PreparedWrite, StoreError> {
        if any_addressed(&writes) {
            let store = self.clone();
            return detached(async move { store.prepare_addressed(writes, sums, now).await }).await;
        }
        if !self.holds(ADDRESSED) {
            let plain = self.prepare_plain(writes, sums).await?;
            return Ok(PreparedWrite::plain(plain, self));
        }
        let (passes, again) = (self.0.chunk_holds().passes(), writes.clone());
        let plain = match self.prepare_plain(writes, sums.clone()).await {
            Err(StoreError::NoSpace { .. }) => {
                let store = self.clone();
                detached(async move {
                    store.clean_if_it_pays(passes).await;
                    store.prepare_plain(again, sums).await
                })
                .await?
            }
            plain => plain?,
        };
        Ok(PreparedWrite::plain(plain, self))
    }

    /// Lets prepared batches, and then some small writes to plain forks, take effect at one moment.
    ///
    /// # Durability
    /// As for [`Store::write`]: a crash keeps or loses all of them together if their small pieces
    /// have less than 16 MiB.
    /// # Errors
    /// Those of [`Store::write`]; none of the batches has taken effect then.
    pub async fn commit_prepared(
        &self,
        batches: Vec<PreparedWrite>,
        then: Vec<Write>,
        modified: Timestamp,
    ) -> Result<(), StoreError> {
        if batches.iter().all(PreparedWrite::is_plain) {
            let mut plain = Vec::with_capacity(batches.len());
            for batch in batches {
                plain.extend(batch.written().await?.0);
            }
            return self.commit_plain(plain, then, &[], modified).await;
        }
        let store = self.clone();
        detached(async move { store.commit_addressed(batches, then, modified).await }).await
    }

    /// The bytes of a fork from `offset` on: at most `length`, fewer where the fork ends, none
    /// beyond its end or where there is no such fork. Holes read as zeros.
    ///
    /// Cost: no copy; the caller shares the memory of cached blocks and holds it until the slices
    /// are dropped. The caller bounds `length`; 4 MiB is usual.
    pub async fn read(
        &self,
        key: &ForkKey,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Bytes>, StoreError> {
        self.read_of(key, None, offset, length).await
    }

    /// As [`Store::read`], of a checkpoint.
    pub async fn read_checkpoint(
        &self,
        key: &ForkKey,
        number: u64,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Bytes>, StoreError> {
        self.read_of(key, Some(number), offset, length).await
    }

    async fn read_of(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<Bytes>, StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let slices = self.read_slices(key, checkpoint, offset, length).await?;
            if self.verify(&slices, attempts >= READ_ATTEMPTS)? {
                return Ok(slices.iter().map(|slice| slice.bytes().clone()).collect());
            }
        }
    }

    /// As [`Store::read`], of a live fork or one of a checkpoint. The caller uses the bytes and
    /// then calls [`Store::verify`]: only then is it known that the cache's memory still held what
    /// was stored.
    pub async fn read_slices(
        &self,
        key: &ForkKey,
        checkpoint: Option<u64>,
        offset: CellOffset,
        length: u64,
    ) -> Result<Vec<ReadSlice>, StoreError> {
        match self.read_plain(key, checkpoint, offset, length).await? {
            PlainRead::NoFork => Ok(Vec::new()),
            PlainRead::Bytes(slices) => Ok(slices),
            PlainRead::Addressed { chunk, end } => {
                let place = ReadPlace {
                    key,
                    checkpoint,
                    chunk,
                    range: offset.0..offset.0.saturating_add(length).min(end),
                };
                Box::pin(self.read_addressed(&place)).await
            }
        }
    }
}
