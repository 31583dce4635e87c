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
pub(crate) enum HandedFile {
    /// An attachment.
    Weft(Vec<u8>),
    /// A path.
    Posix(PathBuf),
}

/// The same file, open.
pub(crate) enum OpenedFile {
    Weft(File),
    Posix(PosixFile),
}

/// The view of a worker on a file.
pub(crate) enum OpenedView {
    Weft(Box<OpenView>),
    Posix(PosixSpace),
}

impl OpenedFile {
    /// Opens it.
    pub(crate) fn new(volume: Option<&Volume>, handed: &HandedFile) -> Result<OpenedFile> {
        Ok(match handed {
            HandedFile::Weft(attachment) => {
                let volume = volume.ok_or_else(|| {
                    anyhow!("internal error: a sort in a volume without a volume")
                })?;
                OpenedFile::Weft(volume.adopt(attachment)?)
            }
            HandedFile::Posix(path) => OpenedFile::Posix(PosixFile::open(path)?),
        })
    }

    /// The whole file in canonical order.
    pub(crate) fn whole(&self) -> Result<OpenedView> {
        self.seen(View::canonical(), Runs::from(0))
    }

    /// One cell. On a path, cells follow one another, and this one begins at `start`.
    pub(crate) fn cell(&self, start: u64, cell: u32) -> Result<OpenedView> {
        self.seen(View::Cell(CellIndex(cell)), Runs::from(start))
    }

    /// A worker's rows of a group of cells.
    pub(crate) fn rows(
        &self,
        mesh: &Mesh,
        round: u32,
        group: u32,
        worker: u32,
    ) -> Result<OpenedView> {
        let view = mesh.rows_view(round, group, worker);
        self.seen(view, Runs::rows(mesh, round, group, worker))
    }

    fn seen(&self, view: View, runs: Runs) -> Result<OpenedView> {
        Ok(match self {
            OpenedFile::Weft(file) => OpenedView::Weft(Box::new(file.view(view)?)),
            OpenedFile::Posix(file) => OpenedView::Posix(file.space(runs)),
        })
    }

    /// Drops the kernel's cache of a file on a path before a phase reads it, so that reads reach
    /// the file system.
    pub(crate) fn forget(&self) -> Result<()> {
        match self {
            OpenedFile::Weft(_) => Ok(()),
            OpenedFile::Posix(file) => file.forget(),
        }
    }
}

impl Space for OpenedView {
    async fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<u64> {
        match self {
            OpenedView::Weft(view) => Space::read_at(&**view, at, buffer).await,
            OpenedView::Posix(space) => space.read_at(at, buffer),
        }
    }

    async fn write_all(&self, at: u64, data: Bytes) -> Result<()> {
        match self {
            OpenedView::Weft(view) => stream::write_all(view, at, data).await,
            OpenedView::Posix(space) => space.write_all(at, &data),
        }
    }
}
