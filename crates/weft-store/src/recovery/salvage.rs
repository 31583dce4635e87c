//! Going on without frames of the log that cannot be read.
//!
//! A store holds a prefix of what it acknowledged: so a damaged log is cut at the first frame that
//! is missing or cannot be read, and what follows goes, too, though frames of it may be whole.
//! Before anything is cut, the segments from there on are put beside the log as `damaged.log.N`,
//! and what the frames that go may have touched is in doubt from then on (`unproven.rs`): a segment
//! behind the others says so, and takes the place of what is cut. Until all of the cut is made the
//! log is still damaged.
//!
//! Blocks that frames freed may have been used again by later ones that go with them: then a
//! chunk's checksum is wrong, which is an error where it is read, and never wrong bytes.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::open::{cut_log, damaged, open_segments, read_log, read_reached, read_running};
use super::rescue::{Obstacle, Rescue};
use super::unproven::{Sketch, Unproven, judge};
use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::finding::{Fault, Finding};
use crate::key::ForkKey;
use crate::log::{Parsed, REACHED, Segment, held, is_torn, scattered};
use crate::pool::BLOCK;
use crate::record::{ItemRecord, META, STORE_KEY, StoreRecord};
use crate::storage::{FileKind, Storage};

/// What becomes of a file that frames touched which go.
const DOUBTED: &str = "went on without it: the bytes there are cannot be proven, and reading them fails until they are written anew or \
     accepted; restore the file from a copy";
const DOUBTED_ALL: &str = "went on without them: no file of the server can be proven, and reading what was written before fails until it \
     is written anew or accepted; restore the server's folder from a copy, or accept all with `weft fsck --accept-server`";
const WENT_ON: &str =
    "went on without them; the log's files as they were are kept beside it as damaged.log.N";
const GREW: &str = "reading what lay there fails until it is written anew";

/// What goes with the end of a log.
#[derive(Default)]
struct Dropped {
    bytes: u64,
    /// Frames that could still be read, with their numbers.
    frames: Vec<(u64, Vec<ItemRecord>)>,
    /// Bytes behind the last of them are no frame that a crash could have left.
    open: bool,
    /// After a loss of power frames that were not synced may be missing.
    power_lost: bool,
}

impl Rescue {
    /// Finds out whether the log stands, and with `repair` cuts it where it does not.
    pub(crate) async fn log(&mut self, config: &StoreConfig) -> Result<(), StoreError> {
        let storage = &*config.storage;
        let value = self.index.snapshot()?.get(META, STORE_KEY)?;
        // A record that cannot be read was told already, and says nothing of what must be in the
        // log.
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
        let mut dropped = self.dropped(&contents, damage.at, power_lost);
        let must = if power_lost {
            reached.synced
        } else {
            reached.synced.max(reached.given)
        };
        let unproven = self.unproven(&parsed, &mut dropped, (applied, damage.first), must)?;
        self.tell_dropped(&damaged(&segments, damage), &dropped, &unproven);
        if self.repair {
            set_aside(storage, &segments, &contents, damage.at.0).await?;
            self.sync_disks().await?;
            mark(storage, &segments, &unproven.frames(damage.first)).await?;
            // Before the cut: what is said behind it would else count as the end of a log that must
            // be longer.
            forget_reached(storage)?;
            cut_log(storage, segments, &parsed).await?;
        }
        Ok(())
    }

    /// What is in doubt when frames go from `first` on; `must`: the last one that is known to have
    /// been there.
    fn unproven(
        &self,
        parsed: &Parsed,
        dropped: &mut Dropped,
        (applied, first): (u64, u64),
        must: u64,
    ) -> Result<Unproven, StoreError> {
        let mut standing = Sketch::of(&*self.index)?;
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
            // What was not synced may have gone with the power.
            if dropped.power_lost {
                synced.max().unwrap_or(0)
            } else {
                *sequence
            }
        });
        let last = numbers.max().unwrap_or(0).max(must);
        let last = (!dropped.open).then_some(last);
        Ok(judge(&standing, &dropped.frames, first, last))
    }

    /// What the frames that stand count as synced must be.
    async fn sync_disks(&self) -> Result<(), StoreError> {
        for disk in self.disks.values() {
            let synced = disk.file.sync().await;
            synced.map_err(|e| StoreError::io("sync", &disk.shown, &e))?;
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

    /// Lets the disks' files have the blocks again that the log says it has: zeros, which fail
    /// their checksums.
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
    fn dropped(
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
            if held(content) <= from {
                continue;
            }
            dropped.bytes += (held(content) - from) as u64;
            let mut end = from;
            for (sequence, behind, items) in scattered(content, from) {
                end = behind;
                self.meet(&items);
                dropped.frames.push((sequence, items));
            }
            // Of the last segment that holds anything: later ones say how many frames were in this
            // one.
            dropped.open = held(content) > end && !power_lost && !is_torn(content, end);
        }
        dropped
    }

    fn tell_dropped(&mut self, error: &StoreError, dropped: &Dropped, unproven: &Unproven) {
        let error = if self.repair {
            error.fault()
        } else {
            error.to_string()
        };
        self.obstacles.push(Obstacle {
            finding: None,
            reason: format!(
                "{error}. From there on the log has {} bytes, and in them {} frames that can be read",
                dropped.bytes,
                dropped.frames.len()
            ),
            repaired: self.repair,
            done: WENT_ON,
        });
        if let Some(frames) = &unproven.any {
            self.obstacles.push(Obstacle {
                finding: None,
                reason: format!(
                    "nothing says which files the frames from {} on touched that cannot be read any more",
                    frames.start
                ),
                repaired: self.repair,
                done: DOUBTED_ALL,
            });
        }
        for fork in &unproven.forks {
            let (key, end) = (fork.key.clone(), fork.end);
            let which = match end {
                u64::MAX => "all bytes of the cell".to_owned(),
                end => format!("bytes 0..{end} of the cell"),
            };
            self.obstacles.push(Obstacle {
                finding: Some(finding(key, 0)),
                reason: format!(
                    "{which} may have been changed in the part of the log that is lost"
                ),
                repaired: self.repair,
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

/// Puts frames that say what is in doubt into a segment behind the others, on stable storage.
async fn mark(
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
    file.write_plain(0, frames).map_err(fail)?;
    file.sync().await.map_err(fail)?;
    storage
        .sync_folder()
        .map_err(|e| StoreError::io("sync", ".", &e))
}

/// Removes what says how far the log must reach.
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
