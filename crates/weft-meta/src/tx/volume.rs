//! A handle of an open volume, and how operations reach the engine.

use std::sync::Arc;

use parking_lot::MutexGuard;
use weft_kv::{Reader, transact_with};

use super::transaction::Tx;
use crate::error::MetaError;
use crate::leases::Watched;
use crate::open::OpenFiles;
use crate::state::VolumeState;

/// The origin of changes that the service makes by itself.
pub const SERVICE: u64 = 0;

/// An open volume as one client uses it. Cheap to clone; clones share the state.
#[derive(Clone)]
pub(crate) struct Volume {
    state: Arc<VolumeState>,
    /// The client whose changes the log names as the origin, or [`SERVICE`].
    origin: u64,
}

impl Volume {
    /// A handle that acts for no client.
    pub(crate) fn new(state: VolumeState) -> Volume {
        Volume {
            state: Arc::new(state),
            origin: SERVICE,
        }
    }

    /// The same volume, acting for this client.
    pub(crate) fn by(&self, client: u64) -> Volume {
        Volume {
            state: self.state.clone(),
            origin: client,
        }
    }

    /// The state that all handles share.
    pub(crate) fn state(&self) -> &VolumeState {
        &self.state
    }

    /// The client that this handle acts for; 0: no client.
    pub(crate) fn origin(&self) -> u64 {
        self.origin
    }

    /// Reads one snapshot.
    ///
    /// # Errors
    /// [`MetaError::Delegated`] where the reads meet a directory that another client has delegated.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&dyn Reader) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        // Before the snapshot: it may lack changes of a directory that is returned later.
        let holders = self.state.delegations().conflicts_for(self.origin);
        let mut snapshot = self.state.kv().snapshot()?;
        let watched = Watched::new(&mut *snapshot, holders, self.origin);
        let outcome = work(&watched);
        watched.finish(outcome)
    }

    /// Runs one transaction; an error rolls it back. `work` runs again after a conflict.
    pub(crate) fn transact<T>(
        &self,
        work: impl FnMut(&mut Tx<'_, '_>) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        self.run(&mut None, work)
    }

    /// Runs one transaction and then, if it was committed, `then` on the open files. Where `work`
    /// accessed them they stay locked in between.
    pub(crate) fn transact_then<T>(
        &self,
        work: impl FnMut(&mut Tx<'_, '_>) -> Result<T, MetaError>,
        then: impl FnOnce(&mut OpenFiles, &T),
    ) -> Result<T, MetaError> {
        let mut open = None;
        let value = self.run(&mut open, work)?;
        let mut open = open.unwrap_or_else(|| self.state.open_files());
        then(&mut open, &value);
        Ok(value)
    }

    fn run<'n, T>(
        &'n self,
        open: &mut Option<MutexGuard<'n, OpenFiles>>,
        mut work: impl FnMut(&mut Tx<'_, 'n>) -> Result<T, MetaError>,
    ) -> Result<T, MetaError> {
        let state = &*self.state;
        let mut changes = Vec::new();
        let _committing = state.changes().committing();
        let value = transact_with(state.kv(), |txn| {
            let holders = state.delegations().conflicts_for(self.origin);
            let mut watched = Watched::new(txn, holders, self.origin);
            let mut tx = Tx::new(state, &mut watched, open);
            let value = work(&mut tx);
            let outcome = value.and_then(|value| {
                changes = tx.finish()?;
                Ok(value)
            });
            watched.finish(outcome)
        })?;
        state
            .changes()
            .publish(self.origin, changes, state.leases());
        Ok(value)
    }
}
