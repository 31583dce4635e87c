//! A mount in service: its threads, the requests in flight, and notifications to the kernel.
//!
//! - `handshake`: the first request, in which both sides state their capabilities.
//! - `mount`: the threads, and which way requests come.
//! - `serve`: a request's start, end and answer.
//! - `interrupts`, `abandon`: which requests can be interrupted, and when one is abandoned.
//! - `notifications`, `attribute_requests`: invalidations of the kernel's caches, and what they
//!   must not overtake.
//! - `write_order`: page reads that must not overtake page writes.

mod abandon;
mod attribute_requests;
mod handshake;
mod interrupts;
mod mount;
mod notifications;
mod serve;
mod write_order;

pub use handshake::Negotiated;
pub use mount::{Mount, Running};
