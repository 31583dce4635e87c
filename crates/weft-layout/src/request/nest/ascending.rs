//! The order in which a pattern is moved when the caller leaves it open: ascending in the view.
//!
//! Disks like ascending places, servers read neighbours together, and a pattern whose runs meet
//! becomes one run. Loops are turned (a negative stride starts from the other end) and exchanged
//! (the shortest stride innermost), lists are sorted. Ranks follow, so that the same bytes meet the
//! same memory.

use super::tree::{Strip, Tree};

/// One loop: how places and ranks step, and how often.
#[derive(Clone, Copy, Debug)]
struct LoopStep {
    stride: i64,
    rank_stride: i64,
    count: u64,
}

impl Tree {
    /// The same runs, joined where they meet if `join`, with ascending places as far as loops can
    /// be exchanged.
    pub(crate) fn sorted(self, join: bool) -> Tree {
        match self {
            Tree::Series(arms) => sorted_series(arms, join),
            Tree::Strips(strips) if strips.len() > 1 => sorted_strips(strips, join),
            mut nested => {
                let mut loops = Vec::new();
                while let Tree::Loop {
                    body,
                    stride,
                    rank_stride,
                    count,
                } = nested
                {
                    loops.push(LoopStep {
                        stride,
                        rank_stride,
                        count,
                    });
                    nested = *body;
                }
                match nested {
                    Tree::Strips(strips) if strips.len() == 1 => {
                        let strip = strips[0];
                        loops.push(LoopStep {
                            stride: strip.stride,
                            rank_stride: strip.rank_stride,
                            count: strip.count,
                        });
                        let run = Strip::run(strip.at, strip.rank, strip.length);
                        sorted_loops(loops, run, join)
                    }
                    other => {
                        let (loops, at, rank) = turned(loops);
                        nest(other.sorted(join), loops).displaced(at, rank)
                    }
                }
            }
        }
    }
}

/// Loops with their longest stride outermost and none negative, and by how much what they repeat
/// moves.
fn turned(mut loops: Vec<LoopStep>) -> (Vec<LoopStep>, i64, i64) {
    let (mut at, mut rank) = (0i64, 0i64);
    loops.retain(|step| step.count > 1);
    for step in loops.iter_mut().filter(|step| step.stride < 0) {
        let last = (step.count - 1).cast_signed();
        at = at.wrapping_add(step.stride.wrapping_mul(last));
        rank = rank.wrapping_add(step.rank_stride.wrapping_mul(last));
        step.stride = step.stride.wrapping_neg();
        step.rank_stride = step.rank_stride.wrapping_neg();
    }
    loops.sort_by_key(|step| std::cmp::Reverse(step.stride));
    (loops, at, rank)
}

/// Loops over one run, merged where one continues where the other ends.
fn sorted_loops(loops: Vec<LoopStep>, mut run: Strip, join: bool) -> Tree {
    let (loops, at, rank) = turned(loops);
    run.at = run.at.wrapping_add(at.cast_unsigned());
    run.rank = run.rank.wrapping_add(rank.cast_unsigned());
    let mut merged: Vec<LoopStep> = Vec::new();
    for step in loops.into_iter().rev() {
        let grows = |by: u64| {
            i128::from(step.stride) == i128::from(by)
                && i128::from(step.rank_stride) == i128::from(by)
        };
        if merged.is_empty() && join && grows(run.length) {
            run.length *= step.count;
            continue;
        }
        match merged.last_mut() {
            Some(inner) if continues(inner, &step) => inner.count *= step.count,
            _ => merged.push(step),
        }
    }
    merged.reverse();
    nest(Tree::Strips(vec![run]), merged)
}

/// Whether a loop continues the one inside it in both places and ranks.
fn continues(inner: &LoopStep, outer: &LoopStep) -> bool {
    let count = i128::from(inner.count);
    let fits = u64::try_from(u128::from(inner.count) * u128::from(outer.count)).is_ok();
    fits && i128::from(outer.stride) == i128::from(inner.stride) * count
        && i128::from(outer.rank_stride) == i128::from(inner.rank_stride) * count
}

