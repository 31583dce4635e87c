//! What the processes of a run ahead of the service share: the model of all names, and what was
//! counted.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::names::Names;
use crate::plan::Plan;
use crate::state::State;

/// The state of a run; clones share it.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) state: State,
    names: Arc<Mutex<Names>>,
    /// Clients whose process is to die now.
    doomed: Arc<Mutex<BTreeSet<usize>>>,
}

impl Shared {
    pub(super) fn new(plan: Plan) -> Shared {
        Shared {
            plan,
            state: State::new(plan.servers, plan.clients),
            names: Arc::new(Mutex::new(Names::new(plan.clients, plan.operations))),
            doomed: Arc::default(),
        }
    }

    /// Lock order: before the state.
    pub(super) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client's process has reached the step before which it is to die.
    pub(super) fn doom(&self, client: usize) {
        let mut doomed = self.doomed.lock().unwrap_or_else(PoisonError::into_inner);
        doomed.insert(client);
    }

    pub(super) fn take_doomed(&self) -> BTreeSet<usize> {
        let mut doomed = self.doomed.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *doomed)
    }
}
