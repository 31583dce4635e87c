//! Clients that reconnect, clients that do not, and orphans that only these had open.

mod reap;
mod reassert;
mod session_end;

pub(crate) use reap::reap_orphans;
pub(crate) use reassert::reassert;
pub(crate) use session_end::session_ended;
