//! Names of the chunks of one file, and the lengths of its cells.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use weft_layout::CellIndex;
use weft_proto::addressed::{ChangedBytes, ReadNamesReply};
use weft_sum::ChunkName;

use crate::limits::NAMES_KEPT_MAX;

/// The chunks that a request touches on one server, ascending.
#[derive(Clone, Debug, Default)]
pub(crate) struct WantedChunks {
    pub(crate) chunks: BTreeSet<(CellIndex, u64)>,
    /// The size of a chunk.
    pub(crate) size: u64,
}

/// What is known of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Hole,
    Name(ChunkName),
}

/// The names of some chunks, and the lengths of their cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    cells: HashMap<CellIndex, CellNames>,
    count: usize,
}

#[derive(Clone, Debug, Default)]
struct CellNames {
    /// Bytes; absent: not known.
    length: Option<u64>,
    names: HashMap<u64, Option<ChunkName>>,
}

impl Names {
    /// The names of an answer to a request for these chunks.
    ///
    /// # Errors
    /// Says what is wrong with the answer.
    pub(crate) fn of_reply(
        reply: &ReadNamesReply,
        lengths: &HashMap<CellIndex, u64>,
        wanted: &WantedChunks,
    ) -> Result<Names, String> {
        let (all, rest) = reply.names.as_chunks::<32>();
        let count = reply
            .chunks
            .iter()
            .try_fold(0_u64, |sum, run| sum.checked_add(run.count));
        if count != Some(all.len() as u64) || !rest.is_empty() {
            return Err("the server sent other names than it says".to_owned());
        }
        let mut names = Names::default();
        for (cell, _) in &wanted.chunks {
            let length = lengths.get(cell).copied().unwrap_or(0);
            names.cells.entry(*cell).or_default().length = Some(length);
        }
        let mut all = all.iter();
        for run in &reply.chunks {
            for (n, name) in (0..run.count).zip(&mut all) {
                names.set(
                    CellIndex(run.cell),
                    run.first.saturating_add(n),
                    entry(name),
                );
            }
        }
        Ok(names)
    }

    pub(super) fn set(&mut self, cell: CellIndex, chunk: u64, name: Option<ChunkName>) {
        let cell = self.cells.entry(cell).or_default();
        self.count += usize::from(cell.names.insert(chunk, name).is_none());
    }

    /// The wanted names, if all of them are known.
    pub(crate) fn all_of(&self, wanted: &WantedChunks) -> Option<Names> {
        let mut found = Names::default();
        for (number, chunk) in &wanted.chunks {
            let cell = self.cells.get(number)?;
            let length = cell.length?;
            found.cells.entry(*number).or_default().length = Some(length);
            if chunk.checked_mul(wanted.size).is_some_and(|at| at < length) {
                found.set(*number, *chunk, *cell.names.get(chunk)?);
            }
        }
        Some(found)
    }

    /// Adds what others say; they are newer.
    pub(crate) fn merge(&mut self, others: Names) {
        if self.count + others.count > NAMES_KEPT_MAX {
            *self = Names::default();
        }
        for (number, cell) in others.cells {
            for (chunk, name) in cell.names {
                self.set(number, chunk, name);
            }
            if cell.length.is_some() {
                self.cells.entry(number).or_default().length = cell.length;
            }
        }
    }

    /// The name of a chunk; `None` of a hole, and of one that is not known.
    pub(crate) fn get(&self, cell: CellIndex, chunk: u64) -> Option<ChunkName> {
        self.cells.get(&cell)?.names.get(&chunk).copied().flatten()
    }

    /// What is known of a chunk.
    pub(crate) fn known(&self, cell: CellIndex, chunk: u64) -> Option<Known> {
        let name = self.cells.get(&cell)?.names.get(&chunk)?;
        Some(name.map_or(Known::Hole, Known::Name))
    }

    /// The length of a cell, in bytes.
    #[cfg(test)]
    pub(crate) fn length_of(&self, cell: CellIndex) -> u64 {
        let cell = self.cells.get(&cell);
        cell.and_then(|cell| cell.length).unwrap_or(0)
    }

    /// The lengths of the cells that have bytes.
    pub(crate) fn lengths(&self) -> HashMap<CellIndex, u64> {
        let lengths = self
            .cells
            .iter()
            .filter_map(|(n, cell)| Some((*n, cell.length?)));
        lengths.filter(|(_, length)| *length > 0).collect()
    }

