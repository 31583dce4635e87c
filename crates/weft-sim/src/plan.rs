//! What a run does.

use crate::canary::Canary;

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Everything follows from it.
    pub seed: u64,
    /// I/O servers.
    pub servers: usize,
    /// Clients that work at once, beside one whose process dies.
    pub clients: usize,
    /// Operations of each client.
    pub operations: usize,
    /// Faults while they work.
    pub faults: usize,
    /// Whether bits change on the disks.
    pub rot: bool,
    /// A deliberate defect, which the checks must see.
    pub canary: Option<Canary>,
}
