//! Whole volumes on one thread from a seed: servers, metadata service and several clients over a
//! simulated network and simulated disks, with crashes, power loss, partitions and bit rot. The
//! same seed replays the same run.
//!
//! Fault model:
//! - The process of a server or of the metadata service dies at any message; data that it passed to
//!   the kernel stays. Or its machine loses power: any part of the data that was not synced
//!   survives, is torn or is lost. One client's process dies, too.
//! - A link is cut in both directions and repaired later: client to server, client to metadata
//!   service, server to metadata service, or server to server. Messages are delayed and connections
//!   break.
//! - In half of the seeds bits flip in blocks on a server's disk, but not in its log or index. A
//!   read returns right bytes or an error that names the bad block, a scrub finds it, and a rewrite
//!   repairs it.
//! - Clocks of different machines agree.
//!
//! Clients write, read and sync one shared file, and another one by cautious operations. Each
//! client also has a private file with two forks, which it truncates, renames, removes, checkpoints
//! and rolls back, and whose second fork it removes; and a directory, in which and out of which it
//! creates, writes, links, renames and removes files, and which it checkpoints and rolls back as a
//! tree. Clients have servers copy files, change names and start scrubs. The client that crashes
//! locks, writes and reads a file; the next process must get the lock. At the end every client
//! checks what it wrote, every server is scrubbed and the volume passes fsck.
//!
//! In runs of their own ([`run_ahead`]) clients work ahead of the metadata service, as mounts do:
//! directories are delegated to them, where they make files, directories, small contents and
//! attributes that they report later. They sync some of it, rename, replace and remove, look into
//! each other's directories, change names there, and compete for names. Their processes die between
//! any two steps. An oracle of names knows what was acknowledged, what outlives its maker, what
//! survives power loss, and what others have seen.
//!
//! In other runs ([`run_replicas`]) each server has replicas, and clients write and read while
//! replicas die, lose power, are cut off, get late messages, and come back with empty disks. Every
//! read must see what was acknowledged before it, and never something older than a read before; at
//! the end every replica has to show the same.
//!
//! Faults are injected only where the design promises to survive them, so every finding is a
//! defect. Deliberate defects ([`Canary`]) prove that the checks see them.
//!
//! Absent on purpose: the hand-over of reports to a local socket, rot of logs and indexes (the
//! store's own tests), real time, real sockets.

mod ahead;
mod canary;
mod client;
mod cluster;
mod faults;
mod history;
mod net;
mod oracle;
mod plan;
mod replicas;
mod scenario;
mod state;

pub use ahead::run_ahead;
pub use canary::Canary;
pub use cluster::{Cluster, Fault};
pub use net::{Heard, SimEntropy, SimNetwork, SimWallClock, env};
pub use oracle::{Image, Losses, Oracle, Time, Unexplained, WriteId};
pub use plan::Plan;
pub use replicas::run_replicas;
pub use scenario::run;
pub use state::{Count, Outcome};
