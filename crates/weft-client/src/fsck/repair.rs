//! Repairs: their order, and the calls that make them.

use std::collections::BTreeSet;

use weft_layout::{FileId, ServerId, ServerSlot};
use weft_proto::Code;
use weft_proto::fsck::{
    AdoptFileRequest, Fault, FileState, Finding, RepairNamespaceReply, RepairNamespaceRequest,
};
use weft_proto::io::{CreateForkRequest, ForkPlace};

use super::compare::Known;
use super::layout::fitting;
use super::{Fsck, locked};
use crate::Error;
use crate::volume::Repeat;

/// What became of a finding.
pub(super) enum Done {
    /// It was repaired, in words.
    Repaired(String),
    /// Nothing can be done.
    Left,
    /// It is not so any more.
    Gone,
}

/// Repairs in this order do not undo one another: inodes before what counts them.
pub(super) fn rank(fault: i32) -> u32 {
    match Fault::try_from(fault) {
        // Counted first, usage follows what other repairs change.
        Ok(Fault::DeleteOwed | Fault::Usage | Fault::Refused) => 0,
        Ok(Fault::LostCells) => 1,
        Ok(Fault::Record) => 2,
        Ok(Fault::NoInode | Fault::NoLayout) => 3,
        Ok(Fault::EntryKind | Fault::NoDirectory) => 4,
        Ok(Fault::SecondName | Fault::Circle | Fault::Parent) => 5,
        Ok(Fault::Orphan) => 6,
        Ok(Fault::NoName) => 7,
        Ok(Fault::InlineBytes) => 8,
        Ok(Fault::Counter) => 11,
        Ok(Fault::Entries | Fault::Links) => 10,
        _ => 9,
    }
}

