//! A round of a collective write in memory: what all members write, in the order of the disk.
//!
//! Bytes are copied once, from the frame in which they came to their place beside those of other members; so a block that
//! several members fill is written whole, and nothing of it is read first.

use bytes::BytesMut;
use weft_layout::{CellIndex, CellOffset, Piece};
use weft_store::{ForkKey, Write};

/// Bytes of one write to the store: more go side by side.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes that lie in a row in a cell.
struct Run {
    cell: CellIndex,
    start: u64,
    data: BytesMut,
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
    /// Room for a round whose pieces are disjoint.
    pub(super) fn new(round: &[Vec<Piece>]) -> Assembly {
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
        let run = |(cell, start, end): (CellIndex, u64, u64)| Run {
            cell,
            start,
            data: BytesMut::zeroed((end - start) as usize),
        };
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
            self.runs[claim.run].data[at..at + now].copy_from_slice(&bytes[taken..taken + now]);
            taken += now;
            member.filled += now;
            if member.filled == claim.length {
                (member.next, member.filled) = (member.next + 1, 0);
            }
        }
        taken
    }

    /// The writes that the filled bytes amount to, in groups that go side by side. What a member left unfilled is not
    /// written.
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
            let data = run.data.freeze();
            let mut from = 0;
            while let Some((_, start, end)) = gaps.next_if(|gap| gap.0 == i) {
                groups.add(
                    &key,
                    run.cell,
                    run.start + from as u64,
                    &data.slice(from..start),
                );
                from = end;
            }
            groups.add(&key, run.cell, run.start + from as u64, &data.slice(from..));
        }
        groups.cut
    }
}

/// Writes in groups of about [`WRITE_BYTES`], cut where chunks begin.
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

    fn add(
        &mut self,
        key: &impl Fn(CellIndex) -> ForkKey,
        cell: CellIndex,
        start: u64,
        data: &bytes::Bytes,
    ) {
        let unit = (WRITE_BYTES as u64).max(u64::from(self.chunk));
        let mut done = 0;
        while done < data.len() {
            let at = start + done as u64;
            let end = ((at / unit + 1) * unit - start).min(data.len() as u64) as usize;
            if self.bytes >= WRITE_BYTES {
                self.cut.push(Vec::new());
                self.bytes = 0;
            }
            let write = Write {
                key: key(cell),
                chunk: self.chunk,
                offset: CellOffset(at),
                data: data.slice(done..end),
            };
            if let Some(group) = self.cut.last_mut() {
                group.push(write);
            }
            self.bytes += end - done;
            done = end;
        }
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
        let mut assembly = Assembly::new(&round);
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
        let mut assembly = Assembly::new(&round);
        assembly.put(0, b"abe");
        assembly.put(1, b"cdgh");
        assert_eq!(
            written(assembly),
            [(0, b"abcde".to_vec()), (6, b"gh".to_vec())]
        );
    }

    #[test]
    fn long_runs_are_cut_where_chunks_begin() {
        let round = [vec![piece(1000, 3 << 20)]];
        let mut assembly = Assembly::new(&round);
        assembly.put(0, &vec![1; 3 << 20]);
        let groups = assembly.into_writes(65_536, key);
        let starts: Vec<u64> = groups.iter().map(|g| g[0].offset.0).collect();
        assert_eq!(starts, [1000, 2 << 20, 3 << 20]);
        assert_eq!(groups[0].len(), 2);
    }
}