    /// Forgets chunks of a cell, and its length.
    pub(crate) fn forget(&mut self, cell: CellIndex, chunks: Range<u64>) {
        let Some(cell) = self.cells.get_mut(&cell) else {
            return;
        };
        cell.length = None;
        let before = cell.names.len();
        if chunks.end - chunks.start < before as u64 {
            for chunk in chunks {
                cell.names.remove(&chunk);
            }
        } else {
            cell.names.retain(|chunk, _| !chunks.contains(chunk));
        }
        self.count -= before - cell.names.len();
    }

    /// Takes over a change that a server tells of, of a file with this chunk size.
    pub(crate) fn change(&mut self, bytes: &ChangedBytes, size: u64) {
        let cell = CellIndex(bytes.cell);
        let first = bytes.start / size;
        let chunks = first..bytes.end.div_ceil(size).max(first);
        self.forget(cell, chunks.clone());
        let (names, _) = bytes.names.as_chunks::<32>();
        if names.is_empty() {
            return;
        }
        if self.count + names.len() > NAMES_KEPT_MAX {
            *self = Names::default();
        }
        for (chunk, name) in chunks.zip(names) {
            self.set(cell, chunk, entry(name));
        }
        self.cells.entry(cell).or_default().length = Some(bytes.length);
    }
}

fn entry(name: &[u8; 32]) -> Option<ChunkName> {
    (*name != [0; 32]).then(|| ChunkName::from_bytes(*name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use weft_proto::addressed::ChunkRun;

    const CELL: CellIndex = CellIndex(3);

    fn wanted(chunks: Range<u64>) -> WantedChunks {
        WantedChunks {
            chunks: chunks.map(|chunk| (CELL, chunk)).collect(),
            size: 10,
        }
    }

    fn reply(first: u64, names: &[u8]) -> ReadNamesReply {
        let all: Vec<u8> = names.iter().flat_map(|name| [*name; 32]).collect();
        ReadNamesReply {
            chunks: vec![ChunkRun {
                cell: CELL.0,
                first,
                count: names.len() as u64,
            }],
            names: all.into(),
            granted: true,
            ..ReadNamesReply::default()
        }
    }

    fn name(n: u8) -> ChunkName {
        ChunkName::from_bytes([n; 32])
    }

    #[test]
    fn names_are_known_all_or_not_at_all_and_changes_forget_or_replace_them() {
        let lengths = HashMap::from([(CELL, 45)]);
        let mut names = Names::of_reply(&reply(0, &[1, 0, 3, 4, 5]), &lengths, &wanted(0..5));
        let names = names.as_mut().unwrap();
        let found = names.all_of(&wanted(0..9)).unwrap();
        assert_eq!(
            (found.get(CELL, 0), found.get(CELL, 1)),
            (Some(name(1)), None)
        );
        assert_eq!(
            (found.get(CELL, 4), found.length_of(CELL)),
            (Some(name(5)), 45)
        );
        // An invalidation: the length may have changed as well.
        let mut change = ChangedBytes {
            cell: CELL.0,
            start: 15,
            end: 21,
            ..ChangedBytes::default()
        };
        names.change(&change, 10);
        assert!(names.all_of(&wanted(0..1)).is_none());
        assert_eq!((names.get(CELL, 1), names.get(CELL, 2)), (None, None));
        assert_eq!(names.get(CELL, 3), Some(name(4)));
        // An update.
        change.names = Bytes::from([[7; 32], [8; 32]].concat());
        change.length = 60;
        names.change(&change, 10);
        let found = names.all_of(&wanted(0..5)).unwrap();
        assert_eq!(
            (found.get(CELL, 2), found.length_of(CELL)),
            (Some(name(8)), 60)
        );
        assert!(names.all_of(&wanted(5..6)).is_none());
        names.change(
            &ChangedBytes {
                cell: CELL.0,
                end: u64::MAX,
                ..ChangedBytes::default()
            },
            10,
        );
        assert_eq!(names.count, 0);
    }

    #[test]
    fn an_answer_with_other_names_than_it_says_is_refused() {
        let mut short = reply(0, &[1, 2]);
        short.chunks[0].count = 3;
        assert!(Names::of_reply(&short, &HashMap::new(), &wanted(0..3)).is_err());
        short.chunks = vec![
            ChunkRun {
                count: u64::MAX,
                ..ChunkRun::default()
            };
            2
        ];
        assert!(Names::of_reply(&short, &HashMap::new(), &wanted(0..3)).is_err());
    }
}
