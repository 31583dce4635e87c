//! Sorting in memory: one window, which is a cell, or the rows of a block.
//!
//! Three algorithms for different inputs: [`sort`] takes any order, [`merge`] takes a bitonic
//! sequence in linear time, [`sort_rows`] sorts many short bitonic sequences side by side in place.
//! All three move whole records and lose none, whatever the input is.

use std::cmp::Ordering;

use crate::apps::record::RecordOrder;

/// Bytes of memory that [`sort`] needs beside each record.
pub(crate) const INDEX_BYTES: u64 = 16;

/// Emits `records` in order, in pieces of at most `piece` bytes; stops when `emit` says false.
///
/// Cost: O(n log n) comparisons, of eight bytes each unless keys agree in those.
pub(crate) fn sort(
    order: RecordOrder,
    records: &[u8],
    descending: bool,
    piece: usize,
    emit: impl FnMut(Vec<u8>) -> bool,
) {
    let size = order.size();
    let record = |i: u32| &records[i as usize * size..][..size];
    let mut index: Vec<(u64, u32)> = records
        .chunks_exact(size)
        .zip(0..)
        .map(|(r, i)| (order.prefix(r), i))
        .collect();
    index.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0)
            .then_with(|| order.compare(record(a.1), record(b.1)))
    });
    let ascending = index.iter().map(|(_, i)| record(*i));
    if descending {
        emit_pieces(ascending.rev(), size, piece, emit);
    } else {
        emit_pieces(ascending, size, piece, emit);
    }
}

/// Emits a bitonic sequence in order: records that, read around in a circle, rise once and fall
/// once.
///
/// From the first record in order, both directions around the circle are in order, so two cursors
/// merge them.
///
/// Cost: 2n comparisons, no memory beside the pieces.
pub(crate) fn merge(
    order: RecordOrder,
    records: &[u8],
    descending: bool,
    piece: usize,
    emit: impl FnMut(Vec<u8>) -> bool,
) {
    let size = order.size();
    let count = records.len() / size;
    let record = |i: usize| &records[i * size..][..size];
    let before = |a: usize, b: usize| comes_before(order, descending, record(a), record(b));
    let mut first = 0;
    for i in 1..count {
        if before(i, first) {
            first = i;
        }
    }
    let mut right = first;
    let mut left = (first + count)
        .checked_sub(1)
        .map_or(0, |l| l % count.max(1));
    let merged = (0..count).map(|_| {
        if before(left, right) {
            let taken = left;
            left = if left == 0 { count - 1 } else { left - 1 };
            record(taken)
        } else {
            let taken = right;
            right = if right + 1 == count { 0 } else { right + 1 };
            record(taken)
        }
    });
    emit_pieces(merged, size, piece, emit);
}

/// Sorts every row of a block of `columns` columns (a power of two) that lie one after the other in
/// memory. Each row is a bitonic sequence.
///
/// Batcher's half-cleaners: first columns half the block apart are compared, then a quarter, down
/// to neighbours. Whole columns are compared at a time, so that memory is read in sequence.
pub(crate) fn sort_rows(order: RecordOrder, block: &mut [u8], columns: usize, descending: bool) {
    let size = order.size();
    let column = block.len() / columns;
    let mut distance = columns / 2;
    while distance > 0 {
        for pair in block.chunks_exact_mut(2 * distance * column) {
            let (one, other) = pair.split_at_mut(distance * column);
            for (a, b) in one.chunks_exact_mut(size).zip(other.chunks_exact_mut(size)) {
                if comes_before(order, descending, b, a) {
                    a.swap_with_slice(b);
                }
            }
        }
        distance /= 2;
    }
}

