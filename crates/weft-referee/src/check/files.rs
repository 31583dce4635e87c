//! Operations on segments: runs of bytes that no operation touches in part.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};

use super::op::{FileOps, Op, Part, Segment, Value, ZEROS};
use super::sessions::Sessions;
use crate::finding::{Finding, FindingKind};
use crate::history::{Event, History, Piece, What};

/// The most parts of the operations on one file.
const PARTS_MAX: usize = 20_000_000;

fn pieces_of(event: &Event) -> &[Piece] {
    match &event.what {
        What::Read { pieces, .. } | What::Write { pieces, .. } | What::Clear { pieces } => pieces,
        _ => &[],
    }
}

fn end_of(piece: &Piece) -> u64 {
    piece.offset.saturating_add(piece.length)
}

/// The files of a history, and those that are too large to be checked.
pub(super) fn files_of(history: &History, sessions: &Sessions) -> (Vec<FileOps>, Vec<Finding>) {
    let mut by_file: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in &history.events {
        if !pieces_of(event).is_empty()
            && let Some(session) = sessions.get(event.open)
        {
            by_file.entry(session.file).or_default().push(event);
        }
    }
    let (mut files, mut unchecked) = (Vec::new(), Vec::new());
    for (file, events) in by_file {
        let path = events.iter().find_map(|event| sessions.get(event.open));
        let path = path.map_or_else(String::new, |session| session.path.clone());
        match operations(&events, sessions) {
            Some((segments, ops)) => files.push(FileOps {
                path,
                created: sessions.creates(file),
                segments,
                ops,
            }),
            None => unchecked.push(Finding {
                kind: FindingKind::Unchecked,
                at: events.iter().map(|event| event.begin).min().unwrap_or(0),
                open: None,
                text: format!(
                    "{path} is not checked: its operations touch more than {PARTS_MAX} segments together"
                ),
                path,
            }),
        }
    }
    (files, unchecked)
}

/// `None`: they are too many.
fn operations(events: &[&Event], sessions: &Sessions) -> Option<(Vec<Segment>, Vec<Op>)> {
    let mut edges: HashMap<u32, BTreeSet<u64>> = HashMap::new();
    for piece in events.iter().flat_map(|event| pieces_of(event)) {
        let of_cell = edges.entry(piece.cell).or_default();
        of_cell.extend([piece.offset, end_of(piece)]);
    }
    let mut cells: Vec<(u32, Vec<u64>)> = edges
        .into_iter()
        .map(|(cell, edges)| (cell, edges.into_iter().collect()))
        .collect();
    cells.sort_unstable_by_key(|(cell, _)| *cell);
    let mut segments = Vec::new();
    let mut firsts = HashMap::new();
    for (cell, edges) in &cells {
        firsts.insert(*cell, (segments.len(), edges));
        segments.extend(edges.windows(2).map(|ends| Segment {
            cell: *cell,
            start: ends[0],
            end: ends[1],
        }));
    }
    let mut left = PARTS_MAX;
    let mut ops = Vec::with_capacity(events.len());
    for event in events {
        let bytes = match &event.what {
            What::Read { bytes, .. } | What::Write { bytes, .. } => Some(&bytes[..]),
            _ => None,
        };
        let (mut parts, mut at) = (BTreeMap::new(), 0);
        for piece in pieces_of(event) {
            let (first, edges) = firsts[&piece.cell];
            let from = edges.partition_point(|edge| *edge < piece.offset);
            let to = edges.partition_point(|edge| *edge < end_of(piece));
            left = left.checked_sub(to - from)?;
            for n in from..to {
                let segment = segments[first + n];
                let value = bytes.map_or(ZEROS, |bytes| {
                    let start = at + (segment.start - piece.offset) as usize;
                    let end = at + (segment.end - piece.offset) as usize;
                    value_of(&bytes[start..end])
                });
                parts.insert((first + n) as u32, value);
            }
            at += if bytes.is_some() {
                piece.length as usize
            } else {
                0
            };
        }
        let promise = sessions
            .get(event.open)
            .and_then(|session| session.promise_at(event.begin));
        let changes = !matches!(event.what, What::Read { .. });
        let end = match event.end {
            Some(end) if changes => sessions.left(event.open, event.begin, end),
            end => end,
        };
        ops.push(Op {
            open: event.open,
            begin: event.begin.saturating_sub(sessions.half_skew()),
            end: end.map(|end| end.saturating_add(sessions.half_skew())),
            answered: event.end,
            changes,
            in_order: promise.is_some_and(|promise| promise.in_order),
            parts: parts
                .into_iter()
                .map(|(segment, value)| Part { segment, value })
                .collect(),
        });
    }
    ops.sort_by_key(|op| op.begin);
    Some((segments, ops))
}

fn value_of(bytes: &[u8]) -> Value {
    if bytes.iter().all(|byte| *byte == 0) {
        return ZEROS;
    }
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish().max(1)
}
