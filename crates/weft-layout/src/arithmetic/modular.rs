//! Where an arithmetic progression first falls into a range, modulo a number.
//!
//! A server that holds few of the cells that a view spans steps with this from one of its cells to
//! the next, so that its cost does not grow with the pieces on other servers.

/// The smallest `k ≥ 0` with `(start + k·step) mod modulus < length`.
///
/// Cost: O(log modulus), the steps of Euclid's algorithm on `step` and `modulus`.
/// Requires `1 ≤ modulus ≤ 2⁶⁴` and `length ≥ 1`.
pub(crate) fn first_below(start: u128, step: u128, modulus: u128, length: u128) -> Option<u128> {
    debug_assert!((1..=1 << 64).contains(&modulus) && length >= 1);
    let start = start % modulus;
    if start < length {
        return Some(0);
    }
    // Measured from `start`, the range [0, length) lies at [modulus − start, modulus − start +
    // length).
    let low = modulus - start;
    first_within(step % modulus, modulus, low, low + length - 1)
}

/// The smallest `k ≥ 0` with `low ≤ (k·step) mod modulus ≤ high`, for `low ≤ high < modulus` and
/// `step < modulus`.
fn first_within(step: u128, modulus: u128, low: u128, high: u128) -> Option<u128> {
    if low == 0 {
        return Some(0);
    }
    if step == 0 {
        return None;
    }
    // A step of more than half the modulus is a short step backwards: mirrored, the modulus of
    // the recursion at least halves.
    if step > modulus / 2 {
        return first_within(modulus - step, modulus, modulus - high, modulus - low);
    }
    let k = low.div_ceil(step);
    if k * step <= high {
        return Some(k);
    }
    // No multiple of `step` lies in the range in the first round, so the range is shorter than a
    // step. The first round `r` in which one does has (−r·modulus) mod step in the range, mod step.
    let back = (step - modulus % step) % step;
    let round = first_within(back, step, low % step, high % step)?;
    Some((low + round * modulus).div_ceil(step))
}

#[cfg(test)]
mod tests {
    use super::first_below;

    #[test]
    fn first_below_agrees_with_a_linear_search() {
        for modulus in 1..=24u128 {
            for (start, step) in (0..modulus).flat_map(|a| (0..modulus).map(move |b| (a, b))) {
                for length in 1..=modulus {
                    let walked = (0..modulus).find(|k| (start + k * step) % modulus < length);
                    assert_eq!(
                        first_below(start, step, modulus, length),
                        walked,
                        "start {start} step {step} modulus {modulus} length {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn first_below_holds_at_the_largest_modulus() {
        let modulus = 1u128 << 64;
        assert_eq!(first_below(1, modulus - 1, modulus, 1), Some(1));
        assert_eq!(first_below(1, 1, modulus, 1), Some(modulus - 1));
        assert_eq!(first_below(1, 2, modulus, 1), None);
        let step = 0x9e37_79b9_7f4a_7c15;
        let k = first_below(12345, step, modulus, 1000).unwrap();
        assert!((12345 + k * step) % modulus < 1000);
    }
}
