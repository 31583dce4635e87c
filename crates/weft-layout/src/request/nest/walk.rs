//! Walking a nest: its strips in their order, with a stack of fixed size.

use std::sync::Arc;

use super::flat::{Nest, Node};
use super::tree::Strip;
use crate::limits::DEPTH_MAX;

/// Each level of a pattern becomes at most a node and one that displaces it.
const STACK: usize = 2 * DEPTH_MAX;

#[derive(Clone, Copy, Debug, Default)]
struct Frame {
    node: u32,
    /// Strips, rounds or arms of the node that were taken.
    done: u64,
    at: u64,
    rank: u64,
}

/// The strips of a nest, one after another, without allocation.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    nest: Arc<Nest>,
    stack: [Frame; STACK],
    depth: usize,
    /// Strips that begin here or later are not wanted.
    below: u64,
}

impl Walk {
    /// All strips, in the nest's order.
    pub(crate) fn new(nest: &Arc<Nest>) -> Walk {
        let mut walk = Walk {
            nest: Arc::clone(nest),
            stack: [Frame::default(); STACK],
            depth: 0,
            below: u64::MAX,
        };
        if let Some(root) = nest.root {
            walk.push(root, nest.start, nest.rank);
        }
        walk
    }

    /// Skips from here on what begins at `end` or later.
    pub(crate) fn below(&mut self, end: u64) {
        self.below = end;
    }

    /// How far beyond what is wanted the first byte of a node lies.
    fn beyond(&self, node: u32, at: u64) -> Option<u64> {
        let first = self.nest.firsts[node as usize].cast_unsigned();
        at.wrapping_add(first).checked_sub(self.below)
    }

    fn push(&mut self, node: u32, at: u64, rank: u64) {
        self.stack[self.depth] = Frame {
            node,
            done: 0,
            at,
            rank,
        };
        self.depth += 1;
    }
}

impl Iterator for Walk {
    type Item = Strip;

    fn next(&mut self) -> Option<Strip> {
        while self.depth > 0 {
            let frame = &mut self.stack[self.depth - 1];
            let (done, at, rank) = (frame.done, frame.at, frame.rank);
            frame.done += 1;
            match self.nest.nodes[frame.node as usize] {
                Node::Leaf { first, end } if done < u64::from(end - first) => {
                    let strip = self.nest.strips[first as usize + done as usize];
                    let strip = Strip {
                        at: at.wrapping_add(strip.at),
                        rank: rank.wrapping_add(strip.rank),
                        ..strip
                    };
                    if strip.at < self.below || strip.stride < 0 {
                        return Some(strip);
                    }
                }
                Node::Loop {
                    body,
                    stride,
                    rank_stride,
                    count,
                } if done < count => {
                    let at = at.wrapping_add(stride.cast_unsigned().wrapping_mul(done));
                    let rank = rank.wrapping_add(rank_stride.cast_unsigned().wrapping_mul(done));
                    match self.beyond(body, at) {
                        None => self.push(body, at, rank),
                        // All later rounds begin beyond it, too.
                        Some(_) if stride >= 0 => self.depth -= 1,
                        Some(far) => {
                            let over = far / stride.unsigned_abs();
                            self.stack[self.depth - 1].done += over;
                        }
                    }
                }
                Node::Series { first, end } if done < u64::from(end - first) => {
                    let arm = &self.nest.arms[first as usize + done as usize];
                    let (at, rank, node) = (
                        at.wrapping_add(arm.at.cast_unsigned()),
                        rank.wrapping_add(arm.rank.cast_unsigned()),
                        arm.node,
                    );
                    if self.beyond(node, at).is_none() {
                        self.push(node, at, rank);
                    }
                }
                Node::Leaf { .. } | Node::Loop { .. } | Node::Series { .. } => self.depth -= 1,
            }
        }
        None
    }
}
