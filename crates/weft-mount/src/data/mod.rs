//! The data cache: write-behind and read-ahead over an attached file.

mod cache;
mod error;
mod file;

pub use cache::{DataCache, DataConfig};
pub use error::DataError;
pub use file::OpenData;
