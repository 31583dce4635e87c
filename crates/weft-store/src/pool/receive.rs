#![allow(unsafe_code)] // Units that follow each other are one piece of memory.
//! Memory to receive into that stays where it is: a page of what a large write brought lies on the
//! unit it came in, not on a copy.
//!
//! A *row* is so many whole units one after the other in a slab. Whoever receives has it alone
//! ([`ReceiveBuffer`]); then it is bytes that do not change, whose units are found by their
//! address, so that nobody on the way has to know of them. Each unit is given back by itself, when
//! the last one who holds it lets go: a page keeps its own. Where nobody kept one, the whole row is
//! what is received into next: what was just used is in the processor's cache.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::{Buffer, FULL, FreeUnits, Pool, UNIT, UNITS};
use crate::limits::DIRECT_MIN;

/// Shorter payloads lie on no page alone: they are received elsewhere.
const SHORTEST: usize = DIRECT_MIN as usize;
/// Units of what was received and is held as such: 64 MiB. What is more is received elsewhere and
/// copied, so that the most that ever waited is not kept for ever.
const RECEIVED_MAX: usize = 1024;
/// Slabs in which a row is looked for.
const LOOKED_AT: usize = 1024;
/// Memory is added for a row only while fewer units are free than this, 4 MiB, and than a part of
/// all.
const SPARE: usize = 64;
const SPARE_PART: usize = 16;

/// Units of rows that are kept to be received into again: 16 MiB.
const READY_MAX: usize = 256;

/// Received units by their address, as long as the bytes are held that they were received as.
pub(super) type Units = HashMap<usize, Weak<Buffer>>;

impl FreeUnits {
    /// The first of so many whole units that follow each other in a slab. Where none is found,
    /// memory is added if little of it is free.
    fn take_row(&mut self, count: u32) -> Option<u32> {
        let slabs = self.rows.len();
        for n in 0..slabs.min(LOOKED_AT) {
            let slab = (self.row + n) % slabs;
            if let Some(first) = row_in(self.rows[slab], count) {
                self.row = slab;
                return Some((slab * UNITS) as u32 + first);
            }
        }
        self.row += slabs.min(LOOKED_AT);
        let little = self.whole.len() < SPARE.max(self.units.len() / SPARE_PART);
        little.then(|| self.grow())
    }

    /// Keeps a row that was received into, whose units stay taken; whether there is room for it.
    fn keep_ready(&mut self, first: u32, count: usize) -> bool {
        let kept: usize = self.ready.iter().map(|(_, count)| count).sum();
        let room = kept + count <= READY_MAX;
        if room {
            self.ready.push((first, count));
        }
        room
    }

    /// A row that was kept, the last one of its length.
    fn take_ready(&mut self, wanted: usize) -> Option<u32> {
        let at = self.ready.iter().rposition(|(_, count)| *count == wanted)?;
        let (first, _) = self.ready.remove(at);
        self.ready_unused = self.ready_unused.min(at);
        Some(first)
    }

    /// Frees the rows that nobody has received into since this was last called.
    pub(super) fn release_ready(&mut self) {
        let unused: Vec<_> = self.ready.drain(..self.ready_unused).collect();
        for (first, count) in unused {
            (first..first + count as u32).for_each(|unit| self.set(unit, FULL));
        }
        self.ready_unused = self.ready.len();
    }
}

/// Where so many bits follow each other.
fn row_in(bits: u32, count: u32) -> Option<u32> {
    let starts = (1..count).fold(bits, |starts, n| starts & bits >> n);
    (starts != 0).then(|| starts.trailing_zeros())
}

impl Pool {
    /// Memory to receive `length` bytes into, whole and aligned. None where that would be of no
    /// use, too much was received and is held, or no row of units is free.
    pub fn receive_buffer(&self, length: usize) -> Option<ReceiveBuffer> {
        let count = length.div_ceil(UNIT);
        if length < SHORTEST || count > UNITS {
            return None;
        }
        let room = ReceivedUnits::of(self, count)?;
        let mut free = self.0.free.lock();
        let first = if let Some(first) = free.take_ready(count) {
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
            room,
        })
    }

    /// The unit that bytes lie in, and where in it they begin, where they were received by
    /// [`Pool::receive_buffer`] and lie in one. Whoever has it may keep it when the others of the
    /// row are free again.
    pub(crate) fn unit_of(&self, bytes: &[u8]) -> Option<(Arc<Buffer>, usize)> {
        let address = bytes.as_ptr().addr();
        let at = address % UNIT;
        let received_units = self.0.received_units.lock();
        let unit = received_units.get(&(address - at))?.upgrade();
        unit.filter(|_| at + bytes.len() <= UNIT)
            .map(|unit| (unit, at))
    }
}

/// Counts units as received, as long as it lives.
#[derive(Debug)]
struct ReceivedUnits {
    pool: Pool,
    units: usize,
}

impl ReceivedUnits {
    fn of(pool: &Pool, units: usize) -> Option<ReceivedUnits> {
        let before = pool.0.received.fetch_add(units, Relaxed);
        let room = ReceivedUnits {
            pool: pool.clone(),
            units,
        };
        (before + units <= RECEIVED_MAX).then_some(room)
    }
}

