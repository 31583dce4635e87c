//! The open store: its state, its locks and its bounds.
//!
//! Owns [`Inner`], which every call and every background task shares. Its fields are private: the
//! modules above lock the state, take a turn, submit I/O or wake waiting calls through its methods.
//!
//! Invariants:
//! 1. The state's lock is never held across an await. A thread that panics while it holds the lock
//!    closes the store ([`StateGuard`]).
//! 2. One flush, one application, one change of the disks' sizes and one merge run at a time; each
//!    holds its [`turn`](turns::Turns) for its whole duration.
//! 3. Work that has begun ends although its caller is dropped ([`detached`]).

mod admission;
mod bounds;
mod chunk_holds;
mod detached;
mod index_budget;
mod inner;
mod positions;
mod prefetches;
mod state_guard;
mod store;
mod turns;

pub(crate) use bounds::Bounds;
pub use chunk_holds::HeldChunks;
pub(crate) use detached::{detached, ended};
pub(crate) use index_budget::IndexBudget;
pub(crate) use inner::{Inner, Recovered};
pub(crate) use state_guard::StateGuard;
pub use store::Store;
pub(crate) use turns::{FlushTurn, GrowTurn, MergeTurn, SyncTurn};
