//! Repair of a damaged log.
//!
//! A store holds a prefix of what it acknowledged. So a damaged log is truncated at the first frame
//! that is missing or cannot be read; later frames are dropped too, though some may be whole.
//! First, the segments from there on are copied beside the log as `damaged.log.N`, and everything
//! that the dropped frames may have touched is put in doubt (`unproven.rs`): a segment after the
//! others says so and takes the place of the dropped frames. Until the truncation is complete, the
//! log still counts as damaged.
//!
//! Blocks that frames freed may have been used again by later frames that are dropped. Then a
//! chunk's checksum does not match: reading it is an error, and never returns wrong bytes.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::index::{OpenBlocker, Repair};
use super::unproven::{ForkSketch, Unproven};
use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::log::{ParsedLog, REACHED, Segment, find_frames, is_torn, used_length};
use crate::pool::BLOCK;
use crate::record::{ItemRecord, META, STORE_KEY, StoreRecord};
use crate::recovery::open::{
    damaged, open_segments, read_log, read_reached, read_running, truncate_log,
};
use crate::storage::{FileKind, Storage};

/// What the repair does to a file that dropped frames touched.
const DOUBTED: &str = "went on without it: the bytes there are cannot be proven, and reading them fails until they are written again or \
     accepted; restore the file from a copy";
const DOUBTED_ALL: &str = "went on without them: no file of the server can be proven, and reading what was written before fails until it \
     is written again or accepted; restore the server's folder from a copy, or accept all with `weft fsck --accept-server`";
const WENT_ON: &str =
    "went on without them; the log's files as they were are kept beside it as damaged.log.N";
const GREW: &str = "reading the missing bytes fails until they are written again";

/// The end of a log that is dropped.
#[derive(Default)]
struct Dropped {
    bytes: u64,
    /// The frames in it that can be read, with their numbers.
    frames: Vec<(u64, Vec<ItemRecord>)>,
    /// The bytes after the last of them cannot be a frame that a crash left incomplete.
    open: bool,
    /// After a power loss, frames that were not synced may be missing.
    power_lost: bool,
}

impl Repair {
    /// Finds damage of the log; with `repair`, truncates the log there.
    pub(super) async fn repair_log(&mut self, config: &StoreConfig) -> Result<(), StoreError> {
        let storage = &*config.storage;
        let value = self.index.snapshot()?.get(META, STORE_KEY)?;
        // An unreadable record was reported already; without it, nothing is known about what the
        // log must hold.
        let Ok(record) = value.map(|v| StoreRecord::decode(&v)).transpose() else {
            return Ok(());
        };
        let applied = record.map_or(0, |r| r.applied);
        let power_lost = read_running(storage)?.is_none_or(|boot| boot != config.boot_id);
        let (_, segments) = open_segments(storage, applied)?;
        let (reached, _) = read_reached(storage)?;
        let (parsed, contents) = read_log(&segments, applied, power_lost, reached)?;
        for frame in &parsed.frames {
            self.add_forks(&frame.items);
        }
        // After a power loss, frames that were not synced may be there or not.
        let counts = if power_lost {
            parsed.synced.max(reached.synced)
        } else {
            u64::MAX
        };
        self.grow_disks(&parsed, applied, counts).await?;
        let Some(damage) = parsed.damage else {
            return Ok(());
        };
        let mut dropped = self.dropped_end(&contents, damage.at, power_lost);
        let must = if power_lost {
            reached.synced
        } else {
            reached.synced.max(reached.given)
        };
        let unproven = self.unproven(&parsed, &mut dropped, (applied, damage.first), must)?;
        self.report_dropped(&damaged(&segments, damage), &dropped, &unproven);
        if self.may_write() {
            copy_segments(storage, &segments, &contents, damage.at.0).await?;
            self.sync_disks().await?;
            write_doubt_segment(storage, &segments, &unproven.frames(damage.first)).await?;
            // Before the truncation: else the log would count as damaged because it does not reach
            // as far as the mark says.
            remove_reached(storage)?;
            truncate_log(storage, segments, &parsed).await?;
        }
        Ok(())
    }

