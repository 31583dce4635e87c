//! Reads into and writes from several buffers, without a copy: received frames are handed on, and
//! the caller's buffers are sent.

use std::ops::Range;

use bytes::Bytes;
use weft_layout::{Grid, Request, View, ViewOffset};

use super::span::{Durability, Sink, Source};
use crate::{Error, OpenView};

/// Pieces from this size on are handed on as slices of what arrived; smaller ones are copied
/// together.
const SLICE_MIN: u64 = 8 << 10;

/// The bytes of a read, as they arrived.
#[derive(Clone, Debug, Default)]
pub struct ReadParts {
    /// Bytes and their positions relative to the read's offset: ascending, disjoint. What lies
    /// between them, and after them up to the file's end, is zeros.
    pub parts: Vec<(u64, Bytes)>,
    /// The file's size, if the read touched every cell of the file in canonical order.
    pub size: Option<u64>,
}

struct Copied {
    memory: Vec<u8>,
    end: usize,
}

impl Sink for Copied {
    fn put(&mut self, at: usize, bytes: &Bytes, range: Range<usize>) {
        self.end = self.end.max(at + range.len());
        self.memory[at..at + range.len()].copy_from_slice(&bytes[range]);
    }
}

struct Kept(Vec<(u64, Bytes)>);

impl Sink for Kept {
    fn put(&mut self, at: usize, bytes: &Bytes, range: Range<usize>) {
        self.0.push((at as u64, bytes.slice(range)));
    }
}

impl OpenView {
    /// Reads view bytes `offset..offset + length`; one request to each server that holds pieces.
    /// Nothing is copied where the layout's striping unit is 8 KiB or more.
    ///
    /// # Cancellation
    /// Dropped, the servers stop.
    pub async fn read_parts(&self, offset: ViewOffset, length: usize) -> Result<ReadParts, Error> {
        let request = Request::Contiguous {
            offset,
            length: length as u64,
        };
        let grid = *self.map().grid();
        let slices = grid.cells() == 1 || grid.bsu() >= SLICE_MIN;
        let (parts, moved) = if slices {
            let mut kept = Kept(Vec::new());
            let moved = self.read_request(&request, &mut kept).await?;
            // A server that was lost and asked again has sent some of them twice.
            kept.0.sort_by_key(|(at, _)| *at);
            (without_repeats(kept.0), moved)
        } else {
            let mut copied = Copied {
                memory: vec![0; length],
                end: 0,
            };
            let moved = self.read_request(&request, &mut copied).await?;
            copied.memory.truncate(copied.end);
            (vec![(0, Bytes::from(copied.memory))], moved)
        };
        let whole = !moved.doubted
            && *self.view() == View::canonical()
            && self.fork == "data"
            && touches_all(&grid, offset.0, length as u64);
        let size = || {
            moved
                .lengths
                .iter()
                .map(|(cell, l)| grid.file_size(*cell, *l))
        };
        Ok(ReadParts {
            parts,
            size: whole.then(|| size().max().unwrap_or(0)),
        })
    }

    /// As [`OpenView::write_at`], of bytes that are scattered in memory: they are written one after
    /// the other.
    pub async fn write_parts(&self, offset: ViewOffset, parts: &[Bytes]) -> Result<u64, Error> {
        let source = Source::parts(parts.iter().cloned());
        self.write_contiguous(offset, source, Durability::Process)
            .await
    }
}

fn touches_all(grid: &Grid, offset: u64, length: u64) -> bool {
    let last = offset.saturating_add(length).saturating_sub(1);
    length > 0 && last / grid.bsu() - offset / grid.bsu() + 1 >= u64::from(grid.cells())
}

/// Leaves each byte once, as it arrived first; all of them were what the file held while it was
/// read.
fn without_repeats(sorted: Vec<(u64, Bytes)>) -> Vec<(u64, Bytes)> {
    let mut out: Vec<(u64, Bytes)> = Vec::with_capacity(sorted.len());
    for (at, bytes) in sorted {
        let end = at + bytes.len() as u64;
        let covered = out.last().map_or(0, |(at, b)| at + b.len() as u64);
        if covered <= at {
            out.push((at, bytes));
        } else if covered < end {
            let from = (covered - at) as usize;
            out.push((covered, bytes.slice(from..)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_bytes_are_returned_once() {
        let part = |at, bytes: &'static [u8]| (at, Bytes::from_static(bytes));
        let sorted = vec![
            part(0, b"abcd"),
            part(0, b"ab"),
            part(2, b"cdef"),
            part(8, b"i"),
        ];
        let out = without_repeats(sorted);
        assert_eq!(out, [part(0, b"abcd"), part(4, b"ef"), part(8, b"i")]);
    }
}
