//! Packs the pieces of a batch, from the slices that were read, into one payload.

use bytes::{Bytes, BytesMut};
use weft_layout::{CellIndex, Piece, Strided, StridedPieces, copy_strided};
use weft_net::ReplyPayload;
use weft_store::ReadSlice;

use super::range::CellRange;
use crate::limits::{PAYLOAD_SLICE_MIN, PAYLOAD_SLICES_MAX};

/// Marks pieces at equal distances as used. Gaps between near pieces are in the same blocks, so
/// they are marked too.
fn mark_spaced(slice: &ReadSlice, from: Strided, length: usize, count: usize) {
    let step = from.step.unsigned_abs();
    if step < PAYLOAD_SLICE_MIN {
        return slice.mark_used(from.at..from.at + step * (count - 1) + length);
    }
    for at in (from.at..).step_by(step).take(count) {
        slice.mark_used(at..at + length);
    }
}

/// Builds a payload.
pub(super) struct Packer<'a> {
    ranges: &'a [CellRange],
    read: &'a [Vec<ReadSlice>],
    /// The range that was used last.
    range: usize,
    /// The slice that was used last, and its byte range in the cell.
    slice: usize,
    from: u64,
    end: u64,
    parts: Vec<Bytes>,
    /// The sum of `parts`.
    sum: u32,
    /// Small pieces that are copied together.
    small: BytesMut,
    /// Payload bytes that are still missing.
    rest: usize,
    copied: u64,
}

impl<'a> Packer<'a> {
    pub(super) fn new(ranges: &'a [CellRange], read: &'a [Vec<ReadSlice>], bytes: usize) -> Self {
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

    /// The slice that holds a byte of a cell; `None` if it was not read.
    fn seek(&mut self, cell: CellIndex, offset: u64) -> Option<&'a ReadSlice> {
        let last = &self.ranges[self.range];
        if (last.cell, last.start) > (cell, offset) || (last.cell, last.end) <= (cell, offset) {
            let before = |r: &CellRange| (r.cell, r.end) <= (cell, offset);
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

    /// Appends space to the bytes that are copied together.
    fn grow(&mut self, bytes: usize) -> &mut [u8] {
        if self.small.is_empty() {
            self.small.reserve(self.rest);
        }
        let at = self.small.len();
        self.small.resize(at + bytes, 0);
        self.rest -= bytes;
        &mut self.small[at..]
    }

    pub(super) fn take(&mut self, piece: &Piece) {
        let (mut offset, mut length) = (piece.offset.0, piece.length as usize);
        while length > 0 {
            let Some(slice) = self.seek(piece.cell, offset) else {
                self.grow(length);
                return;
            };
            let at = (offset - self.from) as usize;
            let taken = length.min(slice.len() - at);
            if taken >= PAYLOAD_SLICE_MIN && self.parts.len() < PAYLOAD_SLICES_MAX {
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

    pub(super) fn take_small(&mut self, strided: &StridedPieces) {
        let mut left = *strided;
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
            let from = Strided {
                at: (offset - self.from) as usize,
                step: left.stride.cast_signed() as isize,
            };
            mark_spaced(slice, from, length, count);
            let room = self.grow(length * count);
            copy_strided(room, Strided::packed(0, length), slice, from, length, count);
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

    pub(super) fn finish(mut self) -> (ReplyPayload, u64) {
        self.flush();
        let (parts, sum) = (self.parts, Some(self.sum));
        (ReplyPayload { parts, sum }, self.copied)
    }
}
