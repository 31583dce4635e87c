//! An open file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;
use weft_client::{Attributes, Closed, File};
use weft_layout::{OFFSET_MAX, ViewOffset};

use super::ends::Asking;
use super::flush::shown;
use super::rope::Rope;
use super::state::{Home, State};
use super::{DataCache, DataError, Moment};

/// What all opens of a file share.
pub(super) struct FileData {
    pub(super) id: u64,
    pub(super) cache: Arc<DataCache>,
    pub(super) state: Mutex<State>,
    /// Something landed, or may take off again.
    pub(super) landed: Notify,
    /// Truncates and the like go one after another.
    turn: Semaphore,
    /// Syncs of the cells, too: who comes during one must not take for survived what that one still
    /// asks for.
    syncs: tokio::sync::Mutex<()>,
}

impl FileData {
    pub(super) fn new(cache: Arc<DataCache>, file: &File) -> FileData {
        FileData {
            id: file.id(),
            state: Mutex::new(State::new(file, !cache.config.write_behind)),
            cache,
            landed: Notify::new(),
            turn: Semaphore::new(1),
            syncs: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn invalidate(&self) {
        let mut state = self.state.lock();
        state.drop_ahead(&(0..u64::MAX));
        state.ends.known = None;
        // Questions under way were asked before.
        state.ends.answered = state.ends.asked + 1;
        if matches!(state.home, Home::Cells) {
            state.ends.end = state.extents.end();
        } else {
            state.doubted = self.cache.tick();
        }
    }

    /// Changes that need the file at rest go one after another.
    pub(super) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.turn.acquire().await.ok()
    }

    /// Sets the size by a call that is made while the file is at rest: one of the attachment `own`,
    /// or of somebody else.
    async fn truncate<E>(
        self: &Arc<Self>,
        own: Option<&File>,
        size: u64,
        cut: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        let _turn = self.turn().await;
        let _hold = Hold::new(self);
        self.wait_until(|state| state.flights == 0).await;
        let done = cut.await;
        let mut state = self.state.lock();
        let state = &mut *state;
        state.ends.generation += 1;
        state.drop_ahead(&(0..u64::MAX));
        if done.is_err() {
            state.ends.known = None;
            state.doubted = self.cache.tick();
            return done;
        }
        let before = state.extents.charge();
        state.extents.truncate(size);
        self.cache.dirty.change(before, state.extents.charge());
        state.changed = self.cache.tick();
        state.ends.end = size;
        state.ends.grown = state.ends.grown.min(size);
        // Else an open would report at its close that it has written further.
        for wrote in state.opens.values_mut().filter_map(|o| o.wrote.as_mut()) {
            wrote.0 = wrote.0.min(size);
        }
        state.ends.known = Some(Instant::now());
        match (&state.home, own) {
            (Home::Inline(content), Some(own)) => {
                state.home = match own.inline_data() {
                    Some(_) => {
                        let mut content = Vec::from(content.clone());
                        content.resize(size as usize, 0);
                        Home::Inline(content.into())
                    }
                    None => Home::Cells,
                };
            }
            // It may have moved to the cells.
            (Home::Inline(_), None) => state.doubted = self.cache.tick(),
            _ => {}
        }
        Ok(())
    }
}

impl Drop for FileData {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        self.cache.dirty.change(state.extents.charge(), 0);
        let changed = state.written != 0 || state.changed != Moment::default();
        self.cache.forget(self.id, changed);
    }
}

/// Keeps a file's batches from taking off.
pub(super) struct Hold<'a>(&'a Arc<FileData>);

impl<'a> Hold<'a> {
    pub(super) fn new(data: &'a Arc<FileData>) -> Hold<'a> {
        data.state.lock().held = true;
        Hold(data)
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.state.lock().held = false;
        self.0.start();
        self.0.landed.notify_waiters();
    }
}

/// While it lives, what takes off survives power loss when it lands; not where a sync of everything
/// follows anyway.
#[must_use = "dropped, it has no effect"]
pub struct Syncing<'a>(&'a FileData, bool);

impl<'a> Syncing<'a> {
    fn begin(data: &'a FileData) -> Syncing<'a> {
        let mut state = data.state.lock();
        let all = state.unsynced || state.flights > 0 || !matches!(state.home, Home::Cells);
        if !all {
            state.syncing += 1;
        }
        Syncing(data, !all)
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.state.lock().syncing -= 1;
        }
    }
}

