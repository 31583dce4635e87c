#![allow(unsafe_code)] // Aligned memory for direct I/O cannot be expressed safely.
//! Aligned buffers from slabs. Fresh memory is expensive, so the pool returns a slab to the system
//! only after it was idle for a while.
//!
//! A guest's page fault on untouched memory costs more than the copy into it, so buffers are carved
//! from 2 MiB slabs (huge pages if the system has them) and return to the pool when dropped. A slab
//! is 32 *units* of 64 KiB. A unit is allocated whole, in quarters or in single blocks, and is
//! whole again when all of them are free. So a change of load does not strand memory.
//!
//! Owns the slabs and which of their blocks are free. Calls: [`Pool::take`],
//! [`Pool::receive_buffer`], [`Pool::release_idle`]; dropping a [`Buffer`] frees it.
//!
//! Invariants:
//! 1. No two live [`Buffer`]s overlap.
//! 2. All memory of a slab is initialised from its allocation on.

mod receive;

use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::limits::RELEASED_SLABS_MAX;

pub use receive::ReceiveBuffer;

/// The unit of disks, checksums and maps: 4,096 bytes.
pub const BLOCK: usize = 4096;
/// Blocks of the largest buffer.
pub const BUFFER_BLOCKS_MAX: usize = 16;
const UNIT: usize = BLOCK * BUFFER_BLOCKS_MAX;
const SLAB: usize = 2 << 20;
const UNITS: usize = SLAB / UNIT;
const FULL: u16 = u16::MAX;
/// Aligned buffers of 1, 4 or 16 blocks. Clones share the memory.
#[derive(Clone, Default)]
pub struct Pool(Arc<PoolState>);

#[derive(Default)]
struct PoolState {
    free: Mutex<FreeUnits>,
    received_units: Mutex<receive::Units>,
    /// Units of receive buffers, being filled or frozen.
    received: AtomicUsize,
}

/// Whether a slab is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Idle {
    /// Some of it was used since the last [`Pool::release_idle`].
    Used,
    /// It was not used since then.
    Unused,
    /// Its memory was returned: it reads as zeros and takes no memory.
    GivenBack,
}

#[derive(Default)]
struct FreeUnits {
    slabs: Vec<NonNull<u8>>,
    /// Free blocks of each unit, one bit each.
    units: Vec<u16>,
    whole: BTreeSet<u32>,
    /// The same as a bit mask for each slab.
    whole_bits: Vec<u32>,
    /// The slab of the last row that was found.
    row: usize,
    /// For each slab, whether its memory may be returned.
    idle: Vec<Idle>,
    /// Rows of taken units for the next receive buffers: first unit, count.
    reusable: Vec<(u32, usize)>,
    /// How many of them, from the front, were not used since the last [`Pool::release_idle`].
    reusable_unused: usize,
    /// Units with a free aligned quarter, not whole.
    quarters: BTreeSet<u32>,
    /// Units with a free block but no free quarter.
    singles: BTreeSet<u32>,
}

// SAFETY: the slabs' addresses are only turned into buffers, each of which owns its range alone.
unsafe impl Send for FreeUnits {}

impl FreeUnits {
    fn list(&mut self, mask: u16) -> Option<&mut BTreeSet<u32>> {
        match mask {
            0 => None,
            FULL => Some(&mut self.whole),
            m if quarter(m).is_some() => Some(&mut self.quarters),
            _ => Some(&mut self.singles),
        }
    }

    fn set(&mut self, unit: u32, mask: u16) {
        let old = self.units[unit as usize];
        if let Some(list) = self.list(old) {
            list.remove(&unit);
        }
        self.units[unit as usize] = mask;
        let (slab, within) = (unit as usize / UNITS, unit as usize % UNITS);
        self.idle[slab] = Idle::Used;
        self.whole_bits[slab] &= !(1 << within);
        self.whole_bits[slab] |= u32::from(mask == FULL) << within;
        if let Some(list) = self.list(mask) {
            list.insert(unit);
        }
    }

    fn take(&mut self, blocks: usize) -> (u32, u16) {
        let found = match blocks {
            1 => self
                .singles
                .first()
                .or(self.quarters.first())
                .or(self.whole.first()),
            4 => self.quarters.first().or(self.whole.first()),
            _ => self.whole.first(),
        };
        let unit = found.copied().unwrap_or_else(|| self.grow());
        let mask = self.units[unit as usize];
        let bits = match blocks {
            1 => mask & mask.wrapping_neg(),
            4 => quarter(mask).expect("the unit was listed with a free quarter"),
            _ => FULL,
        };
        self.set(unit, mask & !bits);
        (unit, bits)
    }

