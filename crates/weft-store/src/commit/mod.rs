//! From memory to stable storage: group commit of the log, and its application to the index.
//!
//! Owns no state. A crash forces the order of the steps; `sync` and `apply` state it.

mod apply;
mod background;
mod sync;

pub(crate) use background::background;
