//! The log's segment files: appends in order, rotation, removal.
//!
//! Frames are queued under the state's lock and appended under this one, so a slow append does not
//! block readers, and one append takes all queued frames. Lock order: log, then state.
//!
//! Where syncs are frequent, zeros are written ahead of the frames: a sync of overwritten bytes
//! needs no commit of the file system's journal, which takes as long as writing the bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;

use super::incarnations::Incarnations;
use super::queue::FrameQueue;
use super::source::{FrameSource, TakenFrames};
use crate::counters::Counters;
use crate::error::StoreError;
use crate::limits::{SCRATCH_MAX, UNMARKED_MAX};
use crate::record::LogWatermark;
use crate::signals::Signals;
use crate::storage::{FileKind, Storage, StorageFile};

/// Most and least zeros written ahead at a time: 1 MiB, 4 KiB.
const ZEROS_AHEAD: (u64, u64) = (1 << 20, 4 << 10);

/// The name of the file that records how far the log has come.
pub(crate) const REACHED: &str = "reached";

/// One file of the log.
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) bytes: u64,
    /// Bytes of the file: frames, and zeros behind them.
    pub(crate) written: u64,
    /// Its last frame's sequence.
    pub(crate) last: u64,
}

impl Segment {
    /// The name of segment `number`.
    pub(crate) fn name(number: u64) -> String {
        format!("log.{number:012}")
    }

    /// The number in a segment's name.
    pub(crate) fn number(name: &str) -> Option<u64> {
        let number = name.strip_prefix("log.")?.parse().ok()?;
        (Self::name(number) == name).then_some(number)
    }

    /// A new, empty segment with `bytes` allocated.
    pub(crate) fn create(storage: &dyn Storage, number: u64, bytes: u64) -> io::Result<Self> {
        let file = storage.open(&Self::name(number), FileKind::Log)?;
        if let Err(error) = file.truncate(0).and_then(|()| file.allocate(bytes)) {
            drop(file);
            storage.remove(&Self::name(number))?;
            return Err(error);
        }
        Ok(Self {
            number,
            file,
            bytes: 0,
            written: 0,
            last: 0,
        })
    }

    /// As [`Segment::create`], but preallocates less if the disk is nearly full: deletions need
    /// little space.
    fn create_at_all(storage: &dyn Storage, number: u64, bytes: u64) -> io::Result<Self> {
        for divisor in [1, 16, 256] {
            match Self::create(storage, number, bytes / divisor) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                done => return done,
            }
        }
        Self::create(storage, number, 0)
    }

    /// Appends frames, the last of which is number `last`.
    fn append(&mut self, frames: &FrameQueue, last: u64) -> io::Result<()> {
        let slices: Vec<&[u8]> = frames.slices().collect();
        self.file.write_buffered_vectored(self.bytes, &slices)?;
        self.bytes += frames.bytes() as u64;
        self.written = self.written.max(self.bytes);
        self.last = last;
        Ok(())
    }

    /// Writes zeros ahead if fewer than `least` are left.
    fn write_ahead(&mut self, least: u64, most: u64) -> io::Result<()> {
        if self.written < self.bytes + least {
            let zeros = vec![0; (self.bytes + most - self.written) as usize];
            self.file.write_buffered(self.written, &zeros)?;
            self.written += zeros.len() as u64;
        }
        Ok(())
    }
}

/// Returns the allocated space at the end of a closed segment that no frame used.
pub(crate) fn trim_segment(file: &dyn StorageFile, bytes: u64) {
    if let Err(error) = file.truncate(bytes) {
        tracing::debug!(%error, "cannot return the unused space of a log segment yet");
    }
}