    fn grow(&mut self) -> u32 {
        let slab = map_slab();
        let first = u32::try_from(self.units.len()).expect("fewer than 2^32 units of memory");
        self.slabs.push(slab);
        self.whole_bits.push(u32::MAX);
        self.idle.push(Idle::Used);
        for unit in first..first + UNITS as u32 {
            self.units.push(FULL);
            self.whole.insert(unit);
        }
        first
    }
}

/// Zeroed memory of [`SLAB`] bytes, aligned to as much, in a huge page if the system has one: then
/// a disk request names one address instead of many, and the processor needs fewer TLB entries.
fn map_slab() -> NonNull<u8> {
    // SAFETY: a new mapping of two slabs, anywhere, without another reference. `before` is a slab
    // at most, so the slab from there on lies inside; only memory outside of it is unmapped, in
    // whole pages, since `mapped` and a slab are multiples of one.
    unsafe {
        let mapped = libc::mmap(
            ptr::null_mut(),
            2 * SLAB,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if mapped == libc::MAP_FAILED {
            handle_alloc_error(Layout::new::<[u8; SLAB]>())
        }
        let mapped = mapped.cast::<u8>();
        // The upper of two, next to the slab mapped before it: then both are one mapping; the
        // kernel bounds their number.
        let before = match mapped.align_offset(SLAB) {
            0 => SLAB,
            before => before,
        };
        let slab = mapped.add(before);
        libc::munmap(mapped.cast(), before);
        if before < SLAB {
            libc::munmap(slab.add(SLAB).cast(), SLAB - before);
        }
        // Whether the kernel follows the advice changes nothing but speed.
        libc::madvise(slab.cast(), SLAB, libc::MADV_HUGEPAGE);
        NonNull::new(slab).expect("a mapping is not at address 0")
    }
}

fn quarter(mask: u16) -> Option<u16> {
    (0..4)
        .map(|q| 0xf << (4 * q))
        .find(|&bits| mask & bits == bits)
}

impl Drop for PoolState {
    fn drop(&mut self) {
        for slab in self.free.get_mut().slabs.drain(..) {
            // SAFETY: mapped in `map_slab`; every buffer holds the pool, so no buffer is left.
            unsafe { libc::munmap(slab.as_ptr().cast(), SLAB) };
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("bytes", &self.bytes())
            .finish()
    }
}

impl Pool {
    /// An empty pool.
    pub fn new() -> Self {
        Self::default()
    }

    /// Memory taken from the system and not returned, in bytes.
    pub fn bytes(&self) -> u64 {
        let free = self.0.free.lock();
        let kept = free.idle.iter().filter(|idle| **idle != Idle::GivenBack);
        (kept.count() * SLAB) as u64
    }

    /// Returns the memory of slabs that were idle since the last call to the system,
    /// [`RELEASED_SLABS_MAX`] at most.
    pub fn release_idle(&self) {
        let mut free = self.0.free.lock();
        free.release_unused_rows();
        let mut given_back = 0;
        for slab in 0..free.slabs.len() {
            match free.idle[slab] {
                Idle::Used if free.whole_bits[slab] == u32::MAX => free.idle[slab] = Idle::Unused,
                Idle::Unused if given_back < RELEASED_SLABS_MAX => {
                    given_back += 1;
                    free.idle[slab] = Idle::GivenBack;
                    // SAFETY: the slab is a mapping of this pool, and no buffer lies in it, as all
                    // its units are whole. The next buffer there reads zeros, which are
                    // initialised.
                    unsafe {
                        libc::madvise(free.slabs[slab].as_ptr().cast(), SLAB, libc::MADV_DONTNEED)
                    };
                }
                Idle::Used | Idle::Unused | Idle::GivenBack => {}
            }
        }
    }

    /// A buffer of 1, 4 or 16 blocks. Its contents are unspecified.
    pub fn take(&self, blocks: usize) -> Buffer {
        assert!(
            matches!(blocks, 1 | 4 | 16),
            "buffers have 1, 4 or 16 blocks"
        );
        let mut free = self.0.free.lock();
        let (unit, bits) = free.take(blocks);
        self.buffer(&free, unit, bits)
    }

    /// The buffer of these blocks of a unit, which were just taken.
    fn buffer(&self, free: &FreeUnits, unit: u32, bits: u16) -> Buffer {
        let at = (unit as usize % UNITS) * UNIT + bits.trailing_zeros() as usize * BLOCK;
        Buffer {
            // SAFETY: unit and bits lie inside the slab that `units` was extended for.
            start: unsafe { free.slabs[unit as usize / UNITS].add(at) },
            blocks: bits.count_ones() as usize,
            unit,
            bits,
            pool: self.clone(),
        }
    }
}

/// An aligned buffer that returns to its pool when dropped.
pub struct Buffer {
    start: NonNull<u8>,
    blocks: usize,
    unit: u32,
    bits: u16,
    pool: Pool,
}

// SAFETY: a buffer owns its range of the slab alone (invariant 1), like a boxed slice.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Blocks it holds.
    pub fn blocks(&self) -> usize {
        self.blocks
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is ours, initialised and inside the slab, which the pool keeps alive.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.blocks * BLOCK) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.blocks * BLOCK) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut free = self.pool.0.free.lock();
        let mask = free.units[self.unit as usize];
        free.set(self.unit, mask | self.bits);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} blocks)", self.blocks)
    }
}

