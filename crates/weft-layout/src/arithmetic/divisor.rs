//! Division by a number that stays the same, by multiplication.
//!
//! To find the place of each of a hundred million runs a second, no run may wait for a division.

/// A divisor for numbers below 2⁶³.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: u64,
    magic: u64,
    shift: u32,
}

impl Divisor {
    /// `by` is from 1 to 2⁶³ − 1.
    pub(crate) fn new(by: u64) -> Self {
        debug_assert!((1..1 << 63).contains(&by));
        // With 2^l ≥ by the error of magic / 2^(63 + l) is below 2⁻⁶³ / by, too little to reach the
        // next quotient from any number below 2⁶³ (Granlund and Montgomery, 1994).
        let bits = if by == 1 {
            0
        } else {
            64 - (by - 1).leading_zeros()
        };
        let magic = (1u128 << (63 + bits)) / u128::from(by) + 1;
        Self {
            by,
            magic: magic as u64,
            shift: 63 + bits,
        }
    }

    /// Quotient and remainder.
    #[inline]
    pub(crate) fn divide(self, n: u64) -> (u64, u64) {
        debug_assert!(n < 1 << 63);
        let quotient = ((u128::from(n) * u128::from(self.magic)) >> self.shift) as u64;
        (quotient, n - quotient * self.by)
    }

    pub(crate) fn value(self) -> u64 {
        self.by
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;

    #[test]
    fn it_agrees_with_the_division_operator() {
        let interesting = (0..63)
            .flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1])
            .chain([
                3,
                5,
                7,
                10,
                641,
                6_700_417,
                1_000_003,
                (1 << 63) - 1,
                (1 << 63) - 2,
            ])
            .filter(|n| *n < 1 << 63);
        for by in interesting.clone().filter(|by| *by > 0) {
            let divisor = Divisor::new(by);
            for n in interesting.clone().flat_map(|n| {
                let multiple = n / by * by;
                [
                    n,
                    multiple,
                    multiple.saturating_sub(1),
                    multiple.saturating_add(by - 1),
                ]
            }) {
                if n < 1 << 63 {
                    assert_eq!(divisor.divide(n), (n / by, n % by), "{n} by {by}");
                }
            }
        }
    }
}
