//! Checkpoints on I/O servers: of one file, or of all files of a tree.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use weft_layout::ServerId;
use weft_meta::{CheckpointFiles, CheckpointTask, Intent, Namespace, TreeFile};
use weft_proto::Code;
use weft_proto::checkpoint::{
    CheckpointReply, CheckpointRequest, CheckpointedFile, DropCheckpointRequest, RollbackRequest,
    TreeFile as WireFile,
};
use weft_proto::fsck::ListKeptRequest;
use weft_proto::io::Grid;
use weft_proto::limits::TREE_BATCH_MAX;

use super::refusal::{Refusal, RefusalKind, all_of};
use super::requests::IoServers;
use crate::limits::CHECKPOINT_QUERY_FILES;

impl IoServers {
    /// Runs the intent of a file checkpoint on all servers of the file, then in the namespace.
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
            // No server rolls back if another cannot.
            let queries = layout
                .servers_in_use()
                .iter()
                .map(|server| self.check_checkpoints(*server, of, vec![file]));
            all_of(join_all(queries).await)?;
        }
        let grid = Grid::from(&layout.grid());
        let held = match *task {
            CheckpointTask::Drop(_) => false,
            CheckpointTask::Make | CheckpointTask::RollBack(_) => {
                let of = |server: &ServerId| (*server, vec![(file, grid)]);
                let files = layout.servers_in_use().iter().map(of).collect();
                self.hold_in_turn(op, &files).await?
            }
        };
        let calls = layout.servers_in_use().iter().map(|server| async move {
            match *task {
                CheckpointTask::Make => {
                    let request = CheckpointRequest {
                        file,
                        grid,
                        op,
                        held: u64::from(held),
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

    /// The same for a tree: each server gets all its files in one call.
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
        let files: FilesByServer = by_server(files)
            .into_iter()
            .map(|(server, files)| {
                let named = |of: &&TreeFile| (of.file.0, Grid::from(&of.layout.grid()));
                (server, files.iter().map(named).collect())
            })
            .collect();
        let held = match *task {
            CheckpointTask::Drop(_) => false,
            CheckpointTask::Make | CheckpointTask::RollBack(_) => {
                self.hold_in_turn(*number, &files).await?
            }
        };
        let calls = files
            .iter()
            .map(|(server, files)| self.tree_on(*server, *task, *number, files, held));
        let mut kept = CheckpointFiles::new();
        for (file, reported) in all_of(join_all(calls).await)?.into_iter().flatten() {
            let of = kept.entry(file).or_insert((0, i64::MIN));
            *of = (of.0.max(reported.size), of.1.max(reported.modified));
        }
        namespace.tree_done(*number, &kept, now)?;
        Ok(())
    }

    async fn tree_on(
        &self,
        server: ServerId,
        task: CheckpointTask,
        op: u64,
        files: &[(u64, Grid)],
        held: bool,
    ) -> Result<Vec<(u64, CheckpointedFile)>, Refusal> {
        if task == CheckpointTask::Make {
            return self.keep_on(server, op, files, held).await;
        }
        for batch in files.chunks(TREE_BATCH_MAX) {
            let file = batch[0].0;
            let others = || batch[1..].iter().map(|of| of.0).collect();
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

    /// Holds the files on each server, one server after the other in the order of their numbers: so
    /// an operation that several servers take part in, which goes the same way, is wholly before
    /// or wholly after the checkpoint. False if a single call on a single server does all of it.
    async fn hold_in_turn(&self, op: u64, files: &FilesByServer) -> Result<bool, Refusal> {
        let single = files.len() == 1 && files.values().all(|of| of.len() <= TREE_BATCH_MAX);
        if single {
            return Ok(false);
        }
        for (server, of) in files {
            for batch in of.chunks(TREE_BATCH_MAX) {
                let request = CheckpointRequest {
                    more: true,
                    ..keep(batch, op)
                };
                let held = self.ask(*server, "checkpoint", &request).await;
                if let Err(refusal) = held {
                    self.release(op, files).await;
                    return Err(refusal);
                }
            }
        }
        Ok(true)
    }

    /// Releases held files: nobody should wait for the next try. A server that cannot be asked
    /// releases them by itself.
    async fn release(&self, op: u64, files: &FilesByServer) {
        let releases = files.iter().map(async |(server, of)| {
            let request = CheckpointRequest {
                release: true,
                ..keep(&of[..1], op)
            };
            let _ = self.ask(*server, "checkpoint", &request).await;
        });
        join_all(releases).await;
    }

    /// Makes a server's part of a tree checkpoint at one moment. Calls are repeated afterwards for
    /// the sizes of files that the first does not name.
    async fn keep_on(
        &self,
        server: ServerId,
        op: u64,
        files: &[(u64, Grid)],
        held: bool,
    ) -> Result<Vec<(u64, CheckpointedFile)>, Refusal> {
        let mut batches = files.chunks(TREE_BATCH_MAX);
        let Some(last) = batches.next_back() else {
            return Ok(Vec::new());
        };
        let request = CheckpointRequest {
            held: if held { files.len() as u64 } else { 0 },
            ..keep(last, op)
        };
        let mut kept = with_files(last, self.ask(server, "checkpoint", &request).await?);
        for batch in batches {
            let reply = self.ask(server, "checkpoint", &keep(batch, op)).await?;
            kept.extend(with_files(batch, reply));
        }
        Ok(kept)
    }

    /// Checks that a server has the checkpoint of all these files.
    ///
    /// # Errors
    /// [`Code::NotFound`] when it lacks one.
    pub(in crate::meta) async fn check_checkpoints(
        &self,
        server: ServerId,
        checkpoint: u64,
        files: Vec<u64>,
    ) -> Result<(), Refusal> {
        for batch in files.chunks(CHECKPOINT_QUERY_FILES) {
            let queries = batch.iter().map(|file| async move {
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
                    kind: RefusalKind::Permanent,
                    code: Code::NotFound,
                    reason: format!("server {server} does not have the checkpoint of file {file}"),
                })
            });
            all_of(join_all(queries).await)?;
        }
        Ok(())
    }
}

/// The files of each server, and their grids.
type FilesByServer = BTreeMap<ServerId, Vec<(u64, Grid)>>;

/// The call that names these files of a tree, at least one.
fn keep(batch: &[(u64, Grid)], op: u64) -> CheckpointRequest {
    let (file, grid) = batch[0];
    let others = batch[1..].iter().map(|(file, grid)| WireFile {
        file: *file,
        grid: *grid,
    });
    CheckpointRequest {
        file,
        grid,
        op,
        others: others.collect(),
        ..CheckpointRequest::default()
    }
}

/// Pairs the files of that call with its reply.
fn with_files(batch: &[(u64, Grid)], reply: CheckpointReply) -> Vec<(u64, CheckpointedFile)> {
    let first = CheckpointedFile {
        size: reply.size,
        modified: reply.modified,
    };
    let all = std::iter::once(first).chain(reply.others);
    batch.iter().map(|of| of.0).zip(all).collect()
}

/// The files of a tree by server.
pub(in crate::meta) fn by_server(files: &[TreeFile]) -> BTreeMap<ServerId, Vec<&TreeFile>> {
    let mut by_server: BTreeMap<ServerId, Vec<&TreeFile>> = BTreeMap::new();
    for file in files {
        for server in file.layout.servers_in_use() {
            by_server.entry(*server).or_default().push(file);
        }
    }
    by_server
}
