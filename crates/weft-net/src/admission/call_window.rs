//! The arithmetic of request windows, the same on both sides of a connection.
//!
//! A call may always have [`CALL_WINDOW`] outstanding (sent, not credited); what it has beyond is
//! its *shared part*, and the shared parts of all calls together are bounded by the connection's
//! window. So memory is bounded by `calls · CALL_WINDOW + window`, one call can use nearly all of
//! the window, and no call ever waits for another to be consumed.
//!
//! The receiver counts a frame after the sender did and a credit before, so its count of any call
//! is never above the sender's; `shared_part` never decreases as its argument grows; hence a sender
//! within its bounds is never found outside of them.

use weft_proto::limits::CALL_WINDOW;

/// The share of a call's outstanding payload that counts against the window of all calls.
pub(crate) fn shared_part(outstanding: u64) -> u64 {
    outstanding.saturating_sub(u64::from(CALL_WINDOW))
}