/// A sync that has not succeeded: dropped, it is owed.
struct Owed<'a>(&'a FileData);

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unsynced = true;
    }
}

/// One open file description. Dropping it without [`OpenData::close`] closes it in the background.
pub struct OpenData {
    data: Arc<FileData>,
    file: File,
    open: u64,
    closed: AtomicBool,
}

impl OpenData {
    /// `asked`: when the file was about to be attached, where others of this mount may have changed
    /// it since.
    pub(super) fn new(data: Arc<FileData>, file: File, asked: Option<Moment>) -> OpenData {
        let read_ahead = if data.cache.config.write_behind {
            data.cache.config.read_ahead
        } else {
            0
        };
        let open = {
            let mut state = data.state.lock();
            let asked = asked.unwrap_or_else(|| data.cache.now());
            state.learn_home(asked, file.inline_data());
            state.add_open(read_ahead as u64)
        };
        OpenData {
            data,
            file,
            open,
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn data(&self) -> &Arc<FileData> {
        &self.data
    }

    /// The open's number among those of the file.
    pub(super) fn number(&self) -> u64 {
        self.open
    }

    /// The attached file below.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads `length` bytes from `offset` on; fewer only at the file's end.
    ///
    /// # Cancellation
    /// Safe; so is dropping a write that has not returned: nothing or all of it is in the cache.
    pub async fn read(&self, offset: u64, length: usize) -> Result<Bytes, DataError> {
        Ok(self.read_parts(offset, length).await?.into_bytes())
    }

    /// As [`OpenData::read`], and nothing is copied: the parts lie where they arrived.
    pub async fn read_parts(&self, offset: u64, length: usize) -> Result<Rope, DataError> {
        let end = offset.saturating_add(length as u64).min(OFFSET_MAX);
        self.data.read(&self.file, self.open, offset..end).await
    }

    /// Writes. Returns when the bytes are in the cache, or (strict) at the servers. Waits while the
    /// mount has too many dirty bytes.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), DataError> {
        let length = data.len() as u64;
        let end = offset.checked_add(length).filter(|end| *end <= OFFSET_MAX);
        let Some(end) = end else {
            return Err(DataError::PastLimit { offset, length });
        };
        if length == 0 {
            return Ok(());
        }
        if !self.data.cache.config.write_behind {
            return self.write_through(offset, data).await;
        }
        self.data.cache.room().await;
        {
            let mut state = self.data.state.lock();
            state.warned(self.open)?;
            let (before, epoch) = (state.extents.charge(), state.epoch);
            state.extents.write(offset, data, epoch);
            self.data.cache.dirty.change(before, state.extents.charge());
            state.via = Some(self.file.clone());
            state.grown_to(self.open, end);
            state.drop_ahead(&(offset..end));
        }
        self.data.start();
        Ok(())
    }

    async fn write_through(&self, offset: u64, data: Bytes) -> Result<(), DataError> {
        self.data.to_cells(&self.file).await?;
        let view = self.file.canonical()?;
        let end = offset + data.len() as u64;
        let synced = self.data.state.lock().syncing > 0;
        let write = || {
            let (at, data) = (ViewOffset(offset), data.clone());
            let view = &view;
            async move {
                if synced {
                    view.write_at_synced(at, data).await
                } else {
                    view.write_at(at, data).await
                }
            }
        };
        self.data.cache.outages.wait_out(write).await?;
        let mut state = self.data.state.lock();
        state.unsynced |= !synced;
        state.grown_to(self.open, end);
        Ok(())
    }

    /// Writes behind all bytes of the file, whoever else appends at the same time, and tells where:
    /// at [`OpenData::append_offset`].
    pub async fn append(&self, data: Bytes) -> Result<u64, DataError> {
        let offset = self.append_offset(data.len() as u64).await?;
        self.write(offset, data).await?;
        Ok(offset)
    }

    /// A place of this length behind all bytes of the file, for whoever asks only. One request to
    /// the metadata service; where writes go through also one to each server.
    pub async fn append_offset(&self, length: u64) -> Result<u64, DataError> {
        self.data.ask_again(&self.file).await?;
        // The service takes this mount's word for where the file ends, as long as nobody else
        // writes it: so it must know, also what opens of it have written that have ended since.
        // Where writes go through, somebody may have truncated it.
        let (known, generation) = {
            let state = self.data.state.lock();
            let known = state.knows_end().then_some(state.ends.end);
            (known, state.ends.generation)
        };
        let known = match known.filter(|_| self.data.cache.config.write_behind) {
            Some(end) => end,
            None => self.data.ask_size(&self.file).await?,
        };
        let deal = || {
            let state = self.data.state.lock();
            // News that come after the question take back what was known, not what is there; a
            // truncate does.
            let end = if state.knows_end() || state.ends.generation != generation {
                0
            } else {
                known
            };
            self.file.append_offset(length, end.max(state.ends.end))
        };
        Ok(self.data.cache.outages.wait_out(deal).await?)
    }

    /// Everything that any open of this file has written is at the servers when it returns; tells,
    /// once, what could not be written since this open was last told by a flush or a sync. Returns
    /// what the service says of a file whose bytes it has, all of those written until now, if it
    /// was told by this flush.
    ///
    /// A sync tells it again: whoever closes a copy of the descriptor, a child of the program for
    /// instance, may not look.
    pub async fn flush(&self) -> Result<Option<Attributes>, DataError> {
        self.flushed(State::untold).await
    }

    /// As [`OpenData::flush`]; tells, once, what could not be written since a sync last told this
    /// open.
    pub async fn flush_to_sync(&self) -> Result<Option<Attributes>, DataError> {
        self.flushed(State::untold_by_sync).await
    }

    async fn flushed(
        &self,
        untold: impl FnOnce(&mut State, u64) -> Result<(), DataError>,
    ) -> Result<Option<Attributes>, DataError> {
        // What is on its way now was asked before this flush.
        let quiet = {
            let mut state = self.data.state.lock();
            state.stored = None;
            state.flights == 0
        };
        self.data.flush().await;
        let mut state = self.data.state.lock();
        untold(&mut state, self.open)?;
        let written = state.written;
        let stored = state.stored.take().filter(|s| quiet && s.0 == written);
        Ok(stored.map(|s| s.1))
    }

    /// When the file was last written here, in nanoseconds since the epoch; 0: never.
    pub fn written(&self) -> i64 {
        self.data.state.lock().written
    }

    /// What is written while it lives survives power loss when it is sent, so that an
    /// [`OpenData::sync`] that follows has nothing more to ask for, where everything else survives
    /// already.
    pub fn syncing(&self) -> Syncing<'_> {
        Syncing::begin(&self.data)
    }

