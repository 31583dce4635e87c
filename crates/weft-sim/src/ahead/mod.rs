//! Clients that work ahead of the metadata service, as mounts do: they make names, small files with
//! their bytes and attributes in directories that are delegated to them, and report many changes in
//! one call. Their processes die between any two steps, while reports are on their way, and while
//! other clients look into their directories.
//!
//! [`scenario`] drives a run, [`life`] is a process of a client, [`judge`] looks at everything in
//! the end. The oracle is pure: [`slot`] knows what one name may stand for, [`names`] all names,
//! and [`processes`] who is alive and what disturbs them.
//!
//! What the oracle demands (`docs/semantics.md`, 2 and 13, and `docs/design/0036-files-ahead.md`):
//! 1. What another client sees when it looks is the last change that was acknowledged to its maker,
//!    or one that is under way. It is never lost again by the death of its maker.
//! 2. A file that was stored before it was closed outlives its maker, with its directories and with
//!    what was set before. So does everything older than [`processes`] allows a report to take.
//! 3. What a sync covers survives the death of its maker and power loss of the service.
//! 4. Of the rest, a death leaves a prefix of the changes of each name, and so does power loss.
//! 5. An acknowledged change is refused only where a fault disturbed its maker.
//! 6. One of several clients that make a name, each unless it is there, makes it.
//! 7. Bytes are those of one store: never torn, never another file's. No file has two names.
//!
//! Deliberately absent: the hand-over to a local socket (0016), because streams of the simulated
//! network have no such queue: a close waits for the answer. Two clients that change the same name
//! at the same time, except that they make it ([`contest`]).

mod contest;
mod entry;
mod judge;
mod known;
mod life;
mod names;
mod processes;
mod scenario;
mod shared;
mod slot;
mod turn;

pub use scenario::run_ahead;
