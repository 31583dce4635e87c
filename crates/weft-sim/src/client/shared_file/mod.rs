//! The file that all clients write at once.

mod operations;
mod rot;
