use std::path::PathBuf;

use thiserror::Error;
use weft_crew::CrewError;

/// What can go wrong in a benchmark, closed.
#[derive(Debug, Error)]
pub enum SuiteError {
    /// The volume refused or failed.
    #[error(transparent)]
    Client(#[from] weft_client::Error),
    /// A worker failed, or died.
    #[error(transparent)]
    Crew(#[from] CrewError),
    /// A read returned a byte that was not written there.
    #[error(
        "WRONG DATA: byte {offset} of cell {cell} is {found}, but {expected} was written; discard the results of this run"
    )]
    WrongByte {
        /// The cell.
        cell: u32,
        /// The byte in the cell.
        offset: u64,
        /// What was read.
        found: u8,
        /// What was written.
        expected: u8,
    },
    /// As [`SuiteError::WrongByte`], where each record is a file.
    #[error(
        "WRONG DATA: byte {offset} of file {file} is {found}, but {expected} was written; discard the results of this run"
    )]
    WrongFile {
        /// The number of the file in its client's directory.
        file: u64,
        /// The byte in the file.
        offset: u64,
        /// What was read.
        found: u8,
        /// What was written.
        expected: u8,
    },
    /// A call moved another number of bytes than it was asked for.
    #[error("WRONG COUNT: {moved} bytes moved of {expected}; discard the results of this run")]
    WrongCount {
        /// Bytes moved.
        moved: u64,
        /// Bytes asked for.
        expected: u64,
    },
    /// A file has another size than it was made with.
    #[error("WRONG SIZE: a file of {expected} bytes has {found}; discard the results of this run")]
    WrongSize {
        /// What the file system said.
        found: u64,
        /// Bytes written.
        expected: u64,
    },
    /// What was asked for cannot be measured like this.
    #[error("{0}")]
    Asked(String),
    /// A part is not legal on the file's layout: an error in a case.
    #[error("this part of an experiment is not legal: {0}")]
    Part(String),
    /// A file, folder or program of this machine.
    #[error("{what} {}: {source}", path.display())]
    Local {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A program that was run failed.
    #[error("`{command}` failed: {said}")]
    Program {
        /// Its command line.
        command: String,
        /// Its last words.
        said: String,
    },
    /// A picture cannot be drawn.
    #[error("cannot draw: {0}")]
    Plot(String),
    /// The user ended it.
    #[error("{0}: nothing was left behind")]
    Interrupted(&'static str),
}

impl SuiteError {
    pub(crate) fn part(error: impl std::fmt::Display) -> SuiteError {
        SuiteError::Part(error.to_string())
    }

    pub(crate) fn local(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> SuiteError {
        let path = path.into();
        move |source| SuiteError::Local { what, path, source }
    }
}
