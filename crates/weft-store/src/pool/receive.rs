#![allow(unsafe_code)] // Consecutive units are one range of memory.
//! Receive buffers: the payload of a large write arrives in memory that becomes pages of the cache
//! without a copy.
//!
//! A *row* is a number of consecutive whole units of a slab. While it is filled, a
//! [`ReceiveBuffer`] owns it; frozen, it is immutable [`Bytes`], and the store finds the unit under
//! a slice of them by its address, so that the layers in between need not know of units. Each unit
//! is freed by itself when its last reference is dropped: a page holds one unit. If no page holds
//! any, the whole row serves the next receive buffer, because it is still in the processor's cache.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{Buffer, FULL, FreeUnits, Pool, UNIT, UNITS};
use crate::limits::{
    DIRECT_MIN, RECEIVED_UNITS_MAX, REUSE_UNITS_MAX, SLABS_SEARCHED, SPARE_SHARE, SPARE_UNITS,
};

/// Shorter payloads fill no page alone: they are received elsewhere.
const LENGTH_MIN: usize = DIRECT_MIN as usize;

/// Units of frozen bytes by their address, until the bytes are dropped.
pub(super) type Units = HashMap<usize, Weak<Buffer>>;

impl FreeUnits {
    /// Finds `count` consecutive whole units in a slab and returns the first. Grows the pool if
    /// there are none and little memory is free.
    fn take_row(&mut self, count: u32) -> Option<u32> {
        let slabs = self.whole_bits.len();
        for n in 0..slabs.min(SLABS_SEARCHED) {
            let slab = (self.row + n) % slabs;
            if let Some(first) = first_row(self.whole_bits[slab], count) {
                self.row = slab;
                return Some((slab * UNITS) as u32 + first);
            }
        }
        self.row += slabs.min(SLABS_SEARCHED);
        let little = self.whole.len() < SPARE_UNITS.max(self.units.len() / SPARE_SHARE);
        little.then(|| self.grow())
    }

    /// Keeps a row, whose units stay taken, for the next receive buffer; returns whether the bound
    /// allows it.
    fn keep_for_reuse(&mut self, first: u32, count: usize) -> bool {
        let kept: usize = self.reusable.iter().map(|(_, count)| count).sum();
        let fits = kept + count <= REUSE_UNITS_MAX;
        if fits {
            self.reusable.push((first, count));
        }
        fits
    }

    /// The kept row of this length that was used last.
    fn take_reusable(&mut self, wanted: usize) -> Option<u32> {
        let at = self
            .reusable
            .iter()
            .rposition(|(_, count)| *count == wanted)?;
        let (first, _) = self.reusable.remove(at);
        self.reusable_unused = self.reusable_unused.min(at);
        Some(first)
    }

    /// Frees the rows that were not used since the last call.
    pub(super) fn release_unused_rows(&mut self) {
        let unused: Vec<_> = self.reusable.drain(..self.reusable_unused).collect();
        for (first, count) in unused {
            (first..first + count as u32).for_each(|unit| self.set(unit, FULL));
        }
        self.reusable_unused = self.reusable.len();
    }
}

/// The position of the first `count` consecutive bits.
fn first_row(bits: u32, count: u32) -> Option<u32> {
    let starts = (1..count).fold(bits, |starts, n| starts & bits >> n);
    (starts != 0).then(|| starts.trailing_zeros())
}

impl Pool {
    /// A contiguous, aligned receive buffer of `length` bytes. `None` if that is too short or long
    /// to become pages, the bound of received units is reached, or no row is free.
    pub fn receive_buffer(&self, length: usize) -> Option<ReceiveBuffer> {
        let count = length.div_ceil(UNIT);
        if length < LENGTH_MIN || count > UNITS {
            return None;
        }
        let count_guard = ReceivedUnits::of(self, count)?;
        let mut free = self.0.free.lock();
        let first = if let Some(first) = free.take_reusable(count) {
            first
        } else {
            let first = free.take_row(count as u32)?;
            (first..first + count as u32).for_each(|unit| free.set(unit, 0));
            first
        };
        let row = first..first + count as u32;
        let units = row.map(|unit| self.buffer(&free, unit, FULL)).collect();
        Some(ReceiveBuffer {
            units,
            length,
            count_guard,
        })
    }

