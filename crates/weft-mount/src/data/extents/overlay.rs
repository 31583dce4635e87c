//! The bytes that a reader sees over the servers'.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::Extents;

impl Extents {
    /// Dirty and in-flight bytes of this range: absolute offsets, ascending, disjoint.
    pub(in crate::data) fn overlay(&self, range: Range<u64>) -> Vec<(u64, Bytes)> {
        let mut pieces = Vec::new();
        let clip = |at: u64, length: usize| {
            let from = range.start.saturating_sub(at).min(length as u64) as usize;
            let to = range.end.saturating_sub(at).min(length as u64) as usize;
            from..to
        };
        for (at, segment) in starting_before(&self.dirty, &range) {
            let within = clip(*at, segment.len());
            if !within.is_empty() {
                pieces.push((at + within.start as u64, segment.data.slice(within)));
            }
        }
        let over = pieces.len();
        for (_, run) in starting_before(&self.in_flight, &range) {
            let mut at = run.offset;
            for buffer in &run.buffers {
                let within = clip(at, buffer.len());
                if !within.is_empty() {
                    uncovered(
                        &mut pieces,
                        over,
                        at + within.start as u64,
                        &buffer.slice(within),
                    );
                }
                at += buffer.len() as u64;
            }
        }
        pieces.sort_unstable_by_key(|(at, _)| *at);
        pieces
    }
}

/// The entries that begin before the range's end, from the last that begins at or before its start.
fn starting_before<'a, T>(
    map: &'a BTreeMap<u64, T>,
    range: &Range<u64>,
) -> impl Iterator<Item = (&'a u64, &'a T)> {
    let first = map.range(..=range.start).next_back();
    let from = range.start.saturating_add(1).min(range.end);
    first.into_iter().chain(map.range(from..range.end))
}

/// Adds the bytes at `start..` that the first `over` pieces, ascending, leave uncovered.
fn uncovered(pieces: &mut Vec<(u64, Bytes)>, over: usize, start: u64, bytes: &Bytes) {
    let end = start + bytes.len() as u64;
    let piece_end = |(at, b): &(u64, Bytes)| at + b.len() as u64;
    let mut at = start;
    let mut i = pieces[..over].partition_point(|piece| piece_end(piece) <= start);
    while at < end {
        let (gap_end, next) = match pieces[..over].get(i) {
            Some(piece) if piece.0 < end => (piece.0.max(at), piece_end(piece).max(at)),
            _ => (end, end),
        };
        if gap_end > at {
            let gap = bytes.slice((at - start) as usize..(gap_end - start) as usize);
            pieces.push((at, gap));
        }
        at = next;
        i += 1;
    }
}