    /// As [`OpenData::flush`], and survives power loss, as does whatever this mount wrote before.
    /// What is dirty is sent with the wish to survive: no further request, where everything else
    /// survives already.
    pub async fn sync(&self) -> Result<(), DataError> {
        let syncing = Syncing::begin(&self.data);
        self.flush_to_sync().await?;
        drop(syncing);
        let cells = matches!(self.data.state.lock().home, Home::Cells);
        let _one = self.data.syncs.lock().await;
        if cells {
            // Another attachment may have moved them: then this one does not know what to sync.
            self.data.to_cells(&self.file).await?;
            // Whatever lands from here on is a later sync's.
            let unsynced = std::mem::replace(&mut self.data.state.lock().unsynced, false);
            if !unsynced {
                // Another open may have synced, and heard that something is lost.
                return Ok(self.file.losses()?);
            }
        }
        // Also where the caller goes away.
        let owed = Owed(&self.data);
        // What was acknowledged survived the server's death, so a sync after it covers that, too.
        self.data
            .cache
            .outages
            .wait_out(|| self.file.sync())
            .await?;
        std::mem::forget(owed);
        Ok(())
    }

    /// Failures so far of what any open of the file wrote.
    pub fn failures(&self) -> u64 {
        self.data.state.lock().failures
    }

    /// The last failure, if there was one since there were so many; whoever else was told of it.
    pub fn failed_since(&self, failures: u64) -> Result<(), DataError> {
        let state = self.data.state.lock();
        let failed = state.last_failure.clone();
        failed
            .filter(|_| state.failures != failures)
            .map_or(Ok(()), Err)
    }

