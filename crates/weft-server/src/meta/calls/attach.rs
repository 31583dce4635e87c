//! Attach, and small files: stored inline with their metadata, or moved ("spilled") to their cells.
//! The steps are those of `weft_meta`'s `ops/files/spill.rs`.

use std::sync::Arc;

use tokio::time::Instant;
use weft_meta::{Attached, MetaError, SERVICE, Spill, SpillEnd};
use weft_net::Served;
use weft_proto::inline::{SpillReply, SpillRequest, StoreInlineRequest};
use weft_proto::meta::AttachRequest;
use weft_proto::{Code, Failure, Kind};

use crate::failure;
use crate::limits::{DELEGATION_TRIES, SPILL_TRIES};
use crate::meta::MetaService;
use crate::meta::answer::Durability;
use crate::meta::servers::Refusal;
use crate::metrics::Stage;

impl MetaService {
    /// Attaches. A file whose bytes the client needs in its cells is moved there first.
    pub(in crate::meta) async fn attach(self: Arc<Self>, call: Served) {
        let started = Instant::now();
        let request = match call.request::<AttachRequest>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let client = call.peer.client;
        let namespace = self.namespace.by(client);
        let (mut tries, mut refused, mut sent) = (0, false, None);
        let mut result = loop {
            let now = self.env.clock.now();
            let attached = match sent {
                None => namespace.attach(now, client, &request),
                Some(file) => namespace.attach_sent(now, client, &request, file),
            };
            match attached {
                Ok(attached) => break Ok(attached),
                Err(MetaError::Unsent { id }) if tries < DELEGATION_TRIES => {
                    tries += 1;
                    namespace.recall_gathered(client, id);
                    self.notify_watchers();
                    self.wait_for_leases(client).await;
                    sent = Some(id);
                }
                Err(error) => {
                    if let Err(failure) = self.make_cells(error, &mut tries).await {
                        // The refusal of a full server was undone: a reader finds the file inline
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
        if let Ok(attached) = &mut result
            && attached.reply.inline.is_none()
        {
            attached.reply.shared = self.force_caution(&attached.reply.attributes).await;
        }
        let result = result.map(|Attached { reply, committed }| {
            // Otherwise power loss would bring back a size as exact that the I/O servers exceed.
            let durability = match (committed, reply.created) {
                (true, false) => Durability::Now,
                (committed, _) => Durability::soon_if(committed),
            };
            (reply, durability)
        });
        self.finish::<AttachRequest>(call, started, result).await;
    }

    /// Stores the bytes of a small file inline, unless they are in its cells, or on their way.
    pub(in crate::meta) async fn store_inline(self: Arc<Self>, call: Served) {
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
                    break Ok((reply, Durability::Soon));
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

    /// Handles the error of an operation. `Ok`: the bytes of an inline file were moved to its
    /// cells, and the operation is to be repeated.
    pub(in crate::meta) async fn make_cells(
        self: &Arc<Self>,
        error: MetaError,
        tries: &mut usize,
    ) -> Result<(), Failure> {
        match error {
            MetaError::Inline { id } if *tries < SPILL_TRIES => {
                *tries += 1;
                self.spill(id).await
            }
            MetaError::Spilled { .. } => {
                // The client will write to the cells: power loss must not make the file inline
                // again.
                let synced = self.group.sync().await;
                synced.map_err(|reason| Failure::new(Code::Io, reason))?;
                Err(failure::of_meta(&error))
            }
            error => self.wait_for_names(error, tries).await,
        }
    }

    /// Moves the bytes of a file to its cells on request.
    pub(in crate::meta) async fn spill_for(self: &Arc<Self>, call: Served) {
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

    /// Returns when the bytes of a file are in its cells, durably. It runs as a task, so that it
    /// goes on when the caller is gone.
    async fn spill(self: &Arc<Self>, file: u64) -> Result<(), Failure> {
        let service = self.clone();
        let spilled = tokio::spawn(async move {
            // Limited first: clients write to the cells as soon as any reply says that the bytes
            // are there.
            service.limit_attached(file).await;
            let spilled = service.run_spill(file).await;
            // No client keeps the bytes any more when this returns: writes to the cells end no
            // leases.
            service.notify_watchers();
            service.wait_for_leases(SERVICE).await;
            spilled
        });
        let spilled = spilled.await;
        spilled.unwrap_or_else(|_| {
            let what = "moving the file's bytes to its cells was abandoned; try again";
            Err(Failure::new(Code::Unavailable, what))
        })
    }

    async fn run_spill(&self, file: u64) -> Result<(), Failure> {
        let _lane = self.spilling.lock(file).await;
        let spill = self.namespace.begin_spill(file);
        let spill = spill.map_err(|e| failure::of_meta(&e))?;
        // Durable before the first byte in a cell: the mark, or, without bytes, that the file is no
        // longer inline.
        let marked = self.group.sync().await;
        let Some(spill) = spill else {
            return marked.map_err(|reason| Failure::new(Code::Io, reason));
        };
        let written = match marked {
            Ok(()) => {
                self.learn_servers();
                self.servers.spill(&spill).await
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
        self.new_intents.notify_one();
        if let Err(refusal) = written {
            let what = format!(
                "its bytes cannot be moved to its cells: {}; nothing of it is lost",
                refusal.reason
            );
            // The client retries failures that may pass.
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

    /// Makes the file inline again if all servers have answered and hold none of its bytes.
    /// Otherwise it stays on its way to its cells: a silent server may still write them.
    async fn undo_spill(&self, spill: &Spill, refusal: &Refusal) {
        if refusal.is_silent() || refusal.server.is_none() {
            return;
        }
        let Spill {
            file, layout, undo, ..
        } = spill;
        let emptied = self.servers.truncate_cells(file.0, layout, 0, *undo).await;
        if emptied.is_ok()
            && let Err(error) = self.namespace.undo_spill(file.0)
        {
            tracing::warn!(file = file.0, %error, "cannot finish moving an inline file to its cells");
        }
    }
}
