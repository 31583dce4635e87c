//! Checkpoints of files and trees on all their servers: an intent of the namespace that is carried through, as a truncate is.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tokio::time::Instant;
use weft_layout::ServerId;
use weft_meta::{CheckpointTask, Intent, KeptFiles, MetaError, Namespace, TreeFile};
use weft_net::Served;
use weft_proto::checkpoint::{
    CheckpointRequest, DropCheckpointRequest, KeptFile, MakeCheckpointReply, MakeCheckpointRequest,
    RemoveCheckpointReply, RemoveCheckpointRequest, RollBackRequest, RollbackRequest,
    TreeFile as WireFile,
};
use weft_proto::io::Grid;
use weft_proto::limits::TREE_BATCH_MAX;
use weft_proto::meta::{Credentials, StatRequest, Target};
use weft_proto::{Call, Code, Failure};

use super::MetaService;
use super::carry::Carrier;
use crate::failure;
use crate::metrics::Stage;

/// How often an operation is carried to the servers before its caller is told to wait: a writer may stand in the way.
const TRIES: usize = 3;

impl Carrier {
    /// Does on all servers of a file what is owed for a checkpoint, then in the namespace.
    pub(super) async fn checkpoint(
        &self,
        namespace: &Namespace,
        now: i64,
        intent: &Intent,
    ) -> Result<(), String> {
        let Intent::Checkpoint {
            number,
            file,
            layout,
            task,
            ..
        } = intent
        else {
            return Ok(());
        };
        let used = layout.servers().len().min(layout.cells() as usize);
        let (file, op) = (file.0, *number);
        let grid = Grid::from(&layout.grid());
        let calls = layout.servers()[..used].iter().map(|server| async move {
            match *task {
                CheckpointTask::Make => {
                    let request = CheckpointRequest {
                        file,
                        grid,
                        op,
                        others: Vec::new(),
                    };
                    let reply = self.ask(*server, "checkpoint", &request).await?;
                    Ok(reply.size)
                }
                CheckpointTask::RollBack(checkpoint) => {
                    let request = RollbackRequest {
                        file,
                        checkpoint,
                        op,
                        others: Vec::new(),
                    };
                    self.ask(*server, "rollback", &request).await.map(|_| 0)
                }
                CheckpointTask::Drop(checkpoint) => {
                    let request = DropCheckpointRequest {
                        file,
                        checkpoint,
                        op,
                        others: Vec::new(),
                    };
                    let dropped = self.ask(*server, "drop of a checkpoint", &request).await;
                    dropped.map(|_| 0)
                }
            }
        });
        let sizes: Vec<u64> = try_join_all(calls).await?;
        let size = sizes.into_iter().max().unwrap_or(0);
        let done = namespace.checkpoint_done(op, size, now);
        done.map(drop).map_err(|e| e.to_string())
    }

    /// The same of a tree: each server hears of all its files together.
    pub(super) async fn tree(
        &self,
        namespace: &Namespace,
        now: i64,
        intent: &Intent,
    ) -> Result<(), String> {
        let Intent::Tree {
            number,
            task,
            files,
            ..
        } = intent
        else {
            return Ok(());
        };
        let mut by_server: BTreeMap<ServerId, Vec<&TreeFile>> = BTreeMap::new();
        for file in files {
            let used = file.layout.cells().min(file.layout.servers().len() as u32);
            for server in &file.layout.servers()[..used as usize] {
                by_server.entry(*server).or_default().push(file);
            }
        }
        let calls = by_server
            .into_iter()
            .map(|(server, files)| self.tree_on(server, *task, *number, files));
        let mut kept = KeptFiles::new();
        for (file, told) in try_join_all(calls).await?.into_iter().flatten() {
            let of = kept.entry(file).or_insert((0, i64::MIN));
            *of = (of.0.max(told.size), of.1.max(told.modified));
        }
        namespace
            .tree_done(*number, &kept, now)
            .map_err(|e| e.to_string())
    }

