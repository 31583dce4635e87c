//! The bytes that a file may hold: those that some order of the acknowledged, failed and lost
//! writes explains.
//!
//! The oracle keeps the history of a file, each operation with its start and the time of its
//! result, and derives from the history alone what a read may return. Several clients may write the
//! same bytes at once.
//!
//! 1. A value may be read if its write began before the read ended and nothing surely replaced it
//!    before the read began.
//! 2. A write surely replaces the writes that had ended before it began, once it is acknowledged
//!    itself.
//! 3. Power loss on the byte's server undoes 2, unless the write had ended before the start of a
//!    sync that was acknowledged before the loss, or, at any time, to the writing process itself: a
//!    sync reports each loss to the writer once.
//! 4. A failed write may take effect in part up to [`IN_FLIGHT_MAX`] after its failure, because
//!    requests to other servers may still be in flight.
//!
//! Deliberately absent: an order between bytes, or between reads. Each byte is checked alone.

use std::collections::BTreeSet;
use std::ops::Range;

use weft_layout::{FileOffset, Layout};

/// Simulated time in nanoseconds.
pub type Time = u64;

/// How long a write may take effect after its failure: several times the latency of a message.
pub const IN_FLIGHT_MAX: Time = 1_000_000_000;

/// The values that each byte may have.
pub type Image = Vec<Vec<u8>>;

/// When each server's machine lost power.
#[derive(Clone, Debug, Default)]
pub struct Losses(Vec<Vec<Time>>);

impl Losses {
    /// Of so many servers, none yet.
    pub fn new(servers: usize) -> Losses {
        Losses(vec![Vec::new(); servers])
    }

    /// A server's machine lost power.
    pub fn note(&mut self, server: usize, now: Time) {
        self.0[server].push(now);
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// Whether a server's machine ever lost power.
    pub fn any_of(&self, server: usize) -> bool {
        !self.of(server).is_empty()
    }

    fn of(&self, server: usize) -> &[Time] {
        self.0.get(server).map_or(&[], Vec::as_slice)
    }
}

/// A write of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteId(usize);

/// The history of one file's bytes.
#[derive(Clone, Debug)]
pub struct Oracle {
    layout: Layout,
    length: usize,
    /// What it held at first, which no power loss takes; none: holes.
    base: Option<Image>,
    writes: Vec<Write>,
    /// Acknowledged syncs.
    syncs: Vec<Sync>,
    /// Syncs that reported a loss.
    reported: Vec<Sync>,
}

/// A sync that was answered.
#[derive(Clone, Copy, Debug)]
struct Sync {
    /// The process that asked.
    by: u64,
    begun: Time,
    ended: Time,
}

#[derive(Clone, Debug)]
struct Write {
    /// The process that wrote.
    by: u64,
    at: usize,
    data: Vec<u8>,
    begun: Time,
    /// None: it is under way.
    ended: Option<Time>,
    acknowledged: bool,
    /// Acknowledged, it survives power loss without a sync.
    durable: bool,
}

impl Write {
    fn range(&self) -> Range<usize> {
        self.at..self.at + self.data.len()
    }
}

/// A byte that nothing explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexplained {
    /// Where.
    pub at: usize,
    /// What was read.
    pub value: u8,
    /// What could have been.
    pub allowed: Vec<u8>,
}

/// Bytes that the same writes cover and that lie on one server.
struct Stretch {
    range: Range<usize>,
    /// Whether what was there at first may show.
    base: bool,
    /// Writes that may show.
    writes: Vec<usize>,
}

impl Oracle {
    /// A file of holes.
    pub fn new(length: usize, layout: &Layout) -> Oracle {
        Oracle {
            layout: layout.clone(),
            length,
            base: None,
            writes: Vec::new(),
            syncs: Vec::new(),
            reported: Vec::new(),
        }
    }

    /// A file that holds one of these values at each byte, and keeps it over power loss.
    pub fn of_image(base: Image, layout: &Layout) -> Oracle {
        Oracle {
            length: base.len(),
            base: Some(base),
            ..Oracle::new(0, layout)
        }
    }

    /// How many bytes the file has at most.
    pub fn length(&self) -> usize {
        self.length
    }

    /// A write is sent.
    pub fn begin(&mut self, at: usize, data: &[u8], now: Time) -> WriteId {
        self.begin_by(0, at, data, now)
    }

