//! Copies of many small pieces at equal distances.
//!
//! Pieces of the usual record sizes are copied as values of that size, which the compiler turns
//! into a few moves; a call of `memcpy` for each would cost more than the bytes (benchmark
//! `spaced`).

use crate::limits::{COPY_WINDOW, FAR_APART};

/// Where pieces lie in a buffer: the first, and how far each is from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strided {
    /// First byte of the first piece.
    pub at: usize,
    /// From piece to piece.
    pub step: isize,
}

impl Strided {
    /// Pieces of this length, one directly behind the other.
    pub fn packed(at: usize, length: usize) -> Strided {
        Strided {
            at,
            step: length.cast_signed(),
        }
    }
}

/// Copies `count` pieces of `length` bytes.
///
/// Shape: every piece lies in its buffer.
/// Panics where one does not.
pub fn copy_strided(
    into: &mut [u8],
    to: Strided,
    bytes: &[u8],
    from: Strided,
    length: usize,
    count: usize,
) {
    let packed = length.cast_signed();
    if to.step == packed && from.step == packed {
        let all = length * count;
        into[to.at..to.at + all].copy_from_slice(&bytes[from.at..from.at + all]);
        return;
    }
    match length {
        4 => copy_fixed::<4>(into, to, bytes, from, count),
        8 => copy_fixed::<8>(into, to, bytes, from, count),
        16 => copy_fixed::<16>(into, to, bytes, from, count),
        32 => copy_fixed::<32>(into, to, bytes, from, count),
        64 => copy_fixed::<64>(into, to, bytes, from, count),
        128 => copy_fixed::<128>(into, to, bytes, from, count),
        _ => {
            let (mut to, mut from) = (to, from);
            for _ in 0..count {
                into[to.at..to.at + length].copy_from_slice(&bytes[from.at..from.at + length]);
                to.advance();
                from.advance();
            }
        }
    }
}

impl Strided {
    #[inline]
    fn advance(&mut self) {
        // Past the last piece it means nothing and may wrap.
        self.at = self.at.wrapping_add_signed(self.step);
    }

    fn skip(&mut self, pieces: usize) {
        let bytes = self.step.wrapping_mul(pieces.cast_signed());
        self.at = self.at.wrapping_add_signed(bytes);
    }
}

/// Equally long pieces at equal distances in two buffers.
#[derive(Clone, Copy, Debug)]
pub struct StridedCopy {
    /// Where they go.
    pub to: Strided,
    /// Where they are.
    pub from: Strided,
    /// Bytes of a piece.
    pub length: usize,
    /// How many there are.
    pub count: usize,
}

/// Does all copies of one buffer into another.
///
/// Where pieces are far apart in one of the buffers (a matrix that is transposed) the copies are
/// interleaved, a window of that buffer at a time, so that its lines and pages stay in the cache.
///
/// Shape: as [`copy_strided`]. What `to` names is disjoint. The copies are used up.
/// Panics where a piece does not lie in its buffer.
pub fn copy_all(into: &mut [u8], bytes: &[u8], copies: &mut [StridedCopy]) {
    let far = |copy: &StridedCopy| match (copy.to.step >= FAR_APART, copy.from.step >= FAR_APART) {
        (true, false) => Some((FarSide::Target, copy.to.step)),
        (false, true) => Some((FarSide::Source, copy.from.step)),
        (true, true) | (false, false) => None,
    };
    let same = copies.iter().find(|copy| copy.count > 1).and_then(far);
    if let Some((side, step)) = same
        && copies.len() > 1
        && copies
            .iter()
            .all(|copy| copy.count == 1 || far(copy) == same)
    {
        return copy_windows(into, bytes, copies, side, step.cast_unsigned());
    }
    for copy in copies {
        copy_strided(into, copy.to, bytes, copy.from, copy.length, copy.count);
    }
}

/// The buffer in which pieces are far apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FarSide {
    Target,
    Source,
}

/// Interleaves copies whose pieces are `step` apart on one side.
fn copy_windows(
    into: &mut [u8],
    bytes: &[u8],
    copies: &mut [StridedCopy],
    side: FarSide,
    step: usize,
) {
    let at = |copy: &StridedCopy| match side {
        FarSide::Target => copy.to.at,
        FarSide::Source => copy.from.at,
    };
    while let Some(first) = copies.iter().filter(|c| c.count > 0).map(at).min() {
        let end = first + step * COPY_WINDOW;
        for copy in copies.iter_mut() {
            let inside = end.saturating_sub(at(copy)).div_ceil(step);
            let now = inside.min(copy.count);
            if now > 0 {
                copy_strided(into, copy.to, bytes, copy.from, copy.length, now);
                copy.to.skip(now);
                copy.from.skip(now);
                copy.count -= now;
            }
        }
    }
}

fn copy_fixed<const N: usize>(
    into: &mut [u8],
    mut to: Strided,
    bytes: &[u8],
    mut from: Strided,
    count: usize,
) {
    for _ in 0..count {
        let piece: [u8; N] = bytes[from.at..from.at + N]
            .try_into()
            .expect("a slice of N bytes is N bytes");
        into[to.at..to.at + N].copy_from_slice(&piece);
        to.advance();
        from.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_copies_move_pieces_of_any_length() {
        let bytes: Vec<u8> = (0..4000_u32).map(|i| (i % 251) as u8).collect();
        for length in (1..70_usize).chain([128]) {
            for (to_step, from_step) in [
                (200, 131),
                (-200, 129),
                (length.cast_signed(), 140),
                (150, length.cast_signed()),
            ] {
                let to = Strided {
                    at: if to_step < 0 { 2000 } else { 3 },
                    step: to_step,
                };
                let from = Strided {
                    at: 5,
                    step: from_step,
                };
                let (mut into, mut expected) = (vec![0; 4000], vec![0; 4000]);
                copy_strided(&mut into, to, &bytes, from, length, 9);
                for n in 0..9 {
                    let to = to.at.wrapping_add_signed(to.step * n);
                    let from = from.at.wrapping_add_signed(from.step * n);
                    expected[to..to + length].copy_from_slice(&bytes[from..from + length]);
                }
                assert_eq!(into, expected, "{length} {to_step} {from_step}");
            }
        }
    }

    #[test]
    fn interleaved_copies_equal_sequential_ones() {
        let bytes: Vec<u8> = (0..600_000_u32).map(|i| (i % 251) as u8).collect();
        let strided = |at, step| Strided { at, step };
        // Rows with varying starts and ends are dealt into columns, or columns are gathered into
        // rows; with `odd`, every second one has another stride.
        let copy = |row: usize, odd: isize, turn: bool| {
            let near = strided(row * 1600 + row % 3 * 8, 8);
            let far = strided(row * 8 + row % 5 * 3000, 3000 + odd);
            let (to, from) = if turn { (far, near) } else { (near, far) };
            StridedCopy {
                to,
                from,
                length: 8,
                count: 100 + row * 7,
            }
        };
        for (odd, turn) in [(0, true), (0, false), (8, true), (8, false)] {
            let mut copies: Vec<StridedCopy> = (0..12)
                .map(|row| copy(row, odd * (row % 2).cast_signed(), turn))
                .collect();
            let (mut into, mut expected) = (vec![0; 600_000], vec![0; 600_000]);
            for c in &copies {
                copy_strided(&mut expected, c.to, &bytes, c.from, c.length, c.count);
            }
            copy_all(&mut into, &bytes, &mut copies);
            assert!(into == expected, "{odd} {turn}");
        }
    }
}
