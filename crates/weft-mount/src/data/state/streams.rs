//! Detects sequential reads of an open file and decides what to read ahead. Pure: no lock, no
//! message.
//!
//! A read that begins where an earlier one ended belongs to the same *stream*; several streams of
//! one open may be interleaved. The kernel sends the requests of its own read-ahead in parallel, so
//! they arrive in any order: a read may be early within what an established stream has read ahead.
//! Reads of equal length at equal distances are a stream, too, of which everything in between is
//! read ahead as well: processes that share a file read its records in turn.

use crate::limits::{
    EARLY_READS_MAX, READ_AHEAD_PIECE, STREAMS_PER_OPEN, STRIDE_GAP_MAX, STRIDES_ESTABLISHED,
    WHOLE_FILE_MAX,
};
use std::ops::Range;

/// The streams of an open file.
#[derive(Debug)]
pub(super) struct Streams {
    followed: Vec<Stream>,
    limit: u64,
    clock: u64,
    next_name: u64,
}

#[derive(Debug)]
struct Stream {
    name: u64,
    /// Everything from its start to here was read.
    next: u64,
    /// Reads beyond `next`.
    early: Vec<Range<u64>>,
    /// Everything to here was read ahead.
    fetched_to: u64,
    window: u64,
    reads: u64,
    established: bool,
    used: u64,
    stride: Stride,
}

/// The distances between the latest reads of a stream.
#[derive(Debug, Default)]
struct Stride {
    /// From the end of a read to the start of the next.
    gap: u64,
    /// Bytes of the latest read.
    length: u64,
    /// Gaps of this size, one after the other.
    gaps: u32,
    /// Such gaps have established the stream.
    established: bool,
}

/// What follows from a read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::data) struct Advice {
    /// The read's stream.
    pub(in crate::data) stream: u64,
    /// The stream's prefetched pieces that end here or before were read.
    pub(in crate::data) read_to: u64,
    /// What to read ahead for it.
    pub(in crate::data) fetch: Vec<Range<u64>>,
    /// A stream that is no longer followed.
    pub(in crate::data) forgotten: Option<u64>,
}

impl Streams {
    /// Reads ahead at most `limit` bytes of a stream; 0: never.
    pub(super) fn new(limit: u64) -> Streams {
        Streams {
            followed: Vec::new(),
            limit,
            clock: 0,
            next_name: 0,
        }
    }

    /// A read is about to happen, of a file that ends at `end`, if that is known.
    pub(super) fn read(&mut self, range: &Range<u64>, end: Option<u64>) -> Advice {
        self.clock += 1;
        let first = self.clock == 1;
        let mut forgotten = None;
        let i = self
            .followed
            .iter()
            .position(|s| s.has(range))
            .or_else(|| self.followed.iter().position(|s| s.may_skip_to(range)))
            .unwrap_or_else(|| {
                forgotten = self.begin(range);
                self.followed.len() - 1
            });
        let limit = self.limit;
        let stream = &mut self.followed[i];
        stream.used = self.clock;
        let small = end.filter(|end| first && limit > 0 && *end <= WHOLE_FILE_MAX);
        if let Some(end) = small.filter(|end| *end > range.end) {
            // The kernel may have some of its pages: then it asks for the others one by one.
            stream.fetched_to = end;
            stream.established = true;
        }
        let fetch = match (stream.advance(range), small) {
            (_, Some(end)) if end > range.end => std::iter::once(range.end..end).collect(),
            (true, _) => stream.fetch(limit),
            (false, _) => Vec::new(),
        };
        Advice {
            stream: stream.name,
            read_to: stream.next,
            fetch,
            forgotten,
        }
    }

    fn begin(&mut self, range: &Range<u64>) -> Option<u64> {
        let oldest = (0..self.followed.len()).min_by_key(|i| self.followed[*i].used);
        let forgotten = oldest
            .filter(|_| self.followed.len() == STREAMS_PER_OPEN)
            .map(|i| self.followed.swap_remove(i).name);
        self.next_name += 1;
        self.followed.push(Stream {
            name: self.next_name,
            next: range.start,
            early: Vec::new(),
            fetched_to: range.start,
            window: READ_AHEAD_PIECE.min(self.limit),
            reads: 0,
            established: false,
            used: self.clock,
            stride: Stride::default(),
        });
        forgotten
    }
}

