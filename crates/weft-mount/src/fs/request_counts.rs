//! What a mount has cost so far: the kernel's requests, and the calls that they made.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use weft_client::Volume;

/// On the root directory: what the mount has cost, a line for each count.
pub const COUNTS_XATTR: &str = "user.weft.counts";

/// The kernel's requests so far, by number.
#[derive(Debug)]
pub(super) struct RequestCounts([AtomicU64; 64]);

impl Default for RequestCounts {
    fn default() -> RequestCounts {
        RequestCounts(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl RequestCounts {
    pub(super) fn count(&self, number: u32) {
        if let Some(count) = self.0.get(number as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Requests of the kernel by their numbers, calls to servers by their names.
    pub(super) fn text(&self, volume: &Volume) -> String {
        let mut text = String::new();
        for (number, count) in self.0.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let _ = writeln!(text, "request {number} {count}");
            }
        }
        for (kind, count) in volume.counters().calls {
            let _ = writeln!(text, "call {} {count}", kind.name());
        }
        text
    }
}
