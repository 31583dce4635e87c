//! Calls that are more than one operation of the namespace: they wait, ask I/O servers, or change
//! what the service knows of its clients.

mod append;
mod attach;
mod checkpoint;
mod fsck;
mod lock;
mod session;
mod truncate;
mod watch;
