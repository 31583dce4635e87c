//! Carries through what the namespace owes to I/O servers: deletes and truncates.
//!
//! Every intent is on stable storage before the first server hears of it, every step may be repeated, and the
//! intent goes when all servers have done it. So the death of a client, a server or this service at any step
//! leaves work to be repeated, never work half done.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use weft_layout::{CellIndex, Layout, ServerId};
use weft_meta::{Intent, Namespace};
use weft_net::{BufferPool, Env, Identity, Link, Links};
use weft_proto::io::{
    CellStatusRequest, DeleteCellsRequest, ForkPlace, Grid, TruncateCellsRequest,
};
use weft_proto::meta::ServerMapReply;

/// Intents looked at together.
pub(super) const BATCH: usize = 1024;

pub(super) struct Carrier {
    links: Links,
}

impl Carrier {
    pub(super) fn new(env: Env, identity: Identity) -> Carrier {
        let links = Links::new(env, identity, BufferPool::default(), Arc::default());
        Carrier { links }
    }

    /// Takes note of where servers are.
    pub(super) fn learn(&self, map: &ServerMapReply) {
        self.links.learn(map);
    }

    pub(super) fn link(&self, server: ServerId) -> Result<Link, String> {
        let link = self.links.get(server);
        link.ok_or_else(|| format!("server {server} is not in the server map"))
    }

    /// All servers that are known.
    pub(super) fn servers(&self) -> Vec<ServerId> {
        self.links.servers()
    }

    /// Carries these intents through as far as servers answer; an error says which does not.
    pub(super) async fn carry(
        &self,
        namespace: &Namespace,
        now: i64,
        intents: Vec<Intent>,
    ) -> Result<(), String> {
        let mut deletes = Vec::new();
        let mut truncates = Vec::new();
        let (mut checkpoints, mut trees) = (Vec::new(), Vec::new());
        for intent in intents {
            match intent {
                Intent::Delete {
                    number,
                    file,
                    servers,
                } => deletes.push((number, file.0, servers)),
                Intent::Truncate { .. } => truncates.push(intent),
                Intent::Checkpoint { .. } => checkpoints.push(intent),
                Intent::Tree { .. } => trees.push(intent),
            }
        }
        // These are of different files: the namespace gives out one intent of a file at a time.
        let results = join_all(truncates.iter().map(|t| self.truncate(namespace, now, t))).await;
        let kept = checkpoints
            .iter()
            .map(|c| self.checkpoint(namespace, now, c));
        let kept = join_all(kept).await;
        let trees = join_all(trees.iter().map(|t| self.tree(namespace, now, t))).await;
        self.delete(namespace, deletes).await?;
        results.into_iter().chain(kept).chain(trees).collect()
    }

    /// One request per server for all files together.
    async fn delete(
        &self,
        namespace: &Namespace,
        deletes: Vec<(u64, u64, Vec<ServerId>)>,
    ) -> Result<(), String> {
        let mut by_server: BTreeMap<ServerId, Vec<u64>> = BTreeMap::new();
        for (_, file, servers) in &deletes {
            for server in servers {
                by_server.entry(*server).or_default().push(*file);
            }
        }
        let calls = by_server.into_iter().map(|(server, files)| async move {
            let result = async {
                let (connection, _) = self
                    .link(server)?
                    .connection()
                    .await
                    .map_err(|e| e.to_string())?;
                let request = DeleteCellsRequest { files };
                connection.call(&request).await.map_err(|e| e.to_string())
            };
            (server, result.await)
        });
        let results: BTreeMap<ServerId, Result<_, String>> =
            join_all(calls).await.into_iter().collect();
        for (number, _, servers) in deletes {
            if servers
                .iter()
                .all(|s| results.get(s).is_some_and(Result::is_ok))
            {
                namespace.intent_done(number).map_err(|e| e.to_string())?;
            }
        }
        let failed = results
            .into_iter()
            .find_map(|(s, r)| r.err().map(|e| (s, e)));
        failed.map_or(Ok(()), |(server, e)| {
            Err(format!("delete on server {server}: {e}"))
        })
    }

    /// Sets the sizes on all servers of the file, then in the namespace.
    async fn truncate(
        &self,
        namespace: &Namespace,
        now: i64,
        intent: &Intent,
    ) -> Result<(), String> {
        let Intent::Truncate {
            number,
            file,
            layout,
            size,
        } = intent
        else {
            return Ok(());
        };
        self.truncate_cells(file.0, layout, *size, *number).await?;
        namespace
            .truncate_done(*number, now)
            .map_err(|e| e.to_string())?;
        Ok(())
    }

    /// The size of a file, asked of its servers: one request to each, or a few.
    pub(super) async fn size(&self, file: u64, layout: &Layout) -> Result<u64, String> {
        let used = layout.servers().len().min(layout.cells() as usize);
        let asks = layout.servers()[..used]
            .iter()
            .map(|server| self.size_on(file, layout, *server));
        let sizes = join_all(asks).await;
        sizes
            .into_iter()
            .try_fold(0, |max, size| Ok(size?.max(max)))
    }

    async fn size_on(&self, file: u64, layout: &Layout, server: ServerId) -> Result<u64, String> {
        let (grid, mut size, mut after) = (layout.grid(), 0, None);
        loop {
            let request = CellStatusRequest {
                file,
                after,
                fork: "data".to_owned(),
                checkpoint: 0,
            };
            let asked = async {
                let connection = self.link(server)?.connection().await;
                let (connection, _) = connection.map_err(|e| e.to_string())?;
                connection.call(&request).await.map_err(|e| e.to_string())
            };
            let page = asked.await;
            let page = page.map_err(|e| format!("size on server {server}: {e}"))?;
            for fork in page.forks.iter().filter(|f| f.cell < grid.cells()) {
                size = grid.file_size(CellIndex(fork.cell), fork.length).max(size);
            }
            after = page.forks.last().map(|f| ForkPlace {
                cell: f.cell,
                fork: f.fork.clone(),
            });
            if !page.more || after.is_none() {
                return Ok(size);
            }
        }
    }

    pub(super) async fn truncate_cells(
        &self,
        file: u64,
        layout: &Layout,
        size: u64,
        op: u64,
    ) -> Result<(), String> {
        let grid = Grid::from(&layout.grid());
        let used = layout.servers().len().min(layout.cells() as usize);
        let calls = layout.servers()[..used]
            .iter()
            .enumerate()
            .map(|(slot, server)| async move {
                let request = TruncateCellsRequest {
                    file,
                    grid,
                    slot: slot as u32,
                    size,
                    op,
                };
                let result = async {
                    let (connection, _) = self
                        .link(*server)?
                        .connection()
                        .await
                        .map_err(|e| e.to_string())?;
                    connection.call(&request).await.map_err(|e| e.to_string())
                };
                result
                    .await
                    .map_err(|e| format!("truncate on server {server}: {e}"))
            });
        join_all(calls)
            .await
            .into_iter()
            .collect::<Result<Vec<_>, String>>()
            .map(|_| ())
    }
}
