//! Memory for payloads: a pool of buffers, and the interface by which a service provides its own.

mod pool;
mod receive;

pub use pool::BufferPool;
pub use receive::{ReceiveBuffer, ReceiveBuffers};
