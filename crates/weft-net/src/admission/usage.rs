//! What the calls of one connection hold of the memory that its client was granted.

use weft_proto::limits::{BODIES_MAX, window_cost};

use super::call_window::shared_part;

/// The usage of one connection, and its bounds. Counts only; the caller's lock guards it.
pub(crate) struct ConnectionUsage {
    calls_max: usize,
    window: u64,
    calls: usize,
    /// Sum of the shared parts of the calls' windows.
    shared: u64,
    /// Sum of the calls' bodies.
    bodies: u64,
}

/// The usage of one call.
pub(crate) struct CallUsage {
    body: u64,
    /// Window of payload that was received and not released.
    outstanding: u64,
}

impl ConnectionUsage {
    /// No calls yet, of a client that was granted so many and a window of so many bytes.
    pub(crate) fn new(calls_max: u32, window: u32) -> Self {
        ConnectionUsage {
            calls_max: calls_max as usize,
            window: window.into(),
            calls: 0,
            shared: 0,
            bodies: 0,
        }
    }

    /// Begins a call with a body of so many bytes.
    ///
    /// # Errors
    /// Words for the log when the client exceeds its bounds; the connection ends then.
    pub(crate) fn begin(&mut self, body: usize) -> Result<CallUsage, String> {
        if self.calls >= self.calls_max {
            return Err("the client has more calls in flight than it was granted".to_owned());
        }
        let body = body as u64;
        if self.bodies + body > u64::from(BODIES_MAX) {
            return Err("the client has too many bytes of requests in flight".to_owned());
        }
        self.calls += 1;
        self.bodies += body;
        Ok(CallUsage {
            body,
            outstanding: 0,
        })
    }

    /// Whether a frame's payload is within the windows, asked before memory is allocated for it.
    /// `call` is `None` for a new call, and for one that was answered meanwhile: its client still
    /// counts the payload against the shared window.
    ///
    /// # Errors
    /// Words for the log when the client exceeds its bounds; the connection ends then.
    pub(crate) fn admit(&self, call: Option<&CallUsage>, payload: usize) -> Result<(), String> {
        let before = call.map_or(0, |call| call.outstanding);
        let after = before + window_cost(payload);
        let shared = self.shared + shared_part(after) - shared_part(before);
        // Each call may always use its own window; only what goes beyond can exceed the bound.
        if shared > self.window && shared > self.shared {
            return Err("the client sent more payload than it was granted".to_owned());
        }
        Ok(())
    }

    /// Payload that was admitted has arrived.
    pub(crate) fn receive(&mut self, call: &mut CallUsage, cost: u64) {
        let (before, after) = (call.outstanding, call.outstanding + cost);
        let shared = self.shared + shared_part(after) - shared_part(before);
        debug_assert!(shared <= self.window.max(self.shared), "it was admitted");
        (call.outstanding, self.shared) = (after, shared);
    }

    /// The service has released payload. Returns whether the call held some of the shared window.
    pub(crate) fn release(&mut self, call: &mut CallUsage, cost: u64) -> bool {
        let before = call.outstanding;
        call.outstanding -= cost;
        self.shared -= shared_part(before) - shared_part(call.outstanding);
        shared_part(before) > 0
    }

    /// The call has ended: what it held is free.
    pub(crate) fn end(&mut self, call: &CallUsage) {
        self.calls -= 1;
        self.shared -= shared_part(call.outstanding);
        self.bodies -= call.body;
    }
}

#[cfg(test)]
mod tests {
    use weft_proto::limits::CALL_WINDOW;

    use super::*;

    #[test]
    fn calls_and_bodies_are_bounded_and_released_when_a_call_ends() {
        let mut usage = ConnectionUsage::new(2, 0);
        let half = BODIES_MAX as usize / 2;
        let first = usage.begin(half).unwrap();
        assert!(usage.begin(half + 1).is_err());
        let second = usage.begin(half).unwrap();
        assert!(usage.begin(0).is_err());
        usage.end(&first);
        usage.begin(half).unwrap();
        usage.end(&second);
    }

    #[test]
    fn each_call_has_its_own_window_beside_the_shared_one() {
        let own = u64::from(CALL_WINDOW);
        let mut usage = ConnectionUsage::new(2, 1000);
        let (mut first, mut second) = (usage.begin(0).unwrap(), usage.begin(0).unwrap());
        usage.receive(&mut first, own + 1000);
        assert!(usage.admit(Some(&first), 1).is_err());
        assert!(usage.admit(Some(&second), CALL_WINDOW as usize).is_ok());
        usage.receive(&mut second, own);
        assert!(usage.admit(Some(&second), 1).is_err());
        assert!(!usage.release(&mut second, 600));
        assert!(usage.admit(Some(&second), 600).is_ok());
        assert!(usage.release(&mut first, 600));
        assert!(usage.admit(Some(&first), 600).is_ok());
        usage.end(&first);
        assert!(usage.admit(Some(&second), 1600).is_ok());
    }
}
