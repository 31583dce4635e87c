//! From memory to stable storage: group commit of the log, and its application to the index.
//!
//! Owns no state. A crash forces the order of the steps; `sync` and `apply` state it. Invariants:
//! one sync and one application run at a time; the index never refers to data that is not on stable
//! storage. The background task (`background.rs`) also writes full pages and frees space, one step
//! at a time. Frames are queued by `state/`, never here.

mod apply;
mod background;
mod sync;

pub(crate) use background::background;
