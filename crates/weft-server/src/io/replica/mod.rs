//! Replicas of a server: what is acknowledged is in the stores of all that are in sync
//! (`docs/design/0046-replicas.md`).
//!
//! Owns the state of this replica ([`Replicas`]) and the way of changes into the store
//! ([`ReplicatedStore`]): on the primary in order (`turns`), to the other replicas (`forward`),
//! then into its own store. `apply` is what the others do; `watch` keeps contact, asks the metadata
//! service for changes of the set, takes a silent primary's place and hands its own over
//! (`hand_over`); `catch_up` makes another replica equal to this one by a `pass` over files, or
//! over what `recent` says; `mend` reads from another replica what is damaged here; `inherited`
//! knows positions of earlier primaries; `restore` and `edges` bring bytes back that are only in
//! parity.

mod apply;
mod catch_up;
mod edges;
mod forward;
mod hand_over;
mod inherited;
mod mend;
mod mended_reads;
mod pace;
mod parts;
mod pass;
mod reads;
mod recent;
mod restore;
mod state;
mod store;
mod turns;
mod watch;
mod wire;

pub(in crate::io) use catch_up::{BackupScrubbed, Compared};
pub(in crate::io) use mend::{Mending, damaged_range};
pub(in crate::io) use reads::BackupTerm;
pub(crate) use state::{ReplicaIdentity, Replicas};
pub(in crate::io) use store::Prepared;
pub(crate) use store::ReplicatedStore;
pub(crate) use watch::learn_replicas;