    /// As [`Oracle::begin`], by one of several processes.
    pub fn begin_by(&mut self, by: u64, at: usize, data: &[u8], now: Time) -> WriteId {
        self.add(by, at, data.to_vec(), now, false)
    }

    /// The file is cut at `size`: like a write of zeros from there on that survives power loss.
    pub fn begin_truncate(&mut self, size: usize, now: Time) -> WriteId {
        let zeros = vec![0; self.length.saturating_sub(size)];
        self.add(0, size.min(self.length), zeros, now, true)
    }

    fn add(&mut self, by: u64, at: usize, data: Vec<u8>, begun: Time, durable: bool) -> WriteId {
        self.writes.push(Write {
            by,
            at,
            data,
            begun,
            ended: None,
            acknowledged: false,
            durable,
        });
        WriteId(self.writes.len() - 1)
    }

    /// A write was acknowledged, or failed.
    pub fn end(&mut self, write: WriteId, acknowledged: bool, now: Time) {
        let write = &mut self.writes[write.0];
        write.acknowledged = acknowledged;
        write.ended = Some(if acknowledged {
            now
        } else {
            now + IN_FLIGHT_MAX
        });
    }

    /// A sync was acknowledged.
    pub fn synced(&mut self, begun: Time, ended: Time) {
        self.synced_by(0, begun, ended);
    }

    /// As [`Oracle::synced`], to one of several processes.
    pub fn synced_by(&mut self, by: u64, begun: Time, ended: Time) {
        self.syncs.push(Sync { by, begun, ended });
    }

    /// A sync reported a loss to a process. Returns whether a power loss explains it. Each server's
    /// loss may be reported separately.
    pub fn reported_lost(
        &mut self,
        by: u64,
        (begun, ended): (Time, Time),
        losses: &Losses,
    ) -> bool {
        let written = self
            .writes
            .iter()
            .filter(|w| w.by == by && w.begun <= ended);
        let may_be_lost = |write: &&Write| {
            let hit = |server| losses.of(server).iter().any(|p| *p >= write.begun);
            !write.durable && self.servers_of(&write.range()).into_iter().any(hit)
        };
        // What was written before the file was rolled back is not known here any more, and may be
        // lost.
        let explained = self.base.is_some() || written.filter(may_be_lost).count() > 0;
        self.reported.push(Sync { by, begun, ended });
        explained
    }

    /// The servers that hold bytes of a range.
    fn servers_of(&self, range: &Range<usize>) -> BTreeSet<usize> {
        if range.is_empty() {
            return BTreeSet::new();
        }
        let bsu = self.layout.bsu() as usize;
        let units = range.start / bsu..=(range.end - 1) / bsu;
        units
            .map(|unit| self.server_of((unit * bsu).max(range.start)))
            .collect()
    }

    /// The first byte of a read from `begun` to `ended` that nothing explains.
    pub fn check(
        &self,
        at: usize,
        read: &[u8],
        (begun, ended): (Time, Time),
        losses: &Losses,
    ) -> Option<Unexplained> {
        for stretch in self.stretches(at..at + read.len(), (begun, ended), losses) {
            for place in stretch.range.clone() {
                let value = read[place - at];
                if !self.explains(&stretch, place, value) {
                    let mut allowed = self.values(&stretch, place);
                    allowed.sort_unstable();
                    allowed.dedup();
                    return Some(Unexplained {
                        at: place,
                        value,
                        allowed,
                    });
                }
            }
        }
        None
    }

    /// What a read of all from `begun` to `ended` may see.
    pub fn image(&self, times: (Time, Time), losses: &Losses) -> Image {
        let mut image = Image::with_capacity(self.length);
        for stretch in self.stretches(0..self.length, times, losses) {
            for place in stretch.range.clone() {
                let mut values = self.values(&stretch, place);
                values.sort_unstable();
                values.dedup();
                image.push(values);
            }
        }
        image
    }

    /// What a checkpoint made from `begun` to `ended` keeps.
    #[must_use]
    pub fn kept(&self, times: (Time, Time), losses: &Losses) -> Oracle {
        Oracle::of_image(self.image(times, losses), &self.layout)
    }

