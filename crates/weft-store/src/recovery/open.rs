//! Opening a store: index, log, allocator; and marking it as running or clean.
//!
//! Steps: read the index; read the log up to its end; replay it. After a power loss, also compare
//! every map that was not known to be synced with the disk, and truncate the log at the first that
//! does not match, so that the store holds a prefix of what was acknowledged. Then count the free
//! blocks; note the boot; restore the log's bytes to dirty pages; sync twice, so that a durable
//! `Synced` record covers everything before a freed block is used again.

use std::collections::HashMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use weft_kv::{OrderedKv, Reader};

use super::count::count_blocks;
use crate::commit::background;
use crate::config::StoreConfig;
use crate::disk::DiskSet;
use crate::engine::{Bounds, Inner, Recovered, Store};
use crate::error::StoreError;
use crate::index::{Removal, visit};
use crate::log::{
    Incarnations, Log, LogDamage, ParsedLog, REACHED, ReplayedLog, Segment, parse, trim_segment,
};
use crate::pool::{BLOCK, Pool};
use crate::provision::trim_in_background;
use crate::record::{
    CheckpointRecord, DoubtRecord, FILES, FORKS, FRAME_BYTES, FileRecord, ForkEntry, ForkRecord,
    FrameRecord, Header, ItemRecord, LogWatermark, META, MissingForksRecord, RunningRecord,
    RunsRecord, STORE_KEY, StoreRecord, VerifiedFileRecord, checksum,
};
use crate::recovery::replay::{Overlay, Replay, each};
use crate::signals::Signals;
use crate::state::StoreState;
use crate::storage::{FileKind, Storage};

/// The file that names the current boot while the store is open.
const RUNNING: &str = "running";

impl Store {
    /// Opens the store of a folder, empty at first, and recovers it if it was not closed.
    ///
    /// Must be called inside a tokio runtime with timers: the store flushes and applies in the
    /// background.
    /// # Errors
    /// [`StoreError::Corrupt`] and [`StoreError::Version`] if stored bytes are not what a store of
    /// this version wrote; nothing is changed then.
    pub async fn open(config: StoreConfig) -> Result<Store, StoreError> {
        let storage = Arc::clone(&config.storage);
        let disks = DiskSet::open(&config).await?;
        let power_lost = read_running(&*storage)?.is_none_or(|boot| boot != config.boot_id);
        let pool = Pool::new();

        let mut state = StoreState::new(config.rules);
        let applied = read_index(&*config.index, &mut state)?;
        let (kept, segments) = open_segments(&*storage, applied)?;
        if segments.is_empty() && config.index.check_space().is_ok() {
            // No log is the second copy of its journal, which an earlier version may have left
            // with contents.
            config.index.flush()?;
        }
        let (reached, damaged_mark) = read_reached(&*storage)?;
        if let Some(what) = &damaged_mark {
            tracing::warn!("{what}");
        }
        let (mut parsed, _) = read_log(&segments, applied, power_lost, reached)?;
        if let Some(damage) = parsed.damage {
            return Err(damaged(&segments, damage));
        }
        // What was synced needs no proof: if it is missing, that is damage, and reading it is an
        // error.
        parsed.synced = parsed.synced.max(reached.synced);
        let (overlay, sequence, cost) = replay(
            &mut state,
            &*config.index,
            &disks,
            &pool,
            &mut parsed,
            applied,
            power_lost,
        )
        .await?;
        state.recovered(sequence, parsed.cost() + cost);
        state.forget_space();
        disks.add_to(state.space_mut())?;
        let (state, garbage) = count_blocks(&*storage, &config.index, state).await?;

        let (closed, next) = truncate_log(&*storage, segments, &parsed).await?;
        let recovered = !closed.is_empty();
        for segment in &closed {
            // Each opening begins a segment of its own.
            trim_segment(&*segment.file, segment.bytes);
        }
        write_reached(&*storage, reached.synced, sequence)?;
        let (number, now) = (config.incarnation, config.now);
        let incarnations = Incarnations::begin(&*storage, number, sequence, now).await?;
        write_running(&*storage, &config.boot_id).await?;
        let incarnations = Arc::new(incarnations);
        let signals = Arc::new(Signals::default());
        let log = Log::new(
            Arc::clone(&storage),
            ReplayedLog {
                retained: kept,
                closed,
                next,
                sequence,
            },
            config.segment_bytes,
            Arc::clone(&incarnations),
            Arc::clone(&signals),
        )?;
        let inner = Inner::new(Recovered {
            storage,
            index: config.index.clone(),
            disks,
            pool,
            bounds: Bounds::of(&config),
            state,
            log,
            incarnations,
            signals: Arc::clone(&signals),
            damage_at_open: damaged_mark.into_iter().collect(),
            removal: Removal::of_orphans(garbage),
        });
        inner
            .restore_dirty_pages(overlay, config.accept_loss)
            .await?;
        inner.note_sparse_disks().await?;
        inner.sync_now().await?;
        if recovered {
            inner.sync_now().await?;
        }
        if inner.has_pending_work() {
            signals.wake();
        }
        tokio::spawn(background(signals, Arc::downgrade(&inner)));
        tokio::spawn(trim_in_background(Arc::downgrade(&inner)));
        Ok(Store(inner))
    }
}

