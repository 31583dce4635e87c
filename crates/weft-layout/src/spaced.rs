//! Copies of many small pieces at equal distances.
//!
//! Pieces of the usual record sizes are copied as values of that size, which the compiler turns into a few moves; a call of
//! `memcpy` for each would cost more than the bytes (benchmark `spaced`).

/// Where pieces lie in a buffer: the first, and how far each is from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spaced {
    /// First byte of the first piece.
    pub at: usize,
    /// From piece to piece.
    pub step: isize,
}

impl Spaced {
    /// Pieces of this length, one directly behind the other.
    pub fn packed(at: usize, length: usize) -> Spaced {
        Spaced {
            at,
            step: length.cast_signed(),
        }
    }
}

/// Copies `count` pieces of `length` bytes.
///
/// Shape: every piece lies in its buffer.
/// Panics where one does not.
pub fn copy_spaced(
    into: &mut [u8],
    to: Spaced,
    bytes: &[u8],
    from: Spaced,
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
                to.step_on();
                from.step_on();
            }
        }
    }
}

impl Spaced {
    #[inline]
    fn step_on(&mut self) {
        // Past the last piece it means nothing and may wrap.
        self.at = self.at.wrapping_add_signed(self.step);
    }
}

fn copy_fixed<const N: usize>(
    into: &mut [u8],
    mut to: Spaced,
    bytes: &[u8],
    mut from: Spaced,
    count: usize,
) {
    for _ in 0..count {
        let piece: [u8; N] = bytes[from.at..from.at + N]
            .try_into()
            .expect("a slice of N bytes is N bytes");
        into[to.at..to.at + N].copy_from_slice(&piece);
        to.step_on();
        from.step_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_arrives_whatever_its_length() {
        let bytes: Vec<u8> = (0..4000_u32).map(|i| (i % 251) as u8).collect();
        for length in (1..70_usize).chain([128]) {
            for (to_step, from_step) in [
                (200, 131),
                (-200, 129),
                (length.cast_signed(), 140),
                (150, length.cast_signed()),
            ] {
                let to = Spaced {
                    at: if to_step < 0 { 2000 } else { 3 },
                    step: to_step,
                };
                let from = Spaced {
                    at: 5,
                    step: from_step,
                };
                let (mut into, mut expected) = (vec![0; 4000], vec![0; 4000]);
                copy_spaced(&mut into, to, &bytes, from, length, 9);
                for n in 0..9 {
                    let to = to.at.wrapping_add_signed(to.step * n);
                    let from = from.at.wrapping_add_signed(from.step * n);
                    expected[to..to + length].copy_from_slice(&bytes[from..from + length]);
                }
                assert_eq!(into, expected, "{length} {to_step} {from_step}");
            }
        }
    }
}
