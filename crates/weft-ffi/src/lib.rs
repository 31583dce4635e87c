#![allow(unsafe_code)] // Memory of other languages, and handlers of forks.
#![allow(
    clippy::cast_possible_wrap,
    reason = "no operation moves more bytes than isize::MAX"
)]
//! What the interfaces for other languages share.
//!
//! A process whose main program is not ours forks, lends memory, and posts operations that it waits
//! for later. `weft-c` and `weft-python` translate; how these things work is here, once.
//!
//! Invariants:
//! 1. The runtime of a process is never freed, and a child of `fork` has none until it asks.
//! 2. Memory that was lent is not touched any more once [`Posted::wait`] or [`Posted::cancel`] has
//!    returned.
//!
//! | module | what |
//! | --- | --- |
//! | `failure.rs` | errno and message |
//! | `runtime.rs` | the threads of a process, and forks |
//! | `memory.rs` | memory lent to calls |
//! | `posted.rs` | operations in the background |
//! | `named_volume.rs` | which volume a program means |

mod failure;
mod memory;
mod named_volume;
mod posted;
mod runtime;

pub use failure::{Failure, guarded};
pub use memory::{Loan, Loans, data_of, data_of_transfer};
pub use named_volume::NamedVolume;
pub use posted::Posted;
pub use runtime::{Process, after_fork, runtime};
