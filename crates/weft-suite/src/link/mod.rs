//! Servers behind links of limited bandwidth: on one machine only such servers show whether a
//! design scales.
//!
//! Where root allows it each server lives in a network namespace of its own (`names.rs`), with a
//! token bucket at both ends of its link; the limit is then the kernel's, as on a real network.
//! Elsewhere the server itself counts tokens for what it receives and sends (`limiter.rs`).

mod limiter;
mod names;
mod volume;

pub use limiter::LimitedNetwork;
pub(crate) use names::Names;
pub use volume::LinkedVolume;
