//! A checked tree at a place, laid out flat: nodes, arms and strips in one vector each.

use super::tree::{Strip, Tree, range};
use crate::OFFSET_MAX;
use crate::pattern::PatternError;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
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
pub(super) struct PatternEnd {
    pub(super) at: i64,
    pub(super) rank: i64,
    pub(super) node: u32,
}

/// A checked pattern at a place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Nest {
    pub(super) nodes: Vec<Node>,
    /// Where each node's first byte is, from where it starts.
    pub(super) firsts: Vec<i64>,
    pub(super) arms: Vec<PatternEnd>,
    pub(super) strips: Vec<Strip>,
    /// Node, place and rank to start from; `None` when nothing is touched.
    pub(super) root: Option<u32>,
    pub(super) start: u64,
    pub(super) rank: u64,
    /// The smallest range that holds every byte.
    pub(crate) first: u64,
    pub(crate) end: u64,
    pub(crate) bytes: u64,
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
                let arms: Vec<PatternEnd> = members
                    .iter()
                    .map(|(at, rank, tree)| PatternEnd {
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
}
