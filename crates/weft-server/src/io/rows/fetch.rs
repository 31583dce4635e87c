//! Bytes of a piece, from its server.

use bytes::Bytes;
use tokio::time::timeout;
use weft_proto::parity::ReadPieceRequest;
use weft_proto::replica::ForkId;

use super::file::PieceAt;
use crate::io::Peers;
use crate::limits::{PIECE_READ_MAX, PIECE_TIMEOUT};

/// Bytes of a piece from its byte `from` on, filled up with zeros where the fork ends.
pub(super) async fn read_piece(
    peers: &Peers,
    piece: &PieceAt,
    from: u64,
    length: u64,
) -> Result<Vec<u8>, String> {
    let start = piece.bytes.start + from;
    let end = (start + length).min(piece.bytes.end).max(start);
    let mut data = read_fork(peers, piece, start..end, false).await?;
    data.resize(length as usize, 0);
    Ok(data)
}

/// Bytes of a fork; fewer where it ends.
pub(in crate::io) async fn read_fork(
    peers: &Peers,
    piece: &PieceAt,
    range: std::ops::Range<u64>,
    restore: bool,
) -> Result<Vec<u8>, String> {
    let server = piece.server;
    let mut data = Vec::with_capacity((range.end - range.start) as usize);
    let mut at = range.start;
    while at < range.end {
        let length = (range.end - at).min(PIECE_READ_MAX);
        let request = ReadPieceRequest {
            fork: ForkId {
                file: piece.file,
                cell: piece.cell,
                fork: piece.fork.clone(),
            },
            checkpoint: piece.checkpoint,
            offset: at,
            length,
            restore,
        };
        let reply = timeout(PIECE_TIMEOUT, peers.call(server, &request)).await;
        let reply = reply.map_err(|_| "it has not answered in time".to_owned());
        let found: Bytes = match reply.and_then(|reply| reply) {
            Ok(reply) => reply.data,
            Err(error) => return Err(format!("server {server}: {error}")),
        };
        data.extend_from_slice(&found);
        if (found.len() as u64) < length {
            break;
        }
        at += length;
    }
    Ok(data)
}