    /// What is in doubt when the frames from `first` on are dropped; `must` is the last one that is
    /// known to have existed.
    fn unproven(
        &self,
        parsed: &ParsedLog,
        dropped: &mut Dropped,
        (applied, first): (u64, u64),
        must: u64,
    ) -> Result<Unproven, StoreError> {
        let mut standing = ForkSketch::of(&*self.index)?;
        let frames = parsed.frames.iter().filter(|f| f.sequence > applied);
        for item in frames.flat_map(|frame| &frame.items) {
            standing.replay(item);
        }
        dropped.frames.retain(|(sequence, _)| *sequence >= first);
        dropped.frames.sort_by_key(|(sequence, _)| *sequence);
        let numbers = dropped.frames.iter().map(|(sequence, items)| {
            let synced = items.iter().filter_map(|item| match item {
                ItemRecord::Synced { through } => Some(*through),
                _ => None,
            });
            // Frames that were not synced may have been lost with the power.
            if dropped.power_lost {
                synced.max().unwrap_or(0)
            } else {
                *sequence
            }
        });
        let last = numbers.max().unwrap_or(0).max(must);
        let last = (!dropped.open).then_some(last);
        Ok(Unproven::find(&standing, &dropped.frames, first, last))
    }

    /// Syncs what the remaining frames will count as synced.
    async fn sync_disks(&self) -> Result<(), StoreError> {
        for disk in self.disks.values() {
            let synced = disk.file.sync().await;
            synced.map_err(|e| StoreError::io("sync", &disk.shown, &e))?;
        }
        Ok(())
    }

    /// Adds forks that the index does not have yet.
    fn add_forks(&mut self, items: &[ItemRecord]) {
        for item in items {
            if let ItemRecord::Fork { id, chunk, key } | ItemRecord::Derive { id, chunk, key, .. } =
                item
            {
                let known = (key.clone(), *chunk);
                self.forks.entry(*id).or_insert(known);
            }
        }
    }

    /// Extends disk files that are too short for the blocks that the log refers to: with zeros,
    /// which fail their checksums.
    async fn grow_disks(
        &mut self,
        parsed: &ParsedLog,
        applied: u64,
        counts: u64,
    ) -> Result<(), StoreError> {
        let frames = parsed.frames.iter();
        let frames = frames.filter(|f| f.sequence > applied && f.sequence <= counts);
        let runs = frames.flat_map(|f| &f.items).flat_map(|item| match item {
            ItemRecord::Map { runs, .. } => runs.runs.as_slice(),
            _ => &[],
        });
        let mut wanted: BTreeMap<u16, u64> = BTreeMap::new();
        for run in runs.filter(|run| !run.inherited) {
            let end = run.place.block() + u64::from(run.blocks);
            let most = wanted.entry(run.place.disk()).or_default();
            *most = end.max(*most);
        }
        let may_write = self.may_write();
        for (number, wanted) in wanted {
            let disk = self.disks.get_mut(&number);
            let Some(disk) = disk.filter(|disk| wanted > disk.size) else {
                continue;
            };
            let mut reason = format!(
                "{} ends at block {}, and the log has blocks up to {wanted}",
                disk.shown, disk.size
            );
            let mut repaired = may_write;
            // A device does not grow.
            if repaired && let Err(error) = disk.file.allocate(wanted * BLOCK as u64) {
                reason = format!("{reason}; it cannot grow: {error}");
                repaired = false;
            }
            if repaired {
                let synced = disk.file.sync().await;
                synced.map_err(|e| StoreError::io("sync", &disk.shown, &e))?;
                disk.size = wanted;
            }
            self.obstacles.push(OpenBlocker {
                finding: None,
                reason,
                repaired,
                done: GREW,
            });
        }
        Ok(())
    }

    /// What the log has from a place on.
    fn dropped_end(
        &mut self,
        contents: &[Bytes],
        (first, at): (usize, u64),
        power_lost: bool,
    ) -> Dropped {
        let mut dropped = Dropped {
            power_lost,
            ..Dropped::default()
        };
        for (index, content) in contents.iter().enumerate().skip(first) {
            let from = if index == first { at as usize } else { 0 };
            if used_length(content) <= from {
                continue;
            }
            dropped.bytes += (used_length(content) - from) as u64;
            let mut end = from;
            for (sequence, next, items) in find_frames(content, from) {
                end = next;
                self.add_forks(&items);
                dropped.frames.push((sequence, items));
            }
            // Only the last segment with frames counts: a later one tells how many frames were in
            // this one.
            dropped.open = used_length(content) > end && !power_lost && !is_torn(content, end);
        }
        dropped
    }

