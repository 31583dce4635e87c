//! From pieces in view order to ranges in disk order, a bounded batch at a time.
//!
//! A batch holds up to [`BATCH_BYTES`] of consecutive pieces of the stream, and reads up to
//! [`SPAN_MAX`] for them. Its pieces are sorted by place, and neighbours are read together,
//! bridging gaps of up to [`BRIDGE`] bytes: on the reference machine a read of a few blocks more
//! costs less than another read. Pieces at equal distances are one entry, so a batch of many small
//! ones costs what its blocks cost, and the copy of each piece into the stream.

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, CellLengths, Cutter, Piece, Pieces, Spaced, Stretch, copy_spaced};
use weft_net::Parcel;
use weft_store::ReadSlice;

/// Payload bytes of one batch.
pub(super) const BATCH_BYTES: u64 = 512 << 10;
/// Bytes that one batch reads, with the gaps it bridges.
pub(super) const SPAN_MAX: u64 = 4 << 20;
/// Gaps up to this are read over.
pub(super) const BRIDGE: u64 = 16 << 10;
/// What a piece that lies alone costs beside its bytes: the rest of the blocks at its ends.
const ALONE: u64 = 8 << 10;
/// Bytes of one range.
pub(super) const RANGE_MAX: u64 = 1 << 20;
/// Pieces from this size on travel as slices of the cache's pages; smaller ones are copied
/// together.
const SLICE_MIN: usize = 4 << 10;
/// Slices of one batch's payload: more and the rest is copied together.
const SLICES_MAX: usize = 160;

/// Consecutive pieces of a job's stream, each cut at its cell's length.
#[derive(Debug, Default)]
pub(super) struct Batch {
    stretches: Vec<Stretch>,
    pub(super) bytes: u64,
    /// Bytes that are read for it, roughly.
    pub(super) span: u64,
}

/// Cuts a stream of pieces into batches.
pub(super) struct Batches<L> {
    cutter: Cutter<L>,
    /// The batch that is being put together.
    batch: Batch,
}

/// Bytes of one cell that are read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) cell: CellIndex,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl<L: CellLengths> Batches<L> {
    /// `length_of` says where each cell ends: pieces are cut there.
    pub(super) fn new(pieces: Pieces, length_of: L) -> Self {
        Batches {
            cutter: Cutter::new(pieces, length_of),
            batch: Batch::default(),
        }
    }

    /// The next batch, `Some(None)` at the end; `None` if it is not complete after so many steps,
    /// which are counted down.
    #[allow(clippy::option_option)] // not known yet, and there is none, are two answers
    pub(super) fn next(&mut self, steps: &mut u32) -> Option<Option<Batch>> {
        let batch = &mut self.batch;
        while batch.bytes < BATCH_BYTES && batch.span < SPAN_MAX && self.cutter.look(steps)? {
            let Some(found) = self.cutter.next(BATCH_BYTES - batch.bytes) else {
                break;
            };
            let each = if bridged(&found) {
                found.stride
            } else {
                found.length + ALONE
            };
            let fit = ((SPAN_MAX - batch.span) / each).max(1);
            let stretch = self.cutter.keep(found, fit);
            batch.span += each * (stretch.count - 1) + stretch.length + batch.gap_before(&stretch);
            batch.bytes += stretch.bytes();
            batch.stretches.push(stretch);
        }
        let batch = std::mem::take(batch);
        Some((!batch.stretches.is_empty()).then_some(batch))
    }
}

/// Whether what lies between the pieces of a stretch is read with them.
fn bridged(stretch: &Stretch) -> bool {
    stretch.stride - stretch.length <= BRIDGE
}

impl Batch {
    /// These pieces, each within its cell, in this order.
    pub(super) fn of(pieces: Vec<Piece>) -> Batch {
        Batch {
            bytes: pieces.iter().map(|p| p.length).sum(),
            stretches: pieces.into_iter().map(Stretch::from).collect(),
            span: 0,
        }
    }

    fn gap_before(&self, stretch: &Stretch) -> u64 {
        let last = self.stretches.last().filter(|l| l.cell == stretch.cell);
        let gap = last.and_then(|last| stretch.offset.0.checked_sub(last.end()));
        gap.filter(|gap| *gap <= BRIDGE).unwrap_or(ALONE)
    }

