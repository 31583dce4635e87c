//! Free space on the file system of an engine, and the reserve.
//!
//! An engine whose commit finds the disk full is closed until it is reopened: what the disk holds
//! is unknown. So operations that make it larger are refused before they change anything, while
//! less than the *margin* is free ([`DiskReserve::check_growth`]). Operations that free more than
//! they take may use the space down to a quarter of the margin ([`DiskReserve::check_reclaim`]).
//! Deletions are not checked. For them an engine may keep a *reserve*, a preallocated file: it is
//! deleted when others have nearly filled the disk, and allocated again when there is space.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use parking_lot::Mutex;

use crate::KvError;
use crate::limits::{
    MARGIN, MARGIN_DIVISOR, MEMTABLE_DIVISOR, MEMTABLE_MIN, RECLAIM_DIVISOR, RESERVE_DIVISOR,
    SPACE_MAX_AGE,
};

/// The reserve's file.
const RESERVE: &str = "weft.reserve";

/// Bytes of a file system.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskSpace {
    pub(crate) free: u64,
    pub(crate) total: u64,
}

impl DiskSpace {
    fn of(folder: &Path) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(folder)?;
        Ok(DiskSpace {
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
            total: stat.f_blocks.saturating_mul(stat.f_frsize),
        })
    }

    /// What must be free for the engine to grow.
    fn margin(self) -> u64 {
        MARGIN.min(self.total / MARGIN_DIVISOR)
    }

    /// What must be free beside the bytes of an operation that frees more than it takes.
    fn reclaim_floor(self) -> u64 {
        self.margin() / RECLAIM_DIVISOR
    }
}

/// Bytes of a memtable: as many as wanted, but twice that must fit into the margin.
pub(crate) fn memtable_bytes(folder: &Path, wanted: u64) -> u64 {
    let most = DiskSpace::of(folder).map_or(u64::MAX, |space| space.total / MEMTABLE_DIVISOR);
    wanted.min(most.max(MEMTABLE_MIN))
}

pub(crate) type Measure = Box<dyn Fn(&Path) -> io::Result<DiskSpace> + Send + Sync>;

/// The free space of an engine's file system, and the engine's reserve there.
pub(crate) struct DiskReserve {
    folder: PathBuf,
    reserve: u64,
    measure: Measure,
    measured: Mutex<Option<(Instant, DiskSpace)>>,
}

impl DiskReserve {
    /// `reserve`: bytes to keep for deletions; 0: none.
    pub(crate) fn new(folder: &Path, reserve: u64) -> DiskReserve {
        DiskReserve::with_measure(folder, reserve, Box::new(DiskSpace::of))
    }

    pub(crate) fn with_measure(folder: &Path, reserve: u64, measure: Measure) -> DiskReserve {
        DiskReserve {
            folder: folder.to_path_buf(),
            reserve,
            measure,
            measured: Mutex::default(),
        }
    }

    /// Whether the engine may grow.
    ///
    /// Cost: a system call ten times a second, else a lock.
    /// # Errors
    /// [`KvError::NoSpace`].
    pub(crate) fn check_growth(&self) -> Result<(), KvError> {
        self.check_for(DiskSpace::margin)
    }

    /// Whether there is space for so many bytes that free more than they take.
    ///
    /// # Errors
    /// [`KvError::NoSpace`].
    pub(crate) fn check_reclaim(&self, bytes: u64) -> Result<(), KvError> {
        self.check_for(|space| space.reclaim_floor().saturating_add(bytes))
    }

    /// Whether so many bytes are free, the margin included.
    pub(crate) fn has_free(&self, bytes: u64) -> bool {
        self.refresh().is_none_or(|space| space.free >= bytes)
    }

    /// Whether growth is refused, or will be soon.
    pub(crate) fn is_low(&self) -> bool {
        self.refresh()
            .is_some_and(|space| space.free < 2 * space.margin())
    }

    fn check_for(&self, needed: impl Fn(DiskSpace) -> u64) -> Result<(), KvError> {
        match self.refresh() {
            Some(space) if space.free < needed(space) => Err(KvError::NoSpace {
                path: self.folder.display().to_string(),
                available: space.free,
                needed: needed(space),
            }),
            // Where nothing can be measured, the commit finds out.
            Some(_) | None => Ok(()),
        }
    }

    /// The free space, at most [`SPACE_MAX_AGE`] old. Releases or allocates the reserve where that
    /// is due.
    pub(crate) fn refresh(&self) -> Option<DiskSpace> {
        let mut measured = self.measured.lock();
        if let Some((at, space)) = *measured
            && at.elapsed() < SPACE_MAX_AGE
        {
            return Some(space);
        }
        let space = (self.measure)(&self.folder).ok();
        // A reserve that cannot be allocated or released leaves the free space as it is.
        let space = space.map(|space| self.adjust_reserve(space).unwrap_or(space));
        *measured = space.map(|space| (Instant::now(), space));
        space
    }

