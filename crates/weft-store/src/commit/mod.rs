//! From memory to stable storage: group commit of the log, and its application to the index.
//!
//! Owns no state. The order of the steps is what a crash forces; `sync` and `apply` state it.

mod apply;
mod background;
mod sync;

pub(crate) use background::background;
