//! The operations, one per file.

mod accessed;
mod attach;
mod change_names;
mod checkpoint;
mod create;
mod delegate;
mod file_checkpoints;
mod link;
mod list;
mod make_directory;
mod make_link;
mod make_node;
mod quota;
mod read_link;
mod remove_directory;
mod rename;
mod report;
mod set_attributes;
mod stat;
mod store_inline;
mod tree;
mod truncate;
mod unlink;
mod xattr;

pub use attach::Attached;
pub use tree::KeptFiles;
pub use truncate::Truncation;
