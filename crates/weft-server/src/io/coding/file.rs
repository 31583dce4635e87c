//! Coding one file: parity of a checkpoint of it, on other servers than its data.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use weft_layout::ServerId;
use weft_proto::io::{
    Access, Contiguous, Grid, Pattern, PatternKind, SyncRequest, View, ViewKind, WriteRequest,
};
use weft_proto::meta::ServerMapReply;
use weft_proto::parity::{
    BeginCodingRequest, CodeCellsRequest, Coding, EndCodingRequest, ParityState,
};
use weft_proto::stamp::Position;

use crate::io::Peers;
use crate::io::rows::{FileRows, PieceAt, forks, read_fork};
use crate::limits::CODING_ROWS;

/// Why a file was not coded.
pub(super) type Failed = String;

/// For each server of a file, the replica that is primary; 0: it has one store.
pub(super) fn primaries(map: &ServerMapReply, servers: &[u32]) -> Vec<u32> {
    let primary_of = |id: &u32| {
        let server = map.servers.iter().find(|server| server.id == *id)?;
        let primary = server.replicas.iter().find(|replica| replica.primary)?;
        Some(primary.number)
    };
    servers
        .iter()
        .map(|id| primary_of(id).unwrap_or(0))
        .collect()
}

/// Codes a file; on return its record says that it is.
pub(super) async fn code(peers: &Peers, file: &ParityState) -> Result<(), Failed> {
    let servers = &file.layout.servers;
    let before = primaries(&server_map(peers).await?, servers);
    if let Some(coded) = &file.coded
        && coded.primaries != before
    {
        restore(peers, file, coded, &before).await?;
    }
    let begun = peers
        .ask_meta(&BeginCodingRequest { file: file.file })
        .await;
    let state = begun.map_err(|e| e.to_string())?.state;
    let coding = state
        .coding
        .clone()
        .ok_or("it has begun to be coded again")?;
    let rows = FileRows::load(peers, &state, &coding).await?;
    let written = Written::default();
    stream::iter(0..rows.count())
        .map(|row| code_row(peers, &state, &rows, row, &written))
        .buffer_unordered(CODING_ROWS)
        .try_collect::<()>()
        .await?;
    written.sync(peers).await?;
    if primaries(&server_map(peers).await?, servers) != before {
        return Err("the primary of a server has changed meanwhile".into());
    }
    let coding = Coding {
        primaries: before,
        ..coding
    };
    let ended = EndCodingRequest {
        file: file.file,
        coding,
    };
    let ended = peers.ask_meta(&ended).await;
    ended.map(drop).map_err(|e| e.to_string())
}

/// Tells the servers of a coded file that their backups need not keep its blocks.
pub(super) async fn tell(peers: &Peers, file: &ParityState, coded: &Coding) -> Result<(), Failed> {
    for (slot, server) in (0_u32..).zip(&file.layout.servers) {
        let has_cells = slot < file.layout.cells;
        let of_file = CodeCellsRequest {
            file: file.file,
            checkpoint: coded.checkpoint,
        };
        let of_parity = CodeCellsRequest {
            file: coded.parity_file,
            checkpoint: 0,
        };
        let calls = [Some(of_file).filter(|_| has_cells), Some(of_parity)];
        for call in calls.into_iter().flatten() {
            peers.call(ServerId(*server), &call).await?;
        }
    }
    Ok(())
}

async fn server_map(peers: &Peers) -> Result<ServerMapReply, Failed> {
    peers.server_map().await.map_err(|e| e.to_string())
}

/// Lets servers whose primaries have changed bring back all bytes of a file that they have only in
/// rows.
async fn restore(
    peers: &Peers,
    file: &ParityState,
    coded: &Coding,
    now: &[u32],
) -> Result<(), Failed> {
    for (slot, server) in file.layout.servers.iter().enumerate() {
        if coded.primaries.get(slot) == now.get(slot) || slot >= file.layout.cells as usize {
            continue;
        }
        let server = ServerId(*server);
        for ((cell, fork), length) in forks(peers, server, file.file, 0).await? {
            let piece = PieceAt {
                server,
                file: file.file,
                checkpoint: 0,
                cell,
                fork,
                bytes: 0..length,
            };
            let mut at = 0;
            while at < length {
                let end = length.min(at + weft_parity::PART_BYTES);
                read_fork(peers, &piece, at..end, true).await?;
                at = end;
            }
        }
    }
    Ok(())
}