    /// What a byte may have been at first.
    fn first(&self, place: usize) -> &[u8] {
        self.base.as_ref().map_or(&[0], |base| &base[place])
    }

    fn explains(&self, stretch: &Stretch, place: usize, value: u8) -> bool {
        let written = |w: &usize| self.writes[*w].data[place - self.writes[*w].at] == value;
        stretch.writes.iter().any(written) || stretch.base && self.first(place).contains(&value)
    }

    fn values(&self, stretch: &Stretch, place: usize) -> Vec<u8> {
        let written = |w: &usize| self.writes[*w].data[place - self.writes[*w].at];
        let mut values: Vec<u8> = stretch.writes.iter().map(written).collect();
        if stretch.base {
            values.extend(self.first(place));
        }
        values
    }

    /// Cuts a range so that what may show is the same all over each part.
    fn stretches(
        &self,
        range: Range<usize>,
        (begun, ended): (Time, Time),
        losses: &Losses,
    ) -> Vec<Stretch> {
        let bsu = self.layout.bsu() as usize;
        let mut cuts = vec![range.start, range.end];
        cuts.extend((range.start / bsu..=range.end / bsu).map(|n| n * bsu));
        let ends = self.writes.iter().map(Write::range);
        cuts.extend(ends.flat_map(|r| [r.start, r.end]));
        cuts.retain(|cut| range.contains(cut) || *cut == range.end);
        cuts.sort_unstable();
        cuts.dedup();
        let pairs = cuts.windows(2).map(|pair| pair[0]..pair[1]);
        pairs
            .map(|range| {
                let server = self.server_of(range.start);
                let over: Vec<usize> = (0..self.writes.len())
                    .filter(|w| self.writes[*w].range().contains(&range.start))
                    .collect();
                let lost = losses.of(server);
                let replaced = over
                    .iter()
                    .map(|w| &self.writes[*w])
                    .filter(|w| self.stays(w, begun, ended, lost))
                    .map(|w| w.begun)
                    .max();
                let shows = |w: &usize| {
                    let write = &self.writes[*w];
                    write.begun <= ended
                        && (replaced.is_none() || write.ended.is_none_or(|e| Some(e) >= replaced))
                };
                Stretch {
                    range,
                    base: replaced.is_none(),
                    writes: over.into_iter().filter(shows).collect(),
                }
            })
            .collect()
    }

    /// The server that holds a byte.
    pub fn server_of(&self, at: usize) -> usize {
        let place = self.layout.grid().locate(FileOffset(at as u64));
        let (cell, _) = place.expect("files of simulations are small");
        self.layout.server_of(cell).0 as usize
    }

