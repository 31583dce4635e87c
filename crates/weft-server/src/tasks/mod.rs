//! Building blocks of background work: group commit, restart after a panic, the stop signal, and
//! actions that run when a future is dropped.
//!
//! Nothing here knows a store, a namespace or a call.

mod group_sync;
mod guard;
mod restart;
mod stop;

pub(crate) use group_sync::GroupSync;
pub(crate) use guard::OnDrop;
pub(crate) use restart::restart_on_panic;
pub(crate) use stop::stopped;
