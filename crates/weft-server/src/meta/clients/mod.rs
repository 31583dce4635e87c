//! What the service knows of its clients: sessions, locks, and watchers.
//!
//! All of it is in memory. After a restart clients reassert their locks and open files; nothing
//! else of an earlier incarnation counts.

mod locks;
mod sessions;
mod watchers;

pub(super) use locks::{LockAnswer, Locks};
pub(super) use sessions::Sessions;
pub(super) use watchers::Watchers;
