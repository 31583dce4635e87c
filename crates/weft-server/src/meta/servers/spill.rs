//! Moves the bytes of a small file to its cells.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::sync::{Mutex, MutexGuard};
use weft_layout::{Layout, Map, Pattern as Runs, Request, ServerSlot, View, ViewOffset};
use weft_meta::Spill;
use weft_net::CallError;
use weft_proto::Code;
use weft_proto::io::{Access, Grid, Pattern, View as WireView, WriteRequest};
use weft_store::BLOCK;

use super::refusal::{Refusal, RefusalKind, all_of};
use super::requests::IoServers;
use crate::limits::SPILL_LANES;

/// One spill of a file at a time: files with the same lane wait for each other.
pub(in crate::meta) struct SpillLocks([Mutex<()>; SPILL_LANES]);

impl Default for SpillLocks {
    fn default() -> SpillLocks {
        SpillLocks(std::array::from_fn(|_| Mutex::default()))
    }
}

impl SpillLocks {
    /// Waits for the lane of a file.
    pub(in crate::meta) async fn lock(&self, file: u64) -> MutexGuard<'_, ()> {
        let lane = &self.0[(file % SPILL_LANES as u64) as usize];
        lane.lock().await
    }
}

/// The byte ranges of a small file to write: blocks that are not all zeros.
fn runs(data: &[u8]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (number, block) in data.chunks(BLOCK).enumerate() {
        let start = number * BLOCK;
        let end = start + block.len();
        if block.iter().all(|byte| *byte == 0) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == start => run.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

impl IoServers {
    /// Truncates the cells to nothing, if asked, and writes all bytes to them with sync: one
    /// request to each server that gets some, and one more to each if the last bytes are zeros.
    pub(in crate::meta) async fn spill(&self, spill: &Spill) -> Result<(), Refusal> {
        let Spill {
            file,
            layout,
            data,
            empty_first,
            extend,
            ..
        } = spill;
        if let Some(op) = empty_first {
            self.truncate_cells(file.0, layout, 0, *op).await?;
        }
        let (size, here) = (data.len(), |reason: String| Refusal::here(reason));
        // Blocks of zeros stay holes.
        let runs = runs(data);
        let pattern = Runs::list(
            runs.iter()
                .map(|run| (run.start.cast_signed() as i64, run.len() as u64)),
        );
        let request = Request::new(ViewOffset(0), &pattern).map_err(|e| here(e.to_string()))?;
        let end = runs.last().map_or(0, |run| run.end);
        let data: Vec<u8> = runs
            .into_iter()
            .flat_map(|run| &data[run])
            .copied()
            .collect();
        let map = Map::new(layout.grid(), View::canonical()).map_err(|e| here(e.to_string()))?;
        let slots = match end {
            0 => Vec::new(),
            _ => map.slots(&request).map_err(|e| here(e.to_string()))?,
        };
        let mut writes = Vec::with_capacity(slots.len());
        for slot in &slots {
            writes.push(self.write_slot(file.0, layout, &map, &request, *slot, &data));
        }
        // All are awaited: after a refusal the bytes are undone on the others, if all have
        // answered.
        let written = join_all(writes).await;
        let silent = written
            .iter()
            .find_map(|w| w.as_ref().err().filter(|e| e.is_silent()));
        if let Some(silent) = silent {
            return Err(silent.clone());
        }
        all_of(written)?;
        if end < size {
            self.truncate_cells(file.0, layout, size as u64, *extend)
                .await?;
        }
        Ok(())
    }

    async fn write_slot(
        &self,
        file: u64,
        layout: &Layout,
        map: &Map,
        request: &Request,
        slot: ServerSlot,
        data: &[u8],
    ) -> Result<(), Refusal> {
        let server = layout.servers()[slot.0 as usize];
        let mut payload = BytesMut::new();
        let pieces = map.pieces(request, slot);
        for piece in pieces.map_err(|e| Refusal::here(e.to_string()))? {
            let at = piece.memory as usize;
            payload.extend_from_slice(&data[at..at + piece.length as usize]);
        }
        let call = WriteRequest {
            access: Access {
                file,
                grid: Grid::from(map.grid()),
                view: WireView::from(map.view()),
                pattern: Pattern::from_request(request, false)
                    .map_err(|e| Refusal::here(e.to_string()))?,
                slot: slot.0,
                fork: "data".to_owned(),
                epoch: 0,
                checkpoint: 0,
            },
            chunk: layout.chunk_code(),
            bytes: payload.len() as u64,
            sync: true,
            ..WriteRequest::default()
        };
        let refusal = |kind, code, reason: String| Refusal {
            server: Some(server),
            kind,
            code,
            reason: format!("write on server {server}: {reason}"),
        };
        let link = self.link(server);
        let link = link.map_err(|e| refusal(RefusalKind::Silent, Code::Unavailable, e))?;
        let written = async {
            let (connection, _) = link.connection().await?;
            let payload: Vec<Bytes> = vec![payload.freeze()];
            let outgoing = connection.send(&call, payload, true).await?;
            outgoing.reply().await
        };
        let written: Result<_, CallError> = written.await;
        written.map(drop).map_err(|error| {
            let kind = if matches!(error, CallError::Failed(_)) {
                RefusalKind::Temporary
            } else {
                RefusalKind::Silent
            };
            refusal(kind, error.code(), error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_zeros_are_left_out() {
        let mut data = vec![0; 3 * BLOCK + 10];
        assert_eq!(runs(&data), []);
        data[BLOCK + 5] = 1;
        assert_eq!(runs(&data), vec![BLOCK..2 * BLOCK]);
        data[3 * BLOCK + 1] = 1;
        assert_eq!(runs(&data), [BLOCK..2 * BLOCK, 3 * BLOCK..3 * BLOCK + 10]);
        data[2 * BLOCK] = 1;
        assert_eq!(runs(&data), vec![BLOCK..3 * BLOCK + 10]);
        assert_eq!(runs(&[]), []);
    }
}