    async fn tree_on(
        &self,
        server: ServerId,
        task: CheckpointTask,
        op: u64,
        files: Vec<&TreeFile>,
    ) -> Result<Vec<(u64, KeptFile)>, String> {
        let mut kept = Vec::new();
        for batch in files.chunks(TREE_BATCH_MAX) {
            let file = batch[0].file.0;
            let others = || batch[1..].iter().map(|of| of.file.0).collect();
            match task {
                CheckpointTask::Make => {
                    let grid = |of: &&TreeFile| Grid::from(&of.layout.grid());
                    let others = batch[1..].iter().map(|of| WireFile {
                        file: of.file.0,
                        grid: grid(of),
                    });
                    let request = CheckpointRequest {
                        file,
                        grid: grid(&batch[0]),
                        op,
                        others: others.collect(),
                    };
                    let reply = self.ask(server, "checkpoint", &request).await?;
                    let (size, modified) = (reply.size, reply.modified);
                    let told = std::iter::once(KeptFile { size, modified }).chain(reply.others);
                    kept.extend(batch.iter().map(|of| of.file.0).zip(told));
                }
                CheckpointTask::RollBack(checkpoint) => {
                    let request = RollbackRequest {
                        file,
                        checkpoint,
                        op,
                        others: others(),
                    };
                    self.ask(server, "rollback", &request).await?;
                }
                CheckpointTask::Drop(checkpoint) => {
                    let request = DropCheckpointRequest {
                        file,
                        checkpoint,
                        op,
                        others: others(),
                    };
                    self.ask(server, "drop of a checkpoint", &request).await?;
                }
            }
        }
        Ok(kept)
    }

    async fn ask<C: Call>(
        &self,
        server: ServerId,
        what: &str,
        request: &C,
    ) -> Result<C::Reply, String> {
        let asked = async {
            let connection = self.link(server)?.connection().await;
            let (connection, _) = connection.map_err(|e| e.to_string())?;
            connection.call(request).await.map_err(|e| e.to_string())
        };
        asked
            .await
            .map_err(|e| format!("{what} on server {server}: {e}"))
    }
}

impl MetaService {
    pub(super) async fn make_checkpoint(self: Arc<Self>, call: Served) {
        let begin =
            |n: &Namespace, now, request: &MakeCheckpointRequest| n.make_checkpoint(now, request);
        self.carried(call, begin, |n, intent| {
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

    pub(super) async fn remove_checkpoint(self: Arc<Self>, call: Served) {
        let begin =
            |n: &Namespace, _, request: &RemoveCheckpointRequest| n.remove_checkpoint(request);
        self.carried(call, begin, |_, _| Ok(RemoveCheckpointReply {}))
            .await;
    }

    pub(super) async fn roll_back(self: Arc<Self>, call: Served) {
        let begin = |n: &Namespace, now, request: &RollBackRequest| n.roll_back(now, request);
        self.carried(call, begin, |n, intent| {
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

    /// Writes an intent, carries it through and answers; what a server missed is done when it is back.
    async fn carried<C: Call>(
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
        // Carried through even if the caller goes away meanwhile.
        let (service, number) = (self.clone(), intent.number());
        let done = tokio::spawn(async move { service.carry_one(number).await });
        let answer = match done.await {
            Ok(Ok(())) => reply(&namespace, &intent).map_err(|e| failure::of_meta(&e)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => return,
        };
        match answer {
            Ok(reply) => call.reply.done(&reply),
            Err(failure) => call.reply.fail(&failure),
        }
        self.metrics.stage(kind, Stage::Total, started.elapsed());
    }

    async fn carry_one(&self, number: u64) -> Result<(), Failure> {
        let mut reason = String::new();
        for _ in 0..TRIES {
            if let Err(e) = self.carry_all().await {
                reason = e;
            }
            let owed = self.namespace.is_owed(number);
            if !owed.map_err(|e| failure::of_meta(&e))? {
                return Ok(());
            }
        }
        let what = format!("{reason}; it will be completed when all servers of the file answer");
        Err(Failure::new(Code::Unavailable, what))
    }
}
