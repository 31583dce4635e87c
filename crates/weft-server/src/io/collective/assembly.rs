//! A round of a collective write in memory: what all members write, in the order of the disk.
//!
//! Bytes are copied once, from the frame in which they came to their place beside those of other
//! members; so a block that several members fill is written whole, and nothing of it is read first.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, CellOffset, Piece};
use weft_store::{BLOCK, BUFFER_BLOCKS_MAX, ForkKey, Landing, Pool, Write};

/// Bytes of a page of the store.
const PAGE: usize = BLOCK * BUFFER_BLOCKS_MAX;
/// Bytes of one write to the store: more go side by side.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes that lie in a row in a cell.
struct Run {
    cell: CellIndex,
    start: u64,
    /// Cut where the cell's [`WRITE_BYTES`] begin.
    parts: Vec<Memory>,
}

/// Where a part of a run is put together.
enum Memory {
    /// In the store's own memory, as far into its first page as in the cell's: the store keeps it,
    /// and copies nothing.
    Pages { landing: Landing, skew: usize },
    /// A part that is too short for pages of its own, or for which there are none.
    Plain(BytesMut),
}

impl Memory {
    fn new(pool: &Pool, start: u64, length: usize) -> Memory {
        let skew = (start % PAGE as u64) as usize;
        let long = length >= PAGE / 2;
        match long.then(|| pool.land(skew + length)).flatten() {
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

/// The ranges of the cell's [`WRITE_BYTES`], as far as they belong to `range`.
fn cuts(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let unit = WRITE_BYTES as u64;
    let first = range.start / unit;
    (first..range.end.div_ceil(unit))
        .map(move |n| range.start.max(n * unit)..range.end.min((n + 1) * unit))
}

impl Run {
    fn new(pool: &Pool, cell: CellIndex, range: Range<u64>) -> Run {
        let part = |cut: Range<u64>| Memory::new(pool, cut.start, (cut.end - cut.start) as usize);
        Run {
            cell,
            start: range.start,
            parts: cuts(range).map(part).collect(),
        }
    }

    fn fill(&mut self, at: usize, mut bytes: &[u8]) {
        let start = self.start + at as u64;
        let unit = WRITE_BYTES as u64;
        for cut in cuts(start..start + bytes.len() as u64) {
            let part = (cut.start / unit - self.start / unit) as usize;
            let begins = self.start.max(cut.start / unit * unit);
            let (now, rest) = bytes.split_at((cut.end - cut.start) as usize);
            let to = (cut.start - begins) as usize;
            self.parts[part].bytes_mut()[to..to + now.len()].copy_from_slice(now);
            bytes = rest;
        }
    }
}

/// Where a piece's bytes go.
struct Claim {
    run: usize,
    at: usize,
    length: usize,
}

/// One member's pieces of the round, and how far they are filled.
#[derive(Default)]
struct Member {
    claims: Vec<Claim>,
    /// The claim that is being filled, and how far.
    next: usize,
    filled: usize,
}

/// A round that is being filled.
pub(super) struct Assembly {
    runs: Vec<Run>,
    members: Vec<Member>,
}

impl Assembly {
    /// Room for a round whose pieces are disjoint, in the store's memory where that serves.
    pub(super) fn new(pool: &Pool, round: &[Vec<Piece>]) -> Assembly {
        let each = |(member, pieces): (usize, &Vec<Piece>)| {
            let place = move |(i, p): (usize, &Piece)| (p.cell, p.offset.0, p.length, member, i);
            pieces.iter().enumerate().map(place).collect::<Vec<_>>()
        };
        let mut sorted: Vec<_> = round.iter().enumerate().flat_map(each).collect();
        // Each member's pieces mostly ascend already: runs that a merge sort finds.
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

    /// Whether bytes of a member are still to come.
    pub(super) fn wants(&self, member: usize) -> bool {
        let member = &self.members[member];
        member.next < member.claims.len()
    }

    /// Takes bytes of a member, as many as belong to this round; how many.
    pub(super) fn put(&mut self, member: usize, bytes: &[u8]) -> usize {
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

    /// The writes that the filled bytes amount to, in groups that go side by side. What a member
    /// left unfilled is not written.
    pub(super) fn into_writes(
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
            for part in run.parts {
                let data = part.freeze();
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
        groups.cut
    }
}

/// Writes in groups of about [`WRITE_BYTES`].
struct Groups {
    chunk: u32,
    cut: Vec<Vec<Write>>,
    /// Bytes of the last.
    bytes: usize,
}

impl Groups {
    fn new(chunk: u32) -> Groups {
        Groups {
            chunk,
            cut: Vec::new(),
            bytes: WRITE_BYTES,
        }
    }

    /// Adds a range of a cell, of which `data` has what begins at `start`.
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
        if self.bytes >= WRITE_BYTES {
            self.cut.push(Vec::new());
            self.bytes = 0;
        }
        let (from, to) = ((range.start - start) as usize, (range.end - start) as usize);
        let write = Write {
            key: key(cell),
            chunk: self.chunk,
            offset: CellOffset(range.start),
            data: data.slice(from..to),
        };
        if let Some(group) = self.cut.last_mut() {
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
    fn bytes_of_several_members_beside_each_other_are_one_write() {
        let round = [
            vec![piece(0, 2), piece(4, 2)],
            vec![piece(2, 2), piece(6, 2)],
        ];
        let mut assembly = Assembly::new(&Pool::new(), &round);
        assert_eq!(assembly.put(0, b"abe"), 3);
        assert_eq!(assembly.put(1, b"cdgh-"), 4);
        assert!(assembly.wants(0) && !assembly.wants(1));
        assert_eq!(assembly.put(0, b"f"), 1);
        assert_eq!(written(assembly), [(0, b"abcdefgh".to_vec())]);
    }

    #[test]
    fn what_a_lost_member_left_out_is_not_written() {
        let round = [
            vec![piece(0, 2), piece(4, 2)],
            vec![piece(2, 2), piece(6, 2)],
        ];
        let mut assembly = Assembly::new(&Pool::new(), &round);
        assembly.put(0, b"abe");
        assembly.put(1, b"cdgh");
        assert_eq!(
            written(assembly),
            [(0, b"abcde".to_vec()), (6, b"gh".to_vec())]
        );
    }

    #[test]
    fn long_runs_are_cut_and_lie_in_the_stores_pages() {
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
            assert_eq!(assembly.put(0, piece), piece.len());
        }
        assembly.put(1, &bytes[2 << 20..3 << 20]);
        assembly.put(0, &bytes[3 << 20..]);
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
    fn gaps_that_lost_members_leave_in_several_parts_are_not_written() {
        let round = [
            vec![piece(0, 100), piece(200_000, 2 << 20)],
            vec![piece(100, 199_900), piece(200_000 + (2 << 20), 50)],
        ];
        let mut assembly = Assembly::new(&Pool::new(), &round);
        assembly.put(0, &vec![1; 100 + 1000]);
        assembly.put(1, &vec![2; 199_900 + 50]);
        let groups = assembly.into_writes(65_536, key);
        let found: Vec<_> = groups
            .iter()
            .flatten()
            .map(|w| (w.offset.0, w.data.len(), w.data[w.data.len() - 1]))
            .collect();
        assert_eq!(found, [(0, 201_000, 1), (200_000 + (2 << 20), 50, 2)]);
    }
}
