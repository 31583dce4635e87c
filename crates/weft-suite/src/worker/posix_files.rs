//! A part whose records are files of a directory on a path, by the calls of any program.
//!
//! Nothing is dropped from caches between the steps, as in mdtest: a read that must find none is
//! asked for by a command of the user's.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::SuiteError;
use crate::row::Op;
use crate::task::{Syncing, Task};

use super::laps::Laps;

/// The files' paths, made before the clock runs.
pub(super) struct PosixFiles {
    paths: Vec<PathBuf>,
}

impl PosixFiles {
    pub(super) fn of(directory: &Path, task: &Task) -> PosixFiles {
        let names = (0..task.part.calls()).map(|number| directory.join(number.to_string()));
        PosixFiles {
            paths: names.collect(),
        }
    }

    /// Takes one step with every file; bytes moved.
    pub(super) fn step(
        &self,
        task: &Task,
        memory: &mut [u8],
        laps: &mut Laps,
    ) -> Result<u64, SuiteError> {
        let mut moved = 0;
        for (path, bytes) in self.paths.iter().zip(memory.chunks_mut(task.file_bytes())) {
            moved += match task.op {
                Op::Create | Op::Write => create(path, bytes, task.syncing),
                Op::Read => read(path, bytes),
                Op::Stat => stat(path, bytes.len() as u64),
                Op::Remove => std::fs::remove_file(path)
                    .map(|()| 0)
                    .map_err(SuiteError::local("cannot remove", path)),
            }?;
            laps.lap();
        }
        Ok(moved)
    }
}

fn create(path: &Path, bytes: &[u8], syncing: Syncing) -> Result<u64, SuiteError> {
    let created = || {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        if syncing == Syncing::Each {
            file.sync_all()?;
        }
        Ok(bytes.len() as u64)
    };
    created().map_err(SuiteError::local("cannot create", path))
}

fn read(path: &Path, bytes: &mut [u8]) -> Result<u64, SuiteError> {
    let read = File::open(path).and_then(|mut file| file.read_exact(bytes));
    read.map_err(SuiteError::local("cannot read", path))?;
    Ok(bytes.len() as u64)
}

fn stat(path: &Path, expected: u64) -> Result<u64, SuiteError> {
    let found = std::fs::metadata(path).map_err(SuiteError::local("cannot stat", path))?;
    expect_size(found.len(), expected)
}

/// That a file has the size that was written.
pub(super) fn expect_size(found: u64, expected: u64) -> Result<u64, SuiteError> {
    if found == expected {
        Ok(0)
    } else {
        Err(SuiteError::WrongSize { found, expected })
    }
}