    fn adjust_reserve(&self, space: DiskSpace) -> io::Result<DiskSpace> {
        let reserve = self.reserve.min(space.total / RESERVE_DIVISOR);
        if reserve == 0 {
            return Ok(space);
        }
        let path = self.folder.join(RESERVE);
        let scarce = space.free < space.reclaim_floor();
        let ample = space.free >= 2 * space.margin() + reserve;
        if !scarce && !ample {
            return Ok(space);
        }
        match std::fs::metadata(&path) {
            Ok(file) if scarce && file.len() > 0 => std::fs::remove_file(&path)?,
            Ok(file) if ample && file.len() == 0 => allocate(&path, reserve)?,
            Err(e) if ample && e.kind() == io::ErrorKind::NotFound => allocate(&path, reserve)?,
            _ => return Ok(space),
        }
        (self.measure)(&self.folder)
    }
}

/// Makes a file that takes so many bytes of the disk; an empty one where the file system cannot
/// promise them.
fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
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

    /// A reserve on a simulated disk with `free` bytes.
    fn reserve(folder: &Path, free: &Arc<AtomicU64>) -> DiskReserve {
        let free = Arc::clone(free);
        let measure = move |_: &Path| {
            let free = free.load(Ordering::Relaxed);
            Ok(DiskSpace { free, total: TOTAL })
        };
        DiskReserve::with_measure(folder, 1 << 20, Box::new(measure))
    }

    fn forget(reserve: &DiskReserve) {
        *reserve.measured.lock() = None;
    }

    #[test]
    fn growth_is_refused_below_the_margin_and_allowed_again_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(MARGIN));
        let reserve = reserve(folder.path(), &free);
        reserve.check_growth().unwrap();
        free.store(MARGIN - 1, Ordering::Relaxed);
        forget(&reserve);
        let refused = reserve.check_growth().unwrap_err();
        assert!(
            matches!(
                refused,
                KvError::NoSpace { available, needed, .. } if available == MARGIN - 1 && needed == MARGIN
            ),
            "{refused}"
        );
        free.store(MARGIN, Ordering::Relaxed);
        forget(&reserve);
        reserve.check_growth().unwrap();
    }

    #[test]
    fn the_last_space_is_reserved_for_operations_that_free_space() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(MARGIN - 1));
        let reserve = reserve(folder.path(), &free);
        assert!(reserve.check_growth().is_err());
        reserve.check_reclaim(MARGIN / 2).unwrap();
        assert!(reserve.check_reclaim(MARGIN).is_err());
        free.store(MARGIN / 4, Ordering::Relaxed);
        forget(&reserve);
        reserve.check_reclaim(0).unwrap();
        assert!(reserve.check_reclaim(1).is_err());
    }

    #[test]
    fn a_recent_measurement_is_reused() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(MARGIN));
        let reserve = reserve(folder.path(), &free);
        reserve.check_growth().unwrap();
        free.store(0, Ordering::Relaxed);
        // A measurement dated in the future stays fresh, however slow the machine.
        *reserve.measured.lock() = Some((
            Instant::now() + SPACE_MAX_AGE,
            DiskSpace {
                free: MARGIN,
                total: TOTAL,
            },
        ));
        reserve.check_growth().unwrap();
    }

    #[test]
    fn the_reserve_is_released_on_a_full_disk_and_allocated_again() {
        let folder = tempfile::tempdir().unwrap();
        let free = Arc::new(AtomicU64::new(TOTAL));
        let reserve = reserve(folder.path(), &free);
        let held = || std::fs::metadata(folder.path().join(RESERVE)).map(|m| m.len());
        reserve.refresh().unwrap();
        assert_eq!(held().unwrap(), 1 << 20);
        for (left, reserved) in [
            (MARGIN / 4, true),
            (MARGIN / 4 - 1, false),
            (2 * MARGIN, false),
            (2 * MARGIN + (1 << 20), true),
        ] {
            free.store(left, Ordering::Relaxed);
            forget(&reserve);
            reserve.refresh().unwrap();
            assert_eq!(held().is_ok(), reserved, "{left} bytes free");
        }
    }

    #[test]
    fn the_margin_of_a_small_file_system_is_a_share_of_its_size() {
        let space = |total| DiskSpace { free: 0, total };
        assert_eq!(space(160 << 20).margin(), 10 << 20);
        assert_eq!(space(1 << 40).margin(), MARGIN);
    }
}
