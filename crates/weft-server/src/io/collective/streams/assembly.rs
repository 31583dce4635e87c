//! A round of a collective write in memory: the bytes of all members, in disk order.
//!
//! Bytes are copied once, from the frame they came in to their place beside those of other members.
//! So a block that several members fill is written whole, without reading it first.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, CellOffset, Piece};
use weft_store::{BLOCK, BUFFER_BLOCKS_MAX, ForkKey, Pool, ReceiveBuffer, Write};

use crate::limits::ROUND_WRITE_BYTES;

/// Bytes of a page of the store.
const PAGE: usize = BLOCK * BUFFER_BLOCKS_MAX;

/// Consecutive bytes of a cell.
struct Run {
    cell: CellIndex,
    start: u64,
    /// Split at multiples of [`ROUND_WRITE_BYTES`] in the cell.
    segments: Vec<Memory>,
}

/// The memory of one segment of a run.
enum Memory {
    /// Pages of the store, at the offset within a page that the bytes have in the cell: the store
    /// keeps them without a copy.
    Pages { landing: ReceiveBuffer, skew: usize },
    /// A segment that is too short for pages, or that found none free.
    Plain(BytesMut),
}

impl Memory {
    fn new(pool: &Pool, start: u64, length: usize) -> Memory {
        let skew = (start % PAGE as u64) as usize;
        let long = length >= PAGE / 2;
        match long.then(|| pool.receive_buffer(skew + length)).flatten() {
            Some(landing) => Memory::Pages { landing, skew },
            None => Memory::Plain(BytesMut::zeroed(length)),
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Memory::Pages { landing, skew } => &mut landing.bytes_mut()[*skew..],
            Memory::Plain(bytes) => bytes,
        }
    }

    fn freeze(self) -> Bytes {
        match self {
            Memory::Pages { landing, skew } => landing.freeze().slice(skew..),
            Memory::Plain(bytes) => bytes.freeze(),
        }
    }
}

/// Splits a range of a cell at multiples of [`ROUND_WRITE_BYTES`].
fn splits(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let unit = ROUND_WRITE_BYTES as u64;
    let first = range.start / unit;
    (first..range.end.div_ceil(unit))
        .map(move |n| range.start.max(n * unit)..range.end.min((n + 1) * unit))
}

impl Run {
    fn new(pool: &Pool, cell: CellIndex, range: Range<u64>) -> Run {
        let segment =
            |split: Range<u64>| Memory::new(pool, split.start, (split.end - split.start) as usize);
        Run {
            cell,
            start: range.start,
            segments: splits(range).map(segment).collect(),
        }
    }

    fn fill(&mut self, at: usize, mut bytes: &[u8]) {
        let start = self.start + at as u64;
        let unit = ROUND_WRITE_BYTES as u64;
        for split in splits(start..start + bytes.len() as u64) {
            let segment = (split.start / unit - self.start / unit) as usize;
            let begins = self.start.max(split.start / unit * unit);
            let (now, rest) = bytes.split_at((split.end - split.start) as usize);
            let to = (split.start - begins) as usize;
            self.segments[segment].bytes_mut()[to..to + now.len()].copy_from_slice(now);
            bytes = rest;
        }
    }
}

/// Where the bytes of a piece go.
struct Claim {
    run: usize,
    at: usize,
    length: usize,
}

/// One member's pieces of the round, and how far they are filled.
#[derive(Default)]
struct Member {
    claims: Vec<Claim>,
    /// The claim that is being filled.
    next: usize,
    /// Bytes of it that are filled.
    filled: usize,
}

/// A round that is being filled.
pub(in crate::io::collective) struct Assembly {
    runs: Vec<Run>,
    members: Vec<Member>,
}

