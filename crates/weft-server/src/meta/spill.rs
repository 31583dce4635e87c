//! Moves the bytes of a small file from its metadata to its cells; the steps are those of
//! `weft_meta`'s `inline.rs`.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::time::Instant;
use weft_layout::{Layout, Map, Pattern as Runs, Request, ServerSlot, View, ViewOffset};
use weft_meta::{Attached, MetaError, Spill, SpillEnd};
use weft_net::{CallError, Served};
use weft_proto::inline::{SpillReply, SpillRequest, StoreInlineRequest};
use weft_proto::io::{Access, Grid, Pattern, View as WireView, WriteRequest};
use weft_proto::meta::AttachRequest;
use weft_proto::{Code, Failure, Kind};

use super::carry::{Carrier, Refusal, all_of};
use super::{MetaService, Stable};
use crate::failure;
use crate::metrics::Stage;

/// Files that are spilled at a time.
const LANES: usize = 64;
/// How often a file may be found inline again before a call gives up: a file is spilled once, so
/// this is never reached unless a path names another inline file each time.
const TRIES: usize = 16;

/// One spill of a file at a time: files with the same lane wait for each other.
pub(super) struct Lanes([tokio::sync::Mutex<()>; LANES]);

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes(std::array::from_fn(|_| tokio::sync::Mutex::default()))
    }
}

impl MetaService {
    /// Attaches; a file whose bytes the client needs in its cells is spilled first.
    pub(super) async fn attach(self: Arc<Self>, call: Served) {
        let started = Instant::now();
        let request = match call.request::<AttachRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let client = call.peer.client;
        let namespace = self.namespace.by(client);
        let (mut tries, mut refused) = (0, false);
        let result = loop {
            match namespace.attach(self.env.clock.now(), client, &request) {
                Ok(attached) => break Ok(attached),
                Err(error) => {
                    if let Err(failure) = self.make_cells(error, &mut tries).await {
                        // A full server's refusal was undone: who only reads finds the file inline
                        // again.
                        let again = failure.code() == Code::NoSpace && request.inline;
                        if request.write || !again || refused {
                            break Err(failure);
                        }
                        refused = true;
                    }
                }
            }
        };
        if let Ok(attached) = &result
            && request.write
            && attached.reply.inline.is_none()
        {
            self.limit_attached(attached.reply.attributes.id).await;
        }
        let result = result.map(|Attached { reply, committed }| {
            // I/O servers will hold more than the size that power loss would bring back as exact.
            let stable = match (committed, reply.created) {
                (true, false) => Stable::Now,
                (committed, _) => Stable::soon_if(committed),
            };
            (reply, stable)
        });
        self.finish::<AttachRequest>(call, started, result).await;
    }

    /// Stores the bytes of a small file, unless they are in its cells, or on their way.
    pub(super) async fn store_inline(self: Arc<Self>, call: Served) {
        let started = Instant::now();
        let request = match call.request::<StoreInlineRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let client = call.peer.client;
        let namespace = self.namespace.by(client);
        let mut tries = 0;
        let result = loop {
            match namespace.store_inline(self.env.clock.now(), client, &request) {
                Ok(reply) => {
                    if request.detach && !namespace.is_attached(client, request.file) {
                        self.locks.detached(client, request.file);
                    }
                    break Ok((reply, Stable::Soon));
                }
                Err(error) => {
                    if let Err(failure) = self.make_cells(error, &mut tries).await {
                        break Err(failure);
                    }
                }
            }
        };
        self.finish::<StoreInlineRequest>(call, started, result)
            .await;
    }

    /// What follows from an operation's error: where it needs the bytes of an inline file in its
    /// cells they are moved, and it is to be run again; else the failure to answer with.
    pub(super) async fn make_cells(
        self: &Arc<Self>,
        error: MetaError,
        tries: &mut usize,
    ) -> Result<(), Failure> {
        match error {
            MetaError::Inline { id } if *tries < TRIES => {
                *tries += 1;
                self.spill(id).await
            }
            MetaError::Spilled { .. } => {
                // Whoever hears it writes to the cells: that they count must not be taken back.
                let synced = self.group.sync().await;
                synced.map_err(|reason| Failure::new(Code::Io, reason))?;
                Err(failure::of_meta(&error))
            }
            error => self.wait_for_names(error, tries).await,
        }
    }

