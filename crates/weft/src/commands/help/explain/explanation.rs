//! What a call would do, worked out from attributes alone: the same arithmetic as the client's and
//! the servers'.
//!
//! Absent on purpose: data and lengths of cells. A read sends no bytes that lie beyond a cell's
//! end, so the result is the most that can travel.

use std::ops::Range;

use anyhow::{Result, bail};
use serde::Serialize;
use weft_layout::{Layout, Map, Pattern, Request, ServerSlot, View, ViewOffset};

use super::chunks::ExplainedChunks;
use crate::limits::EXPLAINED_PIECES_MAX;
use crate::terminal::output::{self, count};

/// Payload bytes of one frame, on the way in and out.
const FRAME: u64 = 512 << 10;

/// A request, explained.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Explanation {
    /// First byte in the view.
    pub(crate) offset: u64,
    /// Bytes in the view.
    pub(crate) length: u64,
    /// Requests: one to each server.
    pub(crate) requests: u64,
    /// Messages both ways, requests and answers included.
    pub(crate) messages: u64,
    /// Pieces on all servers.
    pub(crate) pieces: u64,
    /// Bytes that lie in cells.
    pub(crate) bytes: u64,
    /// Bytes that fall on ghosts.
    pub(crate) ghost_bytes: u64,
    /// The ghosts among the view's cells, if it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ghosts: Option<Range<u64>>,
    /// What each server does.
    pub(crate) servers: Vec<ServerShare>,
    /// The chunks of what would be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) chunks: Option<ExplainedChunks>,
}

/// One server's share of a request.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ServerShare {
    /// The server.
    pub(crate) server: u32,
    /// Where the client reaches it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    /// Its replicas, to which it sends what is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<usize>,
    /// The cells that the request touches.
    pub(crate) cells: Vec<u32>,
    /// Messages both ways.
    pub(crate) messages: u64,
    /// Its pieces.
    pub(crate) pieces: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// The first pieces.
    pub(crate) first: Vec<Piece>,
}

/// One piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Piece {
    /// The cell.
    pub(crate) cell: u32,
    /// First byte in the cell.
    pub(crate) offset: u64,
    /// Bytes.
    pub(crate) length: u64,
    /// Where it lies in the caller's memory.
    pub(crate) memory: u64,
}

/// The request to explain.
pub(crate) struct ExplainedRequest {
    request: Request,
    offset: ViewOffset,
    /// Bytes in all.
    length: u64,
}

impl ExplainedRequest {
    pub(crate) fn bytes(offset: ViewOffset, length: u64) -> ExplainedRequest {
        ExplainedRequest {
            request: Request::Contiguous { offset, length },
            offset,
            length,
        }
    }

    pub(crate) fn pattern(offset: ViewOffset, pattern: &Pattern) -> Result<ExplainedRequest> {
        Ok(ExplainedRequest {
            request: Request::new(offset, pattern)?,
            offset,
            length: pattern.length()?,
        })
    }
}

/// Explains a request; keeps the first `shown` pieces of each server.
pub(crate) fn explain(
    map: &Map,
    layout: &Layout,
    request: &ExplainedRequest,
    shown: usize,
) -> Result<Explanation> {
    let mut servers = Vec::new();
    for slot in map.slots(&request.request)? {
        servers.push(share_of_server(map, layout, &request.request, slot, shown)?);
    }
    let bytes = servers.iter().map(|p| p.bytes).sum();
    Ok(Explanation {
        offset: request.offset.0,
        length: request.length,
        requests: servers.len() as u64,
        messages: servers.iter().map(|p| p.messages).sum(),
        pieces: servers.iter().map(|p| p.pieces).sum(),
        bytes,
        ghost_bytes: request.length - bytes,
        ghosts: ghosts(map),
        servers,
        chunks: None,
    })
}

fn share_of_server(
    map: &Map,
    layout: &Layout,
    request: &Request,
    slot: ServerSlot,
    shown: usize,
) -> Result<ServerShare> {
    let server = layout.servers()[slot.0 as usize].0;
    let mut share = ServerShare {
        server,
        address: None,
        replicas: None,
        cells: Vec::new(),
        messages: 0,
        pieces: 0,
        bytes: 0,
        first: Vec::new(),
    };
    let mut cells = vec![false; layout.cells() as usize];
    for piece in map.pieces(request, slot)? {
        if share.pieces == EXPLAINED_PIECES_MAX {
            bail!(
                "the request has more than {EXPLAINED_PIECES_MAX} pieces on server {server}: explain fewer bytes, and multiply"
            );
        }
        share.pieces += 1;
        share.bytes += piece.length;
        cells[piece.cell.0 as usize] = true;
        if share.first.len() < shown {
            share.first.push(Piece {
                cell: piece.cell.0,
                offset: piece.offset.0,
                length: piece.length,
                memory: piece.memory,
            });
        }
    }
    let touched = cells.iter().zip(0..).filter(|(touched, _)| **touched);
    share.cells = touched.map(|(_, cell)| cell).collect();
    // The request, and the data: a write's first data travels with the request and ends in an
    // answer, a read's first data travels with the answer; so both come to the same number.
    share.messages = 1 + share.bytes.div_ceil(FRAME).max(1);
    Ok(share)
}

/// The cells that the view implies but the file does not have.
fn ghosts(map: &Map) -> Option<Range<u64>> {
    let View::Subfile(subfile) = map.view() else {
        return None;
    };
    let cells = u64::from(map.grid().cells());
    let width = subfile.hbs * subfile.hn;
    // Only the last group of cells can reach beyond the file's.
    let left = (cells - 1) / width * width + subfile.index % subfile.hn * subfile.hbs;
    let ghosts = left.max(cells)..left + subfile.hbs;
    (!ghosts.is_empty()).then_some(ghosts)
}

