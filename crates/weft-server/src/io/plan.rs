//! From pieces in view order to ranges in disk order, a bounded batch at a time.
//!
//! A batch holds up to [`BATCH_BYTES`] of consecutive pieces of the stream. Its pieces are sorted by place, and
//! neighbours are read together, bridging gaps of up to [`BRIDGE`] bytes: on the reference machine a read of a
//! few blocks more costs less than another read.

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, CellOffset, Piece, Pieces};

/// Payload bytes of one batch.
pub(super) const BATCH_BYTES: u64 = 512 << 10;
/// Pieces of one batch.
const BATCH_PIECES: usize = 16 << 10;
/// Gaps up to this are read over.
const BRIDGE: u64 = 16 << 10;
/// Bytes of one range.
const RANGE_MAX: u64 = 1 << 20;
/// Pieces from this size on travel as slices of the cache's pages; smaller ones are copied together.
const SLICE_MIN: usize = 4 << 10;
/// Slices of one batch's payload: more and the rest is copied together.
const SLICES_MAX: usize = 160;

/// Consecutive pieces of a job's stream, each cut at its cell's length.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pieces: Vec<Piece>,
    pub(super) bytes: u64,
}

/// Cuts a stream of pieces into batches.
pub(super) struct Batches<L> {
    pieces: Pieces,
    rest: Option<Piece>,
    length_of: L,
}

/// Bytes of one cell that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) cell: CellIndex,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl<L: FnMut(CellIndex) -> u64> Batches<L> {
    /// `length_of` says where each cell ends: pieces are cut there.
    pub(super) fn new(pieces: Pieces, length_of: L) -> Self {
        Batches {
            pieces,
            rest: None,
            length_of,
        }
    }
}

/// The part of a piece that lies before its cell's end.
pub(super) fn clip(piece: Piece, length: u64) -> Option<Piece> {
    let valid = length.checked_sub(piece.offset.0)?.min(piece.length);
    (valid > 0).then_some(Piece {
        length: valid,
        ..piece
    })
}

impl<L: FnMut(CellIndex) -> u64> Iterator for Batches<L> {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        while batch.bytes < BATCH_BYTES && batch.pieces.len() < BATCH_PIECES {
            let piece = match self.rest.take() {
                Some(piece) => piece,
                None => match self.pieces.next() {
                    Some(piece) => match clip(piece, (self.length_of)(piece.cell)) {
                        Some(piece) => piece,
                        None => continue,
                    },
                    None => break,
                },
            };
            let room = BATCH_BYTES - batch.bytes;
            let taken = piece.length.min(room);
            if taken < piece.length {
                self.rest = Some(Piece {
                    cell: piece.cell,
                    offset: CellOffset(piece.offset.0 + taken),
                    length: piece.length - taken,
                    memory: piece.memory + taken,
                });
            }
            batch.bytes += taken;
            batch.pieces.push(Piece {
                length: taken,
                ..piece
            });
        }
        (!batch.pieces.is_empty()).then_some(batch)
    }
}

impl Batch {
    /// The ranges that cover the batch, ascending and disjoint.
    pub(super) fn ranges(&self) -> Vec<Range> {
        let place = |p: &Piece| (p.cell, p.offset);
        let mut sorted: Vec<&Piece> = self.pieces.iter().collect();
        if !sorted.is_sorted_by_key(|p| place(p)) {
            sorted.sort_unstable_by_key(|p| place(p));
        }
        let mut ranges: Vec<Range> = Vec::new();
        for piece in sorted {
            let (start, end) = (piece.offset.0, piece.offset.0 + piece.length);
            match ranges.last_mut() {
                Some(range)
                    if range.cell == piece.cell
                        && start <= range.end + BRIDGE
                        && end - range.start <= RANGE_MAX =>
                {
                    range.end = range.end.max(end);
                }
                _ => ranges.push(Range {
                    cell: piece.cell,
                    start,
                    end,
                }),
            }
        }
        ranges
    }

    /// Packs what was read into the batch's payload: exactly its bytes, in view order. What a range lacks at its
    /// end (the cell was cut meanwhile) is zeros. Also returns how many bytes were copied.
    pub(super) fn pack(&self, ranges: &[Range], read: &[Vec<Bytes>]) -> (Vec<Bytes>, u64) {
        let starts: Vec<Vec<u64>> = read.iter().map(|slices| starts(slices)).collect();
        let mut out = Packed::default();
        for piece in &self.pieces {
            let at = ranges.partition_point(|r| (r.cell, r.end) <= (piece.cell, piece.offset.0));
            let from = piece.offset.0 - ranges[at].start;
            out.take(&read[at], &starts[at], from, piece.length as usize);
        }
        out.finish()
    }
}