impl Inner {
    /// Whether there is work for the background task.
    fn has_pending_work(&self) -> bool {
        let state = self.lock();
        state.mergeable().is_some() || state.forks().first_deferred_truncation().is_some()
    }
}

impl Inner {
    /// Removes the log, which the index has wholly, and the mark that says that the store is
    /// running.
    pub(crate) fn mark_clean(&self) -> Result<(), StoreError> {
        self.log().remove_all()?;
        self.storage()
            .remove(RUNNING)
            .map_err(|e| StoreError::io("remove", RUNNING, &e))?;
        self.storage()
            .sync_folder()
            .map_err(|e| StoreError::io("sync", ".", &e))
    }
}

/// Whether the store in a folder has a log that continues where its index ends.
///
/// # Errors
/// If either cannot be read.
pub fn log_reaches(index: &dyn OrderedKv, storage: &dyn Storage) -> Result<bool, StoreError> {
    let record = index.snapshot()?.get(META, STORE_KEY)?;
    let record = record
        .map(|value| StoreRecord::decode(&value))
        .transpose()?;
    let applied = record.map_or(0, |record| record.applied);
    let (_, live) = open_segments(storage, applied)?;
    let first = live.first().map(first_of).transpose()?.flatten();
    Ok(first.is_some_and(|first| first <= applied + 1))
}

/// Whether the store in a folder has a log; a closed store has none.
///
/// # Errors
/// If the folder cannot be read.
pub fn has_log(storage: &dyn Storage) -> Result<bool, StoreError> {
    let names = storage.list();
    let names = names.map_err(|e| StoreError::io("list", ".", &e))?;
    Ok(names.iter().any(|name| Segment::number(name).is_some()))
}

pub(crate) fn read_running(storage: &dyn Storage) -> Result<Option<String>, StoreError> {
    let fail = |e: io::Error| StoreError::io("read", RUNNING, &e);
    if !storage.list().map_err(fail)?.iter().any(|n| n == RUNNING) {
        return Ok(None);
    }
    let file = storage.open(RUNNING, FileKind::Log).map_err(fail)?;
    let bytes = file.read_buffered(0, 1024).map_err(fail)?;
    // A torn mark counts as none: everything that is not known to be synced is checked.
    Ok(RunningRecord::decode(&bytes))
}