impl Explanation {
    /// One line.
    pub(crate) fn summary(&self) -> String {
        let requests = count(self.requests, "request");
        let servers = count(self.requests, "server");
        let pieces = count(self.pieces, "piece");
        format!(
            "{requests} to {servers}, {}, {pieces}, {}",
            count(self.messages, "message"),
            output::bytes(self.bytes)
        )
    }

    /// The line about bytes that fall on ghosts, if any do or could.
    pub(crate) fn ghost_line(&self) -> Option<String> {
        let ghosts = self.ghosts.as_ref()?;
        let cells = if ghosts.end - ghosts.start == 1 {
            format!("cell {} is a ghost", ghosts.start)
        } else {
            format!("cells {} to {} are ghosts", ghosts.start, ghosts.end - 1)
        };
        Some(format!(
            "{cells}: the view implies cells that the file lacks; {} of this request are discarded",
            output::bytes(self.ghost_bytes)
        ))
    }
}

#[cfg(test)]
mod tests {
    use weft_layout::{LayoutSpec, Order, Partition, ServerId, Storage, Subfile};

    use super::*;

    fn layout(cells: u32, bsu: u64, servers: u32) -> Layout {
        let servers = (10..10 + servers).map(ServerId).collect();
        Layout::new(LayoutSpec {
            cells,
            bsu,
            chunk: 4096,
            servers,
            storage: Storage::Plain,
        })
        .unwrap()
    }

    fn explained(layout: &Layout, view: View, offset: u64, length: u64) -> Explanation {
        let map = Map::new(layout.grid(), view).unwrap();
        let asked = ExplainedRequest::bytes(ViewOffset(offset), length);
        explain(&map, layout, &asked, 2).unwrap()
    }

    #[test]
    fn a_pattern_is_one_request_to_each_server_it_touches() {
        let layout = layout(4, 65_536, 4);
        let map = Map::new(layout.grid(), View::canonical()).unwrap();
        let records = Pattern::bytes(64).every(256).times(4096);
        let asked = ExplainedRequest::pattern(ViewOffset(64), &records).unwrap();
        let e = explain(&map, &layout, &asked, 1).unwrap();
        assert_eq!(
            e.summary(),
            "4 requests to 4 servers, 8 messages, 4096 pieces, 256.0 KiB"
        );
        assert_eq!((e.offset, e.servers[1].first[0].offset), (64, 64));
    }

    #[test]
    fn canonical_order_distributes_bsus_over_all_servers() {
        let e = explained(&layout(4, 65_536, 4), View::canonical(), 0, 1 << 20);
        assert_eq!(
            e.summary(),
            "4 requests to 4 servers, 8 messages, 16 pieces, 1.0 MiB"
        );
        assert_eq!(e.ghosts, None);
        for (i, part) in (0..).zip(&e.servers) {
            assert_eq!((part.server, part.pieces, part.bytes), (10 + i, 4, 1 << 18));
            assert_eq!(part.cells, [i]);
            let memory = u64::from(i) * 65_536;
            let first = Piece {
                cell: i,
                offset: 0,
                length: 65_536,
                memory,
            };
            let second = Piece {
                offset: 65_536,
                memory: memory + 262_144,
                ..first
            };
            assert_eq!(part.first, [first, second]);
        }
    }

    #[test]
    fn more_cells_than_servers_share_requests() {
        let e = explained(&layout(6, 100, 2), View::canonical(), 50, 600);
        assert_eq!((e.requests, e.pieces, e.bytes), (2, 7, 600));
        assert_eq!(e.servers[0].cells, [0, 2, 4]);
        assert_eq!(e.servers[1].cells, [1, 3, 5]);
    }

    #[test]
    fn a_cell_is_one_piece_however_long() {
        let e = explained(
            &layout(4, 100, 4),
            View::Cell(weft_layout::CellIndex(2)),
            7,
            3 << 20,
        );
        assert_eq!(
            e.summary(),
            "1 request to 1 server, 7 messages, 1 piece, 3.0 MiB"
        );
        assert_eq!(e.servers[0].server, 12);
    }

    #[test]
    fn ghosts_are_named_and_counted() {
        let subfile = Subfile {
            vbs: 1,
            vn: 1,
            hbs: 2,
            hn: 2,
            index: 0,
            order: Order::Default,
        };
        // Cells 0, 1 and 4, 5 belong to it; of five cells the last is missing.
        let e = explained(&layout(5, 10, 5), View::Subfile(subfile), 0, 40);
        assert_eq!(
            (e.bytes, e.ghost_bytes, e.ghosts.clone()),
            (30, 10, Some(5..6))
        );
        assert!(e.ghost_line().unwrap().starts_with("cell 5 is a ghost"));
        let other = Subfile {
            index: 1,
            ..subfile
        };
        let e = explained(&layout(5, 10, 5), View::Subfile(other), 0, 40);
        assert_eq!((e.bytes, e.ghosts), (20, Some(6..8)));
    }

    #[test]
    fn a_partition_counts_its_groups() {
        let partition = Partition {
            offset: 0,
            group: 8,
            stride: 64,
        };
        let e = explained(&layout(2, 128, 2), View::Partition(partition), 0, 80);
        assert_eq!((e.requests, e.pieces, e.bytes), (2, 10, 80));
    }

    #[test]
    fn an_empty_request_does_nothing() {
        let e = explained(&layout(4, 100, 4), View::canonical(), 0, 0);
        assert_eq!(
            e.summary(),
            "0 requests to 0 servers, 0 messages, 0 pieces, 0 B"
        );
    }
}