struct SegmentFiles {
    closed: Vec<Segment>,
    /// Applied segments that are retained, because the index may have parts of them only in its
    /// journal; ascending.
    retained: Vec<Segment>,
    /// Segments that are not needed and not removed yet, ascending.
    settled: Vec<u64>,
    active: Segment,
    /// The next segment, created in advance, so that a full disk is detected before it blocks
    /// writes.
    spare: Option<Segment>,
    /// The last frame of the removed segments.
    removed_through: u64,
    /// Everything up to this frame is in the kernel.
    appended: u64,
    /// Bytes appended since the last sync.
    fresh: u64,
    /// Records how far the log has come, for an opening after a crash.
    reached: Arc<dyn StorageFile>,
    /// Everything up to this frame is on stable storage.
    synced: u64,
    /// Bytes appended since `reached` was written.
    unmarked: u64,
    /// Closed segments that the next sync must still cover.
    unsynced: Vec<Arc<dyn StorageFile>>,
    folder_changed: bool,
    /// Memory of frames that were appended.
    scratch: FrameQueue,
}

impl SegmentFiles {
    /// Records how far the log has come: an overwrite of a few bytes that no sync waits for.
    fn mark(&mut self) {
        self.unmarked = 0;
        let record = LogWatermark {
            synced: self.synced,
            given: self.appended,
        };
        if let Err(error) = self.reached.write_buffered(0, &record.encode()) {
            // Without it a loss of frames may go undetected.
            tracing::warn!(%error, "cannot record how far the log has come");
        }
    }
}

/// What a sync must cover.
pub(crate) struct Unsynced {
    pub(crate) files: Vec<Arc<dyn StorageFile>>,
    pub(crate) folder: bool,
    /// The last frame in them.
    pub(crate) through: u64,
}

/// The log as recovery leaves it.
pub(crate) struct ReplayedLog {
    /// Segments whose frames were applied before the opening.
    pub(crate) retained: Vec<Segment>,
    /// Segments whose frames were replayed at the opening.
    pub(crate) closed: Vec<Segment>,
    /// The number of the next segment.
    pub(crate) next: u64,
    /// The sequence of the last frame.
    pub(crate) sequence: u64,
}

/// The log of a store.
pub(crate) struct Log {
    storage: Arc<dyn Storage>,
    segment_bytes: u64,
    files: Mutex<SegmentFiles>,
    bytes: std::sync::atomic::AtomicU64,
    tight: std::sync::atomic::AtomicBool,
    incarnations: Arc<Incarnations>,
    signals: Arc<Signals>,
}

