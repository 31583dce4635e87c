//! Room on the file system that holds an engine's files.
//!
//! An engine whose commit finds the disk full is closed until it is opened again: what the disk
//! holds is unknown. So those who would make it larger are refused before they change anything
//! ([`Room::check`]), while less than the *margin* is free. Who brings more room back than it takes
//! may go on down to the *last* of it, a quarter of the margin ([`Room::check_last`]). Whoever
//! makes it smaller at once is not asked. For them a *reserve* is kept on the disk where the engine
//! is opened with one: it is given back when others have nearly filled the disk, and set aside anew
//! when there is room again.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::KvError;

/// What must be free for an engine to grow: journals and tables of what is in memory, twice.
pub(crate) const MARGIN: u64 = 128 << 20;
/// Of small file systems, the part that must be free, and the part that a reserve may take.
const MARGIN_PART: u64 = 16;
const RESERVE_PART: u64 = 64;
/// Of the margin, the part that is left to those who make room; below it the reserve goes.
const LAST_PART: u64 = 4;
/// Of small file systems, the part that may wait in memory, and in journals, to go to a table; and
/// the least.
const MEMTABLE_PART: u64 = 64;
const MEMTABLE_MIN: u64 = 4 << 20;
/// How long what was measured counts. In that time no engine writes as much as a margin.
const FRESH: Duration = Duration::from_millis(100);
/// The reserve's file.
const RESERVE: &str = "weft.reserve";

/// Bytes of a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