    /// The unit that `bytes` lie in, and their offset in it, if they came in a buffer of
    /// [`Pool::receive_buffer`] and lie in one unit. A caller may hold the unit after the rest of
    /// the row is free.
    pub(crate) fn unit_of(&self, bytes: &[u8]) -> Option<(Arc<Buffer>, usize)> {
        let address = bytes.as_ptr().addr();
        let at = address % UNIT;
        let received_units = self.0.received_units.lock();
        let unit = received_units.get(&(address - at))?.upgrade();
        unit.filter(|_| at + bytes.len() <= UNIT)
            .map(|unit| (unit, at))
    }
}

/// Counts units as received while it lives.
#[derive(Debug)]
struct ReceivedUnits {
    pool: Pool,
    units: usize,
}

impl ReceivedUnits {
    fn of(pool: &Pool, units: usize) -> Option<ReceivedUnits> {
        let before = pool.0.received.fetch_add(units, Relaxed);
        let count_guard = ReceivedUnits {
            pool: pool.clone(),
            units,
        };
        (before + units <= RECEIVED_UNITS_MAX).then_some(count_guard)
    }
}

impl Drop for ReceivedUnits {
    fn drop(&mut self) {
        self.pool.0.received.fetch_sub(self.units, Relaxed);
    }
}

/// Memory of a pool for a payload that is being received, without another reference.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// Consecutive in memory.
    units: Vec<Buffer>,
    length: usize,
    count_guard: ReceivedUnits,
}

impl ReceiveBuffer {
    /// The memory to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the units are consecutive in one slab, this buffer owns each of them alone, and
        // `length` ends in the last one.
        unsafe { std::slice::from_raw_parts_mut(self.units[0].start.as_ptr(), self.length) }
    }

    /// Freezes the bytes: they are immutable from now on, and pages may share them.
    pub fn freeze(self) -> Bytes {
        let units: Vec<_> = self.units.into_iter().map(Arc::new).collect();
        let mut received_units = self.count_guard.pool.0.received_units.lock();
        for unit in &units {
            received_units.insert(unit.start.as_ptr().addr(), Arc::downgrade(unit));
        }
        drop(received_units);
        Bytes::from_owner(Received {
            units,
            length: self.length,
            count_guard: self.count_guard,
        })
    }
}

