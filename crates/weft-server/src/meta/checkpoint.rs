//! Checkpoints of files and trees on all their servers: an intent of the namespace that is carried
//! through, as a truncate is.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::Instant;
use weft_layout::ServerId;
use weft_meta::{CheckpointTask, Intent, KeptFiles, MetaError, Namespace, TreeFile};
use weft_net::Served;
use weft_proto::checkpoint::{
    CheckpointReply, CheckpointRequest, DropCheckpointRequest, KeptFile, MakeCheckpointReply,
    MakeCheckpointRequest, RemoveCheckpointReply, RemoveCheckpointRequest, RollBackRequest,
    RollbackRequest, TreeFile as WireFile,
};
use weft_proto::fsck::ListKeptRequest;
use weft_proto::io::Grid;
use weft_proto::limits::TREE_BATCH_MAX;
use weft_proto::meta::{Credentials, StatRequest, Target};
use weft_proto::{Call, Code, Failure};

use super::MetaService;
use super::carry::{Carrier, Refusal, all_of};
use crate::failure;
use crate::metrics::Stage;

/// How often an operation is carried to the servers before its caller is told to wait: a writer may
/// stand in the way.
const TRIES: u64 = 3;
/// Files that a server is asked about at a time.
const LOOKS: usize = 256;
const NOTHING: &str = "nothing is rolled back";

