//! Transactions: the only way in which operations read and change the namespace.
//!
//! This module owns [`Tx`], a running transaction. A transaction reads each inode once, changes it
//! in memory and writes it at the end, so an operation that uses a directory twice changes one
//! copy. [`Volume`] runs transactions and reads on behalf of a client.
//!
//! Invariants:
//! 1. Every change of an inode or an entry passes `Tx::put` or `Tx::delete`, so watchers are
//!    notified of it.
//! 2. Every inode that a transaction changes is charged once, when it finishes.
//! 3. The open files stay locked from a transaction's first access to them until its commit.
//!
//! Absent: permissions and wire messages. Operations check permissions and translate messages.

mod checkpoints;
mod codings;
mod inline;
mod intents;
mod names;
mod sizes;
mod transaction;
mod volume;
mod withdraw;

pub(crate) use transaction::Tx;
pub use volume::SERVICE;
pub(crate) use volume::Volume;
