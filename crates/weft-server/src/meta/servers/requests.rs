//! The requests of the metadata service to I/O servers.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::{CellIndex, Layout, ServerId};
use weft_meta::{Intent, Namespace};
use weft_net::{BufferPool, CallError, Env, Identity, Link, Links};
use weft_proto::io::{
    CellStatusRequest, DeleteCellsRequest, ForkPlace, Grid, TruncateCellsRequest,
};
use weft_proto::meta::ServerMapReply;
use weft_proto::{Call, Code};

use super::refusal::{Refusal, RefusalKind, all_of};
use crate::limits::{FAILOVER_INTERVAL, FAILOVER_MAX};

/// The lengths of a file, as its servers report them.
#[derive(Clone, Copy, Default)]
pub(in crate::meta) struct FileLengths {
    /// In canonical order.
    pub(in crate::meta) size: u64,
    /// All forks but `data` together.
    pub(in crate::meta) others: u64,
}

impl FileLengths {
    /// What the payer is charged for.
    pub(in crate::meta) fn all(&self) -> u64 {
        self.size.saturating_add(self.others)
    }
}

/// The connections to I/O servers.
pub(in crate::meta) struct IoServers {
    links: Links,
    /// The servers with replicas: another one takes the place of a lost primary.
    replicated: Mutex<BTreeSet<u32>>,
}

impl IoServers {
    pub(in crate::meta) fn new(env: Env, identity: Identity) -> IoServers {
        let links = Links::new(env, identity, BufferPool::default(), Arc::default());
        IoServers {
            links,
            replicated: Mutex::default(),
        }
    }

    /// Learns the addresses of servers.
    pub(in crate::meta) fn learn(&self, map: &ServerMapReply) {
        self.links.learn(map);
        let replicated = map.servers.iter().filter(|s| !s.replicas.is_empty());
        *self.replicated.lock() = replicated.map(|server| server.id).collect();
    }

    /// Whether another replica may soon answer in place of one that failed like this.
    fn waits_for_replica(&self, server: ServerId, error: &CallError, since: Instant) -> bool {
        let passes = match error {
            CallError::Connect(_) | CallError::Lost { .. } => true,
            CallError::Failed(_) => matches!(
                error.code(),
                Code::StaleMap | Code::Busy | Code::Unavailable
            ),
            CallError::Protocol { .. } => false,
        };
        passes && since.elapsed() < FAILOVER_MAX && self.replicated.lock().contains(&server.0)
    }

    pub(in crate::meta) fn link(&self, server: ServerId) -> Result<Link, String> {
        let link = self.links.get(server);
        link.ok_or_else(|| format!("server {server} is not in the server map"))
    }

    /// The known servers.
    pub(in crate::meta) fn known(&self) -> Vec<ServerId> {
        self.links.servers()
    }

    /// Runs an intent that is no delete on all its servers, then in the namespace.
    pub(in crate::meta) async fn run(
        &self,
        namespace: &Namespace,
        now: i64,
        intent: &Intent,
    ) -> Result<(), Refusal> {
        match intent {
            Intent::Delete { .. } => Ok(()),
            Intent::Truncate {
                number,
                file,
                layout,
                size,
            } => {
                self.truncate_cells(file.0, layout, *size, *number).await?;
                namespace.truncate_done(*number, now)?;
                Ok(())
            }
            Intent::Checkpoint { .. } => self.checkpoint(namespace, now, intent).await,
            Intent::Tree { .. } => self.tree(namespace, now, intent).await,
        }
    }

    /// Deletes the cells of all these files, in one request.
    pub(in crate::meta) async fn delete(
        &self,
        server: ServerId,
        files: Vec<u64>,
    ) -> Result<(), Refusal> {
        let request = DeleteCellsRequest { files };
        self.ask(server, "delete", &request).await.map(drop)
    }

