//! A sort's files on any file system: one `pread` or `pwrite` for each run of bytes.
//!
//! The mesh is one file in which cells follow one another, as a program without views would store
//! it: a cell is one run, a block of rows one run in each of its cells.
//!
//! Calls block their thread. A worker makes one call at a time, like the clients of the other cases
//! of `weft bench` on a path; it sorts on another thread meanwhile.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use super::mesh::Mesh;

/// An open file.
#[derive(Clone)]
pub(crate) struct PosixFile {
    file: Arc<File>,
    path: PathBuf,
}

/// Bytes of a file, reordered.
pub(crate) struct PosixSpace {
    file: PosixFile,
    runs: Runs,
}

/// Where the bytes of a space are in the file: blocks of equal runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Where the first run begins.
    start: u64,
    /// Bytes of a run.
    run: u64,
    /// Runs of a block, and from one to the next.
    columns: u64,
    apart: u64,
    /// From block to block.
    stride: u64,
}

impl Runs {
    /// One run, from here on.
    pub(crate) fn from(start: u64) -> Runs {
        Runs {
            start,
            run: u64::MAX,
            columns: 1,
            apart: 0,
            stride: 0,
        }
    }

    /// The bytes of [`Mesh::rows_view`], in a file in which cells follow one another.
    pub(crate) fn rows(mesh: &Mesh, round: u32, group: u32, worker: u32) -> Runs {
        let run = mesh.block * mesh.record;
        let first = u64::from(group) << round;
        Runs {
            start: first * mesh.cell_bytes() + u64::from(worker) * run,
            run,
            columns: 1 << round,
            apart: mesh.cell_bytes(),
            stride: u64::from(mesh.workers) * run,
        }
    }

    /// Calls `each` with the place in the file and the length of every run of bytes `at..at +
    /// length`, in order.
    fn each(
        self,
        at: u64,
        length: u64,
        mut each: impl FnMut(u64, usize) -> Result<()>,
    ) -> Result<()> {
        let (mut at, end) = (at, at + length);
        while at < end {
            let (run, within) = (at / self.run, at % self.run);
            let place = self.start
                + run / self.columns * self.stride
                + run % self.columns * self.apart
                + within;
            let now = (self.run - within).min(end - at);
            each(place, now as usize)?;
            at += now;
        }
        Ok(())
    }
}

impl PosixFile {
    /// Opens an existing file.
    pub(crate) fn open(path: &Path) -> Result<PosixFile> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.with_context(|| format!("cannot open {}", path.display()))?;
        Ok(PosixFile {
            file: Arc::new(file),
            path: path.to_owned(),
        })
    }

    pub(crate) fn space(&self, runs: Runs) -> PosixSpace {
        PosixSpace {
            file: self.clone(),
            runs,
        }
    }

    /// Drops the clean pages of the file from the kernel's cache.
    pub(crate) fn forget(&self) -> Result<()> {
        fadvise(&*self.file, 0, None, Advice::DontNeed)
            .with_context(|| format!("cannot drop the cache of {}", self.path.display()))
    }
}

impl PosixSpace {
    /// Reads. Returns fewer bytes than requested at the end of the file.
    pub(crate) fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<u64> {
        let (mut rest, mut moved) = (&mut *buffer, 0);
        self.runs.each(at, rest.len() as u64, |place, length| {
            let (mut now, later) = std::mem::take(&mut rest).split_at_mut(length);
            rest = later;
            let mut place = place;
            while !now.is_empty() {
                match self.file.file.read_at(now, place) {
                    Ok(0) => break,
                    Ok(n) => {
                        (moved, place) = (moved + n as u64, place + n as u64);
                        now = &mut now[n..];
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(e) => return Err(e).with_context(|| self.cannot("read")),
                }
            }
            Ok(())
        })?;
        Ok(moved)
    }

    /// Writes all of it.
    pub(crate) fn write_all(&self, at: u64, data: &[u8]) -> Result<()> {
        let mut rest = data;
        self.runs.each(at, data.len() as u64, |place, length| {
            let (now, later) = rest.split_at(length);
            rest = later;
            let done = self.file.file.write_all_at(now, place);
            done.with_context(|| self.cannot("write"))
        })
    }

    fn cannot(&self, what: &str) -> String {
        format!("cannot {what} {}", self.file.path.display())
    }
}

#[cfg(test)]
mod tests {
    use weft_layout::{Grid, Location, Map, ViewOffset};

    use super::*;

    /// Compares every byte of every view of the rows with the maps that a volume uses.
    #[test]
    fn rows_on_a_path_equal_those_of_the_views() {
        let mesh = Mesh {
            records: 90,
            record: 3,
            cells: 8,
            depth: 12,
            block: 2,
            request: 6,
            workers: 3,
        };
        let grid = Grid::new(mesh.cells, mesh.record, 1).unwrap();
        let mut bytes = 0;
        for round in 1..=mesh.rounds() {
            for worker in 0..mesh.workers {
                for (group, at, length) in mesh.row_requests(round, worker) {
                    let map = Map::new(grid, mesh.rows_view(round, group, worker)).unwrap();
                    let runs = Runs::rows(&mesh, round, group, worker);
                    let mut next = at;
                    let each = |place, length: usize| {
                        for (byte, place) in (next..).zip(place..).take(length) {
                            let Location::Data(cell, offset) =
                                map.locate(ViewOffset(byte)).unwrap()
                            else {
                                panic!("byte {byte} is a ghost");
                            };
                            let expected = u64::from(cell.0) * mesh.cell_bytes() + offset.0;
                            assert_eq!(place, expected, "round {round}, byte {byte}");
                        }
                        next += length as u64;
                        bytes += length as u64;
                        Ok(())
                    };
                    runs.each(at, length, each).unwrap();
                }
            }
        }
        assert_eq!(
            bytes,
            3 * 8 * mesh.cell_bytes(),
            "every round sees all of the mesh"
        );
    }

    #[test]
    fn a_read_past_the_end_leaves_the_buffer_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short");
        std::fs::write(&path, b"abcdef").unwrap();
        let space = PosixFile::open(&path).unwrap().space(Runs::from(4));
        let mut buffer = *b"....";
        assert_eq!(space.read_at(0, &mut buffer).unwrap(), 2);
        assert_eq!(&buffer, b"ef..");
    }
}
