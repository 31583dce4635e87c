//! What one client moves: a view, nested loops of records, and how much of that one call covers.

use serde::{Deserialize, Serialize};
use weft_layout::{CellIndex, Grid, LayoutError, Order, Partition, Pattern, Subfile, View};

/// Layout of a benchmark's file, and what of its content comes again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileShape {
    /// Cells.
    pub cells: u32,
    /// Bytes of a BSU.
    pub bsu: u64,
    /// Its chunks have [`UNIT`] bytes and are named by their hash.
    pub addressed: bool,
    /// The share of its units that are the same in every write, in per cent.
    pub same: u32,
}

/// Bytes of a cell that are the same in every write, or not, together.
pub const UNIT: u64 = 64 << 10;

impl FileShape {
    /// The shape as if all cells were on one server, so that one request has all pieces.
    pub(crate) fn grid(self) -> Result<Grid, LayoutError> {
        Grid::new(self.cells, self.bsu, 1)
    }
}

/// A view in plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewSpec {
    /// The whole file in canonical order.
    Canonical,
    /// A Vesta subfile.
    Subfile {
        /// Consecutive BSUs of one cell in a block.
        vbs: u64,
        /// Subfiles down a cell.
        vn: u64,
        /// Consecutive cells of a block.
        hbs: u64,
        /// Subfiles across the cells.
        hn: u64,
        /// Which one.
        index: u64,
    },
    /// A PVFS partition.
    Partition {
        /// File offset of the first group.
        offset: u64,
        /// Bytes of a group.
        group: u64,
        /// From group to group.
        stride: u64,
    },
    /// One cell.
    Cell(u32),
}

impl From<ViewSpec> for View {
    fn from(spec: ViewSpec) -> View {
        match spec {
            ViewSpec::Canonical => View::canonical(),
            ViewSpec::Subfile {
                vbs,
                vn,
                hbs,
                hn,
                index,
            } => View::Subfile(Subfile {
                vbs,
                vn,
                hbs,
                hn,
                index,
                order: Order::Default,
            }),
            ViewSpec::Partition {
                offset,
                group,
                stride,
            } => View::Partition(Partition {
                offset,
                group,
                stride,
            }),
            ViewSpec::Cell(cell) => View::Cell(CellIndex(cell)),
        }
    }
}

/// A repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Bytes of the view from start to start.
    pub stride: u64,
    /// How often.
    pub times: u64,
}

/// What one client moves in one run of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Through which view.
    pub view: ViewSpec,
    /// View byte of the first record.
    pub at: u64,
    /// Bytes of a record.
    pub record: u64,
    /// Loops around the record, innermost first.
    pub levels: Vec<Level>,
    /// How many of the loops, from the innermost on, one call covers; the others are loops of
    /// calls.
    pub inner: usize,
    /// Only so many of the calls are made, picked at random and in random order, none twice. The
    /// same part picks the same calls each time.
    pub picked: Option<u64>,
}

impl Workload {
    /// One call per record, or one for all `times` records.
    pub(crate) fn records(
        view: ViewSpec,
        at: u64,
        record: u64,
        stride: u64,
        times: u64,
    ) -> Workload {
        let levels = vec![Level { stride, times }];
        Workload {
            view,
            at,
            record,
            levels,
            inner: 0,
            picked: None,
        }
    }

    /// All loops by one call.
    #[must_use]
    pub(crate) fn whole(self) -> Workload {
        let inner = self.levels.len();
        Workload { inner, ..self }
    }

    /// So many of its calls, at random.
    #[must_use]
    pub(crate) fn pick(self, calls: u64) -> Workload {
        let picked = Some(calls.min(self.turns()));
        Workload { picked, ..self }
    }

    /// Turns of the loops of calls.
    fn turns(&self) -> u64 {
        self.levels[self.inner..].iter().map(|l| l.times).product()
    }

    /// Calls.
    pub fn calls(&self) -> u64 {
        self.picked.unwrap_or_else(|| self.turns())
    }

    /// Bytes of one call.
    pub fn call_bytes(&self) -> u64 {
        let times: u64 = self.levels[..self.inner].iter().map(|l| l.times).product();
        self.record * times
    }

    /// Bytes of all calls.
    pub fn bytes(&self) -> u64 {
        self.calls() * self.call_bytes()
    }

    /// What each call moves, from where it starts.
    pub(crate) fn pattern(&self) -> Pattern {
        let record = Pattern::bytes(self.record);
        let inner = self.levels[..self.inner].iter();
        inner.fold(record, |pattern, level| {
            pattern.every(level.stride.cast_signed()).times(level.times)
        })
    }

    /// Where each call starts in the view, in order.
    ///
    /// Cost: O(1) for each call; where calls are picked, all turns are sorted first.
    pub(crate) fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        let outer = &self.levels[self.inner..];
        let shuffled = match self.picked {
            Some(_) => shuffled(self.turns(), self.at),
            None => Vec::new(),
        };
        (0..self.calls()).map(move |call| {
            let mut rest = shuffled.get(call as usize).copied().unwrap_or(call);
            outer.iter().fold(self.at, |at, level| {
                let turn = rest % level.times;
                rest /= level.times;
                at + turn * level.stride
            })
        })
    }
}

/// The numbers below `count` in an order without any pattern, another one for each `salt`. A
/// constant step through them would be one that read-ahead finds.
fn shuffled(count: u64, salt: u64) -> Vec<u64> {
    let mut numbers: Vec<u64> = (0..count).collect();
    numbers.sort_by_cached_key(|number| mixed(number.wrapping_add(salt << 32)));
    numbers
}

/// Bits that look random, the same for the same number (the finalizer of splitmix64).
pub(crate) fn mixed(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn loops_repeat_calls_or_runs_within_a_call() {
        let rows = Workload {
            view: ViewSpec::Canonical,
            at: 5,
            record: 2,
            levels: vec![
                Level {
                    stride: 10,
                    times: 3,
                },
                Level {
                    stride: 100,
                    times: 2,
                },
            ],
            inner: 0,
            picked: None,
        };
        let starts = |part: &Workload| part.starts().collect::<Vec<_>>();
        assert_eq!(starts(&rows), [5, 15, 25, 105, 115, 125]);
        assert_eq!((rows.calls(), rows.call_bytes()), (6, 2));
        let frames = Workload {
            inner: 1,
            picked: None,
            ..rows.clone()
        };
        assert_eq!(starts(&frames), [5, 105]);
        assert_eq!((frames.calls(), frames.call_bytes()), (2, 6));
        let whole = rows.clone().whole();
        assert_eq!(starts(&whole), [5]);
        assert_eq!((whole.calls(), whole.call_bytes()), (1, 12));
    }

    #[test]
    fn picked_calls_are_distinct_in_no_order_and_the_same_each_time() {
        let all = Workload::records(ViewSpec::Canonical, 10, 4, 4, 1000);
        let some = all.clone().pick(100);
        let starts: Vec<u64> = some.starts().collect();
        assert_eq!((some.calls(), some.bytes(), starts.len()), (100, 400, 100));
        assert_eq!(starts, some.starts().collect::<Vec<_>>());
        let possible: BTreeSet<u64> = all.starts().collect();
        let distinct: BTreeSet<u64> = starts.iter().copied().collect();
        assert!(distinct.len() == 100 && distinct.is_subset(&possible));
        let ascending = starts.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((30..70).contains(&ascending), "{starts:?}");
        assert_eq!(all.clone().pick(5000).calls(), 1000);
    }
}