impl Assembly {
    /// Memory for a round whose pieces are disjoint, in pages of the store where they are long.
    pub(in crate::io::collective) fn new(pool: &Pool, round: &[Vec<Piece>]) -> Assembly {
        let each = |(member, pieces): (usize, &Vec<Piece>)| {
            let place = move |(i, p): (usize, &Piece)| (p.cell, p.offset.0, p.length, member, i);
            pieces.iter().enumerate().map(place).collect::<Vec<_>>()
        };
        let mut sorted: Vec<_> = round.iter().enumerate().flat_map(each).collect();
        // The pieces of each member mostly ascend: a merge sort finds these runs.
        sorted.sort_by_key(|(cell, offset, ..)| (*cell, *offset));
        let empty = |pieces: &Vec<Piece>| Member {
            claims: pieces
                .iter()
                .map(|_| Claim {
                    run: 0,
                    at: 0,
                    length: 0,
                })
                .collect(),
            ..Member::default()
        };
        let mut members: Vec<Member> = round.iter().map(empty).collect();
        let mut ends: Vec<(CellIndex, u64, u64)> = Vec::new();
        for (cell, offset, length, member, i) in sorted {
            match ends.last_mut() {
                Some((last, _, end)) if *last == cell && *end == offset => *end += length,
                _ => ends.push((cell, offset, offset + length)),
            }
            let run = ends.len() - 1;
            members[member].claims[i] = Claim {
                run,
                at: (offset - ends[run].1) as usize,
                length: length as usize,
            };
        }
        let run = |(cell, start, end)| Run::new(pool, cell, start..end);
        Assembly {
            runs: ends.into_iter().map(run).collect(),
            members,
        }
    }

    /// Whether bytes of a member are missing.
    pub(in crate::io::collective) fn wants(&self, member: usize) -> bool {
        let member = &self.members[member];
        member.next < member.claims.len()
    }

    /// Copies bytes of a member into their places; returns how many belong to this round.
    pub(in crate::io::collective) fn fill(&mut self, member: usize, bytes: &[u8]) -> usize {
        let member = &mut self.members[member];
        let mut taken = 0;
        while taken < bytes.len() && member.next < member.claims.len() {
            let claim = &member.claims[member.next];
            let now = (claim.length - member.filled).min(bytes.len() - taken);
            let at = claim.at + member.filled;
            self.runs[claim.run].fill(at, &bytes[taken..taken + now]);
            taken += now;
            member.filled += now;
            if member.filled == claim.length {
                (member.next, member.filled) = (member.next + 1, 0);
            }
        }
        taken
    }

    /// The writes of the filled bytes, in groups that are written in parallel. Bytes that a member
    /// left unfilled are not written.
    pub(in crate::io::collective) fn into_writes(
        self,
        chunk: u32,
        key: impl Fn(CellIndex) -> ForkKey,
    ) -> Vec<Vec<Write>> {
        let mut gaps: Vec<(usize, usize, usize)> = Vec::new();
        for member in &self.members {
            let rest = member.claims.iter().skip(member.next).enumerate();
            gaps.extend(rest.map(|(i, claim)| {
                let filled = if i == 0 { member.filled } else { 0 };
                (claim.run, claim.at + filled, claim.at + claim.length)
            }));
        }
        gaps.sort_unstable();
        let mut gaps = gaps.into_iter().peekable();
        let mut groups = Groups::new(chunk);
        for (i, run) in self.runs.into_iter().enumerate() {
            let mut start = run.start;
            let mut gap = gaps.next_if(|gap| gap.0 == i);
            for segment in run.segments {
                let data = segment.freeze();
                let end = start + data.len() as u64;
                let mut from = start;
                while let Some((_, left, right)) = gap {
                    let (left, right) = (run.start + left as u64, run.start + right as u64);
                    if left >= end {
                        break;
                    }
                    let before = from..left.max(from);
                    groups.add(&key, run.cell, before, start, &data);
                    from = right.clamp(from, end);
                    if right > end {
                        break;
                    }
                    gap = gaps.next_if(|gap| gap.0 == i);
                }
                groups.add(&key, run.cell, from..end, start, &data);
                start = end;
            }
        }
        groups.writes
    }
}

/// Writes in groups of about [`ROUND_WRITE_BYTES`].
struct Groups {
    chunk: u32,
    writes: Vec<Vec<Write>>,
    /// Bytes of the last group.
    bytes: usize,
}

impl Groups {
    fn new(chunk: u32) -> Groups {
        Groups {
            chunk,
            writes: Vec::new(),
            bytes: ROUND_WRITE_BYTES,
        }
    }

