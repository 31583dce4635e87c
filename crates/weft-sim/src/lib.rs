//! Whole volumes on one thread from a seed: servers, metadata service and several clients over a
//! simulated network, on simulated disks, with crashes, power loss, partitions and bit rot. The
//! same seed replays the same run.
//!
//! Fault model:
//! - a server's or the metadata service's process dies at any message (what it handed to the kernel
//!   stays), or its machine loses power (of what was not synced any part stays, is torn or goes);
//!   of one client the process dies;
//! - a link is cut in both directions and mended later, between a client and a server, a client and
//!   the metadata service, a server and the metadata service, or two servers; messages are delayed
//!   and connections break;
//! - bits of blocks change on a server's disk, in half of the seeds (not those of its log or
//!   index): what is read is right or an error that says what is bad, a scrub finds it, and what is
//!   written over it is good;
//! - clocks of different machines agree.
//!
//! What clients do: they write, read and sync one file together; each has a file of its own, of two
//! forks, that it also cuts, renames, removes, keeps in checkpoints and rolls back, and of which it
//! removes the second fork; each has a directory of its own, in which and out of which files are
//! made, written, linked, renamed and removed, and which it keeps in checkpoints and rolls back as
//! a tree; they have servers copy a file of theirs to others, make and remove names and begin
//! scrubs. The client that dies locks, writes and reads a file; whoever comes after it must get the
//! lock. At the end everything is looked at, every server scrubbed and the volume checked.
//!
//! Faults are placed only where the design promises to survive them, so whatever a scenario finds
//! wrong is a defect.
//!
//! That it would find one is shown by defects on purpose ([`Canary`]).
//!
//! Absent on purpose: rot of logs and indexes (the store's own tests), real time, real sockets.

mod canary;
mod client;
mod cluster;
mod faults;
mod net;
mod oracle;
mod plan;
mod scenario;
mod state;

pub use canary::Canary;
pub use cluster::{Cluster, Fault};
pub use net::{Heard, SimEntropy, SimNetwork, SimWallClock, env};
pub use oracle::{Image, Losses, Oracle, Time, Unexplained, WriteId};
pub use plan::Plan;
pub use scenario::run;
pub use state::{Count, Outcome};
