//! A request as it travels: the parts of its tree, each before what it is made of.
//!
//! Only places travel. Ranks do not: the bytes on the wire are packed in the order of the parts,
//! and what number they have for the caller concerns nobody else. So runs that meet in the view are
//! joined here even where they do not meet in memory.

use std::sync::Arc;

use crate::nest::{Nest, Strip, Tree};
use crate::pattern::{DEPTH_MAX, PARTS_MAX, PatternError};
use crate::request::Shaped;
use crate::{OFFSET_MAX, Request, ViewOffset};

/// A part of a request, before those that it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Where it starts, from where the part above it starts.
    pub at: i64,
    /// What it is.
    pub kind: PartKind,
}

/// The kinds of parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PartKind {
    /// A leaf.
    Runs(Vec<Runs>),
    /// The next part again and again.
    Repeat {
        /// From one to the next.
        stride: i64,
        /// How often.
        times: u64,
    },
    /// The next so many parts.
    Sequence(u32),
}

/// Equal runs at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Runs {
    /// Where the first starts, from where its part starts.
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
    pub fn to_parts(&self, join: bool) -> (ViewOffset, Vec<Part>) {
        match self {
            Request::Contiguous { offset, length } => {
                let run = Strip::run(0, 0, *length);
                (*offset, vec![leaf(0, &[run])])
            }
            Request::Shaped(shaped) => {
                let mut parts = Vec::new();
                let (start, tree) = shaped.0.outline(join);
                if let Some(tree) = tree {
                    write(&tree, 0, &mut parts);
                }
                (ViewOffset(start), parts)
            }
        }
    }

    /// A request from the parts that travelled, in their order.
    ///
    /// # Errors
    /// A [`PatternError`] with what is not legal; [`PatternError::Incomplete`] when the parts are
    /// no tree.
    pub fn from_parts(offset: ViewOffset, parts: &[Part]) -> Result<Request, PatternError> {
        if parts.len() > PARTS_MAX {
            return Err(PatternError::TooManyParts);
        }
        let mut rest = parts;
        let tree = if parts.is_empty() {
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

fn leaf(at: i64, strips: &[Strip]) -> Part {
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
    Part {
        at,
        kind: PartKind::Runs(runs),
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

fn write(tree: &Tree, at: i64, parts: &mut Vec<Part>) {
    match tree {
        Tree::Strips(strips) => parts.push(leaf(at, strips)),
        Tree::Loop {
            body,
            stride,
            count,
            ..
        } => {
            let kind = PartKind::Repeat {
                stride: *stride,
                times: *count,
            };
            parts.push(Part { at, kind });
            write(body, 0, parts);
        }
        Tree::Series(arms) if arms.len() == 1 => {
            write(&arms[0].2, at.wrapping_add(arms[0].0), parts);
        }
        Tree::Series(arms) => {
            let kind = PartKind::Sequence(arms.len() as u32);
            parts.push(Part { at, kind });
            for (at, _, tree) in arms {
                write(tree, *at, parts);
            }
        }
    }
}

/// The tree of the next part and its bytes, displaced by the part's place; `None` touches nothing.
fn read(rest: &mut &[Part], depth: usize) -> Result<Option<(Tree, u64)>, PatternError> {
    if depth >= DEPTH_MAX {
        return Err(PatternError::TooDeep);
    }
    let (part, others) = rest.split_first().ok_or(PatternError::Incomplete)?;
    *rest = others;
    let (tree, bytes) = match &part.kind {
        PartKind::Runs(runs) => strips(runs)?,
        PartKind::Repeat { stride, times } => {
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
        PartKind::Sequence(members) => {
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
    Ok(Some((tree.displaced(part.at, 0), bytes)))
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
