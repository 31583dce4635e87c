//! Intents: the work that namespace changes leave for I/O servers (delete, truncate, checkpoints).
//!
//! An intent is committed with its change, and stays pending until all its servers have done it.
//! Each running intent, and the deletes of each server, are a task of their own, so that a silent
//! server delays no other. Callers wait for their intent, and learn why it fails.
//!
//! [`Intents`] owns the scheduler and the waiting callers; `run.rs` runs its tasks.

mod pending;
mod run;
mod scheduler;
mod waiters;

pub(super) use pending::Intents;
