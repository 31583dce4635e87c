//! Going on without frames of the log that cannot be read.
//!
//! A store holds a prefix of what it acknowledged: so a damaged log is cut at the first frame that is missing or cannot be read, and
//! what follows goes, too, though frames of it may be whole. Before anything is cut, the segments from there on are put beside
//! the log as `damaged.log.N`; and the whole frames in them say which forks they wrote to.
//!
//! Blocks that frames freed may have been used again by later ones that go with them: then a chunk's checksum is wrong, which
//! is an error where it is read, and never wrong bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::frames::{Parsed, held, scattered};
use crate::key::ForkKey;
use crate::log::{REACHED, Segment};
use crate::pool::BLOCK;
use crate::record::{ForkId, ItemRecord, META, STORE_KEY, StoreRecord};
use crate::recover::{cut_log, damaged, open_segments, read_log, read_reached, read_running};
use crate::rescue::{Obstacle, Rescue};
use crate::scrub::{Fault, Finding};
use crate::storage::{FileKind, Storage};

/// What becomes of a file that frames wrote to which go.
const BEFORE: &str = "went on without it: what was written there is lost, and reads as what was there before or as zeros: restore \
     the file from a copy";
const WENT_ON: &str =
    "went on without them; the log's files as they were are kept beside it as damaged.log.N";
const GREW: &str = "reading what lay there fails until it is written anew";

/// What goes with the end of a log.
#[derive(Default)]
struct Dropped {
    bytes: u64,
    /// Frames that could still be read.
    frames: u64,
    /// By fork: from the first to behind the last byte that they wrote.
    written: BTreeMap<ForkId, Range<u64>>,
}

impl Rescue {
    /// Finds out whether the log stands, and with `repair` cuts it where it does not.
    pub(crate) async fn log(&mut self, config: &StoreConfig) -> Result<(), StoreError> {
        let storage = &*config.storage;
        let value = self.index.snapshot()?.get(META, STORE_KEY)?;
        // A record that cannot be read was told already, and says nothing of what must be in the log.
        let Ok(record) = value.map(|v| StoreRecord::decode(&v)).transpose() else {
            return Ok(());
        };
        let applied = record.map_or(0, |r| r.applied);
        let power_lost = read_running(storage)?.is_none_or(|boot| boot != config.boot_id);
        let (_, segments) = open_segments(storage, applied)?;
        let (reached, _) = read_reached(storage)?;
        let (parsed, contents) = read_log(&segments, applied, power_lost, reached)?;
        for frame in &parsed.frames {
            self.meet(&frame.items);
        }
        // After power loss what was not synced may be there or not.
        let counts = if power_lost {
            parsed.synced.max(reached.synced)
        } else {
            u64::MAX
        };
        self.grow(&parsed, applied, counts).await?;
        let Some(damage) = parsed.damage else {
            return Ok(());
        };
        let dropped = self.dropped(&contents, damage.at);
        self.tell_dropped(&damaged(&segments, damage), &dropped);
        if self.repair {
            set_aside(storage, &segments, &contents, damage.at.0).await?;
            cut_log(storage, segments, &parsed).await?;
            forget_reached(storage)?;
        }
        Ok(())
    }

    /// Takes note of forks that the index does not know yet.
    fn meet(&mut self, items: &[ItemRecord]) {
        for item in items {
            if let ItemRecord::Fork { id, chunk, key } | ItemRecord::Derive { id, chunk, key, .. } =
                item
            {
                let known = (key.clone(), *chunk);
                self.forks.entry(*id).or_insert(known);
            }
        }
    }

    /// Lets the disks' files have the blocks again that the log says it has: zeros, which fail their checksums.
    async fn grow(&mut self, parsed: &Parsed, applied: u64, counts: u64) -> Result<(), StoreError> {
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
        for (number, wanted) in wanted {
            let disk = self.disks.get_mut(&number);
            let Some(disk) = disk.filter(|disk| wanted > disk.size) else {
                continue;
            };
            let mut reason = format!(
                "{} ends at block {}, and the log has blocks up to {wanted}",
                disk.shown, disk.size
            );
            let mut repaired = self.repair;
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
            self.obstacles.push(Obstacle {
                finding: None,
                reason,
                repaired,
                done: GREW,
            });
        }
        Ok(())
    }