    /// The ranges that cover the batch, ascending and disjoint.
    pub(super) fn ranges(&self) -> Vec<Range> {
        let mut parts: Vec<Range> = Vec::with_capacity(self.stretches.len());
        for stretch in &self.stretches {
            let together = if bridged(stretch) {
                (RANGE_MAX.saturating_sub(stretch.length) / stretch.stride + 1).max(1)
            } else {
                1
            };
            let mut from = 0;
            while from < stretch.count {
                let pieces = together.min(stretch.count - from);
                let start = stretch.offset.0 + stretch.stride * from;
                parts.push(Range {
                    cell: stretch.cell,
                    start,
                    end: start + stretch.stride * (pieces - 1) + stretch.length,
                });
                from += pieces;
            }
        }
        let place = |r: &Range| (r.cell, r.start);
        if !parts.is_sorted_by_key(place) {
            parts.sort_unstable_by_key(place);
        }
        let mut ranges: Vec<Range> = Vec::new();
        for part in parts {
            match ranges.last_mut() {
                Some(range)
                    if range.cell == part.cell
                        && part.start <= range.end + BRIDGE
                        && (part.end <= range.end || part.end - range.start <= RANGE_MAX) =>
                {
                    range.end = range.end.max(part.end);
                }
                _ => ranges.push(part),
            }
        }
        ranges
    }

    /// Packs what was read into the batch's payload: exactly its bytes, in view order. What a range
    /// lacks at its end (the cell was cut meanwhile) is zeros. Its sum is the one under which whole
    /// blocks are stored: the caller has the store verify what was read afterwards. Also returns
    /// how many bytes were copied.
    pub(super) fn pack(&self, ranges: &[Range], read: &[Vec<ReadSlice>]) -> (Parcel, u64) {
        let mut out = Packer::new(ranges, read, self.bytes as usize);
        for stretch in &self.stretches {
            if stretch.length as usize >= SLICE_MIN {
                for piece in stretch.pieces() {
                    out.take(&piece);
                }
            } else {
                out.take_small(stretch);
            }
        }
        out.finish()
    }
}

/// Marks pieces at equal distances; where they are near each other, what lies between is of the
/// same blocks.
fn mark_spaced(slice: &ReadSlice, from: Spaced, length: usize, count: usize) {
    let step = from.step.unsigned_abs();
    if step < SLICE_MIN {
        return slice.mark_used(from.at..from.at + step * (count - 1) + length);
    }
    for at in (from.at..).step_by(step).take(count) {
        slice.mark_used(at..at + length);
    }
}

/// Puts a payload together.
struct Packer<'a> {
    ranges: &'a [Range],
    read: &'a [Vec<ReadSlice>],
    /// The range and the slice last used, and the bytes of the cell that the slice has.
    range: usize,
    slice: usize,
    from: u64,
    end: u64,
    parts: Vec<Bytes>,
    /// The sum of the parts.
    sum: u32,
    small: BytesMut,
    /// Bytes still to come.
    rest: usize,
    copied: u64,
}

impl<'a> Packer<'a> {
    fn new(ranges: &'a [Range], read: &'a [Vec<ReadSlice>], bytes: usize) -> Self {
        Packer {
            ranges,
            read,
            range: 0,
            slice: 0,
            from: ranges.first().map_or(0, |range| range.start),
            end: 0,
            parts: Vec::new(),
            sum: 0,
            small: BytesMut::new(),
            rest: bytes,
            copied: 0,
        }
    }

