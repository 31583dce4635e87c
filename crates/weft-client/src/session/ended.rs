//! Operations that have taken effect everywhere, and whose claims are still to end: the next call
//! with a claim to the same server ends them along with it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weft_layout::ServerId;

/// By server, the operations that end.
#[derive(Default)]
pub(crate) struct EndedOperations {
    by_server: Mutex<BTreeMap<ServerId, Vec<u64>>>,
    /// A task will send what no call takes along.
    is_awaited: AtomicBool,
}

/// Operations that a call takes along. Dropped before it is answered, they wait for the next.
pub(crate) struct TakenAlong<'a> {
    ended: &'a EndedOperations,
    server: ServerId,
    operations: Vec<u64>,
}

impl EndedOperations {
    /// Adds an operation. Returns whether the caller is to see to it that it is sent.
    pub(crate) fn add(&self, servers: &[ServerId], operation: u64) -> bool {
        let mut by_server = self.by_server.lock();
        for server in servers {
            by_server.entry(*server).or_default().push(operation);
        }
        !self.is_awaited.swap(true, Ordering::AcqRel)
    }

    /// Those of a server, for a call that is about to be sent.
    pub(crate) fn take(&self, server: ServerId) -> TakenAlong<'_> {
        let operations = self.by_server.lock().get_mut(&server).map(std::mem::take);
        TakenAlong {
            ended: self,
            server,
            operations: operations.unwrap_or_default(),
        }
    }

    /// The servers with operations that no call has taken along, for the task that sends them.
    /// Later operations need another task.
    pub(crate) fn servers(&self) -> Vec<ServerId> {
        self.is_awaited.store(false, Ordering::Release);
        let by_server = self.by_server.lock();
        let some = by_server.iter().filter(|(_, ended)| !ended.is_empty());
        some.map(|(server, _)| *server).collect()
    }
}

impl TakenAlong<'_> {
    pub(crate) fn operations(&self) -> Vec<u64> {
        self.operations.clone()
    }

    /// The call was answered.
    pub(crate) fn delivered(mut self) {
        self.operations.clear();
    }
}

impl Drop for TakenAlong<'_> {
    fn drop(&mut self) {
        if !self.operations.is_empty() {
            let mut by_server = self.ended.by_server.lock();
            let waiting = by_server.entry(self.server).or_default();
            waiting.append(&mut self.operations);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_taken_along_until_a_call_is_answered() {
        let ended = EndedOperations::default();
        let servers = [ServerId(1), ServerId(2)];
        assert!(ended.add(&servers, 7));
        assert!(!ended.add(&servers[..1], 8), "somebody sees to it already");
        assert_eq!(ended.take(ServerId(1)).operations(), [7, 8]);
        let again = ended.take(ServerId(1));
        assert_eq!(again.operations(), [7, 8], "the call was not answered");
        again.delivered();
        assert!(ended.take(ServerId(1)).operations().is_empty());
        assert_eq!(ended.servers(), [ServerId(2)]);
        assert!(ended.add(&servers, 9));
    }
}
