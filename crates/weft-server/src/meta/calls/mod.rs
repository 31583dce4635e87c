//! Calls that are more than one operation of the namespace: they wait, ask I/O servers, or change
//! what the service knows of its clients.
//!
//! Owns no state: each call is a method of `MetaService`. Invariants: a change of the namespace is
//! answered only when it is as durable as the call requires (`answer.rs`, or a sync in the call
//! itself); an operation that meets a delegated directory waits and runs again. Transactions are in
//! `weft-meta`, requests to I/O servers in `servers/`.

mod append;
mod attach;
mod checkpoint;
mod fsck;
mod lock;
mod session;
mod truncate;
mod watch;
