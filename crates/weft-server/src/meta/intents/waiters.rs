//! The callers that wait for intents.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::Notify;

/// The waiting callers by intent.
#[derive(Default)]
pub(super) struct Waiters(HashMap<u64, Vec<Arc<Notify>>>);

impl Waiters {
    pub(super) fn add(&mut self, number: u64) -> Arc<Notify> {
        let caller = Arc::new(Notify::new());
        self.0.entry(number).or_default().push(caller.clone());
        caller
    }

    pub(super) fn remove(&mut self, number: u64, caller: &Arc<Notify>) {
        if let Some(callers) = self.0.get_mut(&number) {
            callers.retain(|other| !Arc::ptr_eq(other, caller));
            if callers.is_empty() {
                self.0.remove(&number);
            }
        }
    }

    /// Whether an intent has any.
    pub(super) fn has(&self, number: u64) -> bool {
        self.0.contains_key(&number)
    }

    /// Notifies the callers of an intent.
    pub(super) fn notify(&self, number: u64) {
        for caller in self.0.get(&number).into_iter().flatten() {
            caller.notify_one();
        }
    }

    pub(super) fn notify_all(&self) {
        self.0.values().flatten().for_each(|c| c.notify_one());
    }
}
