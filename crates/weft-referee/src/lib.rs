//! Histories of file operations, and a referee: whether what programs were returned is what their
//! policies promise, and what they relied on beyond it (`docs/design/0035-referee.md`).
//!
//! A client records what it was asked for and what it answered ([`Recorder`]): times, ranges and
//! bytes. [`check`] takes the histories of all clients of a run ([`History::read`]) and reports
//! [`Finding`]s.
//!
//! Invariants:
//! 1. The referee accuses only where the history proves it: what is not recorded, or may have
//!    happened, counts for the file system.
//! 2. It knows policies by their values alone, so that it judges plug-ins as well.
//!
//! Absent on purpose: who records when (`weft-client`).

mod check;
mod finding;
mod history;
mod record;

pub use check::check;
pub use finding::{Finding, FindingKind, Report};
pub use history::{Event, History, HistoryError, Kept, OpenId, Piece, Promise, What};
pub use record::Recorder;
