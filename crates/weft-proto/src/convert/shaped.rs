//! Conversions between the parts of a request and their wire form.

use weft_layout::{RequestNode, RequestNodeKind, Runs};

use super::ConvertError;
use crate::io;
use crate::limits::LIST_MAX;

pub(super) fn to_wire(part: &RequestNode) -> io::Part {
    let kind = match &part.kind {
        RequestNodeKind::Runs(runs) => match runs.as_slice() {
            [run] if run.at == 0 && run.times == 1 => io::PartKind::Bytes(run.length),
            runs => io::PartKind::Runs(columns(runs)),
        },
        RequestNodeKind::Repeat { stride, times } => io::PartKind::Repeat(io::PartRepeat {
            stride: *stride,
            times: *times,
        }),
        RequestNodeKind::Sequence(members) => io::PartKind::Sequence(*members),
    };
    io::Part {
        at: part.at,
        kind: Some(kind),
    }
}

fn columns(runs: &[Runs]) -> io::Runs {
    let mut columns = io::Runs::default();
    let mut end = 0i64;
    for run in runs {
        columns.gaps.push(run.at.wrapping_sub(end));
        columns.lengths.push(run.length);
        columns.times.push(run.times);
        columns.strides.push(run.stride);
        end = end_of(run);
    }
    if columns.lengths.windows(2).all(|pair| pair[0] == pair[1]) {
        columns.lengths.truncate(1);
    }
    if columns.times.iter().all(|times| *times == 1) {
        columns.times.clear();
        columns.strides.clear();
    }
    columns
}

/// One past the last of these runs. Wraps on overflow; the distance computed from it wraps back.
fn end_of(run: &Runs) -> i64 {
    let steps = run
        .stride
        .wrapping_mul(run.times.wrapping_sub(1).cast_signed());
    run.at
        .wrapping_add(steps)
        .wrapping_add(run.length.cast_signed())
}

pub(super) fn from_wire(parts: &[io::Part]) -> Result<Vec<RequestNode>, ConvertError> {
    let mut left = LIST_MAX;
    parts
        .iter()
        .map(|part| {
            let kind = match part.kind.as_ref() {
                None => {
                    return Err(ConvertError::Unknown {
                        what: "part of a request",
                    });
                }
                Some(io::PartKind::Bytes(length)) => RequestNodeKind::Runs(vec![Runs {
                    at: 0,
                    length: *length,
                    stride: 0,
                    times: 1,
                }]),
                Some(io::PartKind::Repeat(repeat)) => RequestNodeKind::Repeat {
                    stride: repeat.stride,
                    times: repeat.times,
                },
                Some(io::PartKind::Sequence(members)) => RequestNodeKind::Sequence(*members),
                Some(io::PartKind::Runs(columns)) => {
                    RequestNodeKind::Runs(rows(columns, &mut left)?)
                }
            };
            Ok(RequestNode { at: part.at, kind })
        })
        .collect()
}

/// The runs of a list; `left` is how many runs the request may still have.
fn rows(columns: &io::Runs, left: &mut usize) -> Result<Vec<Runs>, ConvertError> {
    let runs = columns.gaps.len();
    let fits = |column: usize, least: usize| column == runs || column == least;
    let same = columns.times.len() == columns.strides.len();
    let lengths = runs == 0 || fits(columns.lengths.len(), 1);
    if runs > *left || !same || !fits(columns.times.len(), 0) || !lengths {
        return Err(ConvertError::List { runs });
    }
    *left -= runs;
    let mut end = 0i64;
    let rows = (0..runs).map(|i| {
        let all = columns.lengths[0];
        let run = Runs {
            at: end.wrapping_add(columns.gaps[i]),
            length: columns.lengths.get(i).copied().unwrap_or(all),
            stride: columns.strides.get(i).copied().unwrap_or(0),
            times: columns.times.get(i).copied().unwrap_or(1),
        };
        end = end_of(&run);
        run
    });
    Ok(rows.collect())
}
