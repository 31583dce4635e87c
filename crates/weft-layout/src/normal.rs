//! The order in which a pattern is moved when the caller leaves it open: ascending in the view.
//!
//! Disks like ascending places, servers read neighbours together, and a pattern whose runs meet
//! becomes one run. Loops are turned (a negative stride starts from the other end) and exchanged
//! (the shortest stride innermost), lists are sorted. Ranks follow, so that the same bytes meet the
//! same memory.

use crate::nest::{Strip, Tree};

/// One loop.
#[derive(Clone, Copy, Debug)]
struct Round {
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
                let mut rounds = Vec::new();
                while let Tree::Loop {
                    body,
                    stride,
                    rank_stride,
                    count,
                } = nested
                {
                    rounds.push(Round {
                        stride,
                        rank_stride,
                        count,
                    });
                    nested = *body;
                }
                match nested {
                    Tree::Strips(strips) if strips.len() == 1 => {
                        let strip = strips[0];
                        rounds.push(Round {
                            stride: strip.stride,
                            rank_stride: strip.rank_stride,
                            count: strip.count,
                        });
                        let run = Strip::run(strip.at, strip.rank, strip.length);
                        sorted_rounds(rounds, run, join)
                    }
                    other => {
                        let (rounds, at, rank) = turned(rounds);
                        nest(other.sorted(join), rounds).displaced(at, rank)
                    }
                }
            }
        }
    }
}

/// Loops with their longest stride outermost and none negative, and by how much what they repeat
/// moves.
fn turned(mut rounds: Vec<Round>) -> (Vec<Round>, i64, i64) {
    let (mut at, mut rank) = (0i64, 0i64);
    rounds.retain(|round| round.count > 1);
    for round in rounds.iter_mut().filter(|round| round.stride < 0) {
        let last = (round.count - 1).cast_signed();
        at = at.wrapping_add(round.stride.wrapping_mul(last));
        rank = rank.wrapping_add(round.rank_stride.wrapping_mul(last));
        round.stride = round.stride.wrapping_neg();
        round.rank_stride = round.rank_stride.wrapping_neg();
    }
    rounds.sort_by_key(|round| std::cmp::Reverse(round.stride));
    (rounds, at, rank)
}

/// Loops over one run, merged where one goes on where the other ends.
fn sorted_rounds(rounds: Vec<Round>, mut run: Strip, join: bool) -> Tree {
    let (rounds, at, rank) = turned(rounds);
    run.at = run.at.wrapping_add(at.cast_unsigned());
    run.rank = run.rank.wrapping_add(rank.cast_unsigned());
    let mut merged: Vec<Round> = Vec::new();
    for round in rounds.into_iter().rev() {
        let grows = |by: u64| {
            i128::from(round.stride) == i128::from(by)
                && i128::from(round.rank_stride) == i128::from(by)
        };
        if merged.is_empty() && join && grows(run.length) {
            run.length *= round.count;
            continue;
        }
        match merged.last_mut() {
            Some(inner) if goes_on(inner, &round) => inner.count *= round.count,
            _ => merged.push(round),
        }
    }
    merged.reverse();
    nest(Tree::Strips(vec![run]), merged)
}

/// Whether a loop continues the one inside it in both places and ranks.
fn goes_on(inner: &Round, outer: &Round) -> bool {
    let count = i128::from(inner.count);
    let fits = u64::try_from(u128::from(inner.count) * u128::from(outer.count)).is_ok();
    fits && i128::from(outer.stride) == i128::from(inner.stride) * count
        && i128::from(outer.rank_stride) == i128::from(inner.rank_stride) * count
}

fn nest(body: Tree, rounds: Vec<Round>) -> Tree {
    rounds.into_iter().rev().fold(body, |body, round| {
        Tree::repeat(body, round.stride, round.rank_stride, round.count)
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
                (Tree::Strips(strips), stride) if goes_on_as_bytes(&strips, stride) => {
                    let run = strips[0];
                    Tree::Strips(vec![Strip::run(run.at, 0, run.length * count)])
                }
                (Tree::Strips(strips), stride) if goes_on_as_runs(&strips, stride) => {
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

fn goes_on_as_bytes(strips: &[Strip], stride: i64) -> bool {
    matches!(strips, [run] if run.count == 1 && i128::from(stride) == i128::from(run.length))
}

fn goes_on_as_runs(strips: &[Strip], stride: i64) -> bool {
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