impl Log {
    /// A log that continues in a new segment after the frames that recovery replayed.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        replayed: ReplayedLog,
        segment_bytes: u64,
        incarnations: Arc<Incarnations>,
        signals: Arc<Signals>,
    ) -> Result<Self, StoreError> {
        let ReplayedLog {
            retained,
            closed,
            next,
            sequence,
        } = replayed;
        let active = Segment::create_at_all(&*storage, next, segment_bytes)
            .map_err(|e| StoreError::io("create", &Segment::name(next), &e))?;
        let reached = storage
            .open(REACHED, FileKind::Log)
            .map_err(|e| StoreError::io("open", REACHED, &e))?;
        let bytes = closed.iter().map(|s| s.bytes).sum();
        let log = Self {
            storage,
            segment_bytes,
            bytes: std::sync::atomic::AtomicU64::new(bytes),
            tight: false.into(),
            incarnations,
            signals,
            files: Mutex::new(SegmentFiles {
                unsynced: closed.iter().map(|s| Arc::clone(&s.file)).collect(),
                closed,
                retained,
                settled: Vec::new(),
                active,
                spare: None,
                removed_through: sequence,
                appended: sequence,
                fresh: 0,
                reached,
                synced: 0,
                unmarked: 0,
                folder_changed: true,
                scratch: FrameQueue::default(),
            }),
        };
        log.refill(&mut log.files.lock());
        Ok(log)
    }

    /// Bytes of frames that are not applied yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Whether the disk had space only for deletions when the log last needed a segment.
    pub(crate) fn is_tight(&self) -> bool {
        self.tight.load(Relaxed)
    }

    /// Whether the disk has space for more than deletions; tries to create the next segment.
    pub(crate) fn has_space(&self) -> bool {
        if self.tight.load(Relaxed) {
            self.refill(&mut self.files.lock());
        }
        !self.tight.load(Relaxed)
    }

    fn refill(&self, files: &mut SegmentFiles) {
        if files.spare.is_none() {
            files.spare =
                Segment::create(&*self.storage, files.active.number + 1, self.segment_bytes).ok();
            files.folder_changed = true;
        }
        self.tight.store(files.spare.is_none(), Relaxed);
    }

    /// Appends what is queued, until frame `sequence` is in the kernel.
    /// A failure closes the store to writes.
    pub(crate) fn append(
        &self,
        source: &impl FrameSource,
        counters: &Counters,
        sequence: u64,
    ) -> Result<(), StoreError> {
        let mut files = self.files.lock();
        self.append_locked(&mut files, source, counters, sequence)
    }

    fn append_locked(
        &self,
        files: &mut SegmentFiles,
        source: &impl FrameSource,
        counters: &Counters,
        sequence: u64,
    ) -> Result<(), StoreError> {
        if files.appended >= sequence {
            return Ok(());
        }
        let mut scratch = std::mem::take(&mut files.scratch);
        let _taken = TakenFrames(source);
        let last = source.take(&mut scratch)?;
        let length = scratch.bytes() as u64;
        let result = self
            .rotate_if_full(files, length)
            .and_then(|()| files.active.append(&scratch, last));
        if let Err(error) = result {
            let failed = StoreError::SyncFailed {
                doing: "append to the log",
                reason: error.to_string(),
            };
            source.fail(failed.clone());
            self.signals.notify_freed();
            return Err(failed);
        }
        files.fresh += length;
        files.unmarked += length;
        files.appended = last;
        self.incarnations.appended(last);
        if files.unmarked >= UNMARKED_MAX.min(self.segment_bytes / 32) {
            files.mark();
        }
        self.bytes.fetch_add(length, Relaxed);
        Counters::add(&counters.log_appends, 1);
        Counters::add(&counters.log_bytes, length);
        scratch.clear(SCRATCH_MAX);
        files.scratch = scratch;
        Ok(())
    }

    fn rotate_if_full(&self, files: &mut SegmentFiles, length: u64) -> io::Result<()> {
        if files.active.bytes > 0 && files.active.bytes + length > self.segment_bytes {
            match self.rotate_locked(files) {
                // The old segment grows as far as it can.
                Err(error) if weft_kv::is_transient(&error) => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn rotate_locked(&self, files: &mut SegmentFiles) -> io::Result<()> {
        let next = match files.spare.take() {
            Some(spare) => spare,
            None => Segment::create(&*self.storage, files.active.number + 1, self.segment_bytes)?,
        };
        files.unsynced.push(Arc::clone(&files.active.file));
        let closed = std::mem::replace(&mut files.active, next);
        files.closed.push(closed);
        files.folder_changed = true;
        files.mark();
        self.refill(files);
        Ok(())
    }

    /// Everything up to frame `through` is on stable storage; returns the number of the active
    /// segment.
    pub(crate) fn synced(&self, through: u64) -> u64 {
        let mut files = self.files.lock();
        files.synced = files.synced.max(through);
        self.incarnations.synced(through);
        files.mark();
        files.active.number
    }

    /// Begins a new segment; returns the last sequence of the segments before it.
    pub(crate) fn rotate(
        &self,
        source: &impl FrameSource,
        counters: &Counters,
    ) -> Result<u64, StoreError> {
        let mut files = self.files.lock();
        let last = source.last();
        self.append_locked(&mut files, source, counters, last)?;
        if files.active.bytes > 0 {
            // A full disk is no failure here: the old segment grows.
            if self.rotate_locked(&mut files).is_err() {
                // The index may be ahead of a log that lacks segments.
                let closed = files.closed.last().map_or(0, |s| s.last);
                return Ok(closed.max(files.removed_through));
            }
        }
        Ok(files.appended)
    }

    /// What a sync must cover so that everything queued so far is on stable storage.
    pub(crate) fn unsynced(
        &self,
        source: &impl FrameSource,
        counters: &Counters,
    ) -> Result<Unsynced, StoreError> {
        let mut files = self.files.lock();
        let last = source.last();
        self.append_locked(&mut files, source, counters, last)?;
        self.write_ahead(&mut files);
        let mut wanted = std::mem::take(&mut files.unsynced);
        wanted.push(Arc::clone(&files.active.file));
        Ok(Unsynced {
            files: wanted,
            folder: std::mem::take(&mut files.folder_changed),
            through: files.appended,
        })
    }

    /// Before a sync: writes zeros ahead if syncs are frequent enough.
    fn write_ahead(&self, files: &mut SegmentFiles) {
        let fresh = std::mem::take(&mut files.fresh);
        let active = &mut files.active;
        let ahead = (self.segment_bytes / 16).min(ZEROS_AHEAD.0);
        let fits = active.bytes + ahead <= self.segment_bytes;
        if ahead >= ZEROS_AHEAD.1
            && fresh <= ahead / 8
            && fits
            && let Err(error) = active.write_ahead(ahead / 8, ahead)
        {
            // This costs only time.
            tracing::debug!(%error, "cannot write ahead of the log");
        }
    }

    /// Releases the segments whose frames are all at or below `sequence`: they are retained until
    /// [`Log::settled`].
    pub(crate) fn release_through(&self, sequence: u64) {
        let mut files = self.files.lock();
        let split = files.closed.partition_point(|s| s.last <= sequence);
        let old: Vec<Segment> = files.closed.drain(..split).collect();
        files.removed_through = old.last().map_or(0, |s| s.last).max(files.removed_through);
        let bytes = old.iter().map(|s| s.bytes).sum();
        self.bytes.fetch_sub(bytes, Relaxed);
        let ends: Vec<_> = old.iter().map(|s| (Arc::clone(&s.file), s.bytes)).collect();
        files.retained.extend(old);
        drop(files);
        for (file, bytes) in ends {
            trim_segment(&*file, bytes);
        }
    }

    /// Bytes of applied frames that are retained.
    pub(crate) fn retained(&self) -> u64 {
        self.files.lock().retained.iter().map(|s| s.bytes).sum()
    }

    /// The number of the last retained segment; 0: none.
    pub(crate) fn last_retained(&self) -> u64 {
        self.files.lock().retained.last().map_or(0, |s| s.number)
    }

    /// The index's tables have all of the segments up to this number; [`Log::remove_settled`]
    /// removes them.
    pub(crate) fn settled(&self, through: u64) {
        let mut files = self.files.lock();
        let split = files.retained.partition_point(|s| s.number <= through);
        let old: Vec<u64> = files.retained.drain(..split).map(|s| s.number).collect();
        files.settled.extend(old);
    }

    /// Removes segments that are not needed. One that cannot be removed costs space until a later
    /// call succeeds.
    pub(crate) fn remove_settled(&self) -> Result<(), StoreError> {
        let mut old = std::mem::take(&mut self.files.lock().settled);
        let mut done = Ok(());
        old.retain(|number| {
            let removed = self.remove(*number);
            let stays = removed.is_err();
            if done.is_ok() {
                done = removed;
            }
            stays
        });
        let mut files = self.files.lock();
        old.append(&mut files.settled);
        files.settled = old;
        if self.tight.load(Relaxed) {
            self.refill(&mut files);
        }
        done
    }

    fn remove(&self, number: u64) -> Result<(), StoreError> {
        let name = Segment::name(number);
        match self.storage.remove(&name) {
            // An earlier attempt removed it before it failed.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::io("remove", &name, &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes every segment of a completely applied log, after file `reached`, which says that
    /// segments must exist.
    pub(crate) fn remove_all(&self) -> Result<(), StoreError> {
        let files = self.files.lock();
        self.storage
            .remove(REACHED)
            .map_err(|e| StoreError::io("remove", REACHED, &e))?;
        self.storage
            .sync_folder()
            .map_err(|e| StoreError::io("sync", ".", &e))?;
        let open = files.retained.iter().chain(&files.closed);
        let open = open.chain([&files.active]).chain(&files.spare);
        let open = open.map(|s| s.number);
        for number in files.settled.iter().copied().chain(open) {
            self.remove(number)?;
        }
        self.storage
            .sync_folder()
            .map_err(|e| StoreError::io("sync", ".", &e))
    }
}
