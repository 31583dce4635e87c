//! The order in which a pattern is moved when the caller leaves it open: ascending in the view.
//!
//! Disks like ascending places, servers read neighbours together, and a pattern whose runs meet becomes
//! one run. Loops are turned (a negative stride starts from the other end) and exchanged (the shortest
//! stride innermost), lists are sorted. Ranks follow, so that the same bytes meet the same memory.

use crate::nest::{Strip, Tree};

impl Tree {
    /// The same runs, joined where they meet if `join`, with ascending places as far as loops can be exchanged.
    pub(crate) fn sorted(self, join: bool) -> Tree {
        match self {
            Tree::Strips(strips) => sorted_strips(strips, join),
            other => other,
        }
    }
}

impl Tree {
    /// The same bytes in the same order, runs that follow one another without a gap joined. Ranks are lost.
    pub(crate) fn joined(self) -> Tree {
        match self {
            Tree::Strips(mut strips) => {
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
                Tree::Strips(strips)
            }
            Tree::Loop {
                body,
                stride,
                rank_stride,
                count,
            } => {
                let body = body.joined();
                let run = match &body {
                    Tree::Strips(strips) if strips.len() == 1 && strips[0].count == 1 => {
                        Some(strips[0])
                    }
                    _ => None,
                };
                match run {
                    Some(run) if i128::from(stride) == i128::from(run.length) => {
                        Tree::Strips(vec![Strip::run(run.at, 0, run.length * count)])
                    }
                    _ => Tree::repeat(body, stride, rank_stride, count),
                }
            }
            Tree::Series(arms) => Tree::Series(
                arms.into_iter()
                    .map(|(at, rank, tree)| (at, rank, tree.joined()))
                    .collect(),
            ),
        }
    }
}

fn sorted_strips(mut strips: Vec<Strip>, join: bool) -> Tree {
    if strips.iter().all(|strip| strip.count == 1) {
        strips.sort_by_key(|strip| strip.at as i64);
        strips.dedup_by(|next, strip| {
            let meets = join
                && strip.at.wrapping_add(strip.length) == next.at
                && strip.rank + strip.length == next.rank;
            if meets {
                strip.length += next.length;
            }
            meets
        });
    }
    Tree::Strips(strips)
}