#[inline]
fn comes_before(order: RecordOrder, descending: bool, a: &[u8], b: &[u8]) -> bool {
    let before = if descending {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    order.compare(a, b) == before
}

fn emit_pieces<'a>(
    records: impl Iterator<Item = &'a [u8]>,
    size: usize,
    piece: usize,
    mut emit: impl FnMut(Vec<u8>) -> bool,
) {
    let full = (piece / size).max(1) * size;
    let mut out = Vec::new();
    for record in records {
        if out.capacity() == 0 {
            out.reserve_exact(full);
        }
        out.extend_from_slice(record);
        if out.len() == full && !emit(std::mem::take(&mut out)) {
            return;
        }
    }
    if !out.is_empty() {
        emit(out);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn order(size: u64, key: &str) -> RecordOrder {
        RecordOrder::parse(size, Some(key)).unwrap()
    }

    fn collected(run: impl FnOnce(&mut dyn FnMut(Vec<u8>) -> bool)) -> Vec<u8> {
        let mut all = Vec::new();
        run(&mut |piece| {
            all.extend(piece);
            true
        });
        all
    }

    /// Sorted by the standard library, record by record.
    fn expected(order: RecordOrder, records: &[u8], descending: bool) -> Vec<u8> {
        let mut list: Vec<&[u8]> = records.chunks(order.size()).collect();
        list.sort_by(|a, b| order.compare(a, b));
        if descending {
            list.reverse();
        }
        list.concat()
    }

    fn random(rng: &mut SmallRng, count: usize, size: usize, letters: u8) -> Vec<u8> {
        (0..count * size)
            .map(|_| rng.random_range(0..letters))
            .collect()
    }

    #[test]
    fn any_window_is_sorted_in_either_direction() {
        let mut rng = SmallRng::seed_from_u64(1);
        for round in 0..200 {
            let size = rng.random_range(1..20);
            let from = rng.random_range(0..size);
            let order = order(size, &format!("{from}.."));
            let records = random(&mut rng, round % 50, size as usize, 1 + (round % 7) as u8);
            let piece = rng.random_range(1..100);
            for descending in [false, true] {
                let sorted = collected(|emit| sort(order, &records, descending, piece, emit));
                assert_eq!(sorted, expected(order, &records, descending));
            }
        }
    }

    #[test]
    fn a_bitonic_window_is_merged_from_any_rotation() {
        let mut rng = SmallRng::seed_from_u64(2);
        let order = order(3, "1..");
        for round in 0..300_u32 {
            let (up, down) = (rng.random_range(0..20), rng.random_range(0..20));
            let letters = 1 + (round % 5) as u8;
            let mut circle = expected(order, &random(&mut rng, up, 3, letters), false);
            circle.extend(expected(order, &random(&mut rng, down, 3, letters), true));
            let rotation = if circle.is_empty() {
                0
            } else {
                rng.random_range(0..up + down) * 3
            };
            circle.rotate_left(rotation);
            for descending in [false, true] {
                let merged = collected(|emit| merge(order, &circle, descending, 10, emit));
                assert_eq!(merged, expected(order, &circle, descending));
            }
        }
    }

    #[test]
    fn rows_of_bitonic_sequences_are_sorted() {
        let mut rng = SmallRng::seed_from_u64(3);
        let order = order(2, "0..1");
        for columns in [1, 2, 4, 8, 16] {
            for rows in 1..6 {
                let mut block = vec![0; rows * columns * 2];
                let mut wanted = block.clone();
                for descending in [false, true] {
                    for row in 0..rows {
                        let rise = rng.random_range(0..=columns);
                        let mut line = expected(order, &random(&mut rng, rise, 2, 4), false);
                        let fall = random(&mut rng, columns - rise, 2, 4);
                        line.extend(expected(order, &fall, true));
                        let sorted = expected(order, &line, descending);
                        for column in 0..columns {
                            let at = (column * rows + row) * 2;
                            block[at..at + 2].copy_from_slice(&line[column * 2..][..2]);
                            wanted[at..at + 2].copy_from_slice(&sorted[column * 2..][..2]);
                        }
                    }
                    sort_rows(order, &mut block, columns, descending);
                    assert_eq!(block, wanted);
                }
            }
        }
    }

    #[test]
    fn a_sort_ends_when_its_consumer_stops() {
        let mut pieces = 0;
        sort(order(1, "0..1"), &[3, 2, 1, 0], false, 1, |_| {
            pieces += 1;
            pieces < 2
        });
        assert_eq!(pieces, 2);
    }
}
