//! Whole volumes on one thread from a seed: servers, metadata service and several clients over a simulated network, on
//! simulated disks, with crashes, power loss and partitions. The same seed replays the same run.
//!
//! Fault model:
//! - a process dies at any message (what it handed to the kernel stays), or its machine loses power (of what was not
//!   synced any part stays, is torn or goes);
//! - a link is cut in both directions and mended later, between a client and a server, a client and the metadata service, or
//!   a server and the metadata service; messages are delayed and connections break;
//! - clocks of different machines agree.
//!
//! Faults are placed only where the design promises to survive them, so whatever a scenario finds wrong is a defect.
//!
//! Absent on purpose: bit rot (the store's own tests), real time, real sockets.

mod client;
mod cluster;
mod faults;
mod net;
mod oracle;
mod scenario;
mod state;

pub use cluster::{Cluster, Fault};
pub use net::{Heard, SimEntropy, SimNetwork, SimWallClock, env};
pub use oracle::{Image, Losses, Oracle, Time, Unexplained, WriteId};
pub use scenario::{Plan, run};
pub use state::{Count, Outcome};
