//! The handle: opening, closing, and properties of the volume.

use std::sync::Arc;

use weft_kv::{OrderedKv, Position};

use super::format::{VolumeSettings, format};
use super::open::{close, closed_cleanly, open};
use crate::error::MetaError;
use crate::leases::{Change, ChangeLog, Delegations, Leases, Opened};
use crate::open::Clients;
use crate::records::keys;
use crate::servers::ServerTable;
use crate::state::VolumeState;
use crate::tx::Volume;

/// Counts of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Files, directories and other inodes, the root and orphans included.
    pub files: u64,
    /// Pending intents.
    pub intents: u64,
}

/// The namespace of one volume. All methods may be called from any thread and block for as long as
/// the engine does. Cheap to clone; clones are the same namespace.
#[derive(Clone)]
pub struct Namespace(Volume);

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Namespace")
            .field("volume", self.0.state().volume())
            .finish_non_exhaustive()
    }
}

impl Namespace {
    /// Writes an empty volume into an engine that holds none.
    ///
    /// # Durability
    /// On stable storage on return.
    pub fn format(kv: &dyn OrderedKv, settings: &VolumeSettings) -> Result<(), MetaError> {
        format(kv, settings)
    }

    /// Opens the volume in an engine. Clients of an earlier run of the service may have files open,
    /// unless it closed cleanly. So every file that loses its last name stays until the first
    /// [`Namespace::reap_orphans`].
    ///
    /// # Errors
    /// [`MetaError::NotFormatted`], [`MetaError::FormatVersion`], or the engine's.
    pub fn open(kv: Arc<dyn OrderedKv>) -> Result<Namespace, MetaError> {
        open(kv, Clients::Any).map(Namespace)
    }

    /// As [`Namespace::open`], for a caller with exclusive access: no client of an earlier run can
    /// reconnect and report what it has open.
    pub fn open_alone(kv: Arc<dyn OrderedKv>) -> Result<Namespace, MetaError> {
        open(kv, Clients::OnlyCaller).map(Namespace)
    }

    /// Marks the volume as closed cleanly, if no client has anything open: the next run of the
    /// service need not wait for reports of clients. No operation may follow.
    ///
    /// # Durability
    /// On stable storage on return.
    pub fn close(&self) -> Result<(), MetaError> {
        close(&self.0)
    }

    /// Whether the engine has the mark that [`Namespace::close`] writes last when no client has
    /// anything open: an engine that lacks it after such a close lost its last commits.
    pub fn closed_cleanly(kv: &dyn OrderedKv) -> Result<bool, MetaError> {
        closed_cleanly(kv)
    }

    /// The same namespace, acting for this client: the client's own watch does not report these
    /// changes.
    #[must_use]
    pub fn by(&self, client: u64) -> Namespace {
        Namespace(self.0.by(client))
    }

    pub(super) fn volume(&self) -> &Volume {
        &self.0
    }

    fn state(&self) -> &VolumeState {
        self.0.state()
    }

    /// The volume's id.
    pub fn id(&self) -> [u8; 16] {
        let stored = &self.state().volume().id;
        let mut id = [0; 16];
        let length = stored.len().min(16);
        id[..length].copy_from_slice(&stored[..length]);
        id
    }

    /// The volume's name.
    pub fn name(&self) -> &str {
        &self.state().volume().name
    }

    /// The number of files and of pending intents. Cost: one read.
    pub fn counts(&self) -> Result<Counts, MetaError> {
        let counters = keys::counters(&*self.state().kv().snapshot()?)?;
        Ok(Counts {
            files: counters.files,
            intents: counters.intents,
        })
    }

    /// The ids of the servers that a volume was formatted with, ascending.
    pub fn servers_of(kv: &dyn OrderedKv) -> Result<Vec<u32>, MetaError> {
        Ok(ServerTable::load(&*kv.snapshot()?, 0)?.formatted_ids())
    }

    /// The server map's epoch.
    pub fn epoch(&self) -> u64 {
        self.state().servers().epoch()
    }

    /// Directories whose names one client knows.
    pub fn leases(&self) -> &Leases {
        self.state().leases()
    }

    /// Directories in which one client changes names and reports them later.
    pub fn delegations(&self) -> &Delegations {
        self.state().delegations()
    }

    /// The last changes.
    pub fn changes(&self) -> &ChangeLog {
        self.state().changes()
    }

    /// Whether this client has this file attached.
    pub fn is_attached(&self, client: u64, file: u64) -> bool {
        self.state().open_files().is_holder(client, file)
    }

    /// The clients that have a file open, and whether each has it open for writing.
    pub fn holders(&self, file: u64) -> Vec<(u64, bool)> {
        self.state().open_files().holders(file)
    }

    /// Asks the other clients that have a file open for writing to send what they have of it:
    /// `client` waits for their leases then.
    pub fn recall_gathered(&self, client: u64, file: u64) {
        let state = self.state();
        let writers = state.open_files().other_writers(client, file);
        let gatherers = state.leases().gatherers_among(&writers);
        let opened = vec![Change::Opened(Opened { file, gatherers })];
        state.changes().publish(client, opened, state.leases());
    }

    /// Whether clients of an earlier run of the service may have a file open, or locks on it, and
    /// have not reported that yet.
    pub fn may_be_held(&self, file: u64) -> bool {
        self.state().grace().may_hold(file)
    }

    /// Whether the grace period lasts: clients of an earlier run may not have reported yet what
    /// they have open.
    pub fn recovering(&self) -> bool {
        self.state().grace().is_active()
    }

    /// Begins an incarnation of the service, `number` drawn at random.
    ///
    /// # Errors
    /// The engine's.
    /// # Durability
    /// On stable storage on return, and nothing may be acknowledged before.
    pub fn begin_incarnation(&self, number: u64, now: i64) -> Result<(), MetaError> {
        let state = self.state();
        state.incarnations().begin(state.kv(), number, now)
    }

    /// A position that covers every change until now; `None` where no incarnation was begun.
    pub fn position(&self) -> Option<Position> {
        let state = self.state();
        state.incarnations().position(state.kv().committed())
    }

    /// Records that a sync covered everything up to this commit.
    pub fn note_durable(&self, committed: u64) {
        self.state().incarnations().note_durable(committed);
    }

    /// Checks that everything acknowledged up to a position is still there.
    ///
    /// # Errors
    /// [`MetaError::Lost`].
    pub fn still_has(&self, at: Position) -> Result<(), MetaError> {
        let state = self.state();
        state.incarnations().check_has(at, state.kv().committed())
    }
}
