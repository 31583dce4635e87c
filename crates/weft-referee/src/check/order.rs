//! Looks for circles among operations in order.
//!
//! Operations in order happen in one order that agrees with time: of two, the one that ended before
//! the other began is first. Where a read's source is known, all other changes of that segment are
//! before the source or after the read. These rules are applied until nothing new follows (as by
//! Gibbons and Korach for single registers, and by Elle for transactions); a circle is a violation.
//! The check is sound, not complete: it never decides between two orders that are both possible.
//!
//! Moments at which no operation is under way cut a history in blocks, which are judged one by one:
//! what a later block reads of an earlier one was the last change of its segment there.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::op::{FileOps, Op};
use super::visible::Source;
use super::words::Names;
use crate::finding::Finding;

/// The most operations of one block.
const BLOCK_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Ordered {
    pub(super) findings: Vec<Finding>,
    pub(super) operations: u64,
}

type Sources = HashMap<usize, Vec<(u32, Source)>>;

pub(super) fn judge(file: &FileOps, sources: &Sources, names: &Names<'_>) -> Ordered {
    let mut ordered = Ordered::default();
    let in_order: Vec<usize> = file
        .ops
        .iter()
        .enumerate()
        // A read that has not ended says nothing.
        .filter(|(_, op)| op.in_order && (op.changes || op.end.is_some()))
        .map(|(number, _)| number)
        .collect();
    ordered.operations = in_order.len() as u64;
    let blocks = blocks_of(file, &in_order);
    let block_of: HashMap<usize, usize> = blocks
        .iter()
        .enumerate()
        .flat_map(|(block, ops)| ops.iter().map(move |op| (*op, block)))
        .collect();
    // Changes that later blocks read, by block and segment.
    let mut last: Vec<BTreeSet<(u32, usize)>> = blocks.iter().map(|_| BTreeSet::new()).collect();
    for (read, parts) in sources {
        let Some(here) = block_of.get(read) else {
            continue;
        };
        for (segment, source) in parts {
            if let Source::Change(change) = source
                && let Some(there) = block_of.get(change)
                && there < here
            {
                last[*there].insert((*segment, *change));
            }
        }
    }
    for (block, last) in blocks.iter().zip(&last) {
        if block.len() > BLOCK_MAX {
            let at = file.ops[block[0]].begin;
            ordered
                .findings
                .push(names.unordered(block.len(), BLOCK_MAX, at));
            continue;
        }
        if let Some(circle) = Block::new(file, block, sources, last).circle() {
            let ops: Vec<&Op> = circle.iter().map(|op| &file.ops[*op]).collect();
            ordered.findings.push(names.circle(&ops));
        }
    }
    ordered
}

/// Operations, cut where none is under way.
fn blocks_of(file: &FileOps, in_order: &[usize]) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut under_way_until = i64::MIN;
    for number in in_order {
        let op = &file.ops[*number];
        if blocks.is_empty() || op.begin > under_way_until {
            blocks.push(Vec::new());
        }
        let end = op.end.unwrap_or(i64::MAX);
        under_way_until = under_way_until.max(end);
        if let Some(block) = blocks.last_mut() {
            block.push(*number);
        }
    }
    blocks
}

/// Operations that overlap in time, and which of them are known to come before which.
struct Block<'a> {
    file: &'a FileOps,
    ops: &'a [usize],
    /// For each, those that come after it, as bits.
    after: Vec<Vec<u64>>,
    /// For each segment, the changes of it in this block, by their place in it.
    changes: BTreeMap<u32, Vec<usize>>,
    /// What was read of which change, by their places; `None`: of what was there before the block.
    reads: Vec<(u32, usize, Option<usize>)>,
    /// Changes that were the last of their segments.
    last: Vec<(u32, usize)>,
}

impl<'a> Block<'a> {
    fn new(
        file: &'a FileOps,
        ops: &'a [usize],
        sources: &Sources,
        last: &BTreeSet<(u32, usize)>,
    ) -> Block<'a> {
        let place: HashMap<usize, usize> = ops.iter().enumerate().map(|(n, op)| (*op, n)).collect();
        let words = ops.len().div_ceil(64);
        let mut block = Block {
            file,
            ops,
            after: vec![vec![0; words]; ops.len()],
            changes: BTreeMap::new(),
            reads: Vec::new(),
            last: last
                .iter()
                .filter_map(|(segment, op)| Some((*segment, *place.get(op)?)))
                .collect(),
        };
        for (n, number) in ops.iter().enumerate() {
            let op = &file.ops[*number];
            if op.changes {
                for part in &op.parts {
                    block.changes.entry(part.segment).or_default().push(n);
                }
            }
            for (segment, source) in sources.get(number).into_iter().flatten() {
                let of = match source {
                    Source::Initial => None,
                    Source::Change(change) if !file.ops[*change].in_order => continue,
                    Source::Change(change) => place.get(change).copied(),
                };
                block.reads.push((*segment, n, of));
            }
        }
        block
    }

    fn is_before(&self, one: usize, other: usize) -> bool {
        self.after[one][other / 64] & 1 << (other % 64) != 0
    }

    /// Notes that one operation comes before another, and what follows from it. Returns whether
    /// that is new.
    fn add(&mut self, one: usize, other: usize) -> bool {
        if one == other || self.is_before(one, other) {
            return false;
        }
        let mut row = self.after[other].clone();
        row[other / 64] |= 1 << (other % 64);
        for n in 0..self.ops.len() {
            if n == one || self.is_before(n, one) {
                for (own, new) in self.after[n].iter_mut().zip(&row) {
                    *own |= new;
                }
            }
        }
        true
    }

    /// Operations of which each must come before the next, and the last before the first.
    fn circle(mut self) -> Option<Vec<usize>> {
        for one in 0..self.ops.len() {
            let Some(end) = self.file.ops[self.ops[one]].end else {
                continue;
            };
            for other in one + 1..self.ops.len() {
                if end < self.file.ops[self.ops[other]].begin {
                    self.add(one, other);
                }
            }
        }
        let mut new = true;
        while new && self.in_circle().is_none() {
            new = false;
            for (segment, read, of) in self.reads.clone() {
                let changes = self.changes.get(&segment).cloned().unwrap_or_default();
                if let Some(of) = of {
                    new |= self.add(of, read);
                }
                for other in changes {
                    match of {
                        // What was there before the block was overwritten by it.
                        None => new |= self.add(read, other),
                        Some(of) if of == other => {}
                        Some(of) => {
                            if self.is_before(of, other) {
                                new |= self.add(read, other);
                            }
                            if self.is_before(other, read) {
                                new |= self.add(other, of);
                            }
                        }
                    }
                }
            }
            for (segment, last) in self.last.clone() {
                let changes = self.changes.get(&segment).cloned().unwrap_or_default();
                for other in changes {
                    // A change that may not have happened is no proof.
                    if self.file.ops[self.ops[other]].end.is_some() {
                        new |= self.add(other, last);
                    }
                }
            }
        }
        let first = self.in_circle()?;
        let mut circle: Vec<usize> = (0..self.ops.len())
            .filter(|n| self.is_before(first, *n) && self.is_before(*n, first))
            .chain([first])
            .map(|n| self.ops[n])
            .collect();
        circle.sort_unstable();
        circle.dedup();
        Some(circle)
    }

    fn in_circle(&self) -> Option<usize> {
        (0..self.ops.len()).find(|n| self.is_before(*n, *n))
    }
}