    /// Sends a request to a server; `what` names it in messages.
    pub(in crate::meta) async fn ask<C: Call>(
        &self,
        server: ServerId,
        what: &str,
        request: &C,
    ) -> Result<C::Reply, Refusal> {
        let refusal = |kind, code, reason: String| Refusal {
            server: Some(server),
            kind,
            code,
            reason: format!("{what} on server {server}: {reason}"),
        };
        let link = self.link(server);
        let link = link.map_err(|e| refusal(RefusalKind::Silent, Code::Unavailable, e))?;
        let since = Instant::now();
        let asked = loop {
            let asked = async {
                let (connection, _) = link.connection().await?;
                connection.call(request).await
            };
            match asked.await {
                Err(error) if self.waits_for_replica(server, &error, since) => {
                    tokio::time::sleep(FAILOVER_INTERVAL).await;
                }
                asked => break asked,
            }
        };
        asked.map_err(|error| {
            let code = error.code();
            let kind = match &error {
                CallError::Failed(_) if may_pass(code) => RefusalKind::Temporary,
                CallError::Failed(_) => RefusalKind::Permanent,
                CallError::Protocol { .. } => RefusalKind::Temporary,
                CallError::Connect(_) | CallError::Lost { .. } => RefusalKind::Silent,
            };
            refusal(kind, code, error.to_string())
        })
    }

    /// The size of a file and the lengths of its other forks: one request to each of its servers.
    pub(in crate::meta) async fn lengths(
        &self,
        file: u64,
        layout: &Layout,
    ) -> Result<FileLengths, String> {
        let asks = layout
            .servers_in_use()
            .iter()
            .map(|server| self.lengths_on(file, layout, *server));
        let all = join_all(asks).await;
        all.into_iter()
            .try_fold(FileLengths::default(), |sum, one| {
                let one = one?;
                Ok(FileLengths {
                    size: sum.size.max(one.size),
                    others: sum.others.saturating_add(one.others),
                })
            })
    }

    async fn lengths_on(
        &self,
        file: u64,
        layout: &Layout,
        server: ServerId,
    ) -> Result<FileLengths, String> {
        let (grid, mut sum, mut after) = (layout.grid(), FileLengths::default(), None);
        loop {
            let request = CellStatusRequest {
                file,
                after,
                fork: String::new(),
                checkpoint: 0,
            };
            let page = self.ask(server, "size", &request).await;
            let page = page.map_err(|refusal| refusal.reason)?;
            if page.doubted {
                return Err(format!(
                    "it is in doubt how much server {server} had of the file: `weft fsck` tells more"
                ));
            }
            for fork in page.forks.iter().filter(|f| f.cell < grid.cells()) {
                if fork.fork == "data" {
                    sum.size = grid
                        .file_size(CellIndex(fork.cell), fork.length)
                        .max(sum.size);
                } else {
                    sum.others = sum.others.saturating_add(fork.length);
                }
            }
            after = page.forks.last().map(|f| ForkPlace {
                cell: f.cell,
                fork: f.fork.clone(),
            });
            if !page.more || after.is_none() {
                return Ok(sum);
            }
        }
    }

    /// Truncates or extends the cells of a file to its new size. A server does each `op` once.
    pub(in crate::meta) async fn truncate_cells(
        &self,
        file: u64,
        layout: &Layout,
        size: u64,
        op: u64,
    ) -> Result<(), Refusal> {
        let grid = Grid::from(&layout.grid());
        let servers = layout.servers_in_use().iter().enumerate();
        let calls = servers.map(|(slot, server)| async move {
            let request = TruncateCellsRequest {
                file,
                grid,
                slot: slot as u32,
                size,
                op,
            };
            self.ask(*server, "truncate", &request).await
        });
        all_of(join_all(calls).await).map(drop)
    }
}

/// Whether a retry after this code may succeed without an administrator.
fn may_pass(code: Code) -> bool {
    matches!(
        code,
        Code::Busy | Code::Unavailable | Code::StaleMap | Code::Cancelled | Code::NoSpace
    )
}
