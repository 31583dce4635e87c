//! Hits of an arithmetic progression: its members that fall into a range modulo a number, one after
//! another.
//!
//! By the three-gap theorem only two distances and their sum occur between hits. So a step is a
//! comparison and an addition; Euclid's algorithm is needed only to start.
//!
//! Of the jumps that move the place up by less than `range` let `up` be the shortest, of those that
//! move it down `down`. From place `x` the shortest jump that ends in `0..range` is `up` if it
//! fits, else `down` if it fits, else `up + down`:
//! - Both never fit unless they are the same jump: if they move by less than `range` together, the
//!   longer without the shorter is a jump of the longer's kind, and shorter.
//! - If only `up` fits, a jump down that fits and is shorter than `up` moves by less than `down`
//!   does; without `down` it is a jump up that is shorter than `up`. The same holds for `down`.
//! - If neither fits, a jump up that fits moves by less than `up`; without `up` it is a jump down,
//!   so not shorter than `down`. The same holds for a jump down.

use crate::arithmetic::modular::first_below;

/// How many members a jump passes, and by how much it moves the place.
#[derive(Clone, Copy, Debug)]
struct Jump {
    members: u64,
    shift: u64,
}

/// The progression's members that fall into `0..range` modulo `modulus`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressionHits {
    step: u64,
    modulus: u64,
    range: u64,
    up: Jump,
    down: Jump,
}

impl ProgressionHits {
    /// `1 ≤ range ≤ modulus`, `modulus < 2⁶³`.
    pub(crate) fn new(step: u64, modulus: u64, range: u64) -> Self {
        let step = step % modulus;
        Self {
            step,
            modulus,
            range,
            up: shortest(step, modulus, range),
            down: shortest((modulus - step) % modulus, modulus, range),
        }
    }

    /// The first hit from the member at `place` (modulo `modulus`) on: how many members away it is,
    /// and its place in the range.
    ///
    /// Cost: O(log modulus).
    pub(crate) fn first(&self, place: u64) -> Option<(u64, u64)> {
        let [start, step, modulus, range] =
            [place, self.step, self.modulus, self.range].map(u128::from);
        let members = first_below(start, step, modulus, range)?;
        let place = (start + members * step) % modulus;
        Some((members as u64, place as u64))
    }

    /// The hit after the one at `place`: how many members away it is, and its place.
    ///
    /// Cost: O(1), no division.
    #[inline]
    pub(crate) fn next(&self, place: u64) -> (u64, u64) {
        if place + self.up.shift < self.range {
            (self.up.members, place + self.up.shift)
        } else if place >= self.down.shift {
            (self.down.members, place - self.down.shift)
        } else {
            (
                self.up.members + self.down.members,
                place + self.up.shift - self.down.shift,
            )
        }
    }

    /// The members from hit to hit, where these are always as many and all hits have the same
    /// place.
    #[inline]
    pub(crate) fn even(&self) -> Option<u64> {
        (self.up.shift == 0).then_some(self.up.members)
    }
}

/// The fewest members, at least 1, over which the place moves by less than `range`.
fn shortest(step: u64, modulus: u64, range: u64) -> Jump {
    let [step, modulus, range] = [step, modulus, range].map(u128::from);
    let members = 1 + first_below(step, step, modulus, range)
        .expect("over as many members as the modulus the place moves by nothing");
    Jump {
        members: members as u64,
        shift: (members * step % modulus) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::ProgressionHits;

    #[test]
    fn jumps_find_the_same_hits_as_a_linear_search() {
        for modulus in 1..=30u64 {
            for (step, range) in (0..modulus).flat_map(|s| (1..=modulus).map(move |r| (s, r))) {
                let hits = ProgressionHits::new(step, modulus, range);
                for start in 0..modulus {
                    let walked: Vec<u64> = (0..100)
                        .filter(|k| (start + k * step) % modulus < range)
                        .collect();
                    let mut jumped = Vec::new();
                    let mut at = hits.first(start);
                    let mut member = 0;
                    while let Some((over, place)) = at {
                        member += over;
                        if member >= 100 {
                            break;
                        }
                        assert_eq!((start + member * step) % modulus, place);
                        jumped.push(member);
                        at = Some(hits.next(place));
                    }
                    assert_eq!(jumped, walked, "{start} + k·{step} mod {modulus} < {range}");
                }
            }
        }
    }
}