    fn report_dropped(&mut self, error: &StoreError, dropped: &Dropped, unproven: &Unproven) {
        let error = if self.may_write() {
            error.fault()
        } else {
            error.to_string()
        };
        self.obstacles.push(OpenBlocker {
            finding: None,
            reason: format!(
                "{error}. From there on the log has {} bytes, and in them {} frames that can be read",
                dropped.bytes,
                dropped.frames.len()
            ),
            repaired: self.may_write(),
            done: WENT_ON,
        });
        if let Some(frames) = &unproven.any {
            self.obstacles.push(OpenBlocker {
                finding: None,
                reason: format!(
                    "nothing says which files the frames from {} on touched that cannot be read any more",
                    frames.start
                ),
                repaired: self.may_write(),
                done: DOUBTED_ALL,
            });
        }
        for fork in &unproven.forks {
            let (key, end) = (fork.key.clone(), fork.end);
            let which = match end {
                u64::MAX => "all bytes of the cell".to_owned(),
                end => format!("bytes 0..{end} of the cell"),
            };
            self.obstacles.push(OpenBlocker {
                finding: Some(finding(key, 0)),
                reason: format!(
                    "{which} may have been changed in the part of the log that is lost"
                ),
                repaired: self.may_write(),
                done: DOUBTED,
            });
        }
    }
}

fn finding(key: ForkKey, chunk: u64) -> Finding {
    let reason = "it was only in a part of the log that is lost".to_owned();
    Finding {
        key,
        chunk,
        blocks: 0..0,
        disk: 0,
        place: 0,
        fault: Fault::Unreadable { reason },
    }
}

/// Copies segments to files beside the log, on stable storage.
async fn copy_segments(
    storage: &dyn Storage,
    segments: &[Segment],
    contents: &[Bytes],
    first: usize,
) -> Result<(), StoreError> {
    let names = storage.list();
    let names = names.map_err(|e| StoreError::io("list", ".", &e))?;
    for (segment, content) in segments.iter().zip(contents).skip(first) {
        let content = &content[..used_length(content)];
        if content.is_empty() {
            continue;
        }
        let base = format!("damaged.{}", Segment::name(segment.number));
        let again = (1..).map(|n: u32| format!("{base}-{n}"));
        let name = [base.clone()].into_iter().chain(again);
        let Some(name) = name.into_iter().find(|name| !names.contains(name)) else {
            continue;
        };
        let fail = |e: std::io::Error| StoreError::io("write", &name, &e);
        let file = storage.open(&name, FileKind::Log).map_err(fail)?;
        file.write_buffered(0, content).map_err(fail)?;
        file.sync().await.map_err(fail)?;
    }
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))
}

/// Writes frames that say what is in doubt to a segment after the others, on stable storage.
async fn write_doubt_segment(
    storage: &dyn Storage,
    segments: &[Segment],
    frames: &[u8],
) -> Result<(), StoreError> {
    for segment in segments {
        let synced = segment.file.sync().await;
        synced.map_err(|e| StoreError::io("sync", &Segment::name(segment.number), &e))?;
    }
    let name = Segment::name(segments.last().map_or(1, |segment| segment.number + 1));
    let fail = |e: std::io::Error| StoreError::io("write", &name, &e);
    let file = storage.open(&name, FileKind::Log).map_err(fail)?;
    file.truncate(0).map_err(fail)?;
    file.write_buffered(0, frames).map_err(fail)?;
    file.sync().await.map_err(fail)?;
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))
}

/// Removes the mark that says how far the log must reach.
fn remove_reached(storage: &dyn Storage) -> Result<(), StoreError> {
    match storage.remove(REACHED) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(StoreError::io("remove", REACHED, &error));
        }
        _ => {}
    }
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))
}