impl Carrier {
    /// Does on all servers of a file what is owed for a checkpoint, then in the namespace.
    pub(super) async fn checkpoint(
        &self,
        namespace: &Namespace,
        now: i64,
        intent: &Intent,
    ) -> Result<(), Refusal> {
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
        let (file, op) = (file.0, *number);
        if let CheckpointTask::RollBack(of) = *task {
            // None rolls back what another cannot.
            let looks = layout
                .servers_in_use()
                .iter()
                .map(|server| self.lacks_none(*server, of, vec![file]));
            all_of(join_all(looks).await)?;
        }
        let grid = Grid::from(&layout.grid());
        let calls = layout.servers_in_use().iter().map(|server| async move {
            match *task {
                CheckpointTask::Make => {
                    let request = CheckpointRequest {
                        file,
                        grid,
                        op,
                        ..CheckpointRequest::default()
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
        let sizes: Vec<u64> = all_of(join_all(calls).await)?;
        let size = sizes.into_iter().max().unwrap_or(0);
        namespace.checkpoint_done(op, size, now)?;
        Ok(())
    }

    /// The same of a tree: each server hears of all its files together.
    pub(super) async fn tree(
        &self,
        namespace: &Namespace,
        now: i64,
        intent: &Intent,
    ) -> Result<(), Refusal> {
        let Intent::Tree {
            number,
            task,
            files,
            ..
        } = intent
        else {
            return Ok(());
        };
        let calls = by_server(files)
            .into_iter()
            .map(|(server, files)| self.tree_on(server, *task, *number, files));
        let mut kept = KeptFiles::new();
        for (file, told) in all_of(join_all(calls).await)?.into_iter().flatten() {
            let of = kept.entry(file).or_insert((0, i64::MIN));
            *of = (of.0.max(told.size), of.1.max(told.modified));
        }
        namespace.tree_done(*number, &kept, now)?;
        Ok(())
    }

    async fn tree_on(
        &self,
        server: ServerId,
        task: CheckpointTask,
        op: u64,
        files: Vec<&TreeFile>,
    ) -> Result<Vec<(u64, KeptFile)>, Refusal> {
        if task == CheckpointTask::Make {
            return self.keep_on(server, op, &files).await;
        }
        for batch in files.chunks(TREE_BATCH_MAX) {
            let file = batch[0].file.0;
            let others = || batch[1..].iter().map(|of| of.file.0).collect();
            match task {
                CheckpointTask::Make => {}
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
        Ok(Vec::new())
    }

    /// Has a server keep files at one moment, however many calls it takes to name them: all but the
    /// last call hold theirs, and are repeated when it has kept all, to hear what they were.
    async fn keep_on(
        &self,
        server: ServerId,
        op: u64,
        files: &[&TreeFile],
    ) -> Result<Vec<(u64, KeptFile)>, Refusal> {
        let mut batches = files.chunks(TREE_BATCH_MAX);
        let Some(last) = batches.next_back() else {
            return Ok(Vec::new());
        };
        let mut held = 0;
        for batch in batches.clone() {
            let request = CheckpointRequest {
                more: true,
                ..keep(batch, op)
            };
            self.ask(server, "checkpoint", &request).await?;
            held += batch.len() as u64;
        }
        let request = CheckpointRequest {
            held,
            ..keep(last, op)
        };
        let mut kept = told(last, self.ask(server, "checkpoint", &request).await?);
        for batch in batches {
            let reply = self.ask(server, "checkpoint", &keep(batch, op)).await?;
            kept.extend(told(batch, reply));
        }
        Ok(kept)
    }

    /// Refuses with [`Code::NotFound`] where a server that answers lacks one of these files'
    /// checkpoints.
    async fn lacks_none(
        &self,
        server: ServerId,
        checkpoint: u64,
        files: Vec<u64>,
    ) -> Result<(), Refusal> {
        for some in files.chunks(LOOKS) {
            let looks = some.iter().map(|file| async move {
                let request = ListKeptRequest {
                    file: *file,
                    number: checkpoint.saturating_sub(1),
                    only: true,
                };
                let reply = self.ask(server, "look for a checkpoint", &request).await?;
                if reply
                    .kept
                    .first()
                    .is_some_and(|kept| kept.number == checkpoint)
                {
                    return Ok(());
                }
                Err(Refusal {
                    server: Some(server),
                    silent: false,
                    lasting: true,
                    code: Code::NotFound,
                    reason: format!("server {server} does not have the checkpoint of file {file}"),
                })
            });
            all_of(join_all(looks).await)?;
        }
        Ok(())
    }
}

/// The call that names these files of a tree, of which there is one at least.
fn keep(batch: &[&TreeFile], op: u64) -> CheckpointRequest {
    let grid = |of: &TreeFile| Grid::from(&of.layout.grid());
    let others = batch[1..].iter().map(|of| WireFile {
        file: of.file.0,
        grid: grid(of),
    });
    CheckpointRequest {
        file: batch[0].file.0,
        grid: grid(batch[0]),
        op,
        others: others.collect(),
        ..CheckpointRequest::default()
    }
}

/// What each of them was, of the answer to that call.
fn told(batch: &[&TreeFile], reply: CheckpointReply) -> Vec<(u64, KeptFile)> {
    let first = KeptFile {
        size: reply.size,
        modified: reply.modified,
    };
    let all = std::iter::once(first).chain(reply.others);
    batch.iter().map(|of| of.file.0).zip(all).collect()
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
        if let Ok(request) = call.request::<RollBackRequest>()
            && let Err(failure) = self.can_roll_back(&request).await
        {
            return call.reply.fail(&failure);
        }
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

    /// Refuses to roll a tree back where a server was formatted since and lacks a part of the
    /// checkpoint: names would be old and bytes new. Of a single file the servers are asked when it
    /// is carried to them.
    async fn can_roll_back(&self, request: &RollBackRequest) -> Result<(), Failure> {
        // What is wrong with the request itself is told when it is carried out.
        let Ok(Some((checkpoint, files))) = self.namespace.tree_of(request) else {
            return Ok(());
        };
        let map = self.namespace.server_map(self.env.clock.now());
        let map = map.map_err(|e| failure::of_meta(&e))?;
        self.carrier.learn(&map);
        let since: BTreeMap<ServerId, u64> = map
            .servers
            .iter()
            .map(|server| (ServerId(server.id), server.since))
            .collect();
        let looks = by_server(&files).into_iter().map(|(server, files)| {
            let younger = since.get(&server).copied().unwrap_or(0);
            let older = files
                .iter()
                .map(|of| of.file.0)
                .filter(|file| *file < younger);
            self.carrier.lacks_none(server, checkpoint, older.collect())
        });
        match all_of(join_all(looks).await) {
            Err(refusal) if refusal.code == Code::NotFound => Err(cannot(&refusal, NOTHING)),
            // Who does not answer is waited for.
            _ => Ok(()),
        }
    }

    /// Writes an intent, carries it through and answers; what a server missed is done when it is
    /// back.
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
        let done = tokio::spawn(async move {
            let what = "it will be completed when all servers of the file answer";
            service.carry_one(number, TRIES, what).await
        });
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
}

/// The answer to who asked for a rollback that cannot be; of a tree the names are old already.
pub(super) fn not_rolled_back(refusal: &Refusal, intent: &Intent) -> Failure {
    let became = match intent {
        Intent::Tree { .. } => {
            "names are rolled back, and files have the bytes that their servers have"
        }
        _ => NOTHING,
    };
    cannot(refusal, became)
}

fn cannot(refusal: &Refusal, became: &str) -> Failure {
    let what = format!(
        "{}; {became}. weft fsck says what is lost, and after `weft fsck --accept FILE`, or `--accept-server` for all files, the rest of the checkpoint can be used",
        refusal.reason
    );
    Failure::new(refusal.code, what)
}

/// What each server has of a tree.
fn by_server(files: &[TreeFile]) -> BTreeMap<ServerId, Vec<&TreeFile>> {
    let mut by_server: BTreeMap<ServerId, Vec<&TreeFile>> = BTreeMap::new();
    for file in files {
        for server in file.layout.servers_in_use() {
            by_server.entry(*server).or_default().push(file);
        }
    }
    by_server
}