fn starts(slices: &[Bytes]) -> Vec<u64> {
    let mut at = 0;
    slices
        .iter()
        .map(|s| {
            let start = at;
            at += s.len() as u64;
            start
        })
        .collect()
}

#[derive(Default)]
struct Packed {
    parts: Vec<Bytes>,
    small: BytesMut,
    copied: u64,
}

impl Packed {
    fn take(&mut self, slices: &[Bytes], starts: &[u64], mut from: u64, mut len: usize) {
        let mut i = starts.partition_point(|s| *s <= from).saturating_sub(1);
        while len > 0 {
            let Some(slice) = slices.get(i) else {
                self.small.resize(self.small.len() + len, 0);
                return;
            };
            let at = ((from - starts[i]) as usize).min(slice.len());
            let taken = len.min(slice.len() - at);
            if taken >= SLICE_MIN && self.parts.len() < SLICES_MAX {
                self.flush();
                self.parts.push(slice.slice(at..at + taken));
            } else {
                self.small.extend_from_slice(&slice[at..at + taken]);
                self.copied += taken as u64;
            }
            len -= taken;
            from += taken as u64;
            i += 1;
        }
    }

    fn flush(&mut self) {
        if !self.small.is_empty() {
            self.parts.push(self.small.split().freeze());
        }
    }

    fn finish(mut self) -> (Vec<Bytes>, u64) {
        self.flush();
        (self.parts, self.copied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_layout::{Grid, Map, Order, Request, ServerSlot, Subfile, View, ViewOffset};

    fn batches(bsu: u64, length: u64, request: u64) -> Vec<Batch> {
        let grid = Grid::new(4, bsu, 2).unwrap();
        let view = Subfile {
            vbs: 1,
            vn: 1,
            hbs: 4,
            hn: 1,
            index: 0,
            order: Order::Row,
        };
        let map = Map::new(grid, View::Subfile(view)).unwrap();
        let request = Request::Contiguous {
            offset: ViewOffset(0),
            length: request,
        };
        let pieces = map.pieces(&request, ServerSlot(0)).unwrap();
        Batches::new(pieces, |_| length).collect()
    }

    #[test]
    fn interleaved_pieces_of_two_cells_are_read_as_two_ranges() {
        let all = batches(64, 1 << 20, 64 * 4 * 100);
        assert_eq!(all.len(), 1);
        let ranges = all[0].ranges();
        let range = |cell| Range {
            cell: CellIndex(cell),
            start: 0,
            end: 6400,
        };
        assert_eq!(ranges, [range(0), range(2)]);
    }

    #[test]
    fn a_batch_is_bounded_and_batches_cover_the_job() {
        let all = batches(300_000, u64::MAX >> 1, 300_000 * 8);
        assert!(all.iter().all(|b| b.bytes <= BATCH_BYTES));
        assert_eq!(all.iter().map(|b| b.bytes).sum::<u64>(), 300_000 * 4);
    }

    #[test]
    fn pieces_are_cut_at_the_end_of_their_cell() {
        let all = batches(64, 100, 64 * 4 * 10);
        assert_eq!(all.iter().map(|b| b.bytes).sum::<u64>(), 200);
    }

    #[test]
    fn packing_gives_view_order_whatever_the_slices() {
        let all = batches(3, 30, 3 * 4 * 10);
        let ranges = all[0].ranges();
        let cell = |c: u8| (0..30u8).map(|i| c * 100 + i).collect::<Vec<u8>>();
        let read: Vec<Vec<Bytes>> = ranges
            .iter()
            .map(|r| {
                let bytes = cell(r.cell.0 as u8);
                bytes.chunks(7).map(Bytes::copy_from_slice).collect()
            })
            .collect();
        let (parts, copied) = all[0].pack(&ranges, &read);
        let expected: Vec<u8> = (0..10)
            .flat_map(|row| {
                [0u8, 2]
                    .map(|c| cell(c)[row * 3..row * 3 + 3].to_vec())
                    .concat()
            })
            .collect();
        assert_eq!(parts.concat(), expected);
        assert_eq!(copied, 60);
    }

    #[test]
    fn what_was_cut_meanwhile_is_zeros() {
        let all = batches(64, 128, 64 * 4 * 2);
        let ranges = all[0].ranges();
        let (parts, _) = all[0].pack(&ranges, &[vec![Bytes::from_static(b"ab")], vec![]]);
        let packed = parts.concat();
        assert_eq!(packed.len(), 256);
        assert_eq!(&packed[..3], b"ab\0");
    }
}