/// How far the log had come, as far as that is known, and a report if the mark is damaged. A crash
/// leaves what was written before, or an incomplete or empty new file; anything else is damage.
pub(crate) fn read_reached(
    storage: &dyn Storage,
) -> Result<(LogWatermark, Option<String>), StoreError> {
    let fail = |e: io::Error| StoreError::io("read", REACHED, &e);
    if !storage.list().map_err(fail)?.iter().any(|n| n == REACHED) {
        return Ok((LogWatermark::default(), None));
    }
    let file = storage.open(REACHED, FileKind::Log).map_err(fail)?;
    let bytes = file.read_buffered(0, 1024).map_err(fail)?;
    if let Some(record) = LogWatermark::decode(&bytes) {
        return Ok((record, None));
    }
    let whole = LogWatermark::default().encode().len();
    let damaged = bytes.len() >= whole && bytes.iter().any(|b| *b != 0);
    let damaged = damaged.then(|| {
        format!(
            "the file {REACHED} was damaged: frames that the log lost at its end before this opening would not have been missed"
        )
    });
    Ok((LogWatermark::default(), damaged))
}

/// Written before the mark of this boot: from that mark on, `given` counts, which may be less than
/// before.
fn write_reached(storage: &dyn Storage, synced: u64, given: u64) -> Result<(), StoreError> {
    let fail = |e: io::Error| StoreError::io("write", REACHED, &e);
    let synced = synced.min(given);
    let record = LogWatermark { synced, given };
    let file = storage.open(REACHED, FileKind::Log).map_err(fail)?;
    match file.write_buffered(0, &record.encode()) {
        // A new file on a full disk: then nothing is known.
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(()),
        done => done.map_err(fail),
    }
}

async fn write_running(storage: &dyn Storage, boot: &str) -> Result<(), StoreError> {
    let fail = |e: io::Error| StoreError::io("write", RUNNING, &e);
    let file = storage.open(RUNNING, FileKind::Log).map_err(fail)?;
    file.truncate(0).map_err(fail)?;
    file.write_buffered(0, &RunningRecord::encode(boot))
        .map_err(fail)?;
    file.sync().await.map_err(fail)?;
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))
}

/// Reads files and forks; returns the sequence of the last frame that the index has.
fn read_index(index: &dyn OrderedKv, state: &mut StoreState) -> Result<u64, StoreError> {
    let mut applied = 0;
    if let Some(value) = index.snapshot()?.get(META, STORE_KEY)? {
        let record = StoreRecord::decode(&value)?;
        state.begin_ids(record.next_fork);
        applied = record.applied;
    }
    let all = (Bound::Unbounded, Bound::Unbounded);
    let reader = index.snapshot()?;
    visit(&*reader, FILES, all, |key, value| {
        if let Some((file, number)) = CheckpointRecord::decode_key(key) {
            let made = CheckpointRecord::decode(key, value)?.made;
            state.add_checkpoint(file, number, made);
            return Ok(());
        }
        let record = FileRecord::decode(key, value)?;
        let file = FileRecord::decode_key(key)?;
        state.load_file(file, record.deleted, record.op);
        Ok(())
    })?;
    visit(&*reader, FORKS, all, |key, value| {
        let record = ForkRecord::decode(key, value)?;
        let (key, kept) = match ForkRecord::decode_key(key)? {
            ForkEntry::Live(key) => (key, false),
            ForkEntry::Checkpoint(key, _) => (key, true),
        };
        if state.check_alive(key.file).is_err() {
            return Ok(());
        }
        state.load_fork(&record, &key, kept);
        Ok(())
    })?;
    read_doubts(&*reader, state)?;
    // These are no changes: they are in the index.
    drop(state.changes_mut().take());
    state.touches().begin(applied + 1);
    Ok(applied)
}

/// Reads what is in doubt; after the forks, so that none of them counts as new.
fn read_doubts(index: &dyn Reader, state: &mut StoreState) -> Result<(), StoreError> {
    let (low, high) = DoubtRecord::KEYS;
    let keys = (Bound::Included(low), Bound::Excluded(high));
    visit(index, META, keys, |key, value| {
        if key == MissingForksRecord::KEY {
            state
                .doubts_mut()
                .load_absent(MissingForksRecord::decode(value)?);
        } else if let Some(id) = DoubtRecord::decode_key(key) {
            let ranges = DoubtRecord::decode(key, value)?;
            if state.forks().contains(id) {
                state.doubts_mut().load(id, ranges);
            }
        } else if let Some((file, number)) = VerifiedFileRecord::decode_unsure_key(key) {
            VerifiedFileRecord::decode(key, value)?;
            state.doubts_mut().load_unsure(file, number);
        } else if let Some(file) = VerifiedFileRecord::decode_key(key) {
            VerifiedFileRecord::decode(key, value)?;
            state.doubts_mut().load_trusted(file);
        }
        Ok(())
    })
}

