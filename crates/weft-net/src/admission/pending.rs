//! Connections whose handshake has not ended.
//!
//! They have a few separate slots, so that a flood of them takes neither descriptors nor memory
//! from authenticated connections. When all slots are taken, a new connection evicts one: first one
//! that has sent nothing, then one of the source that has the most, then the oldest. A client sends
//! its hello at once, so a flood of silent connections does not evict it. No connection is evicted
//! within its first [`HELLO_TIMEOUT_MIN`], which bounds the rate at which a flood passes through:
//! the rest waits in the kernel's backlog.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::limits::HELLO_TIMEOUT_MIN;

pub(super) struct PendingConnections {
    slots: usize,
    table: Mutex<PendingTable>,
}

#[derive(Default)]
struct PendingTable {
    next: u64,
    /// In the order of arrival.
    connections: BTreeMap<u64, PendingConnection>,
}

struct PendingConnection {
    since: Instant,
    source: String,
    said_hello: bool,
    evicted: Arc<Notify>,
}

/// The slot of a connection, until it is dropped or the connection is evicted.
pub(crate) struct PendingSlot {
    pending: Arc<PendingConnections>,
    number: u64,
    evicted: Arc<Notify>,
}

impl PendingConnections {
    pub(super) fn new(slots: usize) -> Arc<PendingConnections> {
        assert!(slots > 0, "no connection could be accepted");
        Arc::new(PendingConnections {
            slots,
            table: Mutex::default(),
        })
    }

    /// A slot for a connection from `address`; or how long to wait until one may be evicted.
    pub(super) fn admit(self: &Arc<Self>, address: &str) -> Result<PendingSlot, Duration> {
        let mut table = self.table.lock();
        let mut evicted = None;
        if table.connections.len() >= self.slots
            && let Some(number) = table.candidate()
        {
            let waited = table.connections[&number].since.elapsed();
            let protected = HELLO_TIMEOUT_MIN.saturating_sub(waited);
            if !protected.is_zero() {
                return Err(protected);
            }
            evicted = table.connections.remove(&number);
        }
        let number = table.next;
        table.next += 1;
        let notify = Arc::new(Notify::new());
        let connection = PendingConnection {
            since: Instant::now(),
            source: source(address).to_owned(),
            said_hello: false,
            evicted: notify.clone(),
        };
        table.connections.insert(number, connection);
        drop(table);
        if let Some(connection) = evicted {
            connection.evicted.notify_one();
        }
        Ok(PendingSlot {
            pending: self.clone(),
            number,
            evicted: notify,
        })
    }
}

impl PendingTable {
    /// The connection to evict. Scans all, which are few.
    fn candidate(&self) -> Option<u64> {
        let mut by_source = HashMap::new();
        for connection in self.connections.values() {
            *by_source.entry(&connection.source).or_insert(0_usize) += 1;
        }
        let rank = |(number, connection): &(&u64, &PendingConnection)| {
            let same_source = by_source[&connection.source];
            (connection.said_hello, Reverse(same_source), **number)
        };
        let candidate = self.connections.iter().min_by_key(rank);
        candidate.map(|(number, _)| *number)
    }
}

/// An address without its port.
fn source(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

impl PendingSlot {
    /// The connection has sent a whole hello.
    pub(crate) fn said_hello(&self) {
        let mut table = self.pending.table.lock();
        if let Some(connection) = table.connections.get_mut(&self.number) {
            connection.said_hello = true;
        }
    }

    /// Completes when the connection is evicted.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl Drop for PendingSlot {
    fn drop(&mut self) {
        let connection = self.pending.table.lock().connections.remove(&self.number);
        drop(connection);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_evicted(slot: &PendingSlot) -> bool {
        slot.evicted().now_or_never().is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_connection_of_the_largest_source_is_evicted() {
        let pending = PendingConnections::new(4);
        let accept = |address: &str| {
            let slot = pending.admit(address);
            slot.unwrap_or_else(|_| panic!("no slot"))
        };
        let slots = [
            accept("10.0.0.1:1"),
            accept("10.0.0.2:1"),
            accept("10.0.0.2:2"),
            accept("10.0.0.2:3"),
        ];
        slots[1].said_hello();
        assert_eq!(pending.admit("10.0.0.3:1").err(), Some(HELLO_TIMEOUT_MIN));
        tokio::time::advance(HELLO_TIMEOUT_MIN).await;
        let fifth = accept("10.0.0.3:1");
        let evicted = slots.each_ref().map(is_evicted);
        assert_eq!(evicted, [false, false, true, false]);
        // The source still has two connections, one of them with a hello.
        let sixth = accept("10.0.0.3:2");
        let evicted = slots.each_ref().map(is_evicted);
        assert_eq!(evicted, [false, false, false, true]);
        drop((slots, fifth));
        for port in 0..3 {
            accept(&format!("10.0.0.4:{port}"));
        }
        assert!(!is_evicted(&sixth));
    }
}
