//! Finds long runs of zeros in data, so that they need not be written.

use std::ops::Range;

/// The unit in which data is searched for zeros, in bytes.
pub(crate) const BLOCK: usize = 4096;

/// The ranges of `data` without zeros of `hole` bytes or more; ranges that are left out consist of
/// whole blocks.
pub(crate) fn runs(data: &[u8], hole: usize) -> Vec<Range<usize>> {
    if data.len() <= hole {
        return std::iter::once(0..data.len()).collect();
    }
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (i, block) in data.chunks(BLOCK).enumerate() {
        if is_zero(block) {
            continue;
        }
        let (start, end) = (i * BLOCK, i * BLOCK + block.len());
        match runs.last_mut() {
            Some(run) if start - run.end < hole => run.end = end,
            _ => runs.push(if start < hole { 0..end } else { start..end }),
        }
    }
    if let Some(run) = runs.last_mut()
        && data.len() - run.end < hole
    {
        run.end = data.len();
    }
    runs
}

/// Whether all bytes are zero: a comparison with itself one byte on, which ends at the first that
/// is not.
fn is_zero(block: &[u8]) -> bool {
    match block {
        [] => true,
        [first, rest @ ..] => *first == 0 && block[..rest.len()] == *rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_distinguished_from_data_at_every_offset() {
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(&[0; 4096]));
        for at in [0, 1, 2047, 4095] {
            let mut block = [0; 4096];
            block[at] = 1;
            assert!(!is_zero(&block), "{at}");
        }
    }

    #[test]
    fn runs_skip_only_long_zeros() {
        let mut data = vec![0; 16 * BLOCK];
        assert!(runs(&data, BLOCK).is_empty());
        data[5 * BLOCK + 7] = 1;
        data[7 * BLOCK] = 1;
        let block = |a: usize, b: usize| a * BLOCK..b * BLOCK;
        assert_eq!(runs(&data, BLOCK), [block(5, 6), block(7, 8)]);
        let one = |hole| {
            let runs = runs(&data, hole);
            assert_eq!(runs.len(), 1);
            runs[0].clone()
        };
        assert_eq!(one(2 * BLOCK), block(5, 8));
        assert_eq!(one(6 * BLOCK), block(0, 8));
        assert_eq!(one(9 * BLOCK), block(0, 16));
        // Zeros that are not longer than a hole are always written.
        assert_eq!(runs(&[0; 100], BLOCK)[0], 0..100);
    }
}
