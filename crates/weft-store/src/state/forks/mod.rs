//! Forks in the state: names, derivation, truncation and doubt, and what an opening loads of them.
//!
//! Owns nothing: these are the methods of [`StoreState`](super::StoreState) that change forks, with
//! what goes with a change: the differences from the index, freed blocks, touched forks, doubt.

mod doubts;
mod lineage;
mod names;
mod opening;
mod touched;
mod truncation;

pub(crate) use names::check_fork;
