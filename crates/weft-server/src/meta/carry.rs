//! The calls by which what the namespace owes to I/O servers is carried through: deletes and
//! truncates.
//!
//! Every intent is on stable storage before the first server hears of it, every step may be
//! repeated, and the intent goes when all servers have done it. So the death of a client, a server
//! or this service at any step leaves work to be repeated, never work half done. What is done when
//! is the business of `board.rs`.

use std::sync::Arc;

use futures_util::future::join_all;
use weft_layout::{CellIndex, Layout, ServerId};
use weft_meta::{Intent, MetaError, Namespace};
use weft_net::{BufferPool, CallError, Env, Identity, Link, Links};
use weft_proto::io::{
    CellStatusRequest, DeleteCellsRequest, ForkPlace, Grid, TruncateCellsRequest,
};
use weft_proto::meta::ServerMapReply;
use weft_proto::{Call, Code};

/// Why something that is owed was not done.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// The server that did not do it; `None`: this service could not go on.
    pub(super) server: Option<ServerId>,
    /// It did not answer.
    pub(super) silent: bool,
    /// It will say the same again until somebody does something about it.
    pub(super) lasting: bool,
    pub(super) code: Code,
    /// In words, with the server.
    pub(super) reason: String,
}

impl Refusal {
    /// This service could not go on.
    pub(super) fn here(reason: String) -> Refusal {
        Refusal {
            server: None,
            silent: false,
            lasting: false,
            code: Code::Io,
            reason,
        }
    }
}

impl From<MetaError> for Refusal {
    fn from(error: MetaError) -> Refusal {
        Refusal::here(error.to_string())
    }
}

/// How long a file is, as its servers say.
#[derive(Clone, Copy, Default)]
pub(super) struct Lengths {
    /// In canonical order.
    pub(super) size: u64,
    /// All forks but `data` together.
    pub(super) others: u64,
}

impl Lengths {
    /// What is charged.
    pub(super) fn all(&self) -> u64 {
        self.size.saturating_add(self.others)
    }
}

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

    /// Carries an intent that is no delete through on all its servers, then in the namespace.
    pub(super) async fn carry(
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

    /// One request about all these files.
    pub(super) async fn delete(&self, server: ServerId, files: Vec<u64>) -> Result<(), Refusal> {
        let request = DeleteCellsRequest { files };
        self.ask(server, "delete", &request).await.map(drop)
    }

    /// Asks a server for something; `what` is how messages call it.
    pub(super) async fn ask<C: Call>(
        &self,
        server: ServerId,
        what: &str,
        request: &C,
    ) -> Result<C::Reply, Refusal> {
        let refusal = |silent, lasting, code, reason: String| Refusal {
            server: Some(server),
            silent,
            lasting,
            code,
            reason: format!("{what} on server {server}: {reason}"),
        };
        let link = self.link(server);
        let link = link.map_err(|e| refusal(true, false, Code::Unavailable, e))?;
        let asked = async {
            let (connection, _) = link.connection().await?;
            connection.call(request).await
        };
        asked.await.map_err(|error| {
            let code = error.code();
            let silent = !matches!(error, CallError::Failed(_) | CallError::Protocol { .. });
            let lasting = matches!(error, CallError::Failed(_)) && !passes(code);
            refusal(silent, lasting, code, error.to_string())
        })
    }

    /// How large a file is, and how long its other forks are: one request to each of its servers.
    pub(super) async fn lengths(&self, file: u64, layout: &Layout) -> Result<Lengths, String> {
        let asks = layout
            .servers_in_use()
            .iter()
            .map(|server| self.lengths_on(file, layout, *server));
        let all = join_all(asks).await;
        all.into_iter().try_fold(Lengths::default(), |sum, one| {
            let one = one?;
            Ok(Lengths {
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
    ) -> Result<Lengths, String> {
        let (grid, mut sum, mut after) = (layout.grid(), Lengths::default(), None);
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

    pub(super) async fn truncate_cells(
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

/// What all servers said, or why it was not done: the reason that stays before the one that may
/// pass.
pub(super) fn all_of<T>(said: Vec<Result<T, Refusal>>) -> Result<Vec<T>, Refusal> {
    let (mut good, mut worst) = (Vec::with_capacity(said.len()), None::<Refusal>);
    for said in said {
        match said {
            Ok(said) => good.push(said),
            Err(refusal) if worst.as_ref().is_none_or(|w| refusal.lasting && !w.lasting) => {
                worst = Some(refusal);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(good), Err)
}

/// Whether what was refused with this code may be done later without anybody's doing.
fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::Busy | Code::Unavailable | Code::StaleMap | Code::Cancelled | Code::NoSpace
    )
}