impl Stream {
    fn has(&self, range: &Range<u64>) -> bool {
        range.start == self.next
            || (self.established && range.start > self.next && range.start < self.fetched_to)
    }

    /// Whether a read may follow the latest one at a distance.
    fn may_skip_to(&self, range: &Range<u64>) -> bool {
        let gap = range.start.checked_sub(self.next);
        let near = gap.is_some_and(|gap| (1..=STRIDE_GAP_MAX).contains(&gap));
        near && self.early.is_empty() && range.end - range.start == self.stride.length
    }

    /// Takes a read at a distance; returns whether as many came before it at the same one.
    fn skip_to(&mut self, range: &Range<u64>) -> bool {
        let gap = range.start - self.next;
        let same = self.stride.gap == gap;
        self.stride.gaps = if same { self.stride.gaps + 1 } else { 1 };
        self.stride.gap = gap;
        self.stride.gaps >= STRIDES_ESTABLISHED
    }

    /// Takes a read; returns whether it advanced an established stream.
    fn advance(&mut self, range: &Range<u64>) -> bool {
        // In other established streams, what seems to be skipped is on its way.
        if self.may_skip_to(range) && (self.stride.established || !self.established) {
            let strided = self.skip_to(range);
            if strided || !self.established {
                self.reads += 1;
                self.next = range.end;
                self.stride.established |= strided;
                self.established |= strided;
                return self.established;
            }
        }
        self.stride.length = range.end - range.start;
        if range.start != self.next {
            if self.early.len() == EARLY_READS_MAX {
                // A read before these never came: the program skips.
                self.next = self.early.iter().map(|r| r.end).fold(range.end, u64::max);
                self.early.clear();
                return true;
            }
            self.early.push(range.clone());
            return false;
        }
        self.stride.gaps = 0;
        self.reads += 1;
        self.next = range.end;
        while let Some(i) = self.early.iter().position(|r| r.start <= self.next) {
            self.next = self.next.max(self.early.swap_remove(i).end);
        }
        // A stream is established by its second read; at the beginning of a file by its first, if
        // that is large.
        self.established |=
            self.reads > 1 || (range.start == 0 && range.end >= READ_AHEAD_PIECE / 8);
        self.established
    }