/// Part of a shared buffer.
#[derive(Clone, Debug)]
pub struct Slice {
    buffer: Arc<Buffer>,
    range: Range<usize>,
}

impl Slice {
    /// `range` of `buffer`.
    pub fn new(buffer: Arc<Buffer>, range: Range<usize>) -> Self {
        assert!(range.end <= buffer.len(), "a slice lies inside its buffer");
        Self { buffer, range }
    }

    /// Whether it is part of this buffer.
    pub(crate) fn is_of(&self, buffer: &Arc<Buffer>) -> bool {
        Arc::ptr_eq(&self.buffer, buffer)
    }

    /// Whether `at` of `buffer` is where this slice ends.
    pub(crate) fn continues_at(&self, buffer: &Arc<Buffer>, at: usize) -> bool {
        Arc::ptr_eq(&self.buffer, buffer) && self.range.end == at
    }

    /// Takes in the next `bytes` of the buffer.
    pub(crate) fn grow(&mut self, bytes: usize) {
        assert!(
            self.range.end + bytes <= self.buffer.len(),
            "a slice lies inside its buffer"
        );
        self.range.end += bytes;
    }

    /// The same bytes without a copy; the buffer lives until the last such handle is dropped.
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_memory_is_returned_and_can_be_used_again() {
        let pool = Pool::new();
        let take = |n: usize| (0..n).map(|_| pool.take(16)).collect::<Vec<Buffer>>();
        let mut all = take(3 * UNITS);
        for buffer in &mut all {
            buffer.fill(7);
        }
        let used = 3 * SLAB as u64;
        pool.release_idle();
        pool.release_idle();
        assert_eq!(pool.bytes(), used);
        // One unit keeps its slab in use.
        let one = all.pop();
        drop(all);
        pool.release_idle();
        assert_eq!(pool.bytes(), used, "the memory was in use a moment ago");
        pool.release_idle();
        assert_eq!(pool.bytes(), SLAB as u64);
        assert!(one.unwrap().iter().all(|byte| *byte == 7));
        for mut buffer in take(3 * UNITS) {
            buffer.fill(9);
            assert!(buffer.iter().all(|byte| *byte == 9));
        }
        assert_eq!(pool.bytes(), used);
    }

    #[test]
    fn buffers_never_overlap_and_whole_units_are_returned() {
        let pool = Pool::new();
        let mut held: Vec<(Buffer, u8)> = Vec::new();
        let mut state = 7_u64;
        for step in 0..4000_u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let pick = (state >> 33) as usize;
            if held.len() > 150 || (pick.is_multiple_of(3) && !held.is_empty()) {
                let (buffer, mark) = held.swap_remove(pick % held.len());
                assert!(buffer.iter().all(|&b| b == mark));
            } else {
                let mut buffer = pool.take([1, 4, 16][pick % 3]);
                buffer.fill(step as u8);
                held.push((buffer, step as u8));
            }
        }
        held.clear();
        let before = pool.bytes();
        let all: Vec<Buffer> = (0..before as usize / UNIT).map(|_| pool.take(16)).collect();
        assert_eq!(pool.bytes(), before);
        drop(all);
    }
}
