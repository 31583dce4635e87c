//! Where the pieces of the rows of a coded file lie.

use std::ops::Range;

use weft_layout::{Layout, ServerId};
use weft_parity::{Code, Item, PART_BYTES, Piece, Rows as RowsOf, Shape, SlotParts};
use weft_proto::io::{CellStatusRequest, ForkPlace};
use weft_proto::parity::{Coding, ParityState};
use weft_proto::parity_from_wire;

use tokio::time::{Instant, sleep, timeout};

use crate::io::Peers;
use crate::limits::{FORKS_RETRY, PIECE_TIMEOUT, REPLICA_WAIT};

/// The cell and the name of a fork.
type Place = (u32, String);

/// The fork of a parity file.
const PARITY_FORK: &str = "data";

/// A file as it was coded, or is being coded.
pub(in crate::io) struct FileRows {
    file: u64,
    coding: Coding,
    servers: Vec<ServerId>,
    rows: RowsOf,
    code: Code,
    /// What each slot has of the file.
    parts: Vec<SlotParts<Place>>,
}

/// Where the bytes of a piece are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::io) struct PieceAt {
    pub(in crate::io) server: ServerId,
    pub(in crate::io) file: u64,
    /// 0: the current file.
    pub(in crate::io) checkpoint: u64,
    pub(in crate::io) cell: u32,
    pub(in crate::io) fork: String,
    pub(in crate::io) bytes: Range<u64>,
}

impl FileRows {
    /// Asks the servers of a file for the forks of the checkpoint.
    pub(in crate::io) async fn load(
        peers: &Peers,
        state: &ParityState,
        coding: &Coding,
    ) -> Result<FileRows, String> {
        let layout = Layout::try_from(&state.layout).map_err(|e| e.to_string())?;
        let shape = shape_of(coding)?;
        let servers = layout.servers().to_vec();
        let rows = RowsOf::new(shape, servers.len() as u32);
        let rows = rows.ok_or("the file has fewer servers than a row has pieces")?;
        let in_use = layout.servers_in_use().len();
        let mut parts = Vec::with_capacity(servers.len());
        for (slot, server) in servers.iter().enumerate() {
            let forks = if slot < in_use {
                forks_in_time(peers, *server, state.file, coding.checkpoint).await?
            } else {
                Vec::new()
            };
            parts.push(SlotParts::new(forks));
        }
        Ok(FileRows {
            file: state.file,
            coding: coding.clone(),
            servers,
            rows,
            code: Code::new(shape),
            parts,
        })
    }

    pub(in crate::io) fn code(&self) -> &Code {
        &self.code
    }

    /// How many rows there are.
    pub(in crate::io) fn count(&self) -> u64 {
        let most = self.parts.iter().map(SlotParts::count).max();
        self.rows.count(most.unwrap_or(0))
    }

    /// The pieces of a row, data first. `None`: a piece of data that its slot does not have, which
    /// counts as zeros.
    pub(in crate::io) fn pieces(&self, row: u64) -> Vec<Option<PieceAt>> {
        let pieces = self.rows.pieces(row).into_iter();
        pieces.map(|piece| self.piece_at(row, piece)).collect()
    }

    fn piece_at(&self, row: u64, piece: Piece) -> Option<PieceAt> {
        let server = self.servers[piece.slot() as usize];
        match piece {
            Piece::Data(Item { slot, part }) => {
                let at = self.parts[slot as usize].at(part)?;
                Some(PieceAt {
                    server,
                    file: self.file,
                    checkpoint: self.coding.checkpoint,
                    cell: at.fork.0,
                    fork: at.fork.1.clone(),
                    bytes: at.bytes,
                })
            }
            Piece::Parity { slot } => Some(PieceAt {
                server,
                file: self.coding.parity_file,
                checkpoint: 0,
                cell: slot,
                fork: PARITY_FORK.to_owned(),
                bytes: row * PART_BYTES..(row + 1) * PART_BYTES,
            }),
        }
    }

    /// The row that has a byte of a fork of the file, or of its parity file, and the number of the
    /// piece in it; `None`: the byte is in no row.
    pub(in crate::io) fn find(
        &self,
        file: u64,
        (cell, fork): (u32, &str),
        offset: u64,
    ) -> Option<(u64, usize)> {
        if file == self.coding.parity_file {
            let row = offset / PART_BYTES;
            let pieces = self.rows.pieces(row);
            let parity = Piece::Parity { slot: cell };
            let at = pieces.iter().position(|piece| *piece == parity);
            return Some((row, at?)).filter(|_| row < self.count());
        }
        let slot = cell % self.servers.len() as u32;
        let place = (cell, fork.to_owned());
        let part = self.parts[slot as usize].find(&place, offset)?;
        let (row, at) = self.rows.of(Item { slot, part });
        Some((row, at as usize))
    }
}

fn shape_of(coding: &Coding) -> Result<Shape, String> {
    let shape = parity_from_wire(coding.shape).map_err(|e| e.to_string())?;
    shape.ok_or_else(|| "the file has no parity".to_owned())
}

/// As [`forks`]; waits while a backup takes the place of a lost primary.
async fn forks_in_time(
    peers: &Peers,
    server: ServerId,
    file: u64,
    checkpoint: u64,
) -> Result<Vec<(Place, u64)>, String> {
    let deadline = Instant::now() + REPLICA_WAIT;
    loop {
        let asked = timeout(PIECE_TIMEOUT, forks(peers, server, file, checkpoint)).await;
        let reason = match asked {
            Ok(Ok(forks)) => return Ok(forks),
            Ok(Err(reason)) => reason,
            Err(_) => "it has not answered in time".to_owned(),
        };
        if Instant::now() > deadline {
            return Err(format!("the forks on server {server}: {reason}"));
        }
        sleep(FORKS_RETRY).await;
    }
}

/// The forks of a file on a server, or of a checkpoint of it, with their lengths.
pub(in crate::io) async fn forks(
    peers: &Peers,
    server: ServerId,
    file: u64,
    checkpoint: u64,
) -> Result<Vec<(Place, u64)>, String> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let request = CellStatusRequest {
            file,
            after: after.take(),
            fork: String::new(),
            checkpoint,
        };
        let reply = peers.call(server, &request).await?;
        if reply.doubted {
            return Err(format!("data of server {server} is in doubt"));
        }
        after = reply.forks.last().map(|last| ForkPlace {
            cell: last.cell,
            fork: last.fork.clone(),
        });
        let forks = reply.forks.into_iter();
        found.extend(forks.map(|fork| ((fork.cell, fork.fork), fork.length)));
        if !reply.more || after.is_none() {
            return Ok(found);
        }
    }
}
