//! Which members of an arithmetic progression fall into a range modulo something, one after
//! another.
//!
//! By the three-gap theorem only two distances and their sum occur between those that do. So a step
//! is a comparison and an addition; Euclid's algorithm is needed only to start.
//!
//! Of the jumps that move the place up by less than `reach` let `up` be the shortest, of those that
//! move it down `down`. From place `x` the shortest jump that ends in `0..reach` is `up` if it
//! fits, else `down` if it fits, else `up + down`:
//! - Both never fit unless they are the same jump: if they move by less than `reach` together, the
//!   longer without the shorter is a jump of the longer's kind, and shorter.
//! - If only `up` fits, a jump down that fits and is shorter than `up` moves by less than `down`
//!   does; without `down` it is a jump up that is shorter than `up`. The same holds for `down`.
//! - If neither fits, a jump up that fits moves by less than `up`; without `up` it is a jump down,
//!   so not shorter than `down`. The same holds for a jump down.

use crate::modular::first_below;

/// Over how many members a jump goes, and by how much it moves the place.
#[derive(Clone, Copy, Debug)]
struct Jump {
    members: u64,
    shift: u64,
}

/// The progression's members that fall into `0..reach` modulo `modulus`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rhythm {
    step: u64,
    modulus: u64,
    reach: u64,
    up: Jump,
    down: Jump,
}

impl Rhythm {
    /// `1 ≤ reach ≤ modulus`, `modulus < 2⁶³`.
    pub(crate) fn new(step: u64, modulus: u64, reach: u64) -> Self {
        let step = step % modulus;
        Self {
            step,
            modulus,
            reach,
            up: shortest(step, modulus, reach),
            down: shortest((modulus - step) % modulus, modulus, reach),
        }
    }

    /// The first member that falls into the range, from the one at `place` (modulo `modulus`) on:
    /// over how many members it lies, and its place in the range.
    ///
    /// Cost: O(log modulus).
    pub(crate) fn first(&self, place: u64) -> Option<(u64, u64)> {
        let [start, step, modulus, reach] =
            [place, self.step, self.modulus, self.reach].map(u128::from);
        let members = first_below(start, step, modulus, reach)?;
        let place = (start + members * step) % modulus;
        Some((members as u64, place as u64))
    }

    /// The member after the one at `place` in the range: over how many members it lies, and its
    /// place.
    ///
    /// Cost: O(1), no division.
    #[inline]
    pub(crate) fn next(&self, place: u64) -> (u64, u64) {
        if place + self.up.shift < self.reach {
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

    /// Over how many members each jump goes, where all are equal and end in the same place.
    #[inline]
    pub(crate) fn even(&self) -> Option<u64> {
        (self.up.shift == 0).then_some(self.up.members)
    }
}

/// The fewest members, at least 1, over which the place moves by less than `reach`.
fn shortest(step: u64, modulus: u64, reach: u64) -> Jump {
    let [step, modulus, reach] = [step, modulus, reach].map(u128::from);
    let members = 1 + first_below(step, step, modulus, reach)
        .expect("over as many members as the modulus the place moves by nothing");
    Jump {
        members: members as u64,
        shift: (members * step % modulus) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::Rhythm;

    #[test]
    fn jumping_finds_exactly_the_members_that_walking_finds() {
        for modulus in 1..=30u64 {
            for (step, reach) in (0..modulus).flat_map(|s| (1..=modulus).map(move |r| (s, r))) {
                let rhythm = Rhythm::new(step, modulus, reach);
                for start in 0..modulus {
                    let walked: Vec<u64> = (0..100)
                        .filter(|k| (start + k * step) % modulus < reach)
                        .collect();
                    let mut jumped = Vec::new();
                    let mut at = rhythm.first(start);
                    let mut member = 0;
                    while let Some((over, place)) = at {
                        member += over;
                        if member >= 100 {
                            break;
                        }
                        assert_eq!((start + member * step) % modulus, place);
                        jumped.push(member);
                        at = Some(rhythm.next(place));
                    }
                    assert_eq!(jumped, walked, "{start} + k·{step} mod {modulus} < {reach}");
                }
            }
        }
    }
}