    /// Answers a client that wants a file's bytes in its cells.
    pub(super) async fn spill_for(self: &Arc<Self>, call: Served) {
        let started = Instant::now();
        let request = match call.request::<SpillRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        match self.spill(request.file).await {
            Ok(()) => call.reply.done(&SpillReply {}),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics
            .stage(Kind::Spill, Stage::Total, started.elapsed());
    }

    /// Returns when the bytes of a file are in its cells, durably. Carried through even if the
    /// caller goes away.
    async fn spill(self: &Arc<Self>, file: u64) -> Result<(), Failure> {
        let service = self.clone();
        let spilled = tokio::spawn(async move {
            // Whoever learns that they are in its cells writes there: by an answer to this call, or
            // to any other.
            service.limit_attached(file).await;
            service.carry_spill(file).await
        });
        let spilled = spilled.await;
        spilled.unwrap_or_else(|_| {
            let what = "moving the file's bytes to its cells was given up; try again";
            Err(Failure::new(Code::Unavailable, what))
        })
    }

    async fn carry_spill(&self, file: u64) -> Result<(), Failure> {
        let lane = &self.spilling.0[(file % LANES as u64) as usize];
        let _turn = lane.lock().await;
        let spill = self.namespace.begin_spill(file);
        let spill = spill.map_err(|e| failure::of_meta(&e))?;
        // The mark before the first byte in a cell; without bytes, that the file is no longer
        // inline.
        let marked = self.group.sync().await;
        let Some(spill) = spill else {
            return marked.map_err(|reason| Failure::new(Code::Io, reason));
        };
        let written = match marked {
            Ok(()) => {
                self.learn_servers();
                self.carrier.spill(&spill).await
            }
            Err(reason) => Err(Refusal::here(reason)),
        };
        if let Err(refusal) = &written {
            self.undo_spill(&spill, refusal).await;
        }
        let now = self.env.clock.now();
        let end = match written {
            Ok(()) => SpillEnd::Written,
            Err(_) => SpillEnd::Failed,
        };
        let ended = self.namespace.end_spill(now, file, end);
        self.owing.notify_one();
        if let Err(refusal) = written {
            let what = format!(
                "its bytes cannot be moved to its cells: {}; nothing of it is lost",
                refusal.reason
            );
            // What passes by itself is worth another try of the client's.
            let code = match refusal.code {
                Code::NoSpace | Code::QuotaExceeded => refusal.code,
                _ => Code::Unavailable,
            };
            return Err(Failure::new(code, what));
        }
        ended.map_err(|e| failure::of_meta(&e))?;
        let synced = self.group.sync().await;
        synced.map_err(|reason| Failure::new(Code::Io, reason))
    }
}

impl MetaService {
    /// Where servers have refused the bytes, and hold none of them, the file is inline again. Else
    /// it stays on its way to its cells: one that did not answer may write them yet.
    async fn undo_spill(&self, spill: &Spill, refusal: &Refusal) {
        if refusal.silent || refusal.server.is_none() {
            return;
        }
        let Spill {
            file, layout, undo, ..
        } = spill;
        let emptied = self.carrier.truncate_cells(file.0, layout, 0, *undo).await;
        if emptied.is_ok()
            && let Err(error) = self.namespace.undo_spill(file.0)
        {
            tracing::warn!(file = file.0, %error, "a small file stays on its way to its cells");
        }
    }
}

/// What the servers store at least.
const BLOCK: usize = 4096;

/// Where a small file's bytes are to be written: blocks with anything but zeros.
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

impl Carrier {
    /// Empties the cells, if that is asked for, and writes all bytes to them with sync: one request
    /// to each server that holds some, and one more to each where the last are zeros.
    async fn spill(&self, spill: &Spill) -> Result<(), Refusal> {
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
        // All are waited for: what one refuses is taken back from the others, if all have answered.
        let written = join_all(writes).await;
        let silent = written
            .iter()
            .find_map(|w| w.as_ref().err().filter(|e| e.silent));
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
            chunk: layout.chunk(),
            bytes: payload.len() as u64,
            sync: true,
            ..WriteRequest::default()
        };
        let refusal = |silent, code, reason: String| Refusal {
            server: Some(server),
            silent,
            lasting: false,
            code,
            reason: format!("write on server {server}: {reason}"),
        };
        let link = self.link(server);
        let link = link.map_err(|e| refusal(true, Code::Unavailable, e))?;
        let written = async {
            let (connection, _) = link.connection().await?;
            let payload: Vec<Bytes> = vec![payload.freeze()];
            let outgoing = connection.send(&call, payload, true).await?;
            outgoing.reply().await
        };
        let written: Result<_, CallError> = written.await;
        written.map(drop).map_err(|error| {
            let silent = !matches!(error, CallError::Failed(_));
            refusal(silent, error.code(), error.to_string())
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