impl Drop for ReceivedUnits {
    fn drop(&mut self) {
        self.pool.0.received.fetch_sub(self.units, Relaxed);
    }
}

/// Memory of a pool for bytes that are being received: nobody else has it.
#[derive(Debug)]
pub struct ReceiveBuffer {
    /// One after the other in memory.
    units: Vec<Buffer>,
    length: usize,
    room: ReceivedUnits,
}

impl ReceiveBuffer {
    /// All its bytes, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the units follow each other in one slab, each is this landing's alone, and
        // `length` ends in the last one.
        unsafe { std::slice::from_raw_parts_mut(self.units[0].start.as_ptr(), self.length) }
    }

    /// The bytes as they are now. They change no more: what is written lies on them instead of a
    /// copy.
    pub fn freeze(self) -> Bytes {
        let units: Vec<_> = self.units.into_iter().map(Arc::new).collect();
        let mut received_units = self.room.pool.0.received_units.lock();
        for unit in &units {
            received_units.insert(unit.start.as_ptr().addr(), Arc::downgrade(unit));
        }
        drop(received_units);
        Bytes::from_owner(Received {
            units,
            length: self.length,
            room: self.room,
        })
    }
}

/// Received bytes.
struct Received {
    units: Vec<Arc<Buffer>>,
    length: usize,
    room: ReceivedUnits,
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: as in `bytes_mut`; the units are only read as long as they are shared, and this
        // shares them.
        unsafe { std::slice::from_raw_parts(self.units[0].start.as_ptr(), self.length) }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let mut received_units = self.room.pool.0.received_units.lock();
        for unit in &self.units {
            received_units.remove(&unit.start.as_ptr().addr());
        }
        drop(received_units);
        let units = self.units.drain(..).map(Arc::into_inner);
        let Some(mut row) = units.collect::<Option<Vec<Buffer>>>() else {
            return;
        };
        let mut free = self.room.pool.0.free.lock();
        let kept = free.keep_ready(row[0].unit, row.len());
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
    fn units_of_what_was_received_outlive_it_one_by_one() {
        let pool = Pool::new();
        let mut receive = pool.receive_buffer(3 * UNIT - 100).unwrap();
        receive.bytes_mut().fill(7);
        let memory = receive.bytes_mut().as_ptr();
        assert!(
            pool.unit_of(receive.bytes_mut()).is_none(),
            "it still changes"
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
            "it is a buffer like any other by now"
        );
        // All others are free again: a slab has room for all but that one.
        let others: Vec<_> = (1..UNITS).map(|_| pool.take(16)).collect();
        assert_eq!(pool.bytes(), (UNIT * UNITS) as u64);
        assert!(others.iter().all(|o| o.as_ptr() != second.as_ptr()));
    }

    #[test]
    fn where_there_is_no_row_memory_is_added_only_if_little_is_free() {
        let pool = Pool::new();
        assert!(
            pool.receive_buffer(SHORTEST - 1).is_none()
                && pool.receive_buffer(UNITS * UNIT + 1).is_none()
        );
        let slabs = 2 * SPARE / UNITS + 1;
        let mut all: Vec<_> = (0..slabs * UNITS).map(|_| pool.take(16)).collect();
        let full = pool.bytes();
        let mut n = 0;
        all.retain(|_| {
            n += 1;
            n % 2 == 0
        });
        assert!(
            pool.receive_buffer(2 * UNIT).is_none(),
            "every second unit is free"
        );
        assert_eq!(pool.bytes(), full);
        all.drain(..2);
        let row = pool.receive_buffer(4 * UNIT).unwrap();
        assert_eq!(pool.bytes(), full);
        let taken: Vec<_> = (0..SPARE / 2).map(|_| pool.take(16)).collect();
        assert!(
            pool.receive_buffer(2 * UNIT).is_some(),
            "little is free by now"
        );
        assert_eq!(pool.bytes(), full + (UNITS * UNIT) as u64);
        drop((row, all, taken));
    }

    #[test]
    fn no_more_is_received_than_a_bound_and_others_are_not_counted() {
        let pool = Pool::new();
        let mut all: Vec<_> = (0..RECEIVED_MAX / 8)
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
    fn what_nobody_kept_is_received_into_again() {
        let pool = Pool::new();
        let rows: Vec<_> = (0..40)
            .map(|_| pool.receive_buffer(8 * UNIT).unwrap().freeze())
            .collect();
        let places: Vec<_> = rows.iter().map(|row| row.as_ptr()).collect();
        let page = pool.unit_of(&rows[39][..UNIT]).unwrap();
        let memory = pool.bytes();
        drop(rows);
        // The first 32 to go fill the room; the last of them comes first, and not for other
        // lengths.
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
            "what is kept does not keep the pool"
        );
    }

    #[test]
    fn rows_are_found_among_bits() {
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
            assert_eq!(row_in(bits, count), found, "{bits:b} {count}");
        }
    }
}
