//! Batches of a read: consecutive pieces of the stream, bounded in payload and in what is read.

use weft_layout::{CellLengths, Piece, Pieces, Splitter, StridedPieces};
use weft_net::ReplyPayload;
use weft_store::ReadSlice;

use super::pack::Packer;
use super::range::{CellRange, merge};
use crate::limits::{
    ISOLATED_PIECE_COST, PAYLOAD_SLICE_MIN, READ_BATCH_BYTES, READ_GAP_MAX, READ_RANGE_MAX,
    READ_SPAN_MAX,
};

/// Consecutive pieces of a job's stream, each truncated at the end of its cell.
#[derive(Debug, Default)]
pub(in crate::io) struct ReadBatch {
    strided: Vec<StridedPieces>,
    pub(in crate::io) bytes: u64,
    /// Bytes that it reads, approximately.
    pub(in crate::io) span: u64,
}

/// Splits a stream of pieces into batches.
pub(in crate::io) struct ReadBatches<L> {
    splitter: Splitter<L>,
    /// The batch under construction.
    batch: ReadBatch,
}

impl<L: CellLengths> ReadBatches<L> {
    /// `length_of` says where each cell ends: pieces are truncated there.
    pub(in crate::io) fn new(pieces: Pieces, length_of: L) -> Self {
        ReadBatches {
            splitter: Splitter::new(pieces, length_of),
            batch: ReadBatch::default(),
        }
    }

    /// The next batch, or `Some(None)` at the end. `None`: `steps`, which are counted down, ran out
    /// before the batch was complete.
    #[allow(clippy::option_option)] // "not known yet" and "no more" are two answers
    pub(in crate::io) fn next(&mut self, steps: &mut u32) -> Option<Option<ReadBatch>> {
        let batch = &mut self.batch;
        while batch.bytes < READ_BATCH_BYTES
            && batch.span < READ_SPAN_MAX
            && self.splitter.look(steps)?
        {
            let Some(found) = self.splitter.next(READ_BATCH_BYTES - batch.bytes) else {
                break;
            };
            let each = if bridged(&found) {
                found.stride
            } else {
                found.length + ISOLATED_PIECE_COST
            };
            let fit = ((READ_SPAN_MAX - batch.span) / each).max(1);
            let strided = self.splitter.keep(found, fit);
            batch.span += each * (strided.count - 1) + strided.length + batch.gap_before(&strided);
            batch.bytes += strided.bytes();
            batch.strided.push(strided);
        }
        let batch = std::mem::take(batch);
        Some((!batch.strided.is_empty()).then_some(batch))
    }
}

/// Whether the gaps between strided pieces are read with them.
fn bridged(strided: &StridedPieces) -> bool {
    strided.stride - strided.length <= READ_GAP_MAX
}

impl ReadBatch {
    /// A batch of these pieces, which lie within their cells, in this order.
    pub(in crate::io) fn of(pieces: Vec<Piece>) -> ReadBatch {
        ReadBatch {
            bytes: pieces.iter().map(|p| p.length).sum(),
            strided: pieces.into_iter().map(StridedPieces::from).collect(),
            span: 0,
        }
    }

    fn gap_before(&self, strided: &StridedPieces) -> u64 {
        let last = self.strided.last().filter(|l| l.cell == strided.cell);
        let gap = last.and_then(|last| strided.offset.0.checked_sub(last.end()));
        gap.filter(|gap| *gap <= READ_GAP_MAX)
            .unwrap_or(ISOLATED_PIECE_COST)
    }

    /// The ranges that cover the batch, ascending and disjoint.
    pub(in crate::io) fn ranges(&self) -> Vec<CellRange> {
        let mut ranges: Vec<CellRange> = Vec::with_capacity(self.strided.len());
        for strided in &self.strided {
            let together = if bridged(strided) {
                (READ_RANGE_MAX.saturating_sub(strided.length) / strided.stride + 1).max(1)
            } else {
                1
            };
            let mut from = 0;
            while from < strided.count {
                let pieces = together.min(strided.count - from);
                let start = strided.offset.0 + strided.stride * from;
                ranges.push(CellRange {
                    cell: strided.cell,
                    start,
                    end: start + strided.stride * (pieces - 1) + strided.length,
                });
                from += pieces;
            }
        }
        let place = |r: &CellRange| (r.cell, r.start);
        if !ranges.is_sorted_by_key(place) {
            ranges.sort_unstable_by_key(place);
        }
        merge(ranges, READ_RANGE_MAX)
    }

