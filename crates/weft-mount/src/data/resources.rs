//! What all files of a mount share.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::budget::DirtyBudget;
use super::clock::Clock;
use super::config::DataConfig;
use super::registry::Registry;
use crate::limits::READ_AHEAD_WINDOWS;
use crate::outage::Outages;

/// Budgets, clock, background runtime and registry of the files of type `F`.
pub(super) struct Resources<F> {
    config: DataConfig,
    runtime: Handle,
    dirty: Arc<DirtyBudget>,
    read_ahead: Arc<Semaphore>,
    clock: Clock,
    registry: Registry<F>,
    outages: Outages,
}

impl<F> Resources<F> {
    pub(super) fn new(config: DataConfig, runtime: Handle) -> Resources<F> {
        let windows = READ_AHEAD_WINDOWS * config.read_ahead;
        Resources {
            config,
            runtime,
            dirty: Arc::new(DirtyBudget::new(config.total_dirty)),
            read_ahead: Arc::new(Semaphore::new(windows.min(Semaphore::MAX_PERMITS))),
            clock: Clock::default(),
            registry: Registry::default(),
            outages: Outages::new(config.outage_timeout),
        }
    }

    pub(super) fn config(&self) -> &DataConfig {
        &self.config
    }

    pub(super) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    pub(super) fn dirty(&self) -> &Arc<DirtyBudget> {
        &self.dirty
    }

    /// Memory for bytes read ahead; `None` if the mount's budget for them is spent.
    pub(super) fn reserve_read_ahead(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let budget = self.read_ahead.clone();
        budget.try_acquire_many_owned(bytes as u32).ok()
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(super) fn registry(&self) -> &Registry<F> {
        &self.registry
    }

    pub(super) fn outages(&self) -> &Outages {
        &self.outages
    }
}
