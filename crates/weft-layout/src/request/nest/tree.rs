//! A pattern as a tree of strips, loops and series, and the range of bytes that it covers.

use crate::OFFSET_MAX;
use crate::pattern::{Pattern, PatternError};

/// `count` runs of `length` bytes, from `at` on `stride` apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Strip {
    /// First byte of the first run.
    pub(crate) at: u64,
    /// Its rank.
    pub(crate) rank: u64,
    pub(crate) length: u64,
    pub(crate) stride: i64,
    pub(crate) rank_stride: i64,
    pub(crate) count: u64,
}

/// A tree as it is built, before it is laid out flat. Positions are relative to the parent's.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Strips(Vec<Strip>),
    Loop {
        body: Box<Tree>,
        stride: i64,
        rank_stride: i64,
        count: u64,
    },
    Series(Vec<(i64, i64, Tree)>),
}

impl Tree {
    /// The pattern in the caller's order; `None` when it touches nothing.
    ///
    /// # Errors
    /// As [`Pattern::length`].
    pub(crate) fn of(pattern: &Pattern) -> Result<Option<Tree>, PatternError> {
        pattern.length()?;
        Ok(Self::build(pattern).map(|(tree, _)| tree))
    }

    /// The tree and its bytes. The pattern was counted, so nothing here overflows.
    fn build(pattern: &Pattern) -> Option<(Tree, u64)> {
        match pattern {
            Pattern::Bytes(0) => None,
            Pattern::Bytes(length) => {
                Some((Tree::Strips(vec![Strip::run(0, 0, *length)]), *length))
            }
            Pattern::Repeat {
                body,
                stride,
                times,
            } => {
                let (body, bytes) = Self::build(body)?;
                (*times > 0).then(|| {
                    let tree = Tree::repeat(body, *stride, bytes.cast_signed(), *times);
                    (tree, bytes * times)
                })
            }
            Pattern::Sequence(members) => {
                let mut sum = 0u64;
                let mut arms = Vec::with_capacity(members.len());
                for (at, member) in members {
                    if let Some((tree, bytes)) = Self::build(member) {
                        arms.push((*at, sum.cast_signed(), tree));
                        sum += bytes;
                    }
                }
                (!arms.is_empty()).then_some((Tree::Series(arms), sum))
            }
            Pattern::List(runs) => {
                let mut sum = 0;
                let mut strips = Vec::with_capacity(runs.len());
                for &(at, length) in runs.iter().filter(|run| run.1 > 0) {
                    strips.push(Strip::run(at.cast_unsigned(), sum, length));
                    sum += length;
                }
                (!strips.is_empty()).then_some((Tree::Strips(strips), sum))
            }
        }
    }

    /// A loop; over a single run it is a strip.
    pub(crate) fn repeat(body: Tree, stride: i64, rank_stride: i64, count: u64) -> Tree {
        if count == 1 {
            return body;
        }
        match body {
            Tree::Strips(mut strips) if strips.len() == 1 && strips[0].count == 1 => {
                strips[0].stride = stride;
                strips[0].rank_stride = rank_stride;
                strips[0].count = count;
                Tree::Strips(strips)
            }
            body => Tree::Loop {
                body: Box::new(body),
                stride,
                rank_stride,
                count,
            },
        }
    }

    /// This, displaced.
    pub(crate) fn displaced(self, at: i64, rank: i64) -> Tree {
        match self {
            tree if at == 0 && rank == 0 => tree,
            Tree::Strips(mut strips) if strips.len() == 1 => {
                strips[0].at = strips[0].at.wrapping_add(at.cast_unsigned());
                strips[0].rank = strips[0].rank.wrapping_add(rank.cast_unsigned());
                Tree::Strips(strips)
            }
            tree => Tree::Series(vec![(at, rank, tree)]),
        }
    }

    /// First byte and one past the last, relative to the starting point; `None` past what is
    /// countable.
    pub(crate) fn hull(&self) -> Option<(i128, i128)> {
        let far = i128::from(OFFSET_MAX) * 4;
        let hull = match self {
            Tree::Strips(strips) => strips.iter().map(Strip::hull).reduce(join)?,
            Tree::Loop {
                body,
                stride,
                count,
                ..
            } => swept(body.hull()?, *stride, *count),
            Tree::Series(arms) => {
                let mut all: Option<(i128, i128)> = None;
                for (at, _, tree) in arms {
                    let (first, end) = tree.hull()?;
                    let hull = (first + i128::from(*at), end + i128::from(*at));
                    all = Some(all.map_or(hull, |all| join(all, hull)));
                }
                all?
            }
        };
        (hull.0 >= -far && hull.1 <= far).then_some(hull)
    }
}

fn join(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// What a range covers that is repeated.
fn swept((first, end): (i128, i128), stride: i64, count: u64) -> (i128, i128) {
    let far = i128::from(stride) * i128::from(count - 1);
    (first + far.min(0), end + far.max(0))
}

impl Strip {
    /// A strip without runs.
    pub(crate) const DONE: Strip = Strip {
        at: 0,
        rank: 0,
        length: 0,
        stride: 0,
        rank_stride: 0,
        count: 0,
    };

    pub(crate) fn run(at: u64, rank: u64, length: u64) -> Strip {
        Strip {
            at,
            rank,
            length,
            stride: 0,
            rank_stride: 0,
            count: 1,
        }
    }

    /// First byte and one past the last. `at` may be a displacement, and negative.
    pub(crate) fn hull(&self) -> (i128, i128) {
        let at = i128::from(self.at.cast_signed());
        swept((at, at + i128::from(self.length)), self.stride, self.count)
    }
}

/// The first byte of a tree at a place, and one past the last.
///
/// # Errors
/// [`PatternError::OutOfRange`].
pub(crate) fn range(start: u64, tree: &Tree) -> Result<(u64, u64), PatternError> {
    let far = (i128::MIN, i128::MAX);
    let (first, end) = tree.hull().map_or(far, |(first, end)| {
        (first + i128::from(start), end + i128::from(start))
    });
    match (u64::try_from(first), u64::try_from(end)) {
        (Ok(first), Ok(end)) if end <= OFFSET_MAX => Ok((first, end)),
        _ => Err(PatternError::OutOfRange { first, end }),
    }
}
