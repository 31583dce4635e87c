//! Intents: which may be carried through now, and what follows when one was or cannot be.

mod page;
mod pending;
mod withdraw;

pub use page::OwedPage;
pub(crate) use page::{deletes_from, intent, intents_from};
pub(crate) use pending::{intent_done, pending_intents, truncate_done};
pub(crate) use withdraw::withdraw;
