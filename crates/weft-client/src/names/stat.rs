//! Attributes, exact: what the metadata service has, and the servers' lengths where a client
//! writes.

use futures_util::future::try_join_all;
use weft_layout::{CellIndex, Layout};
use weft_proto::io::{CellStatusRequest, ForkPlace, ForkState};
use weft_proto::meta::{self, StatRequest};

use crate::volume::Repeat;
use crate::{Error, Place, Volume};

pub use weft_proto::meta::{Attributes, FileKind};

pub(crate) fn kind_name(attributes: &Attributes) -> &'static str {
    match FileKind::try_from(attributes.kind).unwrap_or(FileKind::Unspecified) {
        FileKind::Unspecified => "file of unknown kind",
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::BlockDevice => "block device",
        FileKind::CharDevice => "character device",
    }
}

/// Where the bytes of a file lie on its servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    /// The file whose cells they are in.
    pub(crate) file: u64,
    /// The checkpoint of it; 0: as it is.
    pub(crate) checkpoint: u64,
}

impl Cells {
    pub(crate) fn of(attributes: &Attributes) -> Cells {
        Cells {
            file: match attributes.source {
                0 => attributes.id,
                source => source,
            },
            checkpoint: attributes.checkpoint,
        }
    }
}

pub(crate) fn is_regular(attributes: &Attributes) -> bool {
    attributes.kind == FileKind::Regular as i32
}

/// What the servers of a file say of its forks.
pub(crate) struct ForkStates {
    pub(crate) forks: Vec<ForkState>,
    /// It is in doubt whether some are longer, or others are there.
    pub(crate) doubted: bool,
}

/// The size that these `data` forks give a file.
pub(crate) fn size_of(layout: &Layout, forks: &[ForkState]) -> u64 {
    let grid = layout.grid();
    forks
        .iter()
        .filter(|f| f.fork == "data" && f.cell < grid.cells())
        .map(|f| grid.file_size(CellIndex(f.cell), f.length))
        .max()
        .unwrap_or(0)
}

impl Volume {
    /// Attributes of what a path leads to, symbolic links followed. One request, and one to each
    /// server of the file while any client has it attached for writing.
    pub async fn stat(&self, path: impl Into<Place>) -> Result<Attributes, Error> {
        self.stat_target(&path.into(), true).await
    }

    /// As [`Volume::stat`], but of a symbolic link itself.
    pub async fn stat_link(&self, path: impl Into<Place>) -> Result<Attributes, Error> {
        self.stat_target(&path.into(), false).await
    }

    /// Attributes as the metadata service knows them, symbolic links not followed: one request.
    /// Where the size is not exact, [`Volume::exact`] completes them.
    pub async fn known_attributes(&self, place: impl Into<Place>) -> Result<Attributes, Error> {
        self.known(&place.into(), false).await
    }

    async fn stat_target(&self, place: &Place, follow: bool) -> Result<Attributes, Error> {
        let attributes = self.known(place, follow).await?;
        self.exact(&format!("stat {place}"), attributes).await
    }

    async fn known(&self, place: &Place, follow: bool) -> Result<Attributes, Error> {
        let request = StatRequest {
            who: (*self.who).clone(),
            target: place.target(follow)?,
        };
        let what = format!("stat {place}");
        let reply: meta::StatReply = self.meta(&what, &request, Repeat::Safe).await?;
        Ok(reply.attributes)
    }

    /// Completes attributes whose size is not exact by asking the file's servers.
    pub async fn exact(&self, what: &str, mut attributes: Attributes) -> Result<Attributes, Error> {
        if attributes.size_exact || !is_regular(&attributes) {
            return Ok(attributes);
        }
        let Some(layout) = &attributes.layout else {
            return Ok(attributes);
        };
        let layout = Layout::try_from(layout).map_err(|e| Error::of_convert(what, &e))?;
        let states = self
            .fork_states(what, Cells::of(&attributes), &layout, "data")
            .await?;
        let forks = states.forks;
        let least = if states.doubted { attributes.size } else { 0 };
        attributes.size = size_of(&layout, &forks).max(least);
        let written = forks.iter().map(|f| f.modified).max().unwrap_or(i64::MIN);
        if written > attributes.modified_set {
            attributes.modified = attributes.modified.max(written);
        }
        Ok(attributes)
    }

    /// Every fork of every cell of the file with these attributes, ascending by cell and name,
    /// without attaching it: one request to each server. Nothing for what is no regular file.
    pub async fn forks(&self, attributes: &Attributes) -> Result<Vec<ForkState>, Error> {
        let what = "list the forks of a file";
        let Some(layout) = attributes
            .layout
            .as_ref()
            .filter(|_| is_regular(attributes))
        else {
            return Ok(Vec::new());
        };
        let layout = Layout::try_from(layout).map_err(|e| Error::of_convert(what, &e))?;
        let states = self.fork_states(what, Cells::of(attributes), &layout, "");
        Ok(states.await?.forks)
    }

    /// Lengths and times of a file's forks on all its servers, ascending by cell and name; `fork`
    /// empty: all forks.
    pub(crate) async fn fork_states(
        &self,
        what: &str,
        cells: Cells,
        layout: &Layout,
        fork: &str,
    ) -> Result<ForkStates, Error> {
        let asks = layout.servers_in_use().iter().map(|server| async move {
            let (mut forks, mut doubted) = (Vec::<ForkState>::new(), false);
            loop {
                let after = forks.last().map(|f| ForkPlace {
                    cell: f.cell,
                    fork: f.fork.clone(),
                });
                let request = CellStatusRequest {
                    file: cells.file,
                    after,
                    fork: fork.to_owned(),
                    checkpoint: cells.checkpoint,
                };
                let page = self.io(what, *server, &request, Repeat::Safe).await?;
                forks.extend(page.forks);
                doubted |= page.doubted;
                if !page.more {
                    return Ok::<_, Error>(ForkStates { forks, doubted });
                }
            }
        });
        let states = try_join_all(asks).await?;
        let doubted = states.iter().any(|server| server.doubted);
        let mut forks: Vec<_> = states.into_iter().flat_map(|server| server.forks).collect();
        forks.sort_by(|a, b| (a.cell, &a.fork).cmp(&(b.cell, &b.fork)));
        Ok(ForkStates { forks, doubted })
    }
}