/// Computes the parity of a row, and writes it.
async fn code_row(
    peers: &Peers,
    file: &ParityState,
    rows: &FileRows,
    row: u64,
    written: &Written,
) -> Result<(), Failed> {
    let pieces = rows.pieces(row);
    let k = rows.code().shape().data() as usize;
    let (data, parity) = pieces.split_at(k);
    let longest = data
        .iter()
        .flatten()
        .map(|piece| piece.bytes.end - piece.bytes.start);
    let Some(length) = longest.max().filter(|length| *length > 0) else {
        return Ok(());
    };
    let reads = data.iter().map(|piece| async move {
        let mut bytes = match piece {
            Some(piece) => read_fork(peers, piece, piece.bytes.clone(), false).await?,
            None => Vec::new(),
        };
        bytes.resize(length as usize, 0);
        Ok::<_, Failed>(bytes)
    });
    let data = futures_util::future::try_join_all(reads).await?;
    let computed = rows.code().parity(&data).map_err(|e| e.to_string())?;
    let writes = parity.iter().flatten().zip(computed);
    let writes = writes.map(|(piece, bytes)| write_piece(peers, file, piece, bytes, written));
    futures_util::future::try_join_all(writes).await?;
    Ok(())
}

async fn write_piece(
    peers: &Peers,
    file: &ParityState,
    piece: &PieceAt,
    bytes: Vec<u8>,
    written: &Written,
) -> Result<(), Failed> {
    let slots = file.layout.servers.len() as u32;
    let (offset, length) = (piece.bytes.start, bytes.len() as u64);
    let request = WriteRequest {
        access: Access {
            file: piece.file,
            grid: Grid {
                cells: slots,
                bsu: weft_parity::PART_BYTES,
                servers: slots,
            },
            view: View {
                kind: Some(ViewKind::Cell(piece.cell)),
            },
            pattern: Pattern {
                kind: Some(PatternKind::Contiguous(Contiguous { offset, length })),
            },
            slot: piece.cell,
            fork: piece.fork.clone(),
            epoch: 0,
            checkpoint: 0,
        },
        chunk: file.layout.chunk,
        bytes: length,
        ..WriteRequest::default()
    };
    let connection = peers.connection(piece.server).await;
    let connection = connection.map_err(|failure| failure.message)?;
    let sent = async {
        let outgoing = connection
            .send(&request, vec![Bytes::from(bytes)], true)
            .await?;
        outgoing.stamped_reply().await
    };
    let (_, stamp) = sent
        .await
        .map_err(|e| format!("server {}: {e}", piece.server))?;
    let at = stamp
        .changed
        .ok_or("a server has not said where it wrote parity")?;
    written.note(piece.server, at);
    Ok(())
}

/// The positions of what was written, by server.
#[derive(Default)]
struct Written(Mutex<BTreeMap<ServerId, BTreeMap<u64, u64>>>);

impl Written {
    fn note(&self, server: ServerId, at: Position) {
        let mut all = self.0.lock();
        let last = all.entry(server).or_default().entry(at.incarnation);
        let last = last.or_insert(0);
        *last = at.sequence.max(*last);
    }

    /// Makes all of it survive power loss.
    async fn sync(self, peers: &Peers) -> Result<(), Failed> {
        for (server, positions) in self.0.into_inner() {
            let positions = positions.into_iter();
            let request = SyncRequest {
                file: 0,
                written: positions
                    .map(|(incarnation, sequence)| Position {
                        incarnation,
                        sequence,
                    })
                    .collect(),
                check_only: false,
            };
            let synced = peers.call(server, &request).await;
            synced.map_err(|e| format!("server {server}: {e}"))?;
        }
        Ok(())
    }
}