impl Space {
    fn of(folder: &Path) -> io::Result<Space> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(Space {
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    fn margin(self) -> u64 {
        MARGIN.min(self.total / MARGIN_PART)
    }

    fn last(self) -> u64 {
        self.margin() / LAST_PART
    }
}

/// What may wait in memory to go to a table, of what is wished for: twice that must fit into the
/// margin.
pub(crate) fn memtable(folder: &Path, wished: u64) -> u64 {
    let most = Space::of(folder).map_or(u64::MAX, |space| space.total / MEMTABLE_PART);
    wished.min(most.max(MEMTABLE_MIN))
}

pub(crate) type Measure = Box<dyn Fn(&Path) -> io::Result<Space> + Send + Sync>;

/// The room that an engine has, and its reserve.
pub(crate) struct Room {
    folder: PathBuf,
    reserve: u64,
    measure: Measure,
    seen: Mutex<Option<(Instant, Space)>>,
}

impl Room {
    /// `reserve`: bytes to keep for those who make the engine smaller; 0: none.
    pub(crate) fn new(folder: &Path, reserve: u64) -> Room {
        Room::measured(folder, reserve, Box::new(Space::of))
    }

    pub(crate) fn measured(folder: &Path, reserve: u64, measure: Measure) -> Room {
        Room {
            folder: folder.to_path_buf(),
            reserve,
            measure,
            seen: Mutex::default(),
        }
    }

    /// Whether the engine may grow.
    ///
    /// Cost: ten times a second a call of the system, else a lock.
    /// # Errors
    /// [`KvError::NoSpace`].
    pub(crate) fn check(&self) -> Result<(), KvError> {
        self.check_for(Space::margin)
    }

    /// Whether there is room for so many bytes that bring back more than they take.
    ///
    /// # Errors
    /// [`KvError::NoSpace`].
    pub(crate) fn check_last(&self, bytes: u64) -> Result<(), KvError> {
        self.check_for(|space| space.last().saturating_add(bytes))
    }

    /// Whether so much is free, whoever it is for.
    pub(crate) fn has(&self, bytes: u64) -> bool {
        self.look().is_none_or(|space| space.free >= bytes)
    }

    /// Whether growth is refused, or will be soon.
    pub(crate) fn is_short(&self) -> bool {
        self.look()
            .is_some_and(|space| space.free < 2 * space.margin())
    }

    fn check_for(&self, needed: impl Fn(Space) -> u64) -> Result<(), KvError> {
        match self.look() {
            Some(space) if space.free < needed(space) => Err(KvError::NoSpace {
                path: self.folder.display().to_string(),
                available: space.free,
                needed: needed(space),
            }),
            // Where nothing can be measured, a commit finds out.
            _ => Ok(()),
        }
    }

    /// What is free, as of a moment ago; gives the reserve back, or sets it aside, where that is
    /// due.
    pub(crate) fn look(&self) -> Option<Space> {
        let mut seen = self.seen.lock();
        if let Some((at, space)) = *seen
            && at.elapsed() < FRESH
        {
            return Some(space);
        }
        let measured = (self.measure)(&self.folder).ok();
        // A reserve that cannot be had or given back changes nothing of what is free.
        let space = measured.map(|space| self.tend(space).unwrap_or(space));
        *seen = space.map(|space| (Instant::now(), space));
        space
    }

    fn tend(&self, space: Space) -> io::Result<Space> {
        let reserve = self.reserve.min(space.total / RESERVE_PART);
        if reserve == 0 {
            return Ok(space);
        }
        let path = self.folder.join(RESERVE);
        let scarce = space.free < space.last();
        let ample = space.free >= 2 * space.margin() + reserve;
        if !scarce && !ample {
            return Ok(space);
        }
        match std::fs::metadata(&path) {
            Ok(held) if scarce && held.len() > 0 => std::fs::remove_file(&path)?,
            Ok(held) if ample && held.len() == 0 => set_aside(&path, reserve)?,
            Err(e) if ample && e.kind() == io::ErrorKind::NotFound => set_aside(&path, reserve)?,
            _ => return Ok(space),
        }
        (self.measure)(&self.folder)
    }
}

/// A file that takes so many bytes of the disk; none where the file system cannot promise them.
fn set_aside(path: &Path, bytes: u64) -> io::Result<()> {
    let file: File = OpenOptions::new().create(true).append(true).open(path)?;
    let flags = rustix::fs::FallocateFlags::empty();
    let allocated = rustix::fs::fallocate(&file, flags, 0, bytes);
    if allocated.is_err() {
        file.set_len(0)?;
    }
    Ok(allocated?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const TOTAL: u64 = 64 << 30;

    /// Room on a disk of which so much is free as is said; nothing that was measured counts for
    /// long.
    fn room(folder: &Path, free: &Arc<AtomicU64>) -> Room {
        let free = Arc::clone(free);
        let measure = move |_: &Path| {
            let free = free.load(Ordering::Relaxed);
            Ok(Space { free, total: TOTAL })
        };
        Room::measured(folder, 1 << 20, Box::new(measure))
    }

    fn forget(room: &Room) {
        *room.seen.lock() = None;
    }

    #[test]
    fn growth_is_refused_below_the_margin_and_allowed_again_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(MARGIN));
        let room = room(folder.path(), &free);
        room.check().unwrap();
        free.store(MARGIN - 1, Ordering::Relaxed);
        forget(&room);
        let refused = room.check().unwrap_err();
        assert!(
            matches!(
                refused,
                KvError::NoSpace { available, needed, .. } if available == MARGIN - 1 && needed == MARGIN
            ),
            "{refused}"
        );
        free.store(MARGIN, Ordering::Relaxed);
        forget(&room);
        room.check().unwrap();
    }

    #[test]
    fn the_last_room_is_for_those_who_make_some() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(MARGIN - 1));
        let room = room(folder.path(), &free);
        assert!(room.check().is_err());
        room.check_last(MARGIN / 2).unwrap();
        assert!(room.check_last(MARGIN).is_err());
        free.store(MARGIN / 4, Ordering::Relaxed);
        forget(&room);
        room.check_last(0).unwrap();
        assert!(room.check_last(1).is_err());
    }

    #[test]
    fn what_was_measured_counts_for_a_moment() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(MARGIN));
        let room = room(folder.path(), &free);
        room.check().unwrap();
        free.store(0, Ordering::Relaxed);
        // Asked at once, however slow the machine: a measurement from the future is fresh.
        *room.seen.lock() = Some((
            Instant::now() + FRESH,
            Space {
                free: MARGIN,
                total: TOTAL,
            },
        ));
        room.check().unwrap();
    }

    #[test]
    fn the_reserve_is_given_back_on_a_full_disk_and_set_aside_again() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(TOTAL));
        let room = room(folder.path(), &free);
        let held = || std::fs::metadata(folder.path().join(RESERVE)).map(|m| m.len());
        room.look().unwrap();
        assert_eq!(held().unwrap(), 1 << 20);
        for (left, kept) in [
            (MARGIN / 4, true),
            (MARGIN / 4 - 1, false),
            (2 * MARGIN, false),
            (2 * MARGIN + (1 << 20), true),
        ] {
            free.store(left, Ordering::Relaxed);
            forget(&room);
            room.look().unwrap();
            assert_eq!(held().is_ok(), kept, "{left} bytes free");
        }
    }

    #[test]
    fn a_small_file_system_keeps_a_part_of_itself_free() {
        let space = |total| Space { free: 0, total };
        assert_eq!(space(160 << 20).margin(), 10 << 20);
        assert_eq!(space(1 << 40).margin(), MARGIN);
    }
}
