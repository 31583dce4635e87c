//! Open directories: a listing that continues where it was, however often it is read, in bounded
//! memory.
//!
//! Each entry has a number, its *cookie*: `.` is 1, `..` is 2, and any other entry's is a hash of
//! its name (`cookies`), which means the same in every open of the directory (`closed_cookies`). An
//! open directory caches the last few pages. A reader that continues within one of them gets what
//! it was, and meets each entry exactly once. A reader that seeks, or comes to a page anew, gets
//! the current entries behind the name that it had reached. Listings of complete directories are
//! kept beyond that (`kept`).

mod closed_cookies;
mod cookies;
mod kept;
mod list;
mod open_directory;

pub use open_directory::{Listed, Page};

pub(super) use closed_cookies::ClosedCookies;
pub(super) use kept::KeptListings;
pub(super) use open_directory::OpenDirectory;