    /// The slice that holds a byte of a cell; `None` where nothing was read.
    fn seek(&mut self, cell: CellIndex, offset: u64) -> Option<&'a ReadSlice> {
        let last = &self.ranges[self.range];
        if (last.cell, last.start) > (cell, offset) || (last.cell, last.end) <= (cell, offset) {
            let before = |r: &Range| (r.cell, r.end) <= (cell, offset);
            self.range = self.ranges.partition_point(before);
            (self.slice, self.from) = (0, self.ranges[self.range].start);
        } else if offset < self.from {
            (self.slice, self.from) = (0, last.start);
        }
        let slices = &self.read[self.range];
        loop {
            let slice = slices.get(self.slice)?;
            self.end = self.from + slice.len() as u64;
            if offset < self.end {
                return Some(slice);
            }
            self.slice += 1;
            self.from = self.end;
        }
    }

    /// Room at the end of what is copied together.
    fn grow(&mut self, bytes: usize) -> &mut [u8] {
        if self.small.is_empty() {
            self.small.reserve(self.rest);
        }
        let at = self.small.len();
        self.small.resize(at + bytes, 0);
        self.rest -= bytes;
        &mut self.small[at..]
    }

    fn take(&mut self, piece: &Piece) {
        let (mut offset, mut length) = (piece.offset.0, piece.length as usize);
        while length > 0 {
            let Some(slice) = self.seek(piece.cell, offset) else {
                self.grow(length);
                return;
            };
            let at = (offset - self.from) as usize;
            let taken = length.min(slice.len() - at);
            if taken >= SLICE_MIN && self.parts.len() < SLICES_MAX {
                self.flush();
                self.sum = weft_sum::joined(self.sum, slice.sum(at..at + taken), taken);
                self.parts.push(slice.bytes().slice(at..at + taken));
                self.rest -= taken;
            } else {
                slice.mark_used(at..at + taken);
                self.grow(taken).copy_from_slice(&slice[at..at + taken]);
                self.copied += taken as u64;
            }
            length -= taken;
            offset += taken as u64;
        }
    }

    fn take_small(&mut self, stretch: &Stretch) {
        let mut left = *stretch;
        while left.count > 0 {
            let (offset, length) = (left.offset.0, left.length);
            let slice = self.seek(left.cell, offset);
            let inside = slice.filter(|_| offset + length <= self.end);
            let Some(slice) = inside else {
                self.take(&left.first());
                left = left.rest(1);
                continue;
            };
            let fit = ((self.end - offset - length) / left.stride + 1).min(left.count);
            let (length, count) = (length as usize, fit as usize);
            let from = Spaced {
                at: (offset - self.from) as usize,
                step: left.stride.cast_signed() as isize,
            };
            mark_spaced(slice, from, length, count);
            let room = self.grow(length * count);
            copy_spaced(room, Spaced::packed(0, length), slice, from, length, count);
            self.copied += (length * count) as u64;
            left = left.rest(fit);
        }
    }

    fn flush(&mut self) {
        if !self.small.is_empty() {
            let small = self.small.split().freeze();
            self.sum = weft_sum::joined(self.sum, weft_sum::of(&small), small.len());
            self.parts.push(small);
        }
    }

    fn finish(mut self) -> (Parcel, u64) {
        self.flush();
        let (parts, sum) = (self.parts, Some(self.sum));
        (Parcel { parts, sum }, self.copied)
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
        let mut batches = Batches::new(pieces, |_| length);
        std::iter::from_fn(|| batches.next(&mut { u32::MAX })?).collect()
    }

    fn part(bytes: &[u8]) -> ReadSlice {
        Bytes::copy_from_slice(bytes).into()
    }

    /// The bytes, which have the sum that goes with them.
    fn packed(parcel: &Parcel) -> Vec<u8> {
        let bytes = parcel.parts.concat();
        assert_eq!(parcel.sum, Some(weft_sum::of(&bytes)));
        bytes
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
    fn what_was_read_is_packed_wherever_the_first_range_starts() {
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
            let batch = Batch::of(pieces.clone());
            let ranges = [Range {
                cell: CellIndex(0),
                start: 1000,
                end: 1200,
            }];
            let read = [bytes.chunks(64).map(part).collect()];
            let (parcel, _) = batch.pack(&ranges, &read);
            let place =
                |p: &Piece| (p.offset.0 - 1000) as usize..(p.offset.0 - 1000 + p.length) as usize;
            let expected: Vec<u8> = pieces
                .iter()
                .flat_map(|p| bytes[place(p)].to_vec())
                .collect();
            assert_eq!(packed(&parcel), expected);
        }
    }

    #[test]
    fn a_batch_is_bounded_and_batches_cover_the_job() {
        let all = batches(300_000, u64::MAX >> 1, 300_000 * 8);
        assert!(
            all.iter()
                .all(|b| b.bytes <= BATCH_BYTES && b.span <= 2 * BATCH_BYTES)
        );
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
        let read: Vec<Vec<ReadSlice>> = ranges
            .iter()
            .map(|r| {
                let bytes = cell(r.cell.0 as u8);
                bytes.chunks(7).map(part).collect()
            })
            .collect();
        let (parcel, copied) = all[0].pack(&ranges, &read);
        let expected: Vec<u8> = (0..10)
            .flat_map(|row| {
                [0u8, 2]
                    .map(|c| cell(c)[row * 3..row * 3 + 3].to_vec())
                    .concat()
            })
            .collect();
        assert_eq!(packed(&parcel), expected);
        assert_eq!(copied, 60);
    }

    #[test]
    fn what_was_cut_meanwhile_is_zeros() {
        let all = batches(64, 128, 64 * 4 * 2);
        let ranges = all[0].ranges();
        let (parcel, _) = all[0].pack(&ranges, &[vec![part(b"ab")], vec![]]);
        let packed = packed(&parcel);
        assert_eq!(packed.len(), 256);
        assert_eq!(&packed[..3], b"ab\0");
    }
}
