//! What every byte of a benchmark's file is: it follows from its cell, its place there and the
//! number of the write.
//!
//! So any view can check what any other wrote, and a byte of an earlier write is a wrong byte.

use weft_layout::{Map, PatternError, Piece, Request, ServerSlot, ViewOffset};

use crate::SuiteError;
use crate::workload::{self, FileShape, UNIT, Workload};

/// A write: its number, and the share of units that are the same in every write.
#[derive(Clone, Copy)]
struct Written {
    number: u64,
    same: u32,
}

impl Written {
    /// The eight bytes at word `word` of a cell.
    fn word(self, cell: u32, word: u64) -> [u8; 8] {
        let number = match self.same {
            0 => self.number,
            same => {
                let unit = mixed(self.number, cell, word / (UNIT / 8));
                if unit % 100 < u64::from(same) {
                    0
                } else {
                    self.number
                }
            }
        };
        mixed(number, cell, word).to_le_bytes()
    }
}

fn mixed(number: u64, cell: u32, word: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    workload::mixed(
        number
            .wrapping_add(u64::from(cell) << 40)
            .wrapping_add(word),
    )
}

/// Calls `each` with the words that a run of a cell overlaps: bytes of the run, and those of the
/// word.
fn words<T>(
    written: Written,
    cell: u32,
    offset: u64,
    length: u64,
    mut each: impl FnMut(u64, &[u8]) -> Option<T>,
) -> Option<T> {
    let end = offset + length;
    let mut at = offset;
    while at < end {
        let within = (at % 8) as usize;
        let take = ((8 - within) as u64).min(end - at);
        let bytes = written.word(cell, at / 8);
        if let Some(found) = each(at - offset, &bytes[within..within + take as usize]) {
            return Some(found);
        }
        at += take;
    }
    None
}

/// Makes the bytes of a run.
fn fill(written: Written, piece: &Piece, out: &mut [u8]) {
    words(
        written,
        piece.cell.0,
        piece.offset.0,
        piece.length,
        |at, bytes| {
            out[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
            None::<()>
        },
    );
}

/// The first byte of a run that is wrong: where in the run, and what it should be.
fn wrong(written: Written, piece: &Piece, found: &[u8]) -> Option<(u64, u8)> {
    words(
        written,
        piece.cell.0,
        piece.offset.0,
        piece.length,
        |at, bytes| {
            let there = &found[at as usize..at as usize + bytes.len()];
            let first = there.iter().zip(bytes).position(|(a, b)| a != b)?;
            Some((at + first as u64, bytes[first]))
        },
    )
}

/// What each call of a part moves, with all its pieces.
pub(crate) struct Calls<'a> {
    part: &'a Workload,
    map: Map,
    same: u32,
}

impl Calls<'_> {
    pub(crate) fn new(part: &Workload, shape: FileShape) -> Result<Calls<'_>, SuiteError> {
        let grid = shape.grid().map_err(SuiteError::part)?;
        let map = Map::new(grid, part.view.into()).map_err(SuiteError::part)?;
        let same = shape.same;
        Ok(Calls { part, map, same })
    }

    /// Every piece, with its place in the memory of the whole part.
    pub(crate) fn for_each(
        &self,
        mut each: impl FnMut(usize, Piece) -> Result<(), SuiteError>,
    ) -> Result<(), SuiteError> {
        let pattern = self.part.pattern();
        let bytes = self.part.call_bytes();
        for (call, at) in self.part.starts().enumerate() {
            let request = Request::new(ViewOffset(at), &pattern)
                .map_err(|e: PatternError| SuiteError::part(e))?;
            let pieces = self.map.pieces(&request, ServerSlot(0));
            for piece in pieces.map_err(SuiteError::part)? {
                let memory = piece.memory + call as u64 * bytes;
                each(call, Piece { memory, ..piece })?;
            }
        }
        Ok(())
    }

    fn written(&self, number: u64) -> Written {
        let same = self.same;
        Written { number, same }
    }

    /// Makes what a part writes.
    pub(crate) fn make(&self, number: u64, memory: &mut [u8]) -> Result<(), SuiteError> {
        let written = self.written(number);
        self.for_each(|_, piece| {
            fill(written, &piece, slice_mut(memory, &piece));
            Ok(())
        })
    }

    /// Checks what a part has read.
    pub(crate) fn check(&self, number: u64, memory: &[u8]) -> Result<(), SuiteError> {
        let written = self.written(number);
        self.for_each(|_, piece| {
            let found = &memory[piece.memory as usize..(piece.memory + piece.length) as usize];
            let Some((at, expected)) = wrong(written, &piece, found) else {
                return Ok(());
            };
            Err(SuiteError::WrongByte {
                cell: piece.cell.0,
                offset: piece.offset.0 + at,
                found: found[at as usize],
                expected,
            })
        })
    }
}

fn slice_mut<'a>(memory: &'a mut [u8], piece: &Piece) -> &'a mut [u8] {
    &mut memory[piece.memory as usize..(piece.memory + piece.length) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ViewSpec;

    const SHAPE: FileShape = FileShape {
        cells: 3,
        bsu: 5,
        addressed: false,
        same: 0,
    };

    #[test]
    fn content_made_through_one_view_is_correct_through_another() {
        // The file has two rows of BSUs: three cells with BSUs of 5 bytes.
        let whole = Workload::records(ViewSpec::Canonical, 0, 30, 30, 1);
        let mut file = [0; 30];
        Calls::new(&whole, SHAPE)
            .unwrap()
            .make(7, &mut file)
            .unwrap();
        let cell = Workload::records(ViewSpec::Cell(1), 0, 10, 10, 1);
        let calls = Calls::new(&cell, SHAPE).unwrap();
        let mut column = [&file[5..10], &file[20..25]].concat();
        calls.check(7, &column).unwrap();
        assert!(
            calls.check(8, &column).is_err(),
            "an earlier write passes the check"
        );
        column[7] ^= 1;
        let error = calls.check(7, &column).unwrap_err();
        let SuiteError::WrongByte { cell, offset, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((cell, offset), (1, 7));
    }

    #[test]
    fn units_that_stay_the_same_are_as_many_as_asked_for() {
        let units = 2000;
        for same in [0, 10, 90, 100] {
            let first = |number, unit| Written { number, same }.word(1, unit * (UNIT / 8));
            let equal = (0..units)
                .filter(|unit| first(7, *unit) == first(8, *unit))
                .count();
            let both = f64::from(same).powi(2) / 10_000.0;
            let share = equal as f64 / units as f64;
            assert!((share - both).abs() < 0.05, "{same}: {share}");
        }
    }
}
