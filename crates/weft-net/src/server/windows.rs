//! What the connections of a server may hold in memory of payload, all together.
//!
//! Each connection is granted its shared window when it is proven and keeps it until it ends, and
//! the windows granted never exceed one bound: so the bound holds whatever the clients do, and no
//! connection ever waits for another. With many connections the windows of those that come late are
//! small; that costs them round trips and nothing else, because each call has a window of its own
//! beside it. A window that shrinks and grows with the load would need a message that takes back
//! what was granted, and a client that must obey it.

use std::sync::{Arc, Mutex, PoisonError};

/// The part of what is left that one connection gets at most: with many, each gets a little less
/// than the one before.
const SHARE: u64 = 16;

/// The windows that are left to grant.
pub(crate) struct Windows(Mutex<u64>);

/// A connection's shared window, until it is dropped.
pub(crate) struct Granted {
    bytes: u32,
    windows: Arc<Windows>,
}

impl Windows {
    pub(crate) fn new(bytes: u64) -> Arc<Windows> {
        Arc::new(Windows(Mutex::new(bytes)))
    }

    /// Grants a window of at most `wanted` bytes.
    pub(crate) fn grant(self: &Arc<Self>, wanted: u32) -> Granted {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = u32::try_from(*left / SHARE).map_or(wanted, |share| share.min(wanted));
        *left -= u64::from(bytes);
        drop(left);
        Granted {
            bytes,
            windows: self.clone(),
        }
    }
}

impl Granted {
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        let left = &self.windows.0;
        *left.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_never_exceed_their_bound_and_come_back() {
        let windows = Windows::new(128 << 20);
        let granted: Vec<Granted> = (0..2000).map(|_| windows.grant(8 << 20)).collect();
        let bytes: Vec<u64> = granted.iter().map(|g| u64::from(g.bytes())).collect();
        assert_eq!(bytes[0], 8 << 20);
        assert!(bytes[8] > 4 << 20 && bytes[32] > 1 << 20, "{bytes:?}");
        assert!(bytes.iter().sum::<u64>() <= 128 << 20);
        drop(granted);
        assert_eq!(windows.grant(8 << 20).bytes(), 8 << 20);
    }
}