fn nest(body: Tree, loops: Vec<LoopStep>) -> Tree {
    loops.into_iter().rev().fold(body, |body, step| {
        Tree::repeat(body, step.stride, step.rank_stride, step.count)
    })
}

fn sorted_series(arms: Vec<(i64, i64, Tree)>, join: bool) -> Tree {
    let mut flat = Vec::with_capacity(arms.len());
    for (at, rank, tree) in arms {
        match tree.sorted(join) {
            // A series in a series is one series.
            Tree::Series(inner) => flat.extend(
                inner
                    .into_iter()
                    .map(|(a, r, tree)| (at.wrapping_add(a), rank.wrapping_add(r), tree)),
            ),
            tree => flat.push((at, rank, tree)),
        }
    }
    let leaves = flat
        .iter()
        .all(|(_, _, tree)| matches!(tree, Tree::Strips(_)));
    if leaves {
        let strips = flat.into_iter().flat_map(|(at, rank, tree)| {
            let Tree::Strips(strips) = tree else {
                unreachable!("all are leaves");
            };
            strips.into_iter().map(move |strip| Strip {
                at: strip.at.wrapping_add(at.cast_unsigned()),
                rank: strip.rank.wrapping_add(rank.cast_unsigned()),
                ..strip
            })
        });
        return sorted_strips(strips.collect(), join);
    }
    flat.sort_by_key(|(at, _, tree)| tree.hull().map(|(first, _)| first + i128::from(*at)));
    Tree::Series(flat)
}

fn sorted_strips(mut strips: Vec<Strip>, join: bool) -> Tree {
    strips.sort_by_key(|strip| strip.at.cast_signed());
    if join {
        strips.dedup_by(|next, strip| {
            let meets = strip.count == 1
                && next.count == 1
                && strip.at.wrapping_add(strip.length) == next.at
                && strip.rank.wrapping_add(strip.length) == next.rank;
            if meets {
                strip.length += next.length;
            }
            meets
        });
    }
    Tree::Strips(strips)
}

impl Tree {
    /// The same bytes in the same order, runs that follow one another without a gap joined. Ranks
    /// are lost.
    pub(crate) fn joined(self) -> Tree {
        match self {
            Tree::Strips(strips) => Tree::Strips(joined_strips(strips)),
            Tree::Loop {
                body,
                stride,
                rank_stride,
                count,
            } => match (body.joined(), stride) {
                (Tree::Strips(strips), stride) if continues_as_bytes(&strips, stride) => {
                    let run = strips[0];
                    Tree::Strips(vec![Strip::run(run.at, 0, run.length * count)])
                }
                (Tree::Strips(strips), stride) if continues_as_runs(&strips, stride) => {
                    let mut strip = strips[0];
                    strip.count *= count;
                    Tree::Strips(vec![strip])
                }
                (body, _) => Tree::repeat(body, stride, rank_stride, count),
            },
            Tree::Series(arms) => Tree::Series(
                arms.into_iter()
                    .map(|(at, rank, tree)| (at, rank, tree.joined()))
                    .collect(),
            ),
        }
    }
}

fn continues_as_bytes(strips: &[Strip], stride: i64) -> bool {
    matches!(strips, [run] if run.count == 1 && i128::from(stride) == i128::from(run.length))
}

fn continues_as_runs(strips: &[Strip], stride: i64) -> bool {
    matches!(strips, [strip] if strip.count > 1
        && i128::from(stride) == i128::from(strip.stride) * i128::from(strip.count))
}

fn joined_strips(mut strips: Vec<Strip>) -> Vec<Strip> {
    for strip in &mut strips {
        if strip.count > 1 && i128::from(strip.stride) == i128::from(strip.length) {
            *strip = Strip::run(strip.at, 0, strip.length * strip.count);
        }
    }
    strips.dedup_by(|next, strip| {
        let single = strip.count == 1 && next.count == 1;
        let meets = single && strip.at.wrapping_add(strip.length) == next.at;
        if meets {
            strip.length += next.length;
        }
        meets
    });
    strips
}