impl Fsck<'_> {
    pub(super) async fn repair(&self, finding: &Finding) -> Result<Done, Error> {
        match Fault::try_from(finding.fault) {
            Ok(Fault::Emptied | Fault::CheckpointMissing) if !self.accepts(finding) => {
                Ok(Done::Left)
            }
            Ok(Fault::Emptied) => self.accept(finding, None).await,
            Ok(Fault::CheckpointMissing) => self.accept(finding, Some(finding.expected)).await,
            _ if !self.options.repair => Ok(Done::Left),
            Ok(Fault::LostCells) => self.adopt(finding.file).await,
            Ok(Fault::NoInode | Fault::NoLayout) => match self.adopt(finding.file).await? {
                Done::Repaired(what) => Ok(Done::Repaired(what)),
                // There are no cells to infer anything from.
                Done::Left | Done::Gone => self.ask(finding, None).await,
            },
            Ok(Fault::Misplaced | Fault::InlineCells | Fault::ChunkSize) => {
                self.place(finding).await
            }
            Ok(Fault::Removed | Fault::IdRemoved) => self.release(finding).await,
            Ok(Fault::PartRemoved | Fault::Unproven | Fault::Unknown) | Err(_) => Ok(Done::Left),
            Ok(_) => self.ask(finding, None).await,
        }
    }

    /// Whether the administrator takes what a server lost of a file as empty.
    fn accepts(&self, finding: &Finding) -> bool {
        let (files, servers) = (&self.options.accept_files, &self.options.accept_servers);
        let on = finding.server.map(ServerId);
        files.contains(&FileId(finding.file)) || on.is_some_and(|on| servers.contains(&on))
    }

    /// What is known now of the file of a finding, if it still holds.
    async fn still(
        &self,
        finding: &Finding,
        servers: BTreeSet<u32>,
    ) -> Result<Option<Known>, Error> {
        let known = self.look(&[(finding.file, servers)]).await?.pop();
        let servers = self.known_servers();
        Ok(known.filter(|known| known.compare(&servers).contains(finding)))
    }

    /// Cells and layout of a file do not agree: if most cells contradict the layout it is replaced
    /// by one that fits, else the cell is quarantined.
    async fn place(&self, finding: &Finding) -> Result<Done, Error> {
        let all = self.servers.iter().copied().collect();
        let Some(known) = self.still(finding, all).await? else {
            return Ok(Done::Gone);
        };
        // A server that cannot be asked may have more of it.
        if !locked(&self.down).is_empty() {
            return Ok(Done::Left);
        }
        // What its servers have was seen between two looks at it: bytes that were on their way to
        // its cells then are told by their time later.
        let now = self.files(0, vec![finding.file]).await?.files;
        if now.first() != Some(&known.state) {
            return Ok(Done::Left);
        }
        let Some(layout) = known.fitting_layout(&self.willing(&known)) else {
            return match Fault::try_from(finding.fault) {
                Ok(Fault::ChunkSize) => Ok(Done::Left),
                _ => match self.quarantine(&known, finding).await {
                    Err(Error::Refused { code, .. }) => Ok(match code {
                        // It was deleted meanwhile.
                        Code::Stale => Done::Gone,
                        // It cannot be read or written, or the caller may not: other repairs go on.
                        _ => Done::Left,
                    }),
                    done => done,
                },
            };
        };
        let request = AdoptFileRequest {
            file: finding.file,
            layout,
            known: known.known(),
            instead_of: known.state.layout.clone(),
            ..AdoptFileRequest::default()
        };
        let reply = (self.volume).meta("give a file another layout", &request, Repeat::Safe);
        Ok(outcome(reply.await?))
    }

    /// Lets what a server lost of a file, or of one of its checkpoints, count as empty, so that the
    /// rest can be used again.
    async fn accept(&self, finding: &Finding, checkpoint: Option<u64>) -> Result<Done, Error> {
        let server = finding.server.unwrap_or_default();
        let Some(known) = self.still(finding, [server].into()).await? else {
            return Ok(Done::Gone);
        };
        let Some(layout) = known.layout() else {
            return Ok(Done::Left);
        };
        let slot = layout.servers().iter().position(|s| s.0 == server);
        let slot = ServerSlot(slot.unwrap_or_default() as u32);
        let Some(cell) = layout.grid().cells_on(slot).next() else {
            return Ok(Done::Gone);
        };
        let request = CreateForkRequest {
            file: finding.file,
            place: ForkPlace {
                cell: cell.0,
                fork: "data".to_owned(),
            },
            chunk: layout.chunk_code(),
            accept_loss: true,
            checkpoint,
        };
        let id = ServerId(server);
        let accepted = self.volume.io("accept a loss", id, &request, Repeat::Safe);
        match accepted.await {
            // The server has deleted the file, and takes nothing of it any more.
            Err(Error::Refused {
                code: Code::Stale, ..
            }) => return Ok(Done::Left),
            accepted => drop(accepted?),
        }
        let at = if checkpoint.is_some() {
            " in the checkpoint"
        } else {
            ""
        };
        Ok(Done::Repaired(format!(
            "its cells there are empty{at}: what was lost reads as zeros, or is cut off"
        )))
    }

    /// A file that its servers have deleted goes, or gets another id, if no server holds anything
    /// of it.
    async fn release(&self, finding: &Finding) -> Result<Done, Error> {
        let all = self.servers.iter().copied().collect();
        let Some(known) = self.still(finding, all).await? else {
            return Ok(Done::Gone);
        };
        // A server that cannot be asked may have something of it.
        if !locked(&self.down).is_empty() {
            return Ok(Done::Left);
        }
        self.ask(finding, Some(known.state)).await
    }

    async fn ask(&self, finding: &Finding, seen: Option<FileState>) -> Result<Done, Error> {
        let request = RepairNamespaceRequest {
            finding: finding.clone(),
            seen,
        };
        let reply = self
            .volume
            .meta("repair the namespace", &request, Repeat::Safe)
            .await?;
        Ok(outcome(reply))
    }

    /// The servers, last those that have deleted a file and take nothing of it any more.
    fn willing(&self, known: &Known) -> Vec<u32> {
        let mut servers = self.servers.clone();
        servers.sort_by_key(|server| known.deleted.contains(server));
        servers
    }

    /// Gives cells that have none an inode, unless a server that cannot be asked may have more of
    /// them.
    async fn adopt(&self, file: u64) -> Result<Done, Error> {
        let known = self
            .look(&[(file, self.servers.iter().copied().collect())])
            .await?;
        let Some(known) = known.into_iter().next() else {
            return Ok(Done::Gone);
        };
        let state = &known.state;
        let blocked = state.owed || state.spilling || state.other;
        if !locked(&self.down).is_empty() || blocked {
            return Ok(Done::Left);
        }
        if known.cells.is_empty() && known.kept.is_empty() {
            return Ok(Done::Gone);
        }
        let Some(layout) = fitting(&known.cells, &self.willing(&known)) else {
            return Ok(Done::Left);
        };
        let mut placed = known.clone();
        placed.state.layout = Some(layout.clone());
        let size = placed
            .layout()
            .map_or(0, |layout| placed.cells_size(&layout));
        let request = AdoptFileRequest {
            file,
            layout,
            size,
            modified: known
                .cells
                .iter()
                .map(|(_, cell)| cell.modified)
                .max()
                .unwrap_or(0),
            known: format!("{}; the BSU is a guess", known.known()),
            instead_of: None,
        };
        let reply = self
            .volume
            .meta("adopt cells", &request, Repeat::Safe)
            .await?;
        Ok(outcome(reply))
    }
}

fn outcome(reply: RepairNamespaceReply) -> Done {
    match reply {
        RepairNamespaceReply { gone: true, .. } => Done::Gone,
        RepairNamespaceReply { done, .. } if done.is_empty() => Done::Left,
        RepairNamespaceReply { done, .. } => Done::Repaired(done),
    }
}
