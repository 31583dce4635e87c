//! Backups that answer large reads (`docs/design/0049-reads-of-backups.md`).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weft_layout::ServerId;
use weft_net::{CallError, ConnectError, Connection, Link, Links};
use weft_proto::meta::ServerMapReply;

use crate::limits::{BACKUP_READ_MIN, BACKUP_REST, BACKUP_STEP};

/// Which reads are spread over all replicas of a server; the others go to its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpreadReads {
    /// Bytes of the smallest of them, on each server.
    pub least: u64,
    /// Reads that end within as many bytes go to the same replica, so that each has its own part of
    /// a file in memory; 0: one read after the other to all replicas in turn.
    pub step: u64,
}

impl Default for SpreadReads {
    fn default() -> SpreadReads {
        SpreadReads {
            least: BACKUP_READ_MIN,
            step: BACKUP_STEP,
        }
    }
}

/// The backups in sync, as the last server map says.
pub(super) struct Backups {
    spread: SpreadReads,
    by_server: Mutex<HashMap<u32, Vec<Backup>>>,
    /// When the map was learnt, or asked for.
    learnt: Mutex<Instant>,
    reads: AtomicU64,
}

/// A backup in sync.
#[derive(Clone)]
pub(crate) struct Backup {
    link: Link,
    /// Until when it is left alone.
    rests_until: Arc<Mutex<Option<Instant>>>,
}

impl Backups {
    pub(super) fn new(spread: SpreadReads) -> Backups {
        Backups {
            spread,
            by_server: Mutex::default(),
            learnt: Mutex::new(Instant::now()),
            reads: AtomicU64::new(0),
        }
    }

    pub(super) fn learn(&self, links: &Links, map: &ServerMapReply) {
        *self.learnt.lock() = Instant::now();
        let mut by_server = self.by_server.lock();
        for server in &map.servers {
            let in_sync = server.replicas.iter().filter(|r| r.in_sync && !r.primary);
            let addresses: Vec<&str> = in_sync.map(|r| r.address.as_str()).collect();
            let known = by_server.entry(server.id).or_default();
            known.retain(|backup| addresses.contains(&backup.link.address().as_str()));
            for address in addresses {
                if !known.iter().any(|backup| backup.link.address() == address) {
                    known.push(Backup {
                        link: links.make(ServerId(server.id), address),
                        rests_until: Arc::default(),
                    });
                }
            }
        }
    }

    /// Whether to ask for the map again, since it is older than this; true once.
    pub(super) fn are_older(&self, age: Duration) -> bool {
        let mut learnt = self.learnt.lock();
        let are_old = learnt.elapsed() > age;
        if are_old {
            *learnt = Instant::now();
        }
        are_old
    }

    /// Whether a read of so many bytes on each server is spread over replicas.
    pub(super) fn is_spread(&self, bytes: u64) -> bool {
        bytes >= self.spread.least
    }

    /// The backup that answers a read that ends there; `None`: the primary does.
    pub(super) fn reader(&self, server: ServerId, end: u64) -> Option<Backup> {
        let by_server = self.by_server.lock();
        let backups = by_server.get(&server.0)?;
        let place = match end.checked_div(self.spread.step) {
            // The same for all servers: their primaries are on different machines, and so are
            // their backups, but a backup of one may be beside the primary of another.
            Some(step) => step,
            None => self.reads.fetch_add(1, Ordering::Relaxed),
        };
        let number = (place % (backups.len() as u64 + 1)) as usize;
        let backup = backups.get(number.checked_sub(1)?)?;
        (!backup.rests()).then(|| backup.clone())
    }
}

impl Backup {
    pub(crate) async fn connection(&self) -> Result<Connection, CallError> {
        Ok(self.link.connection().await?.0)
    }

    /// The error of a call that it has not answered.
    pub(crate) fn silent(&self, waited: Duration) -> CallError {
        let address = self.link.address();
        CallError::Connect(ConnectError::Timeout { address, waited })
    }

    /// It has not answered as it should: the primary is asked for some time.
    pub(crate) fn rest(&self) {
        *self.rests_until.lock() = Some(Instant::now() + BACKUP_REST);
    }

    fn rests(&self) -> bool {
        let until = *self.rests_until.lock();
        until.is_some_and(|until| Instant::now() < until)
    }
}
