//! The budget for the payload that all connections of a server hold in memory together.
//!
//! Each connection is granted its shared window when it is authenticated and keeps it until it
//! ends, and the windows granted never exceed one bound: so the bound holds whatever the clients
//! do, and no connection ever waits for another. With many connections, late ones get small
//! windows; that costs them round trips and nothing else, because each call has its own window
//! beside it. Windows that follow the load would need a message that revokes a grant, and clients
//! that obey it.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::WINDOW_FRACTION;

/// The bytes of windows that are left to grant.
pub(super) struct WindowBudget(Mutex<u64>);

/// A connection's shared window, until it is dropped.
pub(super) struct WindowGrant {
    bytes: u32,
    budget: Arc<WindowBudget>,
}

impl WindowBudget {
    pub(super) fn new(bytes: u64) -> Arc<WindowBudget> {
        Arc::new(WindowBudget(Mutex::new(bytes)))
    }

    /// Grants a window of at most `wanted` bytes.
    pub(super) fn grant(self: &Arc<Self>, wanted: u32) -> WindowGrant {
        let mut left = self.0.lock();
        let bytes = u32::try_from(*left / WINDOW_FRACTION).map_or(wanted, |most| most.min(wanted));
        *left -= u64::from(bytes);
        drop(left);
        WindowGrant {
            bytes,
            budget: self.clone(),
        }
    }
}

impl WindowGrant {
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl Drop for WindowGrant {
    fn drop(&mut self) {
        *self.budget.0.lock() += u64::from(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_never_exceed_the_budget_and_return_to_it() {
        let budget = WindowBudget::new(128 << 20);
        let granted: Vec<WindowGrant> = (0..2000).map(|_| budget.grant(8 << 20)).collect();
        let bytes: Vec<u64> = granted.iter().map(|g| u64::from(g.bytes())).collect();
        assert_eq!(bytes[0], 8 << 20);
        assert!(bytes[8] > 4 << 20 && bytes[32] > 1 << 20, "{bytes:?}");
        assert!(bytes.iter().sum::<u64>() <= 128 << 20);
        drop(granted);
        assert_eq!(budget.grant(8 << 20).bytes(), 8 << 20);
    }
}
