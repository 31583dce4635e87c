//! The services of a Weft process: I/O server, metadata service, or both behind one port.
//!
//! A call arrives from `weft-net` as a [`weft_net::Served`]; [`Node`] hands it to the role that
//! serves its kind. The I/O role turns a request into a job: the server's pieces, in disk order,
//! packed as one stream. The metadata role runs one transaction, makes it durable together with
//! those of other callers, and executes the intents that it leaves for I/O servers.
//!
//! Modules, lowest first: `limits`, `config`, `error`, `failure`, `position` and `metrics`;
//! `tasks`, the building blocks of background work; `io` and `meta`, the two roles, which know
//! nothing of each other; `node`, which runs them.
//!
//! Invariants:
//! 1. No reply leaves before its promise holds: writes are in the kernel, metadata is on stable
//!    storage.
//! 2. Memory per connection is bounded: a job holds at most two batches, a client at most its
//!    budget.
//! 3. The metadata service keeps nothing that is neither in its engine nor reasserted by its
//!    clients.
//!
//! Absent on purpose: sockets and clocks (`weft-net`), bytes on disk (`weft-store`), the rules of
//! the namespace (`weft-meta`).

mod config;
mod error;
mod failure;
mod io;
mod limits;
mod meta;
mod metrics;
mod node;
mod position;
mod tasks;

pub use config::{Blocking, IoRole, MetaRole, NodeConfig};
pub use error::NodeError;
pub use io::finding_on_the_wire;
pub use limits::CODE_AFTER;
pub use metrics::{GaugeValue, Measured, Metrics, serve_metrics};
pub use node::{Node, ServerMaps};
