//! Patterns byte by byte: the place of each byte of a request, in the caller's order.

use weft_layout::{Map, Pattern, ViewOffset};

use crate::model::{Byte, Model};

/// The runs of a pattern, in its order.
fn runs(pattern: &Pattern, at: i64) -> Vec<Vec<i64>> {
    match pattern {
        Pattern::Bytes(length) => vec![(0..(*length).cast_signed()).map(|i| at + i).collect()],
        Pattern::Repeat {
            body,
            stride,
            times,
        } => (0..(*times).cast_signed())
            .flat_map(|i| runs(body, at + i * stride))
            .collect(),
        Pattern::Sequence(members) => members
            .iter()
            .flat_map(|(by, member)| runs(member, at + by))
            .collect(),
        Pattern::List(list) => list
            .iter()
            .map(|(by, length)| (0..(*length).cast_signed()).map(|i| at + by + i).collect())
            .collect(),
    }
}

/// The start that keeps a pattern at or after byte `spare`, and its runs from there without empty
/// ones.
pub fn placed(pattern: &Pattern, spare: u64) -> (ViewOffset, Vec<Vec<usize>>) {
    let runs = runs(pattern, 0);
    let first = runs.iter().flatten().copied().min().unwrap_or(0);
    let start = spare.cast_signed() - first.min(0);
    let at = |byte: i64| usize::try_from(byte + start).expect("no byte precedes the start");
    let runs = runs
        .into_iter()
        .filter(|run| !run.is_empty())
        .map(|run| run.into_iter().map(at).collect())
        .collect();
    (ViewOffset(start.cast_unsigned()), runs)
}

/// The place of each numbered byte; `None` for a ghost.
pub fn places(map: &Map, runs: &[Vec<usize>]) -> Vec<Option<Byte>> {
    let end = runs.iter().flatten().max().map_or(0, |last| last + 1);
    let model = Model::new(map.grid(), map.view(), end);
    runs.iter()
        .flat_map(|run| model.access(run[0], run[0] + run.len()))
        .map(|byte| (!model.is_ghost(byte)).then_some(byte))
        .collect()
}
