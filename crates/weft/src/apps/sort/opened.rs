//! The files of a sort as a worker opens them: in a volume, through views; or on any file system,
//! through POSIX calls.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_client::{File, OpenView, Volume};
use weft_layout::{CellIndex, View};

use super::mesh::Mesh;
use super::posix::{PosixFile, PosixSpace, Runs};
use crate::apps::stream::{self, Space};

/// A file that the leader hands over.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Handed {
    /// An attachment.
    Weft(Vec<u8>),
    /// A path.
    Posix(PathBuf),
}

/// The same file, open.
pub(crate) enum Opened {
    Weft(File),
    Posix(PosixFile),
}

/// What a worker sees of a file.
pub(crate) enum Seen {
    Weft(Box<OpenView>),
    Posix(PosixSpace),
}

impl Opened {
    /// Opens it.
    pub(crate) fn new(volume: Option<&Volume>, handed: &Handed) -> Result<Opened> {
        Ok(match handed {
            Handed::Weft(attachment) => {
                let volume = volume.ok_or_else(|| anyhow!("no volume to find the file in"))?;
                Opened::Weft(volume.adopt(attachment)?)
            }
            Handed::Posix(path) => Opened::Posix(PosixFile::open(path)?),
        })
    }

    /// All of it, in canonical order.
    pub(crate) fn whole(&self) -> Result<Seen> {
        self.seen(View::canonical(), Runs::from(0))
    }

    /// One cell; on a path cells follow one another, and this one begins at `start`.
    pub(crate) fn cell(&self, start: u64, cell: u32) -> Result<Seen> {
        self.seen(View::Cell(CellIndex(cell)), Runs::from(start))
    }

    /// A worker's rows of a group of cells.
    pub(crate) fn rows(&self, mesh: &Mesh, round: u32, group: u32, worker: u32) -> Result<Seen> {
        let view = mesh.rows_view(round, group, worker);
        self.seen(view, Runs::rows(mesh, round, group, worker))
    }

    fn seen(&self, view: View, runs: Runs) -> Result<Seen> {
        Ok(match self {
            Opened::Weft(file) => Seen::Weft(Box::new(file.view(view)?)),
            Opened::Posix(file) => Seen::Posix(file.space(runs)),
        })
    }

    /// Before a phase reads: the kernel forgets what it keeps of a file on a path, so that the file
    /// system is asked.
    pub(crate) fn forget(&self) -> Result<()> {
        match self {
            Opened::Weft(_) => Ok(()),
            Opened::Posix(file) => file.forget(),
        }
    }
}

impl Space for Seen {
    async fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<u64> {
        match self {
            Seen::Weft(view) => Space::read_at(&**view, at, buffer).await,
            Seen::Posix(space) => space.read_at(at, buffer),
        }
    }

    async fn write_all(&self, at: u64, data: Bytes) -> Result<()> {
        match self {
            Seen::Weft(view) => stream::write_all(view, at, data).await,
            Seen::Posix(space) => space.write_all(at, &data),
        }
    }
}
