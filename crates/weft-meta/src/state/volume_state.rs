//! What all handles of an open volume share: the engine, and the table of each module below.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use weft_kv::OrderedKv;

use super::incarnations::Incarnations;
use crate::intents::OldestIntent;
use crate::leases::{ChangeLog, Delegations, Leases};
use crate::open::{Grace, OpenFiles, UnknownSizes};
use crate::quota::Growth;
use crate::records::record::{CountersRecord, VolumeRecord};
use crate::servers::{ServerTable, Servers};

/// The state in memory. Each table keeps its invariants behind its methods, and knows no other.
///
/// Lock order: the engine's writer, then the open files, then any other table.
pub(crate) struct VolumeState {
    kv: Arc<dyn OrderedKv>,
    volume: VolumeRecord,
    open_files: Mutex<OpenFiles>,
    unknown_sizes: UnknownSizes,
    grace: Grace,
    servers: Servers,
    growth: Growth,
    oldest_intent: OldestIntent,
    changes: ChangeLog,
    leases: Leases,
    delegations: Delegations,
    incarnations: Incarnations,
}

impl VolumeState {
    /// The state of a volume that was just opened.
    pub(crate) fn new(
        kv: Arc<dyn OrderedKv>,
        volume: VolumeRecord,
        counters: &CountersRecord,
        servers: ServerTable,
        grace: Grace,
        incarnations: Incarnations,
    ) -> VolumeState {
        VolumeState {
            kv,
            volume,
            open_files: Mutex::new(OpenFiles::of_run(counters.next_id)),
            unknown_sizes: UnknownSizes::default(),
            grace,
            servers: Servers::new(servers),
            growth: Growth::default(),
            oldest_intent: OldestIntent::default(),
            changes: ChangeLog::default(),
            leases: Leases::default(),
            delegations: Delegations::default(),
            incarnations,
        }
    }

    /// The engine.
    pub(crate) fn kv(&self) -> &dyn OrderedKv {
        &*self.kv
    }

    /// What was fixed when the volume was formatted.
    pub(crate) fn volume(&self) -> &VolumeRecord {
        &self.volume
    }

    /// The open files, locked.
    pub(crate) fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open_files.lock()
    }

    /// Files whose size is unknown.
    pub(crate) fn unknown_sizes(&self) -> &UnknownSizes {
        &self.unknown_sizes
    }

    /// The grace period after a restart.
    pub(crate) fn grace(&self) -> &Grace {
        &self.grace
    }

    /// The server map.
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Growth that writers have not reported.
    pub(crate) fn growth(&self) -> &Growth {
        &self.growth
    }

    /// The low-water mark of the intents.
    pub(crate) fn oldest_intent(&self) -> &OldestIntent {
        &self.oldest_intent
    }

    /// The last changes.
    pub(crate) fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// Directories whose names one client knows.
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Directories in which one client changes names and reports them later.
    pub(crate) fn delegations(&self) -> &Delegations {
        &self.delegations
    }

    /// The incarnations of the service.
    pub(crate) fn incarnations(&self) -> &Incarnations {
        &self.incarnations
    }
}
