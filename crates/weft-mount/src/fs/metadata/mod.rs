//! Cached metadata: what is known of names and attributes, here and in the cache above, and for how
//! long it is valid.
//!
//! While the watch is live, an answer stays valid until an invalidation arrives, so the cache above
//! may keep it for long. An answer that was overtaken in flight, and an uncertain one (the size of
//! a file that another client is writing to its cells), is valid for a moment or not at all.
//!
//! - `metadata_cache`: owns the parts below and the cache above; every change passes it.
//! - `change_log`: what has changed lately, so that overtaken answers are recognized.
//! - `nodes`: what is known of each node that the cache above knows. `paths`: their names.
//! - `complete_directories`: directories all of whose names are known.
//! - `attr`, `answer`: attributes as programs see them, and an answer of the service.
//!
//! Invariants:
//! 1. A change is logged before copies are invalidated, so that an answer in flight is either seen
//!    by the invalidation or finds the change in the log.
//! 2. No lock is held over a call of the volume or of the cache above.

mod answer;
mod attr;
mod change_log;
mod complete_directories;
mod metadata_cache;
mod nodes;
mod paths;

pub use attr::{Attr, Entry};
pub use change_log::AskedAt;

pub(super) use answer::Answer;
pub(super) use attr::kind_of_mode;
pub(super) use metadata_cache::MetadataCache;
pub(super) use nodes::Content;
