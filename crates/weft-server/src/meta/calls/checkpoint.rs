//! Checkpoints of files and trees: an intent of the namespace, as a truncate is.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;
use weft_layout::ServerId;
use weft_meta::{Intent, MetaError, Namespace, SERVICE};
use weft_net::Served;
use weft_proto::checkpoint::{
    MakeCheckpointReply, MakeCheckpointRequest, RemoveCheckpointReply, RemoveCheckpointRequest,
    RollBackRequest,
};
use weft_proto::meta::{Credentials, StatRequest, Target};
use weft_proto::parity::BeginCodingRequest;
use weft_proto::{Call, Code, Failure};

use crate::failure;
use crate::limits::CHECKPOINT_TRIES;
use crate::meta::MetaService;
use crate::meta::servers::{NOTHING_DONE, all_of, by_server, rollback_refused};
use crate::metrics::Stage;

impl MetaService {
    pub(in crate::meta) async fn make_checkpoint(self: Arc<Self>, call: Served) {
        let begin =
            |n: &Namespace, now, request: &MakeCheckpointRequest| n.make_checkpoint(now, request);
        self.run_and_answer(call, begin, |n, intent| {
            let (Intent::Checkpoint { name, .. } | Intent::Tree { name, .. }) = intent else {
                return Err(MetaError::Stale { id: 0 });
            };
            let file = intent.file();
            let made = n.checkpoint_info(file.0, name)?;
            let checkpoint = made.ok_or(MetaError::Stale { id: file.0 })?;
            Ok(MakeCheckpointReply { checkpoint })
        })
        .await;
    }

    pub(in crate::meta) async fn remove_checkpoint(self: Arc<Self>, call: Served) {
        let begin =
            |n: &Namespace, _, request: &RemoveCheckpointRequest| n.remove_checkpoint(request);
        self.run_and_answer(call, begin, |_, _| Ok(RemoveCheckpointReply {}))
            .await;
    }

    pub(in crate::meta) async fn begin_coding(self: Arc<Self>, call: Served) {
        let begin = |n: &Namespace, now, request: &BeginCodingRequest| n.begin_coding(now, request);
        self.run_and_answer(call, begin, |n, intent| n.coding_begun(intent.file().0))
            .await;
    }

    pub(in crate::meta) async fn roll_back(self: Arc<Self>, call: Served) {
        if let Ok(request) = call.request::<RollBackRequest>()
            && let Err(failure) = self.can_roll_back(&request).await
        {
            return call.reply.fail(&failure);
        }
        let begin = |n: &Namespace, now, request: &RollBackRequest| n.roll_back(now, request);
        self.run_and_answer(call, begin, |n, intent| {
            let at = intent.file().0;
            let target = Target {
                at,
                ..Target::default()
            };
            n.stat(&StatRequest {
                who: Credentials::default(),
                target,
            })
        })
        .await;
    }

    /// Refuses to roll a tree back if a server was formatted since and lacks files of the
    /// checkpoint: names would be old and bytes new. For a single file the servers check when the
    /// intent runs.
    async fn can_roll_back(&self, request: &RollBackRequest) -> Result<(), Failure> {
        // Errors of the request itself are reported by the operation.
        let Ok(Some((checkpoint, files))) = self.namespace.tree_of(request) else {
            return Ok(());
        };
        let map = self.namespace.server_map(self.env.clock.now());
        let map = map.map_err(|e| failure::of_meta(&e))?;
        self.servers.learn(&map);
        let since: BTreeMap<ServerId, u64> = map
            .servers
            .iter()
            .map(|server| (ServerId(server.id), server.since))
            .collect();
        let queries = by_server(&files).into_iter().map(|(server, files)| {
            let younger = since.get(&server).copied().unwrap_or(0);
            let older = files
                .iter()
                .map(|of| of.file.0)
                .filter(|file| *file < younger);
            self.servers
                .check_checkpoints(server, checkpoint, older.collect())
        });
        match all_of(join_all(queries).await) {
            Err(refusal) if refusal.code == Code::NotFound => {
                Err(rollback_refused(&refusal, NOTHING_DONE))
            }
            // The intent waits for silent servers.
            _ => Ok(()),
        }
    }

    /// Commits an intent, runs it and answers. A server that is down does its share when it is
    /// back.
    async fn run_and_answer<C: Call>(
        self: Arc<Self>,
        call: Served,
        begin: impl Fn(&Namespace, i64, &C) -> Result<Intent, MetaError> + Send,
        reply: impl FnOnce(&Namespace, &Intent) -> Result<C::Reply, MetaError> + Send,
    ) {
        let (started, kind) = (Instant::now(), call.kind);
        let request = match call.request::<C>() {
            Ok(request) => request,
            Err(e) => return call.reply.fail(&failure::of_frame(&e)),
        };
        let namespace = self.namespace.by(call.peer.client);
        let (now, mut tries) = (self.env.clock.now(), 0);
        let intent = loop {
            match begin(&namespace, now, &request) {
                Ok(intent) => break intent,
                Err(error) => {
                    if let Err(failure) = self.make_cells(error, &mut tries).await {
                        return call.reply.fail(&failure);
                    }
                }
            }
        };
        // A task, so that it goes on when the caller is gone.
        let (service, number) = (self.clone(), intent.number());
        let done = tokio::spawn(async move {
            let what = "it will be completed when all servers of the file answer";
            service.run_intent(number, CHECKPOINT_TRIES, what).await
        });
        let answer = match done.await {
            Ok(Ok(())) => reply(&namespace, &intent).map_err(|e| failure::of_meta(&e)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => return,
        };
        self.wait_for_leases(call.peer.client).await;
        self.wait_for_leases(SERVICE).await;
        match answer {
            Ok(reply) => call.reply.done(&reply),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics.stage(kind, Stage::Total, started.elapsed());
    }
}
