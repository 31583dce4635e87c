//! The services of a Weft process: I/O server, metadata service, or both behind one port.
//!
//! A call arrives from `weft-net` as a [`weft_net::Served`]; [`Node`] hands it to the role that its
//! kind belongs to. The I/O role turns a request into a job: its own pieces, in disk order, packed
//! as one stream. The metadata role runs one transaction, makes it durable together with those of
//! other callers, and carries through what is owed to I/O servers.
//!
//! Invariants:
//! 1. No answer leaves before what it promises holds: writes are in the kernel, metadata is on
//!    stable storage.
//! 2. Memory per connection is bounded: a job holds at most two batches, a client at most its
//!    budget.
//! 3. The metadata service keeps nothing that is not in its engine or could not be asserted again
//!    by its clients.
//!
//! Absent on purpose: sockets and clocks (`weft-net`), bytes on disk (`weft-store`), the
//! namespace's rules (`weft-meta`).

mod failure;
mod group;
mod heartbeat;
mod io;
mod meta;
mod metrics;
mod node;
mod tireless;

pub use group::Blocking;
pub use io::{IoService, finding_on_the_wire};
pub use meta::MetaService;
pub use metrics::{Metrics, serve_metrics};
pub use node::{IoRole, MetaRole, Node, NodeConfig, NodeError};