    fn fetch(&mut self, limit: u64) -> Vec<Range<u64>> {
        let mut fetch = Vec::new();
        self.fetched_to = self.fetched_to.max(self.next);
        if limit == 0 {
            return fetch;
        }
        while self.fetched_to < self.next.saturating_add(self.window) {
            let end = (self.fetched_to / READ_AHEAD_PIECE + 1) * READ_AHEAD_PIECE;
            fetch.push(self.fetched_to..end);
            self.fetched_to = end;
        }
        if !fetch.is_empty() {
            self.window = (2 * self.window).min(limit);
        }
        fetch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = 1 << 10;

    fn read(streams: &mut Streams, at: u64, length: u64) -> Advice {
        streams.read(&(at..at + length), None)
    }

    #[test]
    fn the_second_sequential_read_opens_a_window_that_doubles_up_to_the_limit() {
        let mut streams = Streams::new(8 << 20);
        assert_eq!(read(&mut streams, 4 << 20, 128 * K).fetch, []);
        let at = (4 << 20) + 128 * K;
        let advice = read(&mut streams, at, 128 * K);
        let ahead = (4 << 20) + 256 * K;
        assert_eq!(advice.fetch, [ahead..5 << 20, 5 << 20..6 << 20]);
        let (mut at, mut fetched, mut most) = (ahead, 6 << 20, 0);
        while at < 64 << 20 {
            let advice = read(&mut streams, at, 128 * K);
            assert_eq!(advice.read_to, at + 128 * K);
            at += 128 * K;
            for range in advice.fetch {
                assert_eq!(range.start, fetched);
                fetched = range.end;
            }
            most = most.max(fetched - at);
        }
        assert!((8 << 20..=9 << 20).contains(&most), "{most}");
    }

    #[test]
    fn a_small_file_is_fetched_whole_with_its_first_read() {
        let mut streams = Streams::new(8 << 20);
        let end = Some(50 * K);
        let advice = streams.read(&(8 * K..12 * K), end);
        assert_eq!(
            (advice.fetch.len(), advice.fetch[0].clone()),
            (1, 12 * K..50 * K)
        );
        for at in [28, 12, 48] {
            let advice = streams.read(&(at * K..(at + 2) * K), end);
            let beyond = advice.fetch.iter().all(|range| range.start >= 50 * K);
            assert!(advice.stream == 1 && beyond, "{at}: {advice:?}");
        }
        let mut streams = Streams::new(8 << 20);
        let advice = streams.read(&(0..4 * K), Some(WHOLE_FILE_MAX + 1));
        assert_eq!(advice.fetch, []);
        let advice = Streams::new(0).read(&(0..4 * K), end);
        assert_eq!(advice.fetch, [], "without a window");
    }

    #[test]
    fn random_reads_cause_no_read_ahead() {
        let mut streams = Streams::new(8 << 20);
        for i in 0..1000 {
            let at = (i * 7_368_787 % 100_003) * 4 * K + 1;
            assert_eq!(read(&mut streams, at, 4 * K).fetch, []);
        }
    }

    #[test]
    fn records_at_equal_distances_are_read_ahead_with_what_lies_between() {
        let mut streams = Streams::new(8 << 20);
        let (mut fetched, mut most) = (0, 0);
        for n in 0..4096 {
            let at = (4 * n + 1) * 4 * K;
            let advice = read(&mut streams, at, 4 * K);
            assert_eq!((advice.stream, advice.read_to), (1, at + 4 * K));
            assert!(n > u64::from(STRIDES_ESTABLISHED) || fetched == 0);
            for range in advice.fetch {
                assert!(range.start == fetched || fetched == 0);
                fetched = range.end;
            }
            most = most.max(fetched.saturating_sub(at));
        }
        assert!((8 << 20..=9 << 20).contains(&most), "{most}");
    }

    #[test]
    fn records_far_apart_or_at_changing_distances_cause_no_read_ahead() {
        let mut streams = Streams::new(8 << 20);
        for n in 0..100 {
            let far = n * (STRIDE_GAP_MAX + 8 * K);
            assert_eq!(read(&mut streams, far, 4 * K).fetch, []);
        }
        let mut streams = Streams::new(8 << 20);
        for n in 0..100 {
            assert_eq!(read(&mut streams, n * (n + 3) * 4 * K + 1, 4 * K).fetch, []);
        }
    }

    #[test]
    fn interleaved_streams_are_distinguished() {
        let mut streams = Streams::new(1 << 20);
        let mut names = std::collections::BTreeSet::new();
        for i in 0..64 {
            for stream in 0..STREAMS_PER_OPEN as u64 {
                let advice = read(&mut streams, (stream << 32) + i * 64 * K, 64 * K);
                names.insert(advice.stream);
                assert_eq!(advice.forgotten, None);
            }
        }
        assert_eq!(names.len(), STREAMS_PER_OPEN);
    }

    #[test]
    fn reads_of_a_stream_may_arrive_in_any_order() {
        let mut streams = Streams::new(4 << 20);
        read(&mut streams, 0, 128 * K);
        for group in 0..8 {
            let base = 128 * K + group * 512 * K;
            for part in [2, 1, 3, 0] {
                let advice = read(&mut streams, base + part * 128 * K, 128 * K);
                assert_eq!((advice.stream, advice.forgotten), (1, None));
            }
            assert_eq!(streams.followed[0].next, base + 512 * K);
        }
    }

    #[test]
    fn early_reads_of_a_stream_are_not_taken_for_records_at_a_distance() {
        let mut streams = Streams::new(4 << 20);
        read(&mut streams, 0, 64 * K);
        read(&mut streams, 64 * K, 64 * K);
        for pair in 1..100 {
            for unit in [2 * pair + 1, 2 * pair] {
                let advice = read(&mut streams, unit * 64 * K, 64 * K);
                assert_eq!((advice.stream, advice.forgotten), (1, None));
            }
            assert_eq!(streams.followed[0].next, (2 * pair + 2) * 64 * K);
        }
    }

    #[test]
    fn without_a_window_there_is_no_read_ahead() {
        let mut streams = Streams::new(0);
        for i in 0..100 {
            assert_eq!(read(&mut streams, i * 128 * K, 128 * K).fetch, []);
        }
    }
}