/// The segments of a log, oldest first: those that an index has wholly which has everything up to
/// `applied`, and the others.
pub(crate) fn open_segments(
    storage: &dyn Storage,
    applied: u64,
) -> Result<(Vec<Segment>, Vec<Segment>), StoreError> {
    let names = storage
        .list()
        .map_err(|e| StoreError::io("list", ".", &e))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| Segment::number(n)).collect();
    numbers.sort_unstable();
    let open = |number| {
        let name = Segment::name(number);
        let fail = |e: io::Error| StoreError::io("open", &name, &e);
        let file = storage.open(&name, FileKind::Log).map_err(fail)?;
        let bytes = file.length().map_err(fail)?;
        Ok(Segment {
            number,
            file,
            bytes,
            written: bytes,
            last: 0,
        })
    };
    let segments = numbers.into_iter().map(open);
    let mut kept = segments.collect::<Result<Vec<_>, StoreError>>()?;
    // From the end: segments before one that begins with frames of the index are not needed.
    let mut live = Vec::new();
    while let Some(segment) = kept.pop() {
        let first = first_of(&segment)?;
        live.push(segment);
        if let Some(first) = first.filter(|first| *first <= applied + 1) {
            for segment in &mut kept {
                segment.last = first - 1;
            }
            break;
        }
    }
    live.reverse();
    Ok((kept, live))
}

/// The sequence of a segment's first frame, if it can be read.
fn first_of(segment: &Segment) -> Result<Option<u64>, StoreError> {
    let header = segment.file.read_buffered(0, FRAME_BYTES);
    let header = header.map_err(|e| StoreError::io("read", &Segment::name(segment.number), &e))?;
    match FrameRecord::decode(&header) {
        Header::Good(frame) => Ok(Some(frame.sequence)),
        _ => Ok(None),
    }
}

/// Reads the log; returns its frames and its bytes.
pub(crate) fn read_log(
    segments: &[Segment],
    applied: u64,
    power_lost: bool,
    reached: LogWatermark,
) -> Result<(ParsedLog, Vec<Bytes>), StoreError> {
    let read = |s: &Segment| {
        let bytes = s.file.read_buffered(0, s.bytes as usize);
        bytes
            .map(Bytes::from)
            .map_err(|e| StoreError::io("read", &Segment::name(s.number), &e))
    };
    let contents = segments.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    // What only the kernel had was lost with the power.
    let must = if power_lost {
        reached.synced
    } else {
        reached.synced.max(reached.given)
    };
    let parsed = parse(&contents, applied, power_lost, must)?;
    Ok((parsed, contents))
}

/// The error for a log that ends too early.
pub(crate) fn damaged(segments: &[Segment], damage: LogDamage) -> StoreError {
    let (index, at) = damage.at;
    let file = match segments.get(index) {
        Some(segment) => Segment::name(segment.number),
        None => "log.*".to_owned(),
    };
    StoreError::LogDamaged {
        file,
        at,
        what: damage.what,
        first: damage.first,
    }
}

