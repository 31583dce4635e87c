//! A pattern, checked and laid out flat for walking: strips in nested loops.
//!
//! A **strip** is one innermost loop: `count` runs of `length` bytes, `stride` apart. A **rank** is
//! a byte's place among the bytes of the request, in the caller's order. A nest may be walked in
//! another order than that (see `normal.rs`), so each loop also says how ranks step.
//!
//! Invariants:
//! 1. Every run of every strip lies in `hull`, whose end is at most [`OFFSET_MAX`]; sums on the way
//!    there may be negative and wrap back.
//! 2. No strip and no loop is empty.

mod walk;

use std::sync::Arc;

use crate::OFFSET_MAX;
use crate::pattern::{Pattern, PatternError};

pub(crate) use walk::Walk;

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    /// These strips.
    Leaf { first: u32, end: u32 },
    /// The body again and again.
    Loop {
        body: u32,
        stride: i64,
        rank_stride: i64,
        count: u64,
    },
    /// These arms.
    Series { first: u32, end: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Arm {
    at: i64,
    rank: i64,
    node: u32,
}

/// A checked pattern at a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nest {
    nodes: Vec<Node>,
    /// Where each node's first byte is, from where it starts.
    firsts: Vec<i64>,
    arms: Vec<Arm>,
    strips: Vec<Strip>,
    /// Node, place and rank to start from; `None` when nothing is touched.
    root: Option<u32>,
    start: u64,
    rank: u64,
    /// The smallest range that holds every byte.
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
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

impl Nest {
    /// A tree at a place; `None` touches nothing.
    ///
    /// # Errors
    /// [`PatternError::OutOfRange`].
    pub(crate) fn new(start: u64, tree: Option<&Tree>, bytes: u64) -> Result<Nest, PatternError> {
        let mut nest = Nest {
            nodes: Vec::new(),
            firsts: Vec::new(),
            arms: Vec::new(),
            strips: Vec::new(),
            root: None,
            start,
            rank: 0,
            first: start.min(OFFSET_MAX),
            end: start.min(OFFSET_MAX),
            bytes,
        };
        let Some(tree) = tree else { return Ok(nest) };
        (nest.first, nest.end) = range(start, tree)?;
        nest.root = Some(nest.flatten(tree));
        Ok(nest)
    }

    fn flatten(&mut self, tree: &Tree) -> u32 {
        let node = match tree {
            Tree::Strips(strips) => {
                let first = self.strips.len() as u32;
                self.strips.extend_from_slice(strips);
                Node::Leaf {
                    first,
                    end: self.strips.len() as u32,
                }
            }
            Tree::Loop {
                body,
                stride,
                rank_stride,
                count,
            } => Node::Loop {
                body: self.flatten(body),
                stride: *stride,
                rank_stride: *rank_stride,
                count: *count,
            },
            Tree::Series(members) => {
                let arms: Vec<Arm> = members
                    .iter()
                    .map(|(at, rank, tree)| Arm {
                        at: *at,
                        rank: *rank,
                        node: self.flatten(tree),
                    })
                    .collect();
                let first = self.arms.len() as u32;
                self.arms.extend(arms);
                Node::Series {
                    first,
                    end: self.arms.len() as u32,
                }
            }
        };
        self.nodes.push(node);
        let first = tree.hull().map_or(0, |(first, _)| first as i64);
        self.firsts.push(first);
        (self.nodes.len() - 1) as u32
    }

    /// Whether it is the bytes of its hull, in their order.
    pub(crate) fn is_one_run(&self) -> bool {
        let [strip] = &self.strips[..] else {
            return false;
        };
        self.nodes.len() == 1 && strip.count == 1 && strip.rank == 0 && self.rank == 0
    }

    /// Where it starts, and its tree with runs that meet joined if `join`; ranks mean nothing
    /// there.
    pub(crate) fn outline(&self, join: bool) -> (u64, Option<Tree>) {
        let tree = self.root.map(|root| self.tree(root));
        (
            self.start,
            tree.map(|tree| if join { tree.joined() } else { tree }),
        )
    }

    fn tree(&self, node: u32) -> Tree {
        match self.nodes[node as usize] {
            Node::Leaf { first, end } => {
                Tree::Strips(self.strips[first as usize..end as usize].to_vec())
            }
            Node::Loop {
                body,
                stride,
                rank_stride,
                count,
            } => Tree::Loop {
                body: Box::new(self.tree(body)),
                stride,
                rank_stride,
                count,
            },
            Node::Series { first, end } => Tree::Series(
                self.arms[first as usize..end as usize]
                    .iter()
                    .map(|arm| (arm.at, arm.rank, self.tree(arm.node)))
                    .collect(),
            ),
        }
    }

    /// The byte of this rank and how many follow it in its run. The nest is in the caller's order,
    /// so ranks ascend.
    pub(crate) fn find(&self, rank: u64) -> (u64, u64) {
        debug_assert!(rank < self.bytes);
        let (mut at, mut rest) = (self.start, rank);
        let mut node = self.root.expect("a nest with bytes has a root");
        loop {
            match &self.nodes[node as usize] {
                Node::Leaf { first, end } => {
                    let strips = &self.strips[*first as usize..*end as usize];
                    let i = strips.partition_point(|strip| strip.rank <= rest) - 1;
                    let strip = &strips[i];
                    let (run, within) = (
                        (rest - strip.rank) / strip.length,
                        (rest - strip.rank) % strip.length,
                    );
                    let place = at
                        .wrapping_add(strip.at)
                        .wrapping_add(strip.stride.cast_unsigned().wrapping_mul(run));
                    return (place + within, strip.length - within);
                }
                Node::Loop {
                    body,
                    stride,
                    rank_stride,
                    ..
                } => {
                    let round = rest / (*rank_stride).cast_unsigned();
                    rest -= round * (*rank_stride).cast_unsigned();
                    at = at.wrapping_add((*stride).cast_unsigned().wrapping_mul(round));
                    node = *body;
                }
                Node::Series { first, end } => {
                    let arms = &self.arms[*first as usize..*end as usize];
                    let i = arms.partition_point(|arm| arm.rank.cast_unsigned() <= rest) - 1;
                    rest -= arms[i].rank.cast_unsigned();
                    at = at.wrapping_add(arms[i].at.cast_unsigned());
                    node = arms[i].node;
                }
            }
        }
    }

    /// The strips, in the nest's order.
    pub(crate) fn walk(self: &Arc<Self>) -> Walk {
        Walk::new(self)
    }
}
