//! Addressed forks: their bytes are in chunks that are named by the hash of their contents, and a
//! recipe lists the names (CAPFS §2.2.3; `docs/design/0017-addressed-chunks.md`,
//! `docs/design/0032-addressed-files.md`).
//!
//! An addressed fork has a length and no blocks. Its recipe is a plain fork beside it, 32 bytes for
//! each chunk, zeros for a hole. A chunk is stored without the zeros at its end, so equal contents
//! have one name however they came about, and a chunk of zeros is a hole.
//!
//! Owns no state but the names that calls in progress hold (`engine/chunk_holds.rs`). Invariants:
//! 1. Every name in a recipe is that of a chunk that was put before, in an earlier frame of the
//!    log.
//! 2. A recipe and the length of its fork change together, in one frame, in the turn of the recipe.
//! 3. An entry changes only from what the call that changes it has read, or as a whole.
//! 4. The cleaner removes no chunk that a recipe names, or that a call holds.

mod accept;
mod change;
mod chunks;
mod clean;
mod named;
mod patch;
mod prepared;
mod read;
mod recipe;
mod resize;
mod runs;

pub(crate) use change::any_addressed;
pub use clean::{Cleaned, MissingChunk};
pub use named::{NamedChunks, NamedOutcome};
pub use prepared::PreparedWrite;
pub(crate) use read::ReadPlace;
pub use recipe::FoundNames;
pub(crate) use resize::AddressedFork;