    /// Whether the bytes lie with the metadata, so that a sync of them is one of the namespace.
    pub fn is_inline(&self) -> bool {
        !matches!(self.data.state.lock().home, Home::Cells)
    }

    /// Sets the size; what was written beyond it is dropped.
    ///
    /// # Durability
    /// As of [`File::truncate`].
    pub async fn truncate(&self, size: u64) -> Result<(), DataError> {
        let cut = self
            .data
            .cache
            .outages
            .wait_out(|| self.file.truncate(size));
        Ok(self.data.truncate(Some(&self.file), size, cut).await?)
    }

    /// As [`OpenData::truncate`], by another call than this attachment's.
    pub async fn truncate_by<E>(
        &self,
        size: u64,
        cut: impl Future<Output = Result<(), E>>,
    ) -> Result<(), E> {
        self.data.truncate(None, size, cut).await
    }

    /// The service has said this of the file. Where its content here is another one, others have
    /// changed it.
    pub fn compare(&self, told: &Attributes) {
        let mut state = self.data.state.lock();
        let state = &mut *state;
        if let Home::Inline(content) = &state.home
            && (!told.inline || told.size != content.len() as u64)
            && state.flights == 0
            && state.extents.oldest().is_none()
        {
            state.doubted = self.data.cache.tick();
        }
        if matches!(state.home, Home::Cells) && told.size != state.ends.end {
            state.ends.known = None;
        }
    }

    /// One past the last byte that this cache knows of; the file may be longer, if others write it,
    /// and shorter if they have truncated it. Nothing where writes go through (strict): then the
    /// servers know better. No message.
    pub fn known_end(&self) -> Option<u64> {
        if !self.data.cache.config.write_behind {
            return None;
        }
        let state = self.data.state.lock();
        if state.is_doubtful() {
            return Some(state.extents.end());
        }
        (state.knows_end() || state.ends.end > 0).then_some(state.ends.end)
    }

    /// The file's size, what was written here included: one request to each server, unless it was
    /// known within the last second (strict: always).
    pub async fn size(&self) -> Result<u64, DataError> {
        self.data.size(&self.file).await
    }

    /// Must come before somebody asks the servers for the size past this cache. What they say is
    /// told to what is returned: reads go as far from then on.
    pub fn begin_asking(&self) -> Asking<'_> {
        self.data.begin_asking()
    }

    /// Forgets what was read ahead and what is known of the size: others may have changed the file.
    pub fn invalidate(&self) {
        self.data.invalidate();
    }

    /// What opens before this one know of the file's cells is older: as [`OpenData::invalidate`],
    /// if there were any. What lies with the metadata comes with every open. No message.
    pub fn forget_older(&self) {
        let older = {
            let state = self.data.state.lock();
            state.next_open > 1 && matches!(state.home, Home::Cells)
        };
        if older {
            self.data.invalidate();
        }
    }

    /// Flushes, reports size and time, detaches. The open is closed also when it fails. A second
    /// call does nothing.
    ///
    /// Tells what the service knows of a file that was written to its cells.
    pub async fn close(&self) -> Result<Option<Closed>, DataError> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        close(&self.data, &self.file, self.open).await
    }
}

impl Drop for OpenData {
    fn drop(&mut self) {
        if !*self.closed.get_mut() {
            let (data, file, open) = (self.data.clone(), self.file.clone(), self.open);
            let runtime = data.cache.runtime.clone();
            runtime.spawn(async move {
                if let Err(error) = close(&data, &file, open).await {
                    tracing::warn!(file = shown(&file), %error, "closing a file failed");
                }
            });
        }
    }
}

async fn close(data: &Arc<FileData>, file: &File, open: u64) -> Result<Option<Closed>, DataError> {
    data.flush().await;
    let told = {
        let mut state = data.state.lock();
        let told = state.untold(open);
        let wrote = state.opens.remove(&open).and_then(|open| open.wrote);
        // Its bytes may have gone through another attachment.
        if let (Some((end, time)), Home::Cells) = (wrote, &state.home) {
            // Of what was lost nobody knows how far it came.
            let known = state.failures == 0;
            file.note_written_to(known.then_some(end), time);
        }
        told
    };
    let closed = data.cache.outages.wait_out(|| file.let_go()).await;
    told?;
    Ok(closed?)
}