/// Replays the valid frames; returns what only the log has, the last sequence, and the cost beyond
/// [`ParsedLog::cost`].
async fn replay(
    state: &mut StoreState,
    index: &dyn OrderedKv,
    disks: &DiskSet,
    pool: &Pool,
    parsed: &mut ParsedLog,
    applied: u64,
    power_lost: bool,
) -> Result<(Overlay, u64, u64), StoreError> {
    let mut sequence = applied;
    let mut replay = Replay {
        state,
        index,
        overlay: Overlay::new(),
        without_chunks: HashMap::new(),
        cost: 0,
    };
    let mut end = parsed.frames.len();
    for (i, frame) in parsed.frames.iter().enumerate() {
        if frame.sequence <= applied {
            continue;
        }
        if power_lost && frame.sequence > parsed.synced {
            let mut matches = true;
            for item in &frame.items {
                if let ItemRecord::Map { runs, .. } = item {
                    matches = matches && disk_matches(disks, pool, runs).await?;
                }
            }
            if !matches {
                parsed.truncate_at = Some(frame.at);
                end = i;
                break;
            }
        }
        for item in &frame.items {
            replay.item(frame.sequence, frame.modified, item)?;
        }
        sequence = frame.sequence;
    }
    let cost = replay.cost;
    let overlay = replay.finish()?;
    parsed.frames.truncate(end);
    Ok((overlay, sequence, cost))
}

/// Whether the disk has what a map says.
async fn disk_matches(disks: &DiskSet, pool: &Pool, runs: &RunsRecord) -> Result<bool, StoreError> {
    let mut crcs = each(runs).map(|(_, _, crc)| crc);
    for run in &runs.runs {
        if run.place.is_absent() {
            crcs.by_ref().take(run.blocks as usize).for_each(drop);
            continue;
        }
        // Whether a missing disk has its blocks is unknown.
        let Ok(data) = disks.file(run.place) else {
            return Ok(false);
        };
        let mut done = 0;
        while done < run.blocks {
            let mut buffers = Vec::new();
            let start = run.place.plus(done);
            while done < run.blocks && buffers.len() < 16 {
                let left = run.blocks - done;
                let blocks = [16, 4, 1].into_iter().find(|n| *n <= left).unwrap_or(1);
                buffers.push(pool.take(blocks as usize));
                done += blocks;
            }
            match data.read_at(start.offset(), buffers).await {
                Ok(read) => {
                    let mut found = read
                        .iter()
                        .flat_map(|b| b.chunks_exact(BLOCK))
                        .map(checksum);
                    if !found.all(|found| crcs.next() == Some(found)) {
                        return Ok(false);
                    }
                }
                // The growth of the file was lost, too.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                Err(e) => return Err(StoreError::io("read", &disks.shown(start), &e)),
            }
        }
    }
    Ok(true)
}

/// Truncates the log at its valid end; returns the segments that stay and the number of the next.
pub(crate) async fn truncate_log(
    storage: &dyn Storage,
    segments: Vec<Segment>,
    parsed: &ParsedLog,
) -> Result<(Vec<Segment>, u64), StoreError> {
    let next = segments.last().map_or(1, |s| s.number + 1);
    let mut last = vec![0; segments.len()];
    for frame in &parsed.frames {
        last[frame.at.0] = frame.sequence;
    }
    let mut kept = Vec::new();
    let mut removed = Vec::new();
    for (index, mut segment) in segments.into_iter().enumerate() {
        let name = Segment::name(segment.number);
        let keep = match parsed.truncate_at {
            Some((cut, at)) if index == cut => at,
            Some((cut, _)) if index > cut => 0,
            _ => segment.bytes,
        };
        // A segment without a frame goes, however much was preallocated in it.
        if keep == 0 || last[index] == 0 {
            removed.push(name);
            continue;
        }
        if keep < segment.bytes {
            segment
                .file
                .truncate(keep)
                .map_err(|e| StoreError::io("truncate", &name, &e))?;
            segment
                .file
                .sync()
                .await
                .map_err(|e| StoreError::io("sync", &name, &e))?;
            segment.bytes = keep;
        }
        segment.last = last[index];
        kept.push(segment);
    }
    // From the end, so that a crash in between leaves no gap.
    for name in removed.iter().rev() {
        storage
            .remove(name)
            .map_err(|e| StoreError::io("remove", name, &e))?;
    }
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))?;
    Ok((kept, next))
}