    /// What lies from a place of the log on.
    fn dropped(&mut self, contents: &[Bytes], (first, at): (usize, u64)) -> Dropped {
        let mut dropped = Dropped::default();
        for (index, content) in contents.iter().enumerate().skip(first) {
            let from = if index == first { at as usize } else { 0 };
            dropped.bytes += held(content).saturating_sub(from) as u64;
            for items in scattered(content, from) {
                dropped.frames += 1;
                self.meet(&items);
                for item in &items {
                    self.written(item, &mut dropped.written);
                }
            }
        }
        dropped
    }

    /// Adds the bytes that an item writes.
    fn written(&self, item: &ItemRecord, all: &mut BTreeMap<ForkId, Range<u64>>) {
        let mut add = |id: &ForkId, from: u64, to: u64| {
            let range = all.entry(*id).or_insert(from..to);
            *range = range.start.min(from)..range.end.max(to);
        };
        match item {
            ItemRecord::Data { id, offset, data } => add(id, *offset, offset + data.len() as u64),
            ItemRecord::Pieces { id, runs, .. } => {
                for run in runs {
                    let (first, last) = (run.after(0), run.after(run.count.saturating_sub(1)));
                    add(id, first.offset.0, last.offset.0 + run.length);
                }
            }
            ItemRecord::Map {
                id, chunk, runs, ..
            } => {
                let size = self.forks.get(id).map_or(0, |(_, size)| u64::from(*size));
                let start = chunk * size;
                for run in &runs.runs {
                    let (from, blocks) = (u64::from(run.first), u64::from(run.blocks));
                    let block = BLOCK as u64;
                    add(id, start + from * block, start + (from + blocks) * block);
                }
            }
            ItemRecord::Clear { id, offset, length } => add(id, *offset, offset + length),
            ItemRecord::Truncate { id, length } | ItemRecord::Cut { id, length } => {
                add(id, *length, *length);
            }
            _ => {}
        }
    }

    fn tell_dropped(&mut self, error: &StoreError, dropped: &Dropped) {
        let error = if self.repair {
            error.fault()
        } else {
            error.to_string()
        };
        self.obstacles.push(Obstacle {
            finding: None,
            reason: format!(
                "{error}. From there on the log has {} bytes, and in them {} frames that can be read",
                dropped.bytes, dropped.frames
            ),
            repaired: self.repair,
            done: WENT_ON,
        });
        for (id, bytes) in &dropped.written {
            if let Some((key, size)) = self.forks.get(id).cloned() {
                let finding = finding(key, bytes.start / u64::from(size.max(1)));
                self.obstacles.push(Obstacle {
                    finding: Some(finding),
                    reason: format!(
                        "what was written between bytes {} and {} of the cell is in the part of the log that is lost",
                        bytes.start, bytes.end
                    ),
                    repaired: self.repair,
                    done: BEFORE,
                });
            }
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

/// Puts copies of segments beside the log, on stable storage.
async fn set_aside(
    storage: &dyn Storage,
    segments: &[Segment],
    contents: &[Bytes],
    first: usize,
) -> Result<(), StoreError> {
    let names = storage.list();
    let names = names.map_err(|e| StoreError::io("list", ".", &e))?;
    for (segment, content) in segments.iter().zip(contents).skip(first) {
        let content = &content[..held(content)];
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
        file.write_plain(0, content).map_err(fail)?;
        file.sync().await.map_err(fail)?;
    }
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))
}

/// Removes what says how far the log must reach: after the cut, so that whoever is killed in between begins anew.
fn forget_reached(storage: &dyn Storage) -> Result<(), StoreError> {
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
