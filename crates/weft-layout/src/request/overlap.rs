//! Whether a request touches a byte twice.
//!
//! Loops whose strides clear what is inside them cannot overlap, which settles regular requests at
//! once. The others are compared run by run, up to a bound.

use std::sync::Arc;

use super::nest::{Nest, Tree, Walk};
use crate::Request;
use crate::limits::RUNS_COMPARED_MAX;
use crate::pattern::PatternError;

impl Request {
    /// Checks that the request touches no byte of the view twice.
    ///
    /// Cost: O(nodes) where strides clear what is inside them, else O(runs · log runs) and memory
    /// for the runs.
    /// # Errors
    /// [`PatternError::Overlap`]; [`PatternError::TooIrregular`] where there are too many runs to
    /// compare.
    /// # Source
    /// Property `overlap_is_found_exactly_when_a_byte_is_touched_twice`.
    pub fn check_disjoint(&self) -> Result<(), PatternError> {
        match self {
            Request::Contiguous { .. } => Ok(()),
            Request::Shaped(shaped) => disjoint(&shaped.0),
        }
    }
}

pub(crate) fn disjoint(nest: &Arc<Nest>) -> Result<(), PatternError> {
    if nest.outline(false).1.is_none_or(|tree| clears(&tree)) {
        return Ok(());
    }
    let count: u128 = Walk::new(nest)
        .map(|strip| u128::from(strip.count))
        .take(RUNS_COMPARED_MAX as usize + 1)
        .sum();
    if count > u128::from(RUNS_COMPARED_MAX) {
        return Err(PatternError::TooIrregular {
            runs: u64::try_from(count).unwrap_or(u64::MAX),
            most: RUNS_COMPARED_MAX,
        });
    }
    let mut runs = Vec::with_capacity(count as usize);
    for strip in Walk::new(nest) {
        for i in 0..strip.count {
            let at = strip
                .at
                .wrapping_add(strip.stride.cast_unsigned().wrapping_mul(i));
            runs.push((at, at + strip.length));
        }
    }
    runs.sort_unstable();
    match runs.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(PatternError::Overlap { at: pair[1].0 }),
        None => Ok(()),
    }
}

/// Whether the tree's own shape shows that nothing overlaps.
fn clears(tree: &Tree) -> bool {
    let mut loops = Vec::new();
    let mut at = tree;
    while let Tree::Loop {
        body,
        stride,
        count,
        ..
    } = at
    {
        loops.push((stride.unsigned_abs(), *count));
        at = body;
    }
    let mut width = match at {
        Tree::Strips(strips) if strips.len() == 1 => {
            loops.push((strips[0].stride.unsigned_abs(), strips[0].count));
            u128::from(strips[0].length)
        }
        other => match extent_of_disjoint(other) {
            Some(width) => width,
            None => return false,
        },
    };
    loops.sort_unstable();
    for (stride, count) in loops {
        if count > 1 && u128::from(stride) < width {
            return false;
        }
        width += u128::from(stride) * u128::from(count - 1);
    }
    true
}

/// The bytes from the first to the last of members side by side, each of which clears.
fn extent_of_disjoint(tree: &Tree) -> Option<u128> {
    let mut hulls = Vec::new();
    match tree {
        Tree::Series(arms) => {
            for (at, _, tree) in arms {
                let (first, end) = tree.hull()?;
                let at = i128::from(*at);
                hulls.push((first + at, end + at));
                if !clears(tree) {
                    return None;
                }
            }
        }
        Tree::Strips(strips) => {
            for strip in strips {
                if strip.count > 1 && strip.stride.unsigned_abs() < strip.length {
                    return None;
                }
                hulls.push(strip.hull());
            }
        }
        Tree::Loop { .. } => return None,
    }
    hulls.sort_unstable();
    let apart = hulls.windows(2).all(|pair| pair[0].1 <= pair[1].0);
    let (first, last) = (hulls.first()?, hulls.last()?);
    apart.then(|| (last.1 - first.0).cast_unsigned())
}
