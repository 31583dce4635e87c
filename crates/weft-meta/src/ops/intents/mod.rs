//! Intents: listing those that may be carried out, completing and cancelling them.
//!
//! Owns no state. Intents are recorded by the operations that need them, through `Tx`; the caller
//! carries them out on the I/O servers, and may repeat that. Invariants: an intent goes in the
//! transaction that records its result; completing one that is gone changes nothing.

mod done;
mod page;
mod pending;
mod withdraw;

pub(crate) use done::{intent_done, truncate_done};
pub use page::IntentPage;
pub(crate) use page::{deletes_from, intent, intents_from};
pub(crate) use pending::pending_intents;
pub(crate) use withdraw::withdraw;
