//! What all opens of a file share: its state, and the operations on it.
//!
//! - `file_data`: the lock around the state, and waits for it to change.
//! - `flush`: sends dirty bytes, and handles failures. `inline`: stores small files with their
//!   metadata.
//! - `read`: reads, and read-ahead. `size_query`: asks the servers for the size.
//! - `truncate`: changes that need the file at rest.

mod file_data;
mod flush;
mod inline;
mod read;
mod size_query;
mod truncate;

pub(super) use file_data::{FileData, FileResources, Through, message_name};
pub use size_query::SizeQuery;