    /// Packs the read ranges into the batch's payload: exactly its bytes, in view order. Bytes that
    /// a range lacks at its end (the cell was truncated meanwhile) become zeros. The payload's sum
    /// is combined from those under which whole blocks are stored, so the caller has the store
    /// verify the blocks afterwards. Also returns how many bytes were copied.
    pub(in crate::io) fn pack(
        &self,
        ranges: &[CellRange],
        read: &[Vec<ReadSlice>],
    ) -> (ReplyPayload, u64) {
        let mut out = Packer::new(ranges, read, self.bytes as usize);
        for strided in &self.strided {
            if strided.length as usize >= PAYLOAD_SLICE_MIN {
                for piece in strided.pieces() {
                    out.take(&piece);
                }
            } else {
                out.take_small(strided);
            }
        }
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_layout::{
        CellIndex, Grid, Map, Order, Request, ServerSlot, Subfile, View, ViewOffset,
    };

    fn batches(bsu: u64, length: u64, request: u64) -> Vec<ReadBatch> {
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
        let mut batches = ReadBatches::new(pieces, |_| length);
        std::iter::from_fn(|| batches.next(&mut { u32::MAX })?).collect()
    }

    fn part(bytes: &[u8]) -> ReadSlice {
        Bytes::copy_from_slice(bytes).into()
    }

    /// The bytes of a payload, whose sum must be theirs.
    fn packed(payload: &ReplyPayload) -> Vec<u8> {
        let bytes = payload.parts.concat();
        assert_eq!(payload.sum, Some(weft_sum::of(&bytes)));
        bytes
    }

    #[test]
    fn interleaved_pieces_of_two_cells_are_read_as_two_ranges() {
        let all = batches(64, 1 << 20, 64 * 4 * 100);
        assert_eq!(all.len(), 1);
        let ranges = all[0].ranges();
        let range = |cell| CellRange {
            cell: CellIndex(cell),
            start: 0,
            end: 6400,
        };
        assert_eq!(ranges, [range(0), range(2)]);
    }

    #[test]
    fn packing_works_for_any_start_of_the_first_range() {
        let piece = |offset, length| Piece {
            cell: CellIndex(0),
            offset: weft_layout::CellOffset(offset),
            length,
            memory: 0,
        };
        let bytes: Vec<u8> = (0..200).collect();
        for pieces in [
            vec![piece(1000, 7), piece(1003, 90)],
            vec![piece(1150, 50), piece(1010, 100), piece(1000, 1)],
        ] {
            let batch = ReadBatch::of(pieces.clone());
            let ranges = [CellRange {
                cell: CellIndex(0),
                start: 1000,
                end: 1200,
            }];
            let read = [bytes.chunks(64).map(part).collect()];
            let (payload, _) = batch.pack(&ranges, &read);
            let place =
                |p: &Piece| (p.offset.0 - 1000) as usize..(p.offset.0 - 1000 + p.length) as usize;
            let expected: Vec<u8> = pieces
                .iter()
                .flat_map(|p| bytes[place(p)].to_vec())
                .collect();
            assert_eq!(packed(&payload), expected);
        }
    }

    #[test]
    fn batches_are_bounded_and_cover_the_job() {
        let all = batches(300_000, u64::MAX >> 1, 300_000 * 8);
        assert!(
            all.iter()
                .all(|b| b.bytes <= READ_BATCH_BYTES && b.span <= 2 * READ_BATCH_BYTES)
        );
        assert_eq!(all.iter().map(|b| b.bytes).sum::<u64>(), 300_000 * 4);
    }

    #[test]
    fn pieces_are_truncated_at_the_end_of_their_cell() {
        let all = batches(64, 100, 64 * 4 * 10);
        assert_eq!(all.iter().map(|b| b.bytes).sum::<u64>(), 200);
    }

    #[test]
    fn a_payload_is_in_view_order_for_any_slices() {
        let all = batches(3, 30, 3 * 4 * 10);
        let ranges = all[0].ranges();
        let cell = |c: u8| (0..30u8).map(|i| c * 100 + i).collect::<Vec<u8>>();
        let read: Vec<Vec<ReadSlice>> = ranges
            .iter()
            .map(|r| {
                let bytes = cell(r.cell.0 as u8);
                bytes.chunks(7).map(part).collect()
            })
            .collect();
        let (payload, copied) = all[0].pack(&ranges, &read);
        let expected: Vec<u8> = (0..10)
            .flat_map(|row| {
                [0u8, 2]
                    .map(|c| cell(c)[row * 3..row * 3 + 3].to_vec())
                    .concat()
            })
            .collect();
        assert_eq!(packed(&payload), expected);
        assert_eq!(copied, 60);
    }

    #[test]
    fn bytes_truncated_during_a_read_become_zeros() {
        let all = batches(64, 128, 64 * 4 * 2);
        let ranges = all[0].ranges();
        let (payload, _) = all[0].pack(&ranges, &[vec![part(b"ab")], vec![]]);
        let packed = packed(&payload);
        assert_eq!(packed.len(), 256);
        assert_eq!(&packed[..3], b"ab\0");
    }
}