    /// Adds a range of a cell; `data` begins at offset `start` of the cell.
    fn add(
        &mut self,
        key: &impl Fn(CellIndex) -> ForkKey,
        cell: CellIndex,
        range: Range<u64>,
        start: u64,
        data: &Bytes,
    ) {
        if range.is_empty() {
            return;
        }
        if self.bytes >= ROUND_WRITE_BYTES {
            self.writes.push(Vec::new());
            self.bytes = 0;
        }
        let (from, to) = ((range.start - start) as usize, (range.end - start) as usize);
        let write = Write {
            key: key(cell),
            chunk: self.chunk,
            offset: CellOffset(range.start),
            data: data.slice(from..to),
        };
        if let Some(group) = self.writes.last_mut() {
            group.push(write);
        }
        self.bytes += to - from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::FileId;
    use weft_store::ForkName;

    fn piece(offset: u64, length: u64) -> Piece {
        Piece {
            cell: CellIndex(0),
            offset: CellOffset(offset),
            length,
            memory: 0,
        }
    }

    fn key(cell: CellIndex) -> ForkKey {
        ForkKey {
            file: FileId(1),
            cell,
            fork: ForkName::data(),
        }
    }

    fn written(assembly: Assembly) -> Vec<(u64, Vec<u8>)> {
        let groups = assembly.into_writes(65_536, key);
        groups
            .into_iter()
            .flatten()
            .map(|w| (w.offset.0, w.data.to_vec()))
            .collect()
    }

    #[test]
    fn adjacent_bytes_of_several_members_are_one_write() {
        let round = [
            vec![piece(0, 2), piece(4, 2)],
            vec![piece(2, 2), piece(6, 2)],
        ];
        let mut assembly = Assembly::new(&Pool::new(), &round);
        assert_eq!(assembly.fill(0, b"abe"), 3);
        assert_eq!(assembly.fill(1, b"cdgh-"), 4);
        assert!(assembly.wants(0) && !assembly.wants(1));
        assert_eq!(assembly.fill(0, b"f"), 1);
        assert_eq!(written(assembly), [(0, b"abcdefgh".to_vec())]);
    }

    #[test]
    fn bytes_that_a_lost_member_left_out_are_not_written() {
        let round = [
            vec![piece(0, 2), piece(4, 2)],
            vec![piece(2, 2), piece(6, 2)],
        ];
        let mut assembly = Assembly::new(&Pool::new(), &round);
        assembly.fill(0, b"abe");
        assembly.fill(1, b"cdgh");
        assert_eq!(
            written(assembly),
            [(0, b"abcde".to_vec()), (6, b"gh".to_vec())]
        );
    }

    #[test]
    fn long_runs_are_split_and_lie_in_pages_of_the_store() {
        let pool = Pool::new();
        let round = [
            vec![piece(1000, 2 << 20), piece((3 << 20) + 1000, 5000)],
            vec![piece((2 << 20) + 1000, 1 << 20)],
        ];
        let bytes: Vec<u8> = (0..(3 << 20) + 5000)
            .map(|n: u32| (n % 251) as u8)
            .collect();
        let mut assembly = Assembly::new(&pool, &round);
        for piece in bytes[..2 << 20].chunks(70_001) {
            assert_eq!(assembly.fill(0, piece), piece.len());
        }
        assembly.fill(1, &bytes[2 << 20..3 << 20]);
        assembly.fill(0, &bytes[3 << 20..]);
        let groups = assembly.into_writes(65_536, key);
        let writes: Vec<&Write> = groups.iter().flatten().collect();
        let starts: Vec<u64> = writes.iter().map(|w| w.offset.0).collect();
        assert_eq!(starts, [1000, 1 << 20, 2 << 20, 3 << 20]);
        let all: Vec<u8> = writes.iter().flat_map(|w| w.data.iter().copied()).collect();
        assert!(all == bytes);
        for write in writes.iter().filter(|w| w.data.len() >= PAGE / 2) {
            let in_page = write.data.as_ptr().addr() % PAGE;
            assert_eq!(in_page as u64, write.offset.0 % PAGE as u64);
        }
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 1, 1]);
    }

    #[test]
    fn gaps_that_lost_members_leave_in_several_segments_are_not_written() {
        let round = [
            vec![piece(0, 100), piece(200_000, 2 << 20)],
            vec![piece(100, 199_900), piece(200_000 + (2 << 20), 50)],
        ];
        let mut assembly = Assembly::new(&Pool::new(), &round);
        assembly.fill(0, &vec![1; 100 + 1000]);
        assembly.fill(1, &vec![2; 199_900 + 50]);
        let groups = assembly.into_writes(65_536, key);
        let found: Vec<_> = groups
            .iter()
            .flatten()
            .map(|w| (w.offset.0, w.data.len(), w.data[w.data.len() - 1]))
            .collect();
        assert_eq!(found, [(0, 201_000, 1), (200_000 + (2 << 20), 50, 2)]);
    }
}