/// Received bytes.
struct Received {
    units: Vec<Arc<Buffer>>,
    length: usize,
    count_guard: ReceivedUnits,
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`; shared units are only read, and this holds a share of each.
        unsafe { std::slice::from_raw_parts(self.units[0].start.as_ptr(), self.length) }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let mut received_units = self.count_guard.pool.0.received_units.lock();
        for unit in &self.units {
            received_units.remove(&unit.start.as_ptr().addr());
        }
        drop(received_units);
        let units = self.units.drain(..).map(Arc::into_inner);
        let Some(mut row) = units.collect::<Option<Vec<Buffer>>>() else {
            return;
        };
        let mut free = self.count_guard.pool.0.free.lock();
        let kept = free.keep_for_reuse(row[0].unit, row.len());
        drop(free);
        if kept {
            // They give nothing back.
            for unit in &mut row {
                unit.bits = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::BLOCK;

    #[test]
    fn a_unit_outlives_the_received_bytes_around_it() {
        let pool = Pool::new();
        let mut receive = pool.receive_buffer(3 * UNIT - 100).unwrap();
        receive.bytes_mut().fill(7);
        let memory = receive.bytes_mut().as_ptr();
        assert!(
            pool.unit_of(receive.bytes_mut()).is_none(),
            "these bytes may still change"
        );
        let bytes = receive.freeze();
        assert!(bytes.as_ptr() == memory && bytes.len() == 3 * UNIT - 100);
        let (second, at) = pool.unit_of(&bytes[UNIT + BLOCK..2 * UNIT]).unwrap();
        assert_eq!((at, second.len()), (BLOCK, UNIT));
        assert!(pool.unit_of(&bytes[UNIT - 1..=UNIT]).is_none(), "two units");
        assert!(pool.unit_of(&[0; 10]).is_none(), "other memory");
        drop(bytes);
        assert!(second.iter().all(|b| *b == 7));
        assert!(
            pool.unit_of(&second[..]).is_none(),
            "the unit is no longer in received bytes"
        );
        // All other units of the slab are free again.
        let others: Vec<_> = (1..UNITS).map(|_| pool.take(16)).collect();
        assert_eq!(pool.bytes(), (UNIT * UNITS) as u64);
        assert!(others.iter().all(|o| o.as_ptr() != second.as_ptr()));
    }

    #[test]
    fn a_pool_without_a_free_row_grows_only_if_little_is_free() {
        let pool = Pool::new();
        assert!(
            pool.receive_buffer(LENGTH_MIN - 1).is_none()
                && pool.receive_buffer(UNITS * UNIT + 1).is_none()
        );
        let slabs = 2 * SPARE_UNITS / UNITS + 1;
        let mut all: Vec<_> = (0..slabs * UNITS).map(|_| pool.take(16)).collect();
        let full = pool.bytes();
        let mut n = 0;
        all.retain(|_| {
            n += 1;
            n % 2 == 0
        });
        assert!(
            pool.receive_buffer(2 * UNIT).is_none(),
            "only every second unit is free"
        );
        assert_eq!(pool.bytes(), full);
        all.drain(..2);
        let row = pool.receive_buffer(4 * UNIT).unwrap();
        assert_eq!(pool.bytes(), full);
        let taken: Vec<_> = (0..SPARE_UNITS / 2).map(|_| pool.take(16)).collect();
        assert!(
            pool.receive_buffer(2 * UNIT).is_some(),
            "few units are free now"
        );
        assert_eq!(pool.bytes(), full + (UNITS * UNIT) as u64);
        drop((row, all, taken));
    }

    #[test]
    fn received_units_are_bounded_and_other_buffers_do_not_count() {
        let pool = Pool::new();
        let mut all: Vec<_> = (0..RECEIVED_UNITS_MAX / 8)
            .map(|_| pool.receive_buffer(8 * UNIT))
            .collect();
        assert!(all.iter().all(Option::is_some));
        assert!(pool.receive_buffer(UNIT).is_none());
        let bytes = all.pop().flatten().unwrap().freeze();
        let (page, _) = pool.unit_of(&bytes[..UNIT]).unwrap();
        assert!(pool.receive_buffer(UNIT).is_none());
        drop(bytes);
        let row = pool.receive_buffer(8 * UNIT).unwrap();
        assert!(pool.receive_buffer(UNIT).is_none());
        drop((row, all, page));
        assert_eq!(pool.0.received.load(Relaxed), 0);
    }

    #[test]
    fn rows_that_no_page_holds_are_reused() {
        let pool = Pool::new();
        let whole_bits: Vec<_> = (0..40)
            .map(|_| pool.receive_buffer(8 * UNIT).unwrap().freeze())
            .collect();
        let places: Vec<_> = whole_bits.iter().map(|row| row.as_ptr()).collect();
        let page = pool.unit_of(&whole_bits[39][..UNIT]).unwrap();
        let memory = pool.bytes();
        drop(whole_bits);
        // The first 32 rows reach the bound; the last of them is reused first, and only for a
        // buffer of its length.
        let other = pool.receive_buffer(7 * UNIT).unwrap().freeze();
        assert!(places[..32].iter().all(|place| *place != other.as_ptr()));
        let mut again: Vec<_> = (0..32)
            .map(|_| pool.receive_buffer(8 * UNIT).unwrap().freeze())
            .collect();
        assert!(
            again
                .iter()
                .rev()
                .map(|row| row.as_ptr())
                .eq(places[..32].iter().copied())
        );
        again.extend((0..6).map(|_| pool.receive_buffer(8 * UNIT).unwrap().freeze()));
        assert_eq!(pool.bytes(), memory);
        let mut all: Vec<_> = again.iter().map(|row| row.as_ptr().addr()).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] + 8 * UNIT <= pair[1]));
        drop((again, other, page));
        let weak = Arc::downgrade(&pool.0);
        drop(pool);
        assert!(
            weak.upgrade().is_none(),
            "a kept row does not keep the pool alive"
        );
    }

    #[test]
    fn the_first_row_of_free_bits_is_found() {
        for (bits, count, found) in [
            (0b1, 1, Some(0)),
            (0b1011_1000, 3, Some(3)),
            (0b1011_1000, 4, None),
            (u32::MAX, 32, Some(0)),
            (u32::MAX << 1, 32, None),
            (1 << 31, 1, Some(31)),
            (1 << 31, 2, None),
            (0, 1, None),
        ] {
            assert_eq!(first_row(bits, count), found, "{bits:b} {count}");
        }
    }
}
