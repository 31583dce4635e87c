//! The quarantine of cells that have no place in their file: they are copied to a file in
//! `/lost+found`, on the server that holds them, then removed.

use weft_layout::{
    BSU_DEFAULT, CHUNK_DEFAULT, CellIndex, ChunkCode, Layout, LayoutSpec, ServerId, View,
    of_chunk_code,
};
use weft_proto::Code;
use weft_proto::fsck::{CellState, Finding};
use weft_proto::io::{ForkPlace, ForkSeen, RemoveForkRequest};
use weft_proto::meta::AttachReply;

use super::Fsck;
use super::compare::Known;
use super::repair::Done;
use crate::io::copy_there;
use crate::limits::QUARANTINE_NAMES_MAX;
use crate::names::{Access, NewLayout};
use crate::volume::Repeat;
use crate::{Attributes, Error, File};

/// The directory of the copies.
const DIRECTORY: &str = "/lost+found";
/// The attribute of a copy that says what is known of it.
const KNOWN_ATTRIBUTE: &str = "user.weft.lost";

impl Fsck<'_> {
    /// Quarantines all forks of a finding's cell: each is removed when its copy is on stable
    /// storage.
    pub(super) async fn quarantine(&self, known: &Known, finding: &Finding) -> Result<Done, Error> {
        let (Some(server), Some(place)) = (finding.server, &finding.place) else {
            return Ok(Done::Left);
        };
        let forks: Vec<&CellState> = known
            .cells
            .iter()
            .filter(|(on, cell)| *on == server && cell.cell == place.cell)
            .map(|(_, cell)| cell)
            .collect();
        let Some(source) = self.stray(server, &forks) else {
            return Ok(Done::Left);
        };
        let target = self.lost_file(known.state.file, server, &forks).await?;
        let path = target.path().to_owned();
        let text = format!("{}; {}", finding.text, known.known());
        if let Err(error) = self.copy_forks(&source, target, &forks, text).await {
            // A partial copy is of no use.
            let _ = self.volume.unlink(path).await;
            return Err(error);
        }
        for fork in forks {
            let request = RemoveForkRequest {
                file: fork.file,
                place: ForkPlace {
                    cell: fork.cell,
                    fork: fork.fork.clone(),
                },
                // The service may be writing bytes of a small file to its cells.
                seen: Some(ForkSeen {
                    length: fork.length,
                    modified: fork.modified,
                }),
            };
            let what = "remove a cell that was copied to /lost+found";
            let removed = (self.volume).io(what, ServerId(server), &request, Repeat::Safe);
            if removed.await?.changed {
                return Ok(Done::Left);
            }
        }
        Ok(Done::Repaired(format!("copied to {path} and removed")))
    }

    /// Copies the forks of a cell and closes the file; on `Ok` the copy survives power loss.
    async fn copy_forks(
        &self,
        source: &File,
        target: File,
        forks: &[&CellState],
        text: String,
    ) -> Result<(), Error> {
        for fork in forks {
            if fork.fork != "data" {
                target.create_fork(CellIndex(0), &fork.fork).await?;
            }
            let from = source.view_of_fork(View::Cell(CellIndex(fork.cell)), &fork.fork)?;
            let to = target.view_of_fork(View::Cell(CellIndex(0)), &fork.fork)?;
            copy_there(&from, &to, fork.length).await?;
        }
        target.note_write(None);
        target.sync().await?;
        let path = target.path().to_owned();
        self.volume
            .set_xattr(path, KNOWN_ATTRIBUTE, text.into_bytes())
            .await?;
        target.close().await.map(drop)
    }

    /// The file as if it had only this server, so that each of its cells can be read there.
    fn stray(&self, server: u32, forks: &[&CellState]) -> Option<File> {
        let cell = forks.first()?;
        let (chunk, storage) = of_chunk_code(chunk_code_of(forks));
        let spec = LayoutSpec {
            cells: cell.cell.checked_add(1)?,
            bsu: BSU_DEFAULT,
            chunk,
            servers: vec![ServerId(server)],
            storage,
        };
        let layout = Layout::new(spec).ok()?;
        let reply = AttachReply {
            attributes: Attributes {
                id: cell.file,
                ..Attributes::default()
            },
            ..AttachReply::default()
        };
        let path = format!(
            "cell {} of file {} on server {server}",
            cell.cell, cell.file
        );
        let volume = self.volume.clone();
        let asked = crate::file::Asked::default();
        Some(File::new(volume, path, layout, reply, false, false, asked))
    }

    /// A new file for a cell, on the server of the cell.
    async fn lost_file(&self, file: u64, server: u32, forks: &[&CellState]) -> Result<File, Error> {
        match self.volume.make_directory(DIRECTORY, 0o700).await {
            Err(Error::Refused {
                code: Code::Exists, ..
            }) => {}
            made => drop(made?),
        }
        let (chunk, storage) = of_chunk_code(chunk_code_of(forks));
        let layout = NewLayout {
            cells: Some(1),
            chunk: Some(chunk),
            servers: vec![server],
            storage: Some(storage),
            ..NewLayout::default()
        };
        let cell = forks.first().map_or(0, |cell| cell.cell);
        let name = format!("{DIRECTORY}/file-{file}.cell-{cell}.server-{server}");
        let mut number = 1;
        loop {
            let path = match number {
                1 => name.clone(),
                number => format!("{name}.{number}"),
            };
            let access = Access::read_write().create_new(0o600).layout(&layout);
            match self.volume.attach(path, access).await {
                Err(Error::Refused {
                    code: Code::Exists, ..
                }) if number < QUARANTINE_NAMES_MAX => number += 1,
                made => return made,
            }
        }
    }
}

fn chunk_code_of(forks: &[&CellState]) -> ChunkCode {
    let fixed = forks
        .iter()
        .map(|fork| fork.chunk)
        .find(|chunk| *chunk != 0);
    fixed.unwrap_or(CHUNK_DEFAULT)
}
