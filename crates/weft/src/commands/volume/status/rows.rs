//! The report of `weft status`, with the keys of its JSON.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use weft_client::{CleanReply, ConnectedClient, DiskCondition, DiskReport, LossesReply, Replica};
use weft_store::DiskState;

use crate::remote::servers::{seconds_left, state_of_replica};
use crate::volume_config::{ServerName, disk_state};

/// Every key is always there; a value that is not known is `null`.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) volume: String,
    pub(super) epoch: Option<u64>,
    pub(super) files: Option<u64>,
    pub(super) pending: Option<u64>,
    pub(super) up: bool,
    pub(super) meta: Row,
    pub(super) servers: Vec<Row>,
    /// Whether every server has all its replicas in sync; `null` if none has replicas.
    pub(super) redundant: Option<bool>,
    /// Mounts and other programs that are connected.
    pub(super) clients: Option<Vec<ClientRow>>,
}

#[derive(Serialize)]
pub(super) struct ClientRow {
    pub(super) address: String,
    pub(super) name: String,
    /// RFC 3339.
    pub(super) since: String,
}

impl ClientRow {
    pub(super) fn of(client: ConnectedClient) -> ClientRow {
        let since = Duration::from_nanos(client.since.unsigned_abs());
        let since = humantime::format_rfc3339_seconds(UNIX_EPOCH + since);
        ClientRow {
            address: client.address,
            name: client.name,
            since: since.to_string(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Row {
    pub(super) node: String,
    pub(super) address: String,
    pub(super) state: &'static str,
    pub(super) pid: Option<i32>,
    pub(super) capacity: Option<u64>,
    pub(super) used: Option<u64>,
    pub(super) available: Option<u64>,
    pub(super) metrics: String,
    /// Known if the server answered.
    pub(super) disks: Option<Vec<DiskRow>>,
    /// Lost data of the server, if it answered.
    pub(super) losses: Option<LossRow>,
    /// What its addressed files share, as of its last cleaning pass; `null` before the first one
    /// since its start.
    pub(super) addressed: Option<AddressedRow>,
    /// Its replicas; none: it has one store.
    pub(super) replicas: Vec<ReplicaRow>,
    /// Replicas that it lacks: those that were drained and have no successor yet.
    pub(super) missing: u32,
    /// Why a running server is refused, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<String>,
}

/// A replica of a server.
#[derive(Serialize)]
pub(super) struct ReplicaRow {
    pub(super) node: String,
    pub(super) role: &'static str,
    pub(super) state: &'static str,
    pub(super) address: String,
    pub(super) pid: Option<i32>,
    pub(super) used: u64,
    pub(super) available: u64,
    pub(super) metrics: String,
    /// While it catches up: seconds until it is in sync, as far as can be told.
    pub(super) seconds_left: Option<u64>,
}

impl ReplicaRow {
    pub(super) fn of(node: ServerName, replica: &Replica, pid: Option<i32>) -> ReplicaRow {
        ReplicaRow {
            node: node.to_string(),
            role: if replica.primary { "primary" } else { "backup" },
            state: state_of_replica(replica),
            address: replica.address.clone(),
            pid,
            used: replica.usage.used,
            available: replica.usage.available,
            metrics: replica.metrics.clone(),
            seconds_left: seconds_left(replica),
        }
    }
}

/// Bytes that are known to be lost: reading them fails.
#[derive(Serialize)]
pub(super) struct LossRow {
    pub(super) files: u64,
    pub(super) ranges: u64,
    pub(super) bytes: u64,
    /// There is more lost data than was counted.
    pub(super) more: bool,
}

#[derive(Serialize)]
pub(super) struct AddressedRow {
    /// Bytes that files and checkpoints refer to.
    pub(super) referred_bytes: u64,
    pub(super) stored_chunks: u64,
    pub(super) stored_bytes: u64,
    /// Bytes that the cleaner has removed since the server's start.
    pub(super) removed_bytes: u64,
    /// Chunks that files refer to and that are not stored, or were found damaged.
    pub(super) missing_chunks: u64,
}

#[derive(Serialize)]
pub(super) struct DiskRow {
    pub(super) number: u32,
    pub(super) path: String,
    pub(super) state: &'static str,
    pub(super) reason: String,
    pub(super) used: u64,
    pub(super) available: u64,
    pub(super) errors: u64,
}

impl DiskRow {
    pub(super) fn of(disk: DiskReport) -> DiskRow {
        let state = match DiskCondition::try_from(disk.condition) {
            Ok(DiskCondition::InUse) => DiskState::InUse,
            Ok(DiskCondition::Full) => DiskState::Full,
            Ok(DiskCondition::Missing) => DiskState::Missing,
            Ok(DiskCondition::Closed) => DiskState::Closed,
            Ok(DiskCondition::Failed | DiskCondition::Unknown) | Err(_) => DiskState::Failed,
        };
        DiskRow {
            number: disk.number,
            path: disk.path,
            state: disk_state(state),
            reason: disk.reason,
            used: disk.used,
            available: disk.available,
            errors: disk.errors,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        [DiskState::Failed, DiskState::Missing]
            .map(disk_state)
            .contains(&self.state)
    }
}

impl AddressedRow {
    pub(super) fn of(reply: CleanReply) -> Option<AddressedRow> {
        (!reply.never).then_some(AddressedRow {
            referred_bytes: reply.named_bytes,
            stored_chunks: reply.chunks,
            stored_bytes: reply.chunk_bytes,
            removed_bytes: reply.removed_since_start,
            missing_chunks: reply.missing,
        })
    }
}

impl LossRow {
    pub(super) fn of(lost: LossesReply) -> LossRow {
        LossRow {
            files: lost.files,
            ranges: lost.ranges,
            bytes: lost.bytes,
            more: lost.more,
        }
    }
}