    /// Whether what the write replaced cannot be back in a read from `begun` to `ended`.
    fn stays(&self, write: &Write, begun: Time, ended: Time, lost: &[Time]) -> bool {
        let Some(end) = write.ended.filter(|e| write.acknowledged && *e < begun) else {
            return false;
        };
        let first = lost.iter().find(|p| **p >= write.begun && **p <= ended);
        let Some(first) = first.filter(|_| !write.durable) else {
            return true;
        };
        self.syncs.iter().any(|sync| {
            let same_process = sync.by == write.by;
            let reported =
                |loss: &Sync| loss.by == write.by && end <= loss.begun && loss.ended <= sync.begun;
            let lost = self.reported.iter().any(reported);
            end < sync.begun && (sync.ended < *first || same_process && !lost)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{LayoutSpec, ServerId};

    fn one_byte() -> Oracle {
        let layout = Layout::new(LayoutSpec {
            cells: 1,
            bsu: 1,
            chunk: 4096,
            servers: vec![ServerId(0)],
            storage: weft_layout::Storage::Plain,
        });
        Oracle::new(1, &layout.expect("legal"))
    }

    fn write(oracle: &mut Oracle, value: u8, (begun, ended): (Time, Time)) {
        let write = oracle.begin(0, &[value], begun);
        oracle.end(write, true, ended);
    }

    /// The values that a read at this time may return.
    fn allowed(oracle: &Oracle, now: Time, losses: &Losses) -> Vec<u8> {
        oracle.image((now, now), losses).remove(0)
    }

    #[test]
    fn an_acknowledged_byte_may_revert_only_by_power_loss_and_only_to_the_last_sync() {
        let (mut oracle, mut losses) = (one_byte(), Losses::new(1));
        write(&mut oracle, b'a', (1, 2));
        oracle.synced(3, 4);
        write(&mut oracle, b'b', (5, 6));
        assert_eq!(allowed(&oracle, 7, &losses), b"b");
        losses.note(0, 8);
        assert_eq!(allowed(&oracle, 9, &losses), b"ab");
        let unexplained = oracle.check(0, b"\0", (9, 9), &losses);
        assert_eq!(unexplained.map(|u| u.allowed), Some(b"ab".to_vec()));
        write(&mut oracle, b'c', (10, 11));
        assert_eq!(allowed(&oracle, 12, &losses), b"c");
    }

    #[test]
    fn a_sync_after_power_loss_proves_the_writes_of_its_process_unless_a_loss_was_reported() {
        let (mut oracle, mut losses) = (one_byte(), Losses::new(1));
        write(&mut oracle, b'a', (1, 2));
        losses.note(0, 3);
        assert_eq!(allowed(&oracle, 4, &losses), b"\0a");
        let mut lossy = oracle.clone();
        oracle.synced_by(1, 5, 6);
        assert_eq!(
            allowed(&oracle, 7, &losses),
            b"\0a",
            "the sync of another process proves nothing"
        );
        oracle.synced(8, 9);
        assert_eq!(allowed(&oracle, 10, &losses), b"a");
        assert!(lossy.reported_lost(0, (5, 6), &losses));
        lossy.synced(8, 9);
        assert_eq!(allowed(&lossy, 10, &losses), b"\0a");
        assert!(
            !lossy.reported_lost(1, (11, 12), &losses),
            "a process without writes reported a loss"
        );
    }

    #[test]
    fn any_of_several_concurrent_writes_may_be_the_last() {
        let (mut oracle, losses) = (one_byte(), Losses::new(1));
        let first = oracle.begin(0, b"a", 1);
        write(&mut oracle, b'b', (2, 3));
        assert_eq!(allowed(&oracle, 4, &losses), b"ab");
        oracle.end(first, true, 5);
        assert_eq!(allowed(&oracle, 6, &losses), b"ab");
        write(&mut oracle, b'c', (6, 7));
        assert_eq!(allowed(&oracle, 8, &losses), b"c");
        // A read that began before the last write ended may return the earlier value.
        assert!(oracle.check(0, b"a", (6, 8), &losses).is_none());
    }

    #[test]
    fn a_failed_write_may_appear_until_a_later_write_replaces_it() {
        let (mut oracle, losses) = (one_byte(), Losses::new(1));
        write(&mut oracle, b'a', (1, 2));
        let failed = oracle.begin(0, b"b", 3);
        oracle.end(failed, false, 4);
        write(&mut oracle, b'c', (5, 6));
        assert_eq!(
            allowed(&oracle, 7, &losses),
            b"bc",
            "the failed write may still be in flight"
        );
        write(&mut oracle, b'd', (5 + IN_FLIGHT_MAX, 6 + IN_FLIGHT_MAX));
        assert_eq!(allowed(&oracle, 7 + IN_FLIGHT_MAX, &losses), b"d");
    }

    #[test]
    fn power_loss_during_a_write_or_the_sync_of_another_process_counts_as_later() {
        let (mut oracle, mut losses) = (one_byte(), Losses::new(1));
        losses.note(0, 2);
        write(&mut oracle, b'a', (1, 3));
        assert_eq!(allowed(&oracle, 4, &losses), b"\0a");
        write(&mut oracle, b'b', (5, 6));
        losses.note(0, 8);
        oracle.synced_by(1, 7, 9);
        assert_eq!(allowed(&oracle, 10, &losses), b"\0ab");
        // The sync of the writing process would have reported the loss.
        oracle.synced(7, 9);
        assert_eq!(allowed(&oracle, 10, &losses), b"b");
    }

    #[test]
    fn a_truncation_is_a_write_of_zeros_that_power_loss_keeps() {
        let (mut oracle, mut losses) = (one_byte(), Losses::new(1));
        write(&mut oracle, b'a', (1, 2));
        let cut = oracle.begin_truncate(0, 3);
        oracle.end(cut, true, 4);
        losses.note(0, 5);
        assert_eq!(allowed(&oracle, 6, &losses), b"\0");
    }
}
