//! A request as it travels: the nodes of its tree in pre-order.
//!
//! Only places travel. Ranks do not: the bytes on the wire are packed in the order of the nodes,
//! and only the caller needs to know their numbers. So runs that meet in the view are joined here
//! even where they do not meet in memory.

use std::sync::Arc;

use super::Shaped;
use super::nest::{Nest, Strip, Tree};
use crate::limits::{DEPTH_MAX, NODES_MAX};
use crate::pattern::PatternError;
use crate::{OFFSET_MAX, Request, ViewOffset};

/// A node of a request's tree; its children follow it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestNode {
    /// Where it starts, relative to its parent.
    pub at: i64,
    /// What it is.
    pub kind: RequestNodeKind,
}

/// The kinds of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestNodeKind {
    /// A leaf.
    Runs(Vec<Runs>),
    /// The next node, repeated.
    Repeat {
        /// From one to the next.
        stride: i64,
        /// How often.
        times: u64,
    },
    /// The next so many nodes, one after another.
    Sequence(u32),
}

/// Equal runs at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Runs {
    /// Where the first starts, relative to its node.
    pub at: i64,
    /// Bytes of each.
    pub length: u64,
    /// From one to the next.
    pub stride: i64,
    /// How many.
    pub times: u64,
}

impl Request {
    /// The request as it travels. `join`: runs that meet are joined, which an access in
    /// column-major order does not allow, for there each run is rearranged in itself.
    pub fn to_nodes(&self, join: bool) -> (ViewOffset, Vec<RequestNode>) {
        match self {
            Request::Contiguous { offset, length } => {
                let run = Strip::run(0, 0, *length);
                (*offset, vec![leaf(0, &[run])])
            }
            Request::Shaped(shaped) => {
                let mut nodes = Vec::new();
                let (start, tree) = shaped.0.outline(join);
                if let Some(tree) = tree {
                    write(&tree, 0, &mut nodes);
                }
                (ViewOffset(start), nodes)
            }
        }
    }

    /// A request from received nodes, in the order in which they were sent.
    ///
    /// # Errors
    /// A [`PatternError`] with what is not legal; [`PatternError::Incomplete`] when the nodes
    /// are no tree.
    pub fn from_nodes(offset: ViewOffset, nodes: &[RequestNode]) -> Result<Request, PatternError> {
        if nodes.len() > NODES_MAX {
            return Err(PatternError::TooManyNodes);
        }
        let mut rest = nodes;
        let tree = if nodes.is_empty() {
            None
        } else {
            read(&mut rest, 0)?
        };
        if !rest.is_empty() {
            return Err(PatternError::Incomplete);
        }
        let bytes = tree.as_ref().map_or(0, |(_, bytes)| *bytes);
        let tree = tree.map(|(tree, _)| tree);
        let nest = Nest::new(offset.0, tree.as_ref(), bytes)?;
        Ok(Request::Shaped(Shaped(Arc::new(nest))))
    }
}

fn leaf(at: i64, strips: &[Strip]) -> RequestNode {
    let mut runs: Vec<Runs> = Vec::new();
    for strip in strips {
        let next = Runs {
            at: strip.at.cast_signed(),
            length: strip.length,
            stride: strip.stride,
            times: strip.count,
        };
        match runs.last_mut() {
            Some(last) if next.times == 1 && last.takes(&next) => {
                last.stride = (next.at - last.at) / last.times.cast_signed();
                last.times += 1;
            }
            _ => runs.push(next),
        }
    }
    RequestNode {
        at,
        kind: RequestNodeKind::Runs(runs),
    }
}

impl Runs {
    /// Whether a single run is the next of these.
    fn takes(&self, next: &Runs) -> bool {
        let place = i128::from(self.at) + i128::from(self.stride) * i128::from(self.times);
        let there = self.times == 1 || place == i128::from(next.at);
        there && self.length == next.length && next.at.checked_sub(self.at).is_some()
    }
}

fn write(tree: &Tree, at: i64, nodes: &mut Vec<RequestNode>) {
    match tree {
        Tree::Strips(strips) => nodes.push(leaf(at, strips)),
        Tree::Loop {
            body,
            stride,
            count,
            ..
        } => {
            let kind = RequestNodeKind::Repeat {
                stride: *stride,
                times: *count,
            };
            nodes.push(RequestNode { at, kind });
            write(body, 0, nodes);
        }
        Tree::Series(arms) if arms.len() == 1 => {
            write(&arms[0].2, at.wrapping_add(arms[0].0), nodes);
        }
        Tree::Series(arms) => {
            let kind = RequestNodeKind::Sequence(arms.len() as u32);
            nodes.push(RequestNode { at, kind });
            for (at, _, tree) in arms {
                write(tree, *at, nodes);
            }
        }
    }
}

/// The tree of the next node and its bytes, at the node's place; `None` touches nothing.
fn read(rest: &mut &[RequestNode], depth: usize) -> Result<Option<(Tree, u64)>, PatternError> {
    if depth >= DEPTH_MAX {
        return Err(PatternError::TooDeep);
    }
    let (node, others) = rest.split_first().ok_or(PatternError::Incomplete)?;
    *rest = others;
    let (tree, bytes) = match &node.kind {
        RequestNodeKind::Runs(runs) => strips(runs)?,
        RequestNodeKind::Repeat { stride, times } => {
            let Some((body, bytes)) = read(rest, depth + 1)? else {
                return Ok(None);
            };
            let all = counted(u128::from(bytes) * u128::from(*times))?;
            if *times == 0 {
                return Ok(None);
            }
            (
                Tree::repeat(body, *stride, bytes.cast_signed(), *times),
                all,
            )
        }
        RequestNodeKind::Sequence(members) => {
            let mut arms = Vec::new();
            let mut sum = 0u64;
            for _ in 0..*members {
                if let Some((tree, bytes)) = read(rest, depth + 1)? {
                    arms.push((0, sum.cast_signed(), tree));
                    sum = counted(u128::from(sum) + u128::from(bytes))?;
                }
            }
            (Tree::Series(arms), sum)
        }
    };
    if bytes == 0 {
        return Ok(None);
    }
    Ok(Some((tree.displaced(node.at, 0), bytes)))
}

fn strips(runs: &[Runs]) -> Result<(Tree, u64), PatternError> {
    let mut sum = 0;
    let mut strips = Vec::with_capacity(runs.len());
    for run in runs.iter().filter(|run| run.length > 0 && run.times > 0) {
        strips.push(Strip {
            at: run.at.cast_unsigned(),
            rank: sum,
            length: run.length,
            stride: run.stride,
            rank_stride: run.length.cast_signed(),
            count: run.times,
        });
        sum = counted(u128::from(sum) + u128::from(run.length) * u128::from(run.times))?;
    }
    Ok((Tree::Strips(strips), sum))
}

fn counted(bytes: u128) -> Result<u64, PatternError> {
    u64::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes <= OFFSET_MAX)
        .ok_or(PatternError::TooLong)
}
